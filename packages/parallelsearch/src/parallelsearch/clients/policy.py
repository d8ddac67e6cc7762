"""Clients of the policy: any OpenAI-compatible server.

`TokenPolicyClient` speaks to vLLM: token ids in, token ids out, so that a context is never tokenised twice; vLLM's `/tokenize`
spares us a tokenizer. `ChatPolicyClient` speaks to servers that only have chat completions and can go on with the last message.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx2
import orjson

from parallelsearch.clients.http import check, create_client, named
from parallelsearch.errors import NotFound, ParallelSearchError, UpstreamUnavailable
from parallelsearch.protocol.observations import Layout
from parallelsearch.protocol.tags import CLOSING_TAGS
from parallelsearch.rollout.interfaces import Generation, Sampling, Segment
from parallelsearch.rollout.types import PolicyIdentity

NAME = "policy"
VERSION_HEADER = "x-policy-version"
CACHED_TEXTS = 2_048
CHARACTERS_PER_TOKEN = 3


@dataclass(frozen=True, slots=True)
class PolicyDescription:
    """What a policy server says of itself; what it leaves out is None."""

    identity: PolicyIdentity
    context_tokens: int | None = None
    turn_tokens: int | None = None
    layout: Layout | None = None
    tokenizes: bool = False
    """Whether it has vLLM's `/tokenize`."""


class PolicyHttp:
    """One pool to a policy server; `base_url` ends in `/v1` as for every OpenAI client, vLLM's own routes lie beside it."""

    def __init__(
        self, base_url: str, *, timeout_s: float = 120.0, api_key: str = "", transport: httpx2.AsyncBaseTransport | None = None
    ) -> None:
        root = base_url.rstrip("/").removesuffix("/v1")
        self._http = create_client(root, timeout_s=timeout_s, transport=transport)
        self._headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {api_key}"} if api_key else {})

    async def close(self) -> None:
        await self._http.aclose()

    async def get(self, path: str) -> dict[str, Any]:
        async with named(NAME):
            response = await self._http.get(path, headers=self._headers)
        return _json(check(response, NAME))

    async def post(self, path: str, body: dict[str, Any]) -> tuple[dict[str, Any], httpx2.Headers]:
        async with named(NAME):
            response = await self._http.post(path, content=orjson.dumps(body), headers=self._headers)
        return _json(check(response, NAME)), response.headers


def _json(response: httpx2.Response) -> dict[str, Any]:
    try:
        body = orjson.loads(response.content)
    except orjson.JSONDecodeError as error:
        raise UpstreamUnavailable("The policy's answer is not JSON.") from error
    if not isinstance(body, dict):
        raise UpstreamUnavailable("The policy's answer is not a JSON object.")
    return body


async def describe_policy(http: PolicyHttp, model: str | None) -> PolicyDescription:
    """Asks `GET /v1/policy` (ours), else `GET /v1/models`, and whether texts can be tokenised there.

    Raises:
        UpstreamUnavailable: the server cannot be reached, or `model` is not among its models.
    """
    listed = await http.get("v1/models")
    models = {entry["id"]: entry for entry in listed.get("data", []) if isinstance(entry, dict) and "id" in entry}
    if model is not None and model not in models:
        raise UpstreamUnavailable(
            f"The policy serves {', '.join(models) or 'no model'}, not {model}: set POLICY_MODEL to one of them."
        )
    name = model or next(iter(models), "")
    tokenizes = await _answers(http, "tokenize", {"model": name, "prompt": "a"})
    try:
        own = await http.get("v1/policy")
    except ParallelSearchError:
        return PolicyDescription(PolicyIdentity(name), models.get(name, {}).get("max_model_len"), tokenizes=tokenizes)
    return PolicyDescription(
        PolicyIdentity(name, str(own.get("version", ""))),
        own.get("context_length"),
        own.get("turn_tokens"),
        Layout(own["layout"]) if own.get("layout") else None,
        tokenizes,
    )


async def _answers(http: PolicyHttp, path: str, body: dict[str, Any]) -> bool:
    try:
        await http.post(path, body)
    except (NotFound, UpstreamUnavailable):
        return False
    return True


