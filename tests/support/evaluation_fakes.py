"""Trajectories and askers for the tests of evaluation: deterministic in the question, timings included."""

import asyncio

from parallelsearch.evaluation.plan import Limits
from parallelsearch.evaluation.questions import Question
from parallelsearch.evaluation.reading import read_questions
from parallelsearch.evaluation.selection import Selection, select
from parallelsearch.evaluation.session import Plan
from parallelsearch.evaluation.wire import StackModel
from parallelsearch.protocol.actions import parse_turn
from parallelsearch.rollout.types import (
    Answer,
    Kind,
    Mode,
    Passage,
    PolicyIdentity,
    Search,
    StopReason,
    SubQueryResult,
    Timings,
    Trajectory,
    Turn,
    Usage,
)
from parallelsearch.schemas.trajectories import trajectory_to_wire


def a_question(identifier="q1", **fields):
    return Question(
        **{
            "set_name": "set",
            "id": identifier,
            "question": "Who is older, Ann or Bob?",
            "golden_answers": ("Ann",),
            "type": "comparison",
            "kind": Kind.PARALLEL,
            "needs_decomposition": True,
            **fields,
        }
    )


def a_trajectory(*texts, found=(), identifier="t", mode=Mode.PARALLEL, stop=StopReason.ANSWERED, total_ms=100.0, tokens=10):
    """The trajectory of what a policy wrote turn by turn; every sub-query finds the passages titled `found`."""
    turns, limit = [], 1 if mode is Mode.SEQUENTIAL else 8
    for index, text in enumerate(texts):
        parsed = parse_turn(text, max_sub_queries=limit)
        results = ()
        if isinstance(parsed.action, Search):
            passages = tuple(Passage(title, title, f"{title} is a passage.") for title in found)
            results = tuple(SubQueryResult(query, passages) for query in parsed.action.queries)
        turns.append(Turn(index, text, parsed.reasoning, parsed.action, results))
    last = turns[-1].action if turns else None
    searched = [turn for turn in turns if turn.observation]
    return Trajectory(
        id=identifier,
        question="Who is older, Ann or Bob?",
        mode=mode,
        answer=last.text if isinstance(last, Answer) else None,
        stop_reason=stop,
        turns=tuple(turns),
        usage=Usage(len(turns), len(searched), sum(len(turn.observation) for turn in searched), 0, tokens * len(turns), tokens),
        timings=Timings(total_ms, total_ms * 0.8, total_ms * 0.1, total_ms * 0.1),
        policy=PolicyIdentity("fake", "1"),
        index_fingerprint="f00d",
    )


def search(*queries):
    return f"<think> I look. </think>\n\n<search> {' ## '.join(queries)} </search>"


def answer(text):
    return f"<think> I know. </think>\n\n<answer> {text} </answer>"


class FakeAsker:
    """Parallel: both at once, right on even questions. Sequential: one by one, right on every third. `fails` may raise."""

    def __init__(self, *, fails=None, latency_s=0.0):
        self.asked = []
        self.in_flight = self.most_in_flight = 0
        self._fails, self._latency_s = fails, latency_s

    async def ask(self, job, limits):
        self.asked.append((str(job.cell), job.question.id))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(self._latency_s)
            if self._fails and (stop := self._fails(job)):
                return trajectory_to_wire(a_trajectory(stop=stop))
            return trajectory_to_wire(self.rollout(job))
        finally:
            self.in_flight -= 1

    def rollout(self, job):
        number = int(job.question.id.removeprefix("q"))
        if job.cell.mode is Mode.SEQUENTIAL:
            texts = (search("age of A"), search("age of B"), answer("Ann" if number % 3 == 0 else "Bob"))
        else:
            texts = (search("age of A", "age of B"), answer("Ann" if number % 2 == 0 else "Bob"))
        return a_trajectory(*texts, found=("Ann", "Bob"), mode=job.cell.mode, total_ms=100.0 * len(texts) + number)


def a_plan(path, *, modes=(Mode.PARALLEL, Mode.SEQUENTIAL), concurrency=4, **fields):
    selected = select(read_questions(path), Selection())
    fixed = {"stack": StackModel(through="fake"), "started_at": "2026-01-01T00:00:00Z", "commit": "c0ffee", "limits": Limits()}
    return Plan(selected=(selected,), modes=modes, models=(), concurrency=concurrency, **(fixed | fields))


def rows(count):
    fields = {
        "question": "Who is older, Ann or Bob?",
        "golden_answers": ["Ann"],
        "type": "comparison",
        "supporting_titles": ["Ann", "Bob"],
    }
    return [{**fields, "id": f"q{number}"} for number in range(count)]
