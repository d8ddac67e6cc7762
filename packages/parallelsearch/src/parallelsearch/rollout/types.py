"""The glossary as frozen dataclasses: what a rollout is made of. Everything else in the project speaks in these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Mode(StrEnum):
    """How the policy is asked to search."""

    PARALLEL = "parallel"
    SEQUENTIAL = "sequential"
    NO_SEARCH = "no_search"


class Kind(StrEnum):
    """What a question asks for, which the reward goes by (hybrid: several chains side by side)."""

    PARALLEL = "parallel"
    SEQUENTIAL = "sequential"
    HYBRID = "hybrid"
    UNLABELLED = "unlabelled"


class StopReason(StrEnum):
    """Why a rollout ended. The first four are the policy's doing, the others happened to it."""

    ANSWERED = "answered"
    TURN_LIMIT = "turn_limit"
    CONTEXT_LIMIT = "context_limit"
    MALFORMED = "malformed"
    RETRIEVAL_FAILED = "retrieval_failed"
    POLICY_FAILED = "policy_failed"
    DEADLINE = "deadline"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage as found for one sub-query; `score` is 0.0 where unknown.

    `metadata` says what document it is of, if of one: `source`, `date`, `section`, `page`, and what the document says itself.
    """

    id: str
    title: str
    text: str
    score: float = 0.0
    url: str = ""
    metadata: Mapping[str, str | int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Filter:
    """Which documents count. `source` may hold `*`; a document counts from the moment `after` on and until before `before`."""

    source: str = ""
    after: str = ""
    before: str = ""
    metadata: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Scope:
    """Where is searched: the index of this name (empty: the default one), among the documents that pass the filter, and how.

    `method` is one of the retriever's; empty: its default.
    """

    index: str = ""
    filter: Filter = Filter()
    method: str = ""


EVERYWHERE = Scope()


@dataclass(frozen=True, slots=True)
class SubQueryResult:
    """What one sub-query brought. `failed` means that retrieval failed for it, not that nothing was found."""

    query: str
    passages: tuple[Passage, ...] = ()
    cached: bool = False
    failed: bool = False
    latency_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Search:
    """The policy searches: distinct, trimmed sub-queries in its order; `dropped` were over the limit (sequential mode: one)."""

    queries: tuple[str, ...]
    dropped: int = 0
    raw_queries: tuple[str, ...] = ()
    """What stood between the `##`, trimmed, blanks and repeats kept: what the published reward counts."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The policy answers. `opened` is true where the environment wrote the opening tag."""

    text: str
    opened: bool = False


@dataclass(frozen=True, slots=True)
class Malformed:
    """The policy wrote no complete block, or one that asks for nothing; `reason` says which."""

    reason: str


Action = Search | Answer | Malformed


@dataclass(frozen=True, slots=True)
class TurnTimings:
    policy_ms: float = 0.0
    search_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Turn:
    """One generation and what came of it. `text` is exactly what the policy wrote (an opened tag is not part of it)."""

    index: int
    text: str
    reasoning: str
    action: Action
    observation: tuple[SubQueryResult, ...] = ()
    repeated: bool = False
    """All sub-queries had been searched before in this rollout, so nothing was searched."""
    timings: TurnTimings = field(default_factory=TurnTimings)


@dataclass(frozen=True, slots=True)
class Usage:
    llm_calls: int = 0
    search_rounds: int = 0
    sub_queries: int = 0
    cache_hits: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Timings:
    """Wall clock of a rollout in milliseconds; `overhead_ms` is what is neither policy nor search."""

    total_ms: float = 0.0
    policy_ms: float = 0.0
    search_ms: float = 0.0
    overhead_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class PolicyIdentity:
    """The model that wrote a trajectory and the version of its weights."""

    model: str
    version: str = ""


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The record of a rollout. `detail` says in words what a failed one ran into; it never enters a context."""

    id: str
    question: str
    mode: Mode
    answer: str | None
    stop_reason: StopReason
    turns: tuple[Turn, ...] = ()
    usage: Usage = field(default_factory=Usage)
    timings: Timings = field(default_factory=Timings)
    policy: PolicyIdentity = PolicyIdentity("")
    policy_versions: tuple[str, ...] = ()
    """All that its generations were sampled from, in order; `policy` is that of the last."""
    index_fingerprint: str = ""
    detail: str = ""
