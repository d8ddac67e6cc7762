"""What Ray's processes of a run do first."""

import importlib
import json
import os
import subprocess
import sys

import pytest
import torch
from torch.utils.data import RandomSampler

from trainer.worker_setup import first_of_all, set_up, start_random_numbers

SHUFFLED = """
from importlib import import_module
import os
module, _, function = os.environ["__RAY_WORKER_PROCESS_SETUP_HOOK_ENV_VAR"].rpartition(".")
getattr(import_module(module), function)()
from torch.utils.data import RandomSampler
print(list(RandomSampler(range(240))))
"""


@pytest.fixture(autouse=True)
def our_own_random_numbers():
    before = torch.get_rng_state()
    yield
    torch.set_rng_state(before)


def order(seed):
    start_random_numbers(seed)
    return list(RandomSampler(range(240)))


@pytest.mark.parametrize("seed", [0, 1, 2**31 - 1])
def test_rows_come_in_the_order_of_the_seed(seed):
    assert order(seed) == order(seed) != order(7)


def test_rays_processes_shuffle_as_the_seed_says():
    """A process which sets no seed, as OpenRLHF's that loads the prompts, whose loader draws its order as torch's does."""
    environment = {**os.environ, **first_of_all(3)}
    said = subprocess.run([sys.executable, "-c", SHUFFLED], env=environment, capture_output=True, text=True, check=True).stdout
    assert json.loads(said) == order(3)


def test_what_ray_is_to_call_first_is_there():
    called = first_of_all(1)["__RAY_WORKER_PROCESS_SETUP_HOOK_ENV_VAR"]
    module, _, function = called.rpartition(".")
    assert getattr(importlib.import_module(module), function) is set_up


def test_a_process_without_torch_goes_on(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    start_random_numbers(1)