class TokenPolicyClient:
    """Implements `Policy` with token ids over vLLM's `/v1/completions` and `/tokenize`."""

    def __init__(self, http: PolicyHttp, model: str) -> None:
        self._http = http
        self._model = model
        self._encoded: OrderedDict[tuple[str, bool], tuple[int, ...]] = OrderedDict()

    async def count(self, text: str) -> int:
        return len(await self._encode(text))

    async def truncate(self, text: str, max_tokens: int) -> str:
        tokens = (await self._encode(text))[:max_tokens]
        answer, _ = await self._http.post("detokenize", {"model": self._model, "tokens": tokens})
        return str(answer["prompt"])

    async def count_prompt(self, prompt: str) -> int:
        return len(await self._encode(prompt, chat=True))

    async def generate(self, prompt: str, segments: Sequence[Segment], sampling: Sampling) -> Generation:
        context = list(await self._encode(prompt, chat=True))
        for segment in segments:
            context += segment.token_ids if segment.token_ids is not None else await self._encode(segment.text)
        body = {
            "model": self._model,
            "prompt": context,
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "seed": sampling.seed,
            "stop": sampling.stop,
            "include_stop_str_in_output": True,
            "return_token_ids": True,
            "add_special_tokens": False,
        }
        answer, headers = await self._http.post("v1/completions", body)
        choice = _first_choice(answer)
        usage = answer.get("usage") or {}
        return Generation(
            text=str(choice.get("text") or ""),
            token_ids=tuple(choice.get("token_ids") or ()),
            prompt_tokens=len(context),
            completion_tokens=usage.get("completion_tokens") or len(choice.get("token_ids") or ()),
            identity=_identity(self._model, headers),
        )

    async def _encode(self, text: str, *, chat: bool = False) -> tuple[int, ...]:
        """Token ids of a text, or of a user message through the chat template; the last few are kept."""
        key = (text, chat)
        if key in self._encoded:
            self._encoded.move_to_end(key)
            return self._encoded[key]
        body: dict[str, Any] = {"model": self._model}
        if chat:
            body |= {"messages": [{"role": "user", "content": text}], "add_generation_prompt": True}
        else:
            body |= {"prompt": text, "add_special_tokens": False}
        answer, _ = await self._http.post("tokenize", body)
        tokens = answer.get("tokens")
        if not isinstance(tokens, list):
            raise UpstreamUnavailable("The policy's answer to /tokenize holds no tokens.")
        self._encoded[key] = tuple(tokens)
        if len(self._encoded) > CACHED_TEXTS:
            self._encoded.popitem(last=False)
        return self._encoded[key]


class ChatPolicyClient:
    """Implements `Policy` with text over `/v1/chat/completions`; tokens are estimated from characters, on the safe side."""

    def __init__(self, http: PolicyHttp, model: str) -> None:
        self._http = http
        self._model = model

    async def count(self, text: str) -> int:
        return -(-len(text) // CHARACTERS_PER_TOKEN)

    async def truncate(self, text: str, max_tokens: int) -> str:
        return text[: max_tokens * CHARACTERS_PER_TOKEN]

    async def count_prompt(self, prompt: str) -> int:
        return await self.count(prompt)

    async def generate(self, prompt: str, segments: Sequence[Segment], sampling: Sampling) -> Generation:
        messages = [{"role": "user", "content": prompt}]
        body: dict[str, Any] = {
            "model": self._model,
            "messages": messages,
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "stop": list(sampling.stop),
            "include_stop_str_in_output": True,
        }
        if sampling.seed is not None:
            body["seed"] = sampling.seed
        if segments:
            messages.append({"role": "assistant", "content": "".join(segment.text for segment in segments)})
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        answer, headers = await self._http.post("v1/chat/completions", body)
        choice = _first_choice(answer)
        usage = answer.get("usage") or {}
        text = str((choice.get("message") or {}).get("content") or "")
        return Generation(
            text=close_block(text) if choice.get("finish_reason") == "stop" else text,
            prompt_tokens=usage.get("prompt_tokens") or 0,
            completion_tokens=usage.get("completion_tokens") or 0,
            identity=_identity(self._model, headers),
        )


def close_block(text: str) -> str:
    """Puts back the closing tag that a server without `include_stop_str_in_output` has cut off."""
    for closing in CLOSING_TAGS:
        opening = closing.replace("/", "")
        if text.rfind(opening) > text.rfind(closing):
            return text + closing
    return text


def _first_choice(answer: dict[str, Any]) -> dict[str, Any]:
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise UpstreamUnavailable("The policy's answer holds no choices.")
    return choices[0]


def _identity(model: str, headers: httpx2.Headers) -> PolicyIdentity | None:
    version = headers.get(VERSION_HEADER)
    return PolicyIdentity(model, version) if version else None


PolicyClient = TokenPolicyClient | ChatPolicyClient


def policy_client(http: PolicyHttp, description: PolicyDescription) -> PolicyClient:
    """The client that fits what the server says of itself."""
    kind = TokenPolicyClient if description.tokenizes else ChatPolicyClient
    return kind(http, description.identity.model)
