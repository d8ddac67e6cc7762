"""The tree of errors. A service renders each as problem+json; a caller reads `retryable` to know whether to try again.

ParallelSearchError
├── InvalidInput            422  the caller must change the request
├── Unauthorized            401  no key, or none that is known
├── Forbidden               403  not by this way
├── NotFound                404
├── Gone                    410  it was here, and is not held any more
├── LimitExceeded           429  the caller is over its own limit
├── Overloaded              503  a queue is full; retry after a while
├── UpstreamUnavailable     503  policy, retriever or cache cannot be reached or answers badly
│   └── RetrievalFailed     503  every sub-query of a turn failed
├── Stopping                503  the service ends before the work is done; another one, or the next, will do it
├── DeadlineExceeded        504
├── ConfigurationError      500  the service cannot work as it is set up (refuses to start)
│   └── IndexMismatch       500  encoder, index and corpus do not belong together
└── CorpusError             422  a corpus file has a broken line
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

_OF_A_FIELD = re.compile(r"([A-Za-z][\w.-]*): (.+)", re.DOTALL)


class ParallelSearchError(Exception):
    """Base of all errors of the project. `detail` is a sentence that says what to do."""

    code: ClassVar[str] = "internal"
    title: ClassVar[str] = "Internal error"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False
    asked_to_wait: bool = False
    """Whether `retry_after_s` is what an upstream itself asked for."""

    def __init__(self, detail: str, *, retry_after_s: float | None = None, extensions: Mapping[str, Any] | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.retry_after_s = retry_after_s
        self.extensions: Mapping[str, Any] = extensions or {}


class InvalidInput(ParallelSearchError):
    """A detail of the form `field: what is wrong with it` is also given apart, as `errors`."""

    code, title, status = "invalid-request", "Invalid request", 422

    def __init__(self, detail: str, *, retry_after_s: float | None = None, extensions: Mapping[str, Any] | None = None) -> None:
        named = _OF_A_FIELD.fullmatch(detail)
        errors = {"errors": [{"field": named[1], "message": named[2]}]} if named else {}
        super().__init__(detail, retry_after_s=retry_after_s, extensions={**errors, **(extensions or {})})


class NotFound(ParallelSearchError):
    code, title, status = "not-found", "Not found", 404


class Gone(ParallelSearchError):
    code, title, status = "gone", "Gone", 410


class Unauthorized(ParallelSearchError):
    code, title, status = "unauthorized", "Unauthorized", 401


class Forbidden(ParallelSearchError):
    code, title, status = "forbidden", "Forbidden", 403


class LimitExceeded(ParallelSearchError):
    code, title, status, retryable = "limit-exceeded", "Limit exceeded", 429, True


class Overloaded(ParallelSearchError):
    code, title, status, retryable = "overloaded", "Overloaded", 503, True


class UpstreamUnavailable(ParallelSearchError):
    code, title, status, retryable = "upstream-unavailable", "Upstream unavailable", 503, True


class RetrievalFailed(UpstreamUnavailable):
    code, title = "retrieval-failed", "Retrieval failed"


class Stopping(ParallelSearchError):
    code, title, status, retryable = "stopping", "Stopping", 503, True


class DeadlineExceeded(ParallelSearchError):
    code, title, status = "deadline-exceeded", "Deadline exceeded", 504


class ConfigurationError(ParallelSearchError):
    code, title = "configuration", "Configuration error"


class IndexMismatch(ConfigurationError):
    code, title = "index-mismatch", "Index mismatch"


class CorpusError(ParallelSearchError):
    code, title, status = "corpus", "Broken corpus", 422
