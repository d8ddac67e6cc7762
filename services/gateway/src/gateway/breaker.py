"""A circuit breaker for one upstream: after several failures in a row it is left alone for a while, and callers fail at once."""

from __future__ import annotations

import time

import httpx2
import structlog

from gateway import metrics
from parallelsearch.clients.pools import Answer, Call, Pool

log = structlog.get_logger(__name__)

FAILURES_IN_A_ROW = 8
REST_S = 1.0
LONGEST_REST_S = 15.0
LOOK = "GET"
"""What the gateway itself sends, once every moment, to see whether an upstream is there; what rollouts send is POST."""
FAILED_STATUS = frozenset({502, 503, 504})


class CircuitBreaker:
    """Wraps a pool. A call that cannot connect, is not answered in time, or gets 502, 503 or 504 is a failure.

    After the rest a single call is let through: if it fails the rest doubles, if it succeeds all are let through again. The
    gateway's own looks are let through at any time, so that an upstream is used again as soon as it is back.
    """

    def __init__(self, inner: Pool, upstream: str) -> None:
        self._inner = inner
        self._upstream = upstream
        self._failures = 0
        self._rest_s = REST_S
        self._open_until = 0.0
        metrics.CIRCUIT_OPEN.labels(upstream).set(0)

    async def open(self, call: Call) -> Answer:
        trial = self._is_open and call.method != LOOK
        if trial and not self._may_try():
            raise httpx2.ConnectError(f"it failed {self._failures} times in a row and is left alone for a moment")
        try:
            answer = await self._inner.open(call)
        except httpx2.TransportError:
            self._failed(trial)
            raise
        if answer.status in FAILED_STATUS:
            self._failed(trial)
        else:
            self._worked()
        return answer

    async def close(self) -> None:
        await self._inner.close()

    @property
    def _is_open(self) -> bool:
        return self._failures >= FAILURES_IN_A_ROW

    def _may_try(self) -> bool:
        """True for the one call that finds out whether the upstream is back; a further one may after another rest."""
        now = time.monotonic()
        if now < self._open_until:
            return False
        self._open_until = now + self._rest_s
        return True

    def _failed(self, trial: bool) -> None:
        was_open = self._is_open
        self._failures += 1
        if trial:
            self._rest_s = min(self._rest_s * 2, LONGEST_REST_S)
        elif self._is_open and not was_open:
            log.warning("circuit_open", upstream=self._upstream)
            metrics.CIRCUIT_OPEN.labels(self._upstream).set(1)
            self._rest_s = REST_S
        else:
            return
        self._open_until = time.monotonic() + self._rest_s

    def _worked(self) -> None:
        if self._is_open:
            log.info("circuit_closed", upstream=self._upstream)
            metrics.CIRCUIT_OPEN.labels(self._upstream).set(0)
        self._failures = 0
