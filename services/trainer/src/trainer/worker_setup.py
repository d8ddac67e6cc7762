"""What each of a run's Ray processes does first: what it unpacks of tokenizers is shared, and its random numbers start at the seed.

Of OpenRLHF's processes the one that shuffles the prompts sets no seed, and torch then takes one of the system: two runs of the same
specification would meet their questions in different order. The others set their own later on.
"""

from __future__ import annotations

import os

from trainer.shared_tokenizer import share

SEED = "PARALLELSEARCH_RUN_SEED"


def first_of_all(seed: int) -> dict[str, str]:
    """The environment in which Ray calls `set_up` in each process. It is set by hand since the program that starts Ray is
    OpenRLHF's; for Ray's own programs this is `worker_process_setup_hook`."""
    return {"__RAY_WORKER_PROCESS_SETUP_HOOK_ENV_VAR": f"{__name__}.{set_up.__name__}", SEED: str(seed)}


def set_up() -> None:
    share()
    start_random_numbers(int(os.environ[SEED]))


def start_random_numbers(seed: int) -> None:
    """Of the processor alone: a card of this process is only chosen later."""
    try:
        import torch
    except ImportError:
        return
    torch.default_generator.manual_seed(seed)
