"""How much of what a search found the policy reads, and in which layout."""

import pytest
from gateway_fakes import BOTH, DONE, PASSAGES, QUESTION, fake_policy, fake_retriever

from gateway.settings import GatewaySettings
from parallelsearch.rollout.settings import ObservationSettings, observation_settings
from parallelsearch.schemas.training import RolloutSpec


def ask(client, **body):
    return client.post("/v1/answers", json={"question": QUESTION} | body)


@pytest.mark.parametrize(
    "limits",
    [
        {"passage_words": 2, "passage_words_wide": 2},
        {"observation_tokens": 12},
        {"policy_layout": "paper", "observation_tokens": 60},
    ],
)
def test_how_much_of_the_passages_a_policy_reads_is_a_setting(start_gateway, limits):
    shown = []
    for settings in ({"policy_layout": limits.get("policy_layout")}, limits):
        policy = fake_policy([BOTH, DONE])
        answer = ask(start_gateway(policy, fake_retriever(PASSAGES), **settings)).json()
        assert all(row["passages"] for row in answer["turns"][0]["observation"])
        shown.append(policy.state.contexts[-1].partition("<information>Query 1")[2] or policy.state.contexts[-1])
    assert len(shown[1]) < len(shown[0])


def test_the_published_layout_may_be_cut_as_published(start_gateway):
    """Closing tag and all, which is not the default."""
    for cut, closed in (("tag_safe", True), ("published", False)):
        policy = fake_policy([BOTH, DONE])
        ask(start_gateway(policy, fake_retriever(PASSAGES), policy_layout="paper", observation_tokens=60, paper_cut=cut))
        observation = policy.state.contexts[-1].rpartition("<information>")[2]
        assert ("</information>" in observation) is closed


def test_a_policy_of_the_published_layout_gets_the_published_environment(start_gateway):
    """Its last answer is not opened, and what it asks again is searched again."""
    policy, body = fake_policy([BOTH, BOTH, DONE]), {"question": QUESTION, "max_turns": 2, "cache": "bypass"}
    answer = start_gateway(policy, fake_retriever(PASSAGES), policy_layout="paper").post("/v1/answers", json=body).json()
    assert (answer["answer"], answer["usage"]["search_rounds"]) == ("Camille Pissarro", 2)
    assert not any(context.endswith("<answer>") for context in policy.state.contexts)


@pytest.mark.parametrize("limits", [GatewaySettings(), RolloutSpec()], ids=["served", "trained"])
def test_what_is_served_and_trained_unasked_is_the_same(limits):
    default = ObservationSettings()
    assert observation_settings(limits, default.layout, default.special_tokens) == default
