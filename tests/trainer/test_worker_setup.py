"""What Ray's processes of a run do first."""

import importlib
import os
import subprocess
import sys

import pytest

from trainer.worker_setup import first_of_all, set_up, start_random_numbers

SHUFFLED = """
from importlib import import_module
import os
module, _, function = os.environ["__RAY_WORKER_PROCESS_SETUP_HOOK_ENV_VAR"].rpartition(".")
getattr(import_module(module), function)()
from torch.utils.data import RandomSampler
print(list(RandomSampler(range(240))))
"""


def order(seed):
    """That in which a process which sets no seed shuffles 240 rows, as OpenRLHF's loader of the prompts does."""
    environment = {**os.environ, **first_of_all(seed)}
    return subprocess.run([sys.executable, "-c", SHUFFLED], env=environment, capture_output=True, text=True, check=True).stdout


def test_rows_come_in_the_order_of_the_seed():
    assert order(1) == order(1) != order(2)


def test_what_ray_is_to_call_first_is_there():
    called = first_of_all(1)["__RAY_WORKER_PROCESS_SETUP_HOOK_ENV_VAR"]
    module, _, function = called.rpartition(".")
    assert getattr(importlib.import_module(module), function) is set_up


@pytest.mark.parametrize("seed", [0, 2**31 - 1])
def test_every_seed_of_a_specification_does(seed):
    assert order(seed) == order(seed)


def test_a_process_without_torch_goes_on(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    start_random_numbers(1)
