"""How much of a GPU vLLM takes for the keys and values of a run's rollouts, where the run says so itself.

vLLM measures: it fills what `resources.vllm_memory` leaves of the GPU, and takes whatever others take or give back there meanwhile
for its own doing. Beside another run it then finds no memory at all, or more than there was, and ends. OpenRLHF hands no size on,
so it is put into the arguments that it makes its engine with.
"""

from __future__ import annotations

from typing import Any

GIB = 2**30


def reserve_cache(gib: float | None) -> None:
    """Engines that are made in this process from now on take `gib` for their cache, measuring nothing; None leaves it to vLLM.

    To be called before OpenRLHF makes its engine, which is after it has made the agent executor.
    """
    if gib is None:
        return
    from vllm.engine.arg_utils import EngineArgs

    fill_in, size = EngineArgs.__post_init__, int(gib * GIB)

    def with_cache(arguments: Any) -> None:
        fill_in(arguments)
        arguments.kv_cache_memory_bytes = arguments.kv_cache_memory_bytes or size

    EngineArgs.__post_init__ = with_cache
