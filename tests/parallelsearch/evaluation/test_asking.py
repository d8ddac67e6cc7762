import asyncio
import json

import gateway_fakes
import httpx2
import pytest
from evaluation_fakes import a_question, a_trajectory, answer, search
from live import live

from parallelsearch.clients.answers import AnswersClient, GatewayProblem, GatewayUnreachable
from parallelsearch.clients.policy import PolicyDescription
from parallelsearch.errors import InvalidInput, UpstreamUnavailable
from parallelsearch.evaluation.asking import ATTEMPTS, DirectAsker, GatewayAsker
from parallelsearch.evaluation.plan import Cell, Job, Limits
from parallelsearch.evaluation.stacks import Addresses, connect, rollout_settings
from parallelsearch.protocol.observations import Layout
from parallelsearch.rollout.settings import RolloutSettings
from parallelsearch.rollout.types import Mode, Passage, PolicyIdentity, StopReason
from parallelsearch.schemas.trajectories import trajectory_to_wire
from parallelsearch.testing import InMemoryRetriever, ScriptedPolicy

JOB = Job(Cell("set", Mode.SEQUENTIAL, "m"), a_question())
WIRE = trajectory_to_wire(a_trajectory(answer("Ann")))


def asker(handler):
    client = AnswersClient("http://gateway", transport=httpx2.MockTransport(handler))
    return GatewayAsker(client, wait_initial_s=0.001)


def problem(status, **fields):
    return httpx2.Response(status, json={"detail": "It is so.", **fields})


def test_the_gateway_is_asked_with_the_runs_limits_and_past_its_cache():
    bodies = []

    def handler(request):
        bodies.append(json.loads(request.content))
        return httpx2.Response(200, content=WIRE.model_dump_json())

    got = asyncio.run(asker(handler).ask(JOB, Limits(top_k=5, seed=7)))

    assert got.answer == "Ann"
    assert bodies[0]["mode"] == "sequential"
    assert (bodies[0]["top_k"], bodies[0]["seed"], bodies[0]["model"], bodies[0]["cache"]) == (5, 7, "m", "bypass")


def test_load_is_waited_for():
    answers = iter([problem(503), problem(429), httpx2.Response(200, content=WIRE.model_dump_json())])

    assert asyncio.run(asker(lambda _: next(answers)).ask(JOB, Limits())).answer == "Ann"


def test_a_rollout_that_failed_is_its_trajectory():
    failed = trajectory_to_wire(a_trajectory(search("x"), stop=StopReason.DEADLINE)).model_dump(mode="json")
    got = asyncio.run(asker(lambda _: problem(504, trajectory=failed)).ask(JOB, Limits()))

    assert got.stop_reason is StopReason.DEADLINE


def test_a_refusal_is_raised_at_once_and_lasting_load_in_the_end():
    calls = []

    def handler(status):
        return lambda request: (calls.append(request), problem(status))[1]

    with pytest.raises(GatewayProblem):
        asyncio.run(asker(handler(422)).ask(JOB, Limits()))
    assert len(calls) == 1
    with pytest.raises(GatewayProblem):
        asyncio.run(asker(handler(503)).ask(JOB, Limits()))
    assert len(calls) == 1 + ATTEMPTS


def test_nobody_there_is_an_error_of_ours():
    def handler(request):
        raise httpx2.ConnectError("refused")

    with pytest.raises((GatewayUnreachable, UpstreamUnavailable)):
        asyncio.run(asker(handler).ask(JOB, Limits()))


def test_straight_against_policy_and_retriever_a_rollout_is_run_here():
    policy = ScriptedPolicy([search("a", "b"), answer("Ann")])
    retriever = InMemoryRetriever({"a": [Passage("1", "Ann", "born"), Passage("2", "Ann2", "")]})
    direct = DirectAsker(policy, retriever, RolloutSettings(), PolicyIdentity("scripted"))
    got = asyncio.run(direct.ask(JOB, Limits(top_k=1)))

    assert got.mode is Mode.SEQUENTIAL
    assert retriever.batches == [("a",)]
    assert got.turns[0].action.dropped == 1
    assert [p.id for p in got.turns[0].observation[0].passages] == ["1"]
    assert got.answer == "Ann"


@pytest.mark.parametrize(("layout", "times", "said"), [(None, 2, "labelled"), (Layout.COMPACT, 1, "compact")])
def test_straight_a_run_may_be_in_another_layout_than_the_policy_s_own(layout, times, said):
    policy, passage = gateway_fakes.fake_policy([search("a", "b"), answer("Ann")]), ("1", "Ann", "Ann was born.")
    retriever = gateway_fakes.fake_retriever({"a": [passage], "b": [passage]})

    async def ask(policy_url, retriever_url):
        addresses = Addresses("http://none", f"{policy_url}/v1", retriever_url, direct=True)
        async with connect(addresses, model=None, cache="bypass", corpus="", timeout_s=10, layout=layout) as there:
            await there.asker.ask(Job(Cell("set", Mode.PARALLEL), a_question()), Limits())
            return there.stack.layout

    with live(policy) as policy_there, live(retriever) as retriever_there:
        assert asyncio.run(ask(policy_there.url, retriever_there.url)) == said
    assert policy.state.contexts[1].count("Ann was born.") == times
    assert policy.state.contexts[1].count("shown above") == 2 - times


@pytest.mark.parametrize("token", ["<gh_stars>", "[UNK]", "EOT", "<|im_end|>"])
def test_straight_no_special_token_of_the_policy_is_in_what_it_reads(token):
    description = PolicyDescription(PolicyIdentity("scripted"), special_tokens=("<gh_stars>", "[UNK]", "EOT"))
    policy = ScriptedPolicy([search("a", f"b {token}"), answer("Ann")])
    poison = Passage("1", f"Ann {token}", f"born {token} then")
    direct = DirectAsker(policy, InMemoryRetriever({"a": [poison]}), rollout_settings(description), description.identity)
    asyncio.run(direct.ask(Job(Cell("set", Mode.PARALLEL), a_question(question=f"Who {token}?")), Limits()))
    assert token not in policy.contexts[0]
    assert token not in policy.contexts[1].replace(search("a", f"b {token}"), "")


@pytest.mark.parametrize(
    ("limits", "model", "field"),
    [
        (Limits(seed=2**31), "", "seed"),
        (Limits(temperature=float("nan")), "", "temperature"),
        (Limits(deadline_s=float("inf")), "", "deadline_s"),
        (Limits(top_k=21), "", "top_k"),
        (Limits(), "m" * 300, "model"),
    ],
)
def test_a_limit_that_the_gateway_does_not_take_is_named(limits, model, field):
    job = Job(Cell("set", Mode.PARALLEL, model), a_question())
    with pytest.raises(InvalidInput, match=rf"^{field}: .*\(question q1\)"):
        asyncio.run(asker(lambda _: pytest.fail("was asked")).ask(job, limits))
