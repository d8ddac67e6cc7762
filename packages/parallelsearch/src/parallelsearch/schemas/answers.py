"""The gateway's contract: `POST /v1/answers`, `POST /v1/search`, and the trajectory as it is written in files."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StrictBool, StrictFloat, StrictInt

from parallelsearch.rollout.types import Kind, Mode, StopReason
from parallelsearch.schemas.base import NonBlankText, WireModel, not_blank
from parallelsearch.schemas.retrieval import MAX_TOP_K, METHOD_HELP, FilterModel, IndexName, Method, PassageModel, Query

MAX_QUESTION_CHARACTERS = 8_192
Question = Annotated[NonBlankText, Field(max_length=MAX_QUESTION_CHARACTERS)]
CacheUse = Literal["use", "bypass"]
Count = Annotated[int, Field(ge=0)]


class AnswerRequest(WireModel):
    """What may be asked of the gateway. Limits left out are the service's."""

    question: Question
    top_k: StrictInt = Field(default=3, ge=1, le=20)
    max_turns: StrictInt = Field(default=4, ge=0, le=16, description="Searches at most; 0 answers without searching.")
    max_sub_queries: StrictInt = Field(default=8, ge=1, le=64)
    mode: Mode = Mode.PARALLEL
    model: Annotated[str, Field(max_length=256)] | None = None
    index: IndexName | None = Field(default=None, description="The index that is searched; null: the default one.")
    filter: FilterModel | None = Field(default=None, description="Which documents count; null: all.")
    method: Method | None = Field(default=None, description=METHOD_HELP)
    temperature: StrictFloat = Field(default=0.0, ge=0.0, le=2.0)
    seed: StrictInt | None = Field(default=None, ge=0, le=2**31 - 1)
    deadline_s: StrictFloat = Field(default=60.0, gt=0.0, le=600.0)
    cache: CacheUse = "use"
    stream: StrictBool = False


class SearchRequest(WireModel):
    queries: list[Query] = Field(max_length=256)
    top_k: StrictInt = Field(default=3, ge=1, le=MAX_TOP_K)
    cache: CacheUse = "use"
    index: IndexName | None = None
    filter: FilterModel | None = None
    method: Method | None = Field(default=None, description=METHOD_HELP)


class SearchResult(WireModel):
    query: str
    passages: list[PassageModel]
    cached: bool
    failed: bool = False


class SearchResponse(WireModel):
    results: list[SearchResult]


class SearchActionModel(WireModel):
    """A block without a sub-query is no search: see `protocol.actions`."""

    type: Literal["search"] = "search"
    queries: list[Annotated[str, AfterValidator(not_blank)]] = Field(min_length=1)
    dropped: Count = 0
    raw_queries: list[str] = []


class AnswerActionModel(WireModel):
    type: Literal["answer"] = "answer"
    text: str
    opened: bool = False


class MalformedActionModel(WireModel):
    type: Literal["malformed"] = "malformed"
    reason: str = ""


ActionModel = Annotated[SearchActionModel | AnswerActionModel | MalformedActionModel, Field(discriminator="type")]


class ObservationModel(WireModel):
    query: str
    passages: list[PassageModel] = []
    cached: bool = False
    failed: bool = False
    latency_ms: float = 0.0


class TurnTimingsModel(WireModel):
    policy_ms: float = 0.0
    search_ms: float = 0.0


class TurnModel(WireModel):
    index: Count
    reasoning: str = ""
    action: ActionModel
    observation: list[ObservationModel] = []
    text: str = ""
    repeated: bool = False
    timings: TurnTimingsModel = TurnTimingsModel()


class UsageModel(WireModel):
    llm_calls: Count = 0
    search_rounds: Count = 0
    sub_queries: Count = 0
    cache_hits: Count = 0
    prompt_tokens: Count = 0
    completion_tokens: Count = 0


class TimingsModel(WireModel):
    total_ms: float = 0.0
    policy_ms: float = 0.0
    search_ms: float = 0.0
    overhead_ms: float = 0.0


class PolicyModel(WireModel):
    """`version` is that of the last generation, `versions` all that generations were sampled from, in order."""

    model: str = ""
    version: str = ""
    versions: list[str] = []


class IndexReference(WireModel):
    fingerprint: str = ""


class Citation(WireModel):
    """A passage that the answer rests on, and the turn and sub-query that found it; of a document, where it stands there."""

    passage_id: str
    title: str
    turn: int
    query: str
    url: str = ""
    source: str = ""
    page: int | None = None
    section: str = ""


class TrajectoryModel(WireModel):
    """A trajectory as the API answers it and as files hold it, one JSON a line."""

    id: str
    question: str
    mode: Mode = Mode.PARALLEL
    answer: str | None = None
    stop_reason: StopReason
    turns: list[TurnModel] = []
    usage: UsageModel = UsageModel()
    timings: TimingsModel = TimingsModel()
    policy: PolicyModel = PolicyModel()
    index: IndexReference = IndexReference()
    detail: str = ""
    citations: list[Citation] = []


class ScoredTrajectoryModel(TrajectoryModel):
    """A trajectory with what the reward needs beside it: the input of `parallelsearch reward`."""

    kind: Kind
    golden_answers: list[str] = Field(min_length=1)
