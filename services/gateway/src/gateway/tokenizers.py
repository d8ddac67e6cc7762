"""The tokenizers that policies hand out, loaded once each."""

from __future__ import annotations

import asyncio

import structlog

from parallelsearch.clients.local_tokens import LocalTokens, PolicyTokenizer, agreeing_tokens, fetch_tokenizer
from parallelsearch.clients.policy import PolicyDescription, PolicyHttp
from parallelsearch.errors import Overloaded, ParallelSearchError, UpstreamUnavailable

log = structlog.get_logger(__name__)

LONGEST_S = 30.0
"""For a large tokenizer to come and to be compared; who hangs meanwhile keeps nobody else from being asked for longer."""


class Tokenizers:
    """Holds the last tokenizer by its fingerprint: replicas and versions of one model share it."""

    def __init__(self) -> None:
        self._held: tuple[str, PolicyTokenizer] | None = None
        self._loading = asyncio.Lock()

    async def agreeing(self, http: PolicyHttp, description: PolicyDescription) -> LocalTokens | None:
        """The policy's tokenizer, where it hands one out that gives the ids that the policy gives; else None, and that is settled.

        Raises:
            UpstreamUnavailable, Overloaded: it could not be asked, which it may be at the next look.
        """
        if not description.tokenizer or not description.message_tokens:
            return None
        try:
            async with asyncio.timeout(LONGEST_S):
                tokenizer = await self._tokenizer(http, description.tokenizer)
                local = await agreeing_tokens(http, description.identity.model, tokenizer)
        except TimeoutError:
            raise UpstreamUnavailable("The policy's tokenizer did not come in time.") from None
        except ParallelSearchError as error:
            log.warning("tokenizer_not_loaded", error=error.detail)
            if isinstance(error, UpstreamUnavailable | Overloaded) and not isinstance(error.__cause__, ValueError):
                raise
            return None
        if local is None:
            log.warning("tokenizer_disagrees", tokenizer=description.tokenizer)
        return local

    async def _tokenizer(self, http: PolicyHttp, fingerprint: str) -> PolicyTokenizer:
        async with self._loading:
            if self._held is None or self._held[0] != fingerprint:
                self._held = (fingerprint, await fetch_tokenizer(http))
            return self._held[1]
