"""Notices an engine that is wedged: alive as a process, but without progress on anything, not even on one token of ours."""

from __future__ import annotations

import asyncio

import structlog

from policy import metrics
from policy.engines.interface import EngineFault
from policy.state import PolicyState

log = structlog.get_logger(__name__)

BEAT_S = 15.0
PATIENCE_S = 90.0


async def watch(state: PolicyState, *, beat_s: float = BEAT_S, patience_s: float = PATIENCE_S) -> None:
    """Runs until cancelled. Every `beat_s` the engine must have processed tokens, or generate one for us.

    Without either for `patience_s` the state is `stalled`, until there is progress again. Time that a change of weights takes
    does not count.
    """
    loop = asyncio.get_running_loop()
    seen, progressed = -1.0, loop.time()
    while True:
        tokens = state.engine.tokens_processed()
        if tokens != seen or state.gate.closed or await _generates(state, beat_s):
            seen, progressed = state.engine.tokens_processed(), loop.time()
        stalled = loop.time() - progressed > patience_s
        if stalled != state.stalled:
            log.warning("engine_stalled" if stalled else "engine_moves_again", patience_s=patience_s)
        state.stalled = stalled
        metrics.STALLED.set(stalled)
        await asyncio.sleep(beat_s)


async def _generates(state: PolicyState, timeout_s: float) -> bool:
    try:
        async with asyncio.timeout(timeout_s):
            await state.engine.probe()
    except (TimeoutError, EngineFault):
        return False
    return True
