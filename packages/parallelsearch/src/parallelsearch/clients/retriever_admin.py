"""The client of the retriever's admin routes, for the commands that change an index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import httpx2
import orjson
from pydantic import ValidationError

from parallelsearch.clients.http import CONNECT_TIMEOUT_S, check, checked_address, checked_token
from parallelsearch.clients.retriever import NAME
from parallelsearch.errors import UpstreamUnavailable
from parallelsearch.schemas.retrieval import ReloadResponse

TIMEOUT_S = 120.0


class RetrieverAdminClient:
    """Synchronous; `token` is the admin's. Each method raises what `clients.http.check` raises."""

    def __init__(self, base_url: str, token: str, *, transport: httpx2.BaseTransport | None = None) -> None:
        self.url = checked_address(base_url).rstrip("/")
        headers = {"authorization": f"Bearer {checked_token(token, 'ADMIN_TOKEN')}", "content-type": "application/json"}
        timeout = httpx2.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        self._http = httpx2.Client(
            base_url=self.url + "/v1/", headers=headers, timeout=timeout, transport=transport, trust_env=False
        )

    def encode(self, encoder: str, precision: str, what: Literal["passages", "queries"], texts: Sequence[str]) -> bytes:
        """Vectors of an encoder that is loaded there, as `schemas.encoding` says."""
        body = {"encoder": encoder, "precision": precision, "what": what, "texts": list(texts)}
        return self._ask("POST", "encode", content=orjson.dumps(body)).content

    def reload(self, index: str) -> ReloadResponse:
        """Serves what is published under this name now."""
        answer = self._ask("POST", f"indexes/{index}/reload")
        try:
            return ReloadResponse.model_validate_json(answer.content, extra="ignore")
        except ValidationError as error:
            raise UpstreamUnavailable("The retriever's answer to a reload is not in the form that was expected.") from error

    def close(self) -> None:
        self._http.close()

    def _ask(self, method: str, path: str, **arguments: Any) -> httpx2.Response:
        try:
            return check(self._http.request(method, path, **arguments), NAME)
        except httpx2.HTTPError as error:
            raise UpstreamUnavailable(f"The retriever cannot be reached: {error or type(error).__name__}.") from error
