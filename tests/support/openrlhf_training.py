"""OpenRLHF's own training code of either version, imported without Ray, DeepSpeed, vLLM and a GPU.

What is not run is a module of placeholders; what is between our rollouts and the gradient is OpenRLHF's.
"""

import importlib
import json
import subprocess
import sys
import types
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

# Imported first, since they look for the real DeepSpeed.
import openrlhf_parser
import peft  # noqa: F401
import torch
import transformers.integrations.deepspeed
import transformers.trainer  # noqa: F401
from openrlhf_parser import light_package

from parallelsearch.schemas.training import SPEC
from trainer.command import RunPaths, openrlhf_command

PACKAGES = ("openrlhf", "openrlhf.trainer", "openrlhf.trainer.ray")
NOT_RUN = (
    "datasets",
    "deepspeed",
    "deepspeed.runtime.zero.partition_parameters",
    "flash_attn.bert_padding",
    "flash_attn.utils.distributed",
    "openrlhf.trainer.ray.launcher",
    "openrlhf.trainer.ray.vllm_engine",
    "openrlhf.utils.distributed_util",
    "openrlhf.utils.math_utils",
    "ray",
    "torchdata.stateful_dataloader",
    "vllm",
)


class Placeholders(types.ModuleType):
    """A module in which every name is a class of its own."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {})
        setattr(self, name, made)
        return made


class Cpu(str):
    """What OpenRLHF takes for the number of its GPU."""

    def __format__(self, _):
        return "0"


@contextmanager
def training_code(sources):
    """A function that imports a module of these sources; afterwards all modules are those from before, the real ones too."""
    replaced = {"openrlhf", *(name.partition(".")[0] for name in NOT_RUN)}
    before = _taken_out(replaced)
    for name in PACKAGES:
        light_package(name, sources.joinpath(*name.split(".")))
    for name in NOT_RUN:
        for place in [name] if name.startswith("openrlhf.") else _with_parents(name):
            sys.modules[place] = Placeholders(place)
            sys.modules[place].__path__ = []
    vars(sys.modules["ray"]).update(remote=_remote, get=lambda value: value, put=lambda value: value)
    vars(sys.modules["openrlhf.utils.distributed_util"]).update(torch_dist_barrier_and_cuda_sync=lambda: None)
    cuda = {"current_device": lambda: Cpu("cpu"), "empty_cache": lambda: None, "synchronize": lambda: None}
    try:
        with mock.patch.multiple(torch.cuda, **cuda):
            yield importlib.import_module
    finally:
        _taken_out(replaced)
        sys.modules.update(before)


def _taken_out(packages):
    """What was imported of these packages, which are no longer."""
    names = [name for name in sys.modules if name.partition(".")[0] in packages]
    return {name: sys.modules.pop(name) for name in names}


def _with_parents(name):
    parts = name.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts) + 1)]


def _remote(*given, **_):
    """The decorator leaves a class as it is."""
    return given[0] if given else lambda made: made


@dataclass(frozen=True)
class OpenRLHF:
    """One of the versions, and where its Python files lie."""

    version: str
    sources: Path


PATHS = RunPaths(Path("/model"), Path("/prompts.jsonl"), Path("/evaluation.jsonl"), Path("/run"), Path("/src/agent.py"))


def run_of(openrlhf, *, kind="reinforcement", **changes):
    """A specification, and the arguments that OpenRLHF's own parser makes of our command for it."""
    spec = SPEC.validate_python({"kind": kind, "name": "n", "model": "m", "data": "d", **changes})
    command = openrlhf_command(spec, PATHS, python="python", version=openrlhf.version)
    if kind == "supervised":
        module, given = "openrlhf.cli.train_sft", command[command.index("trainer.sft") + 1 :]
    else:
        module, given = command[2], command[3:]
    reader = [sys.executable, openrlhf_parser.__file__, str(openrlhf.sources), module, *given]
    done = subprocess.run(reader, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return spec, _namespace(json.loads(done.stdout))


def _namespace(parsed):
    if isinstance(parsed, dict):
        return SimpleNamespace(**{name: _namespace(value) for name, value in parsed.items()})
    return parsed
