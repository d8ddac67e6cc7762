import asyncio
import re

import pytest
from evaluation_fakes import FakeAsker, a_question
from prometheus_client import CollectorRegistry, generate_latest

from parallelsearch.errors import UpstreamUnavailable
from parallelsearch.evaluation import canary as module
from parallelsearch.evaluation.canary import Canary, CanaryMetrics
from parallelsearch.evaluation.plan import Limits
from parallelsearch.rollout.types import Kind, StopReason

QUESTIONS = [
    *(a_question(f"q{n}", supporting_titles=("Ann",)) for n in range(4)),
    *(a_question(f"q{n}", kind=Kind.SEQUENTIAL, needs_decomposition=False) for n in range(4, 8)),
]


@pytest.fixture
def registry():
    return CollectorRegistry()


def canary(registry, asker, questions=QUESTIONS):
    return Canary(questions, asker, CanaryMetrics(registry), Limits())


def value(registry, name, **labels):
    return registry.get_sample_value(f"parallelsearch_canary_{name}", labels)


def test_a_round_shows_quality_decomposition_and_evidence_by_kind(registry):
    asker = FakeAsker(latency_s=0.001)
    asyncio.run(canary(registry, asker).round())

    assert value(registry, "exact_match", kind="parallel") == 0.5
    assert value(registry, "decomposed", kind="sequential") == 1.0
    assert value(registry, "decomposition_accuracy", kind="parallel") == 1.0
    assert value(registry, "decomposition_accuracy", kind="sequential") == 0.0
    assert value(registry, "wrong_although_evidence", kind="parallel") == 0.5
    assert value(registry, "searches", kind="parallel") == 1.0
    assert value(registry, "questions", kind="parallel") == 4
    assert value(registry, "answers_total", stop_reason="answered") == 8
    assert value(registry, "rounds_total", outcome="done") == 1
    assert value(registry, "seconds", quantile="p95") > 0.2
    assert asker.most_in_flight <= 2


def test_what_is_not_defined_is_not_shown_and_goes_when_it_was(registry):
    stopped = {"now": False}
    asker = FakeAsker(fails=lambda _: StopReason.POLICY_FAILED if stopped["now"] else None)
    bird = canary(registry, asker)
    asyncio.run(bird.round())
    stopped["now"] = True
    asyncio.run(bird.round())

    assert value(registry, "exact_match", kind="hybrid") is None
    assert value(registry, "exact_match", kind="parallel") == 0.0
    assert value(registry, "wrong_although_evidence", kind="parallel") is None
    assert value(registry, "answers_total", stop_reason="policy_failed") == 8


def test_a_platform_that_cannot_be_asked_is_a_failed_round_and_the_canary_lives(registry):
    class Gone(FakeAsker):
        async def ask(self, job, limits):
            raise UpstreamUnavailable("gone")

    said = []
    asyncio.run(canary(registry, Gone()).run(0.0, said.append, rounds=3))

    assert said == ["round failed: gone"] * 3
    assert value(registry, "rounds_total", outcome="failed") == 3


def test_how_often_it_asks_is_shown_so_that_an_old_round_is_told_from_a_rare_one(registry):
    asyncio.run(canary(registry, FakeAsker()).run(7200.0, list, rounds=1))

    assert value(registry, "interval_seconds") == 7200


def test_every_metric_that_is_exported_is_described(registry):
    asyncio.run(canary(registry, FakeAsker()).round())
    exported = set(re.findall(r"^# TYPE (\S+)", generate_latest(registry).decode(), re.MULTILINE))
    named = {f"parallelsearch_canary_{name}" for name in re.findall(r"`parallelsearch_canary_(\w+)", module.__doc__)}

    assert {name for name in exported if not name.endswith("_created")} == named
