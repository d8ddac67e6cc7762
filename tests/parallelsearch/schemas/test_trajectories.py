import json

from hypothesis import given, settings
from hypothesis import strategies as st

from parallelsearch.rollout import types
from parallelsearch.schemas.answers import TrajectoryModel
from parallelsearch.schemas.trajectories import trajectory_from_wire, trajectory_to_wire

TEXT = st.text(max_size=20)
MS = st.floats(0, 1e6)
PASSAGES = st.builds(types.Passage, TEXT, TEXT, TEXT, st.floats(-1, 1), TEXT)
QUERIES = st.lists(TEXT.filter(str.strip), min_size=1, max_size=3).map(tuple)
RESULTS = st.builds(types.SubQueryResult, TEXT, st.lists(PASSAGES, max_size=2).map(tuple), st.booleans(), st.booleans(), MS)
ACTIONS = (
    QUERIES.flatmap(lambda queries: st.builds(types.Search, st.just(queries), st.integers(0, 3), st.just(queries)))
    | st.builds(types.Answer, TEXT, st.booleans())
    | st.builds(types.Malformed, TEXT)
)
TURNS = st.builds(
    types.Turn,
    index=st.integers(0, 4),
    text=TEXT,
    reasoning=TEXT,
    action=ACTIONS,
    observation=st.lists(RESULTS, max_size=2).map(tuple),
    repeated=st.booleans(),
    timings=st.builds(types.TurnTimings, MS, MS),
)
TRAJECTORIES = st.builds(
    types.Trajectory,
    id=TEXT,
    question=TEXT,
    mode=st.sampled_from(types.Mode),
    answer=st.none() | TEXT,
    stop_reason=st.sampled_from(types.StopReason),
    turns=st.lists(TURNS, max_size=3).map(tuple),
    usage=st.builds(types.Usage, *[st.integers(0, 9)] * 6),
    timings=st.builds(types.Timings, MS, MS, MS, MS),
    policy=st.builds(types.PolicyIdentity, TEXT, TEXT),
    index_fingerprint=TEXT,
    detail=TEXT,
)


@settings(max_examples=60, deadline=None)
@given(TRAJECTORIES)
def test_a_trajectory_survives_the_wire(trajectory):
    wire = trajectory_to_wire(trajectory)
    again = TrajectoryModel.model_validate_json(wire.model_dump_json())
    assert trajectory_from_wire(again) == trajectory


def test_the_wire_has_the_documented_shape():
    turn = types.Turn(
        0,
        "<search> a ## b </search>",
        "",
        types.Search(("a", "b"), 0, ("a", "b")),
        (types.SubQueryResult("a", (types.Passage("1", "T", "x"),)),),
    )
    trajectory = types.Trajectory("id", "q?", types.Mode.PARALLEL, None, types.StopReason.TURN_LIMIT, (turn,))
    body = json.loads(trajectory_to_wire(trajectory).model_dump_json())
    assert set(body) >= {
        "id",
        "question",
        "mode",
        "answer",
        "stop_reason",
        "turns",
        "usage",
        "timings",
        "policy",
        "index",
        "citations",
    }
    assert set(body["usage"]) == {"llm_calls", "search_rounds", "sub_queries", "cache_hits", "prompt_tokens", "completion_tokens"}
    assert set(body["timings"]) == {"total_ms", "policy_ms", "search_ms", "overhead_ms"}
    assert set(body["turns"][0]) >= {"index", "reasoning", "action", "observation", "text", "timings"}
    assert body["turns"][0]["action"]["queries"] == ["a", "b"]
    assert set(body["turns"][0]["observation"][0]) == {"query", "passages", "cached", "failed", "latency_ms"}
