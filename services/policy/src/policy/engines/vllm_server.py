"""vLLM's OpenAI server in this process. The only file that imports vLLM: its import paths move with every release.

The order of calls follows vLLM's own `run_server`; ours are the extension and the line between.
"""

from __future__ import annotations

import asyncio
import math
import signal
import uuid
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import uvloop
from fastapi import FastAPI
from prometheus_client import REGISTRY
from vllm import SamplingParams
from vllm import __version__ as VLLM_VERSION
from vllm.entrypoints.launchers.api_server.app_state import init_app_state
from vllm.entrypoints.launchers.api_server.entry import build_async_engine_client
from vllm.entrypoints.launchers.app import build_app
from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.entrypoints.launchers.launcher import serve_http, setup_server
from vllm.entrypoints.serve.utils.api_utils import cli_env_setup
from vllm.inputs import TokensPrompt
from vllm.utils.argparse_utils import FlexibleArgumentParser

from parallelsearch.errors import ConfigurationError
from policy.engines.interface import Engine, EngineFault
from policy.progress import phase

Extension = Callable[[FastAPI, Engine], AbstractAsyncContextManager[None]]
"""Adds routes and middleware to vLLM's application; what it opens is closed when the server ends."""

PROGRESS_COUNTERS = ("vllm:generation_tokens_total", "vllm:prompt_tokens_total")
KEEP_ALIVE_S = 75
LAST_WORDS = 500


class VllmEngine:
    """Implements `Engine` over vLLM's asynchronous client."""

    def __init__(self, client: Any, served_name: str) -> None:
        self._client = client
        self._labels = {"engine": "0", "model_name": served_name}

    @property
    def name(self) -> str:
        return f"vllm {VLLM_VERSION}"

    @property
    def context_length(self) -> int:
        return int(self._client.model_config.max_model_len)

    @property
    def failure(self) -> str | None:
        return "The engine has died." if self._client.errored else None

    def tokens_processed(self) -> float:
        return sum(REGISTRY.get_sample_value(name, self._labels) or 0.0 for name in PROGRESS_COUNTERS)

    def special_tokens(self) -> Sequence[str]:
        added = self._client.get_tokenizer().added_tokens_decoder.values()
        return [token.content for token in added if token.special]

    def tokenizer_json(self) -> str | None:
        backend = getattr(self._client.get_tokenizer(), "backend_tokenizer", None)
        return None if backend is None else str(backend.to_str())

    async def probe(self) -> None:
        prompt = TokensPrompt(prompt_token_ids=[1])
        sampling = SamplingParams(max_tokens=1, temperature=0.0, ignore_eos=True, logprobs=0)
        likelihood = math.nan
        with named("generating a token"):
            async for output in self._client.generate(prompt, sampling, request_id=f"probe-{uuid.uuid4().hex}"):
                likelihood = output.outputs[0].cumulative_logprob or 0.0
        if not math.isfinite(likelihood):
            raise EngineFault("the weights give probabilities that are no numbers")

    async def load_weights(self, directory: Path) -> None:
        with named("loading the weights"):
            await self._client.pause_generation(mode="wait", clear_cache=True)
            try:
                await self._client.collective_rpc("reload_weights", kwargs={"weights_path": str(directory)})
            finally:
                await self._client.resume_generation()


@contextmanager
def named(action: str) -> Iterator[None]:
    """Turns what a call into the engine raises into `EngineFault`."""
    try:
        yield
    except Exception as error:  # vLLM has no class of its own for a call that failed inside of the engine
        raise EngineFault(f"{action} failed ({type(error).__name__}: {error})") from error


@contextmanager
def refusals() -> Iterator[None]:
    """Turns what vLLM raises while it starts into one sentence; what its processes have to say stands in the log above."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        words = " ".join(str(error).split())[:LAST_WORDS]
        raise ConfigurationError(f"The engine could not start with this model and these settings: {words}") from error


def parse(arguments: list[str]) -> Namespace:
    """vLLM's own reading of a command line; SystemExit where it finds it wrong."""
    args: Namespace = make_arg_parser(FlexibleArgumentParser(prog="vllm")).parse_args(arguments)
    validate_parsed_serve_args(args)
    return args


def run(arguments: list[str], extend: Extension) -> None:
    """Serves until SIGTERM or SIGINT, then ends the engine's processes too."""
    cli_env_setup()
    uvloop.run(_serve(parse(arguments), extend))


async def _drain_on_sigterm(app: FastAPI) -> None:
    """Stops to listen first and ends the engine last.

    vLLM's own handler ends the engine while the server goes on to take requests, which it then answers with 500. It is replaced
    once the server has started.
    """
    while not getattr(getattr(app.state, "server", None), "started", False):  # noqa: ASYNC110  # uvicorn tells it no other way
        await asyncio.sleep(0.05)

    def finish() -> None:
        app.state.server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, finish)


async def _serve(args: Namespace, extend: Extension) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    # Until uvicorn listens; it sets handlers of its own.
    signal.signal(signal.SIGTERM, interrupt)
    _, sock = setup_server(args, reuse_port=False)
    async with AsyncExitStack() as stack:
        with phase("loading the model into the engine"), refusals():
            client = await stack.enter_async_context(build_async_engine_client(args))
        tasks = await client.get_supported_tasks()
        app = build_app(args, tasks, client.model_config)
        await init_app_state(client, app.state, args, tasks)
        # vLLM has built the stack of middleware already; it is built again, with ours, on the first request.
        app.middleware_stack = None
        await stack.enter_async_context(extend(app, VllmEngine(client, args.served_model_name[0])))
        drain = asyncio.create_task(_drain_on_sigterm(app))
        stack.callback(drain.cancel)
        shutdown = await serve_http(
            app,
            sock=sock,
            host=args.host,
            port=args.port,
            log_level=args.uvicorn_log_level,
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=args.shutdown_timeout or None,
        )
    try:
        await shutdown
    finally:
        sock.close()
