"""The compact layout over whole rollouts: what is referred to stands further up, however much the context had to shrink."""

import asyncio
import re

from hypothesis import example, given, settings
from hypothesis import strategies as st

from parallelsearch.protocol.observations import Layout
from parallelsearch.rollout.runner import RolloutRequest, run_rollout
from parallelsearch.rollout.settings import ObservationSettings, RolloutSettings
from parallelsearch.rollout.types import Passage, PolicyIdentity
from parallelsearch.testing import InMemoryRetriever, ScriptedPolicy

LENGTHS = {"a": 5, "b": 40, "c": 100, "d": 120, "e": 300}
PASSAGES = {name: Passage(name, f"Title-{name}", " ".join([f"word-{name}"] * length)) for name, length in LENGTHS.items()}
SEARCHES = st.lists(st.lists(st.lists(st.sampled_from("abcde"), max_size=3, unique=True), min_size=1, max_size=3), max_size=4)


def contexts(searches, context_tokens):
    """What the policy reads when it runs `searches`, each a list of sub-queries, each a list of passages found."""
    found = {f"q{turn}{place}": names for turn, queries in enumerate(searches) for place, names in enumerate(queries)}
    script = [
        f"<search> {' ## '.join(f'q{turn}{place}' for place in range(len(queries)))} </search>"
        for turn, queries in enumerate(searches)
    ]
    policy = ScriptedPolicy([*script, "<answer> x </answer>"])
    options = RolloutSettings(context_tokens=context_tokens, turn_tokens=20, observation=ObservationSettings(layout=Layout.COMPACT))
    retriever = InMemoryRetriever({query: [PASSAGES[name] for name in names] for query, names in found.items()})
    request = RolloutRequest("r", "Who?", options)
    asyncio.run(run_rollout(request, policy, retriever, identity=PolicyIdentity("scripted")))
    return policy.contexts


@settings(max_examples=150, deadline=None)
@given(SEARCHES, st.integers(350, 1_500))
@example([[["b", "c", "d"]], [["e"]]], 400)
@example([[["c", "d", "e"]]], 420)
@example([[["c"], ["c"]], [["c"]]], 400)
def test_what_is_shown_above_stands_above(searches, context_tokens):
    for context in contexts(searches, context_tokens):
        for reference in re.finditer(r"Title: Title-(.)\) shown above", context):
            assert f"Title-{reference[1]}) word-{reference[1]}" in context[: reference.start()]


def test_an_observation_that_shrinks_keeps_all_that_fits():
    last = contexts([[["c", "d"]], [["e"]]], 470)[-1]
    assert last.count("word-c") > 50
    assert last.count("word-d") > 50
    assert "shown above" not in last
