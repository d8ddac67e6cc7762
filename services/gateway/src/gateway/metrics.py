"""What the gateway counts. Label sets are closed: stop reasons, modes, outcomes."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from parallelsearch.rollout.types import Malformed, Search, Trajectory
from servicekit.metrics import SECONDS_BUCKETS

COUNT_BUCKETS = (0, 1, 2, 3, 4, 5, 6, 8, 12, 16, 32, 64)

ANSWERS = Counter("parallelsearch_answers_total", "Rollouts by how they ended", ["mode", "stop_reason"])
ANSWER_SECONDS = Histogram("parallelsearch_answer_seconds", "Seconds of an answer", ["mode"], buckets=SECONDS_BUCKETS)
OVERHEAD_SECONDS = Histogram(
    "parallelsearch_answer_overhead_seconds", "Seconds of an answer that are neither policy nor search", buckets=SECONDS_BUCKETS
)
POLICY_SECONDS = Histogram("parallelsearch_turn_policy_seconds", "Seconds of a turn's generation", buckets=SECONDS_BUCKETS)
SEARCH_SECONDS = Histogram("parallelsearch_turn_search_seconds", "Seconds of a turn's search", buckets=SECONDS_BUCKETS)
SUB_QUERIES = Histogram("parallelsearch_sub_queries_per_round", "Sub-queries of a search round", buckets=COUNT_BUCKETS)
LLM_CALLS = Histogram("parallelsearch_llm_calls_per_answer", "Generations of an answer", ["mode"], buckets=COUNT_BUCKETS)
TURNS = Counter("parallelsearch_turns_total", "Turns by action (search: one sub-query, decomposed: several)", ["action"])
CACHE = Counter("parallelsearch_cache_total", "Sub-queries by what the cache did", ["outcome"])
ANSWER_CACHE = Counter("parallelsearch_answer_cache_total", "Answers by what the cache of answers did", ["outcome"])
CACHE_UP = Gauge("parallelsearch_cache_up", "1 while the cache answers")
CIRCUIT_OPEN = Gauge("parallelsearch_circuit_open", "1 while an upstream is left alone after failures in a row", ["upstream"])
POLICY_REPLICA = Gauge(
    "parallelsearch_policy_replica", "A replica of the policy with its version: 1 while it takes rollouts", ["replica", "version"]
)
POLICY_MOVES = Counter("parallelsearch_policy_moves_total", "Requests that went on to another replica after a failure")
CALLS = Counter("parallelsearch_calls_total", "Requests of the public API by the name of their key", ["key"])
REFUSED = Counter("parallelsearch_refused_total", "Requests over their key's limit (429)", ["key", "limit"])
STORE_FAILURES = Counter("parallelsearch_store_failures_total", "Trajectories that could not be stored, or not be read")
SEARCHES_IN_FLIGHT = Gauge("parallelsearch_searches_in_flight", "Searches without a policy that are being worked on")
IN_FLIGHT = Gauge("parallelsearch_answers_in_flight", "Answers being worked on")
IN_FLIGHT_LIMIT = Gauge("parallelsearch_answers_in_flight_limit", "Answers that are worked on at most")


def record(trajectory: Trajectory) -> None:
    """Counts a finished rollout."""
    mode = trajectory.mode.value
    ANSWERS.labels(mode, trajectory.stop_reason.value).inc()
    ANSWER_SECONDS.labels(mode).observe(trajectory.timings.total_ms / 1000)
    OVERHEAD_SECONDS.observe(trajectory.timings.overhead_ms / 1000)
    LLM_CALLS.labels(mode).observe(trajectory.usage.llm_calls)
    for turn in trajectory.turns:
        TURNS.labels(_action(turn.action)).inc()
        POLICY_SECONDS.observe(turn.timings.policy_ms / 1000)
        if turn.observation:
            SEARCH_SECONDS.observe(turn.timings.search_ms / 1000)
            SUB_QUERIES.observe(len(turn.observation))


def _action(action: object) -> str:
    match action:
        case Search(queries):
            return "decomposed" if len(queries) > 1 else "search"
        case Malformed():
            return "malformed"
        case _:
            return "answer"
