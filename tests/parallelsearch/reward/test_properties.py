from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from parallelsearch.protocol.actions import parse_turn
from parallelsearch.reward.scoring import Preset, score
from parallelsearch.reward.terms import RewardWeights
from parallelsearch.rollout.types import Kind, Mode, Passage, Search, StopReason, SubQueryResult, Trajectory, Turn

PIECES = [
    "<think>",
    "</think>",
    "<search>",
    "</search>",
    "<answer>",
    "</answer>",
    "##",
    " a ",
    " b ",
    "Monet",
    "\n",
    "<information>",
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
FORMED = st.lists(st.sampled_from(["a", "b", "c", "a ## b", "a ##", "##", "b ## c ## a"]), max_size=6).map(
    lambda queries: (
        [f"<think> t </think> <search> {query} </search>" for query in queries] + ["<think> t </think>\n<answer> Monet </answer>"]
    )
)
SCRIPTS = st.one_of(st.lists(TEXTS, max_size=6), FORMED)
PASSAGES = st.lists(st.builds(Passage, st.sampled_from("pqr"), TEXTS, TEXTS), max_size=3)
KINDS, PRESETS = st.sampled_from(list(Kind)), st.sampled_from(list(Preset))
WEIGHTS = st.builds(RewardWeights, *[st.floats(0, 2)] * 3, st.floats(0, 1))


def rollout(script, passages=()):
    turns = []
    for index, text in enumerate(script):
        parsed = parse_turn(text, max_sub_queries=8)
        queries = parsed.action.queries if isinstance(parsed.action, Search) else ()
        found = tuple(SubQueryResult(query, tuple(passages)) for query in queries)
        turns.append(Turn(index, text[: parsed.length], parsed.reasoning, parsed.action, found))
    return Trajectory("t", "q", Mode.PARALLEL, None, StopReason.ANSWERED, tuple(turns))


@given(SCRIPTS, KINDS, PRESETS, WEIGHTS)
def test_the_reward_is_bounded(script, kind, preset, weights):
    reward = score(rollout(script), kind, ["Monet"], preset=preset, weights=weights)
    most = 1 + max(1.0, weights.alpha) * weights.decomposition + weights.search_count
    opened = sum(text.count("<search>") for text in script)

    assert -(opened + 1) * weights.search_count - 1e-9 <= reward.value <= most + 1e-9


@given(SCRIPTS, PASSAGES, PASSAGES, KINDS, PRESETS)
def test_what_observations_say_changes_nothing(script, passages, others, kind, preset):
    rewards = {score(rollout(script, found), kind, ["Monet"], preset=preset) for found in (passages, others)}

    assert len(rewards) == 1


@given(SCRIPTS, PASSAGES, KINDS, PRESETS, st.randoms())
def test_the_order_of_passages_changes_nothing(script, passages, kind, preset, random):
    shuffled = random.sample(passages, len(passages))

    assert score(rollout(script, passages), kind, ["Monet"], preset=preset) == score(
        rollout(script, shuffled), kind, ["Monet"], preset=preset
    )


@given(SCRIPTS, KINDS, PRESETS, st.text(max_size=30))
def test_the_question_changes_nothing(script, kind, preset, question):
    one = rollout(script)

    assert score(one, kind, ["Monet"], preset=preset) == score(replace(one, question=question), kind, ["Monet"], preset=preset)


@given(SCRIPTS, KINDS)
def test_searching_the_same_again_costs_its_price_in_strict(script, kind):
    for index, text in enumerate(script):
        if isinstance(parse_turn(text, max_sub_queries=8).action, Search):
            once, twice = (rollout(turns) for turns in (script, [*script[: index + 1], *script[index:]]))
            lost = score(once, kind, ["Monet"]).value - score(twice, kind, ["Monet"]).value
            assert abs(lost - RewardWeights().search_count) < 1e-9
