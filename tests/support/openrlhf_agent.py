"""Loads our agent file the way OpenRLHF does, against the wheel's own `openrlhf.utils.agent`, without Ray and DeepSpeed."""

import importlib.util
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace

from openrlhf_parser import light_package

import trainer

NAMES = ("openrlhf", "openrlhf.utils", "openrlhf.utils.agent", "openrlhf.utils.logging_utils")


@contextmanager
def agent_module(sources):
    """Our agent's module over OpenRLHF of these sources; nothing of it stays imported."""
    light_package("openrlhf", sources / "openrlhf")
    light_package("openrlhf.utils", sources / "openrlhf" / "utils")
    try:
        spec = importlib.util.spec_from_file_location("agent_module", f"{trainer.__path__[0]}/agent.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        for name in NAMES:
            sys.modules.pop(name, None)


@dataclass
class SamplingParams:
    """The part of vLLM's that is set or read."""

    max_tokens: int | None = None
    logprobs: int | None = None
    stop: list = field(default_factory=list)
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = False


class ScriptedEngine:
    """vLLM's part of a rollout: says the next line of its script, and keeps what it was asked with."""

    def __init__(self, tokenizer, *script):
        self.tokenizer, self.script, self.asked = tokenizer, list(script), []

    async def generate(self, prompt_token_ids, sampling_params, multi_modal_data=None):
        line = self.script[len(self.asked)]
        self.asked.append((list(prompt_token_ids), sampling_params))
        if isinstance(line, Exception):
            raise line
        token_ids = tuple(self.tokenizer.encode(line, add_special_tokens=False))
        logprobs = [{token: SimpleNamespace(logprob=-0.5)} for token in token_ids] if sampling_params.logprobs else None
        output = SimpleNamespace(text=line, token_ids=token_ids, logprobs=logprobs, finish_reason="stop")
        return SimpleNamespace(outputs=[output])
