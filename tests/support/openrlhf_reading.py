"""What OpenRLHF makes of a run's command: both pinned wheels, each read by its own parser in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import openrlhf_parser

from trainer.command import RunPaths

VERSIONS = ("0.11.2", "0.10.4")
PATHS = RunPaths(Path("/models/small"), Path("/data/train.jsonl"), Path("/data/eval.jsonl"), Path("/runs/r"), Path("/src/agent.py"))


def parse(openrlhf_sources, version, arguments):
    """What OpenRLHF of this version makes of the command."""
    module = arguments.index("-m", 3) + 1 if "torch.distributed.run" in arguments else 2
    name = "openrlhf.cli.train_sft" if arguments[module] == "trainer.sft" else arguments[module]
    reader = [sys.executable, openrlhf_parser.__file__, str(openrlhf_sources(version)), name, *arguments[module + 1 :]]
    done = subprocess.run(reader, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr
