"""The list of runs: newest first, by state, page by page; and what it and the watch read of a long record."""

import sqlite3
from contextlib import closing

import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from parallelsearch.schemas.training import SPEC, RunState
from trainer.jobs import JobBuilder
from trainer.progress import Progress
from trainer.service import TrainingRuns
from trainer.store import RECORD, Run, Store
from trainer.watch import Doctor

RUNS = "/v1/training-runs"
STATES = (RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED, RunState.SUCCEEDED)


@pytest.fixture
def trainer(start_trainer, platform):
    """Twelve runs are over, three of which were submitted in the same moment; two wait, since no local run may start."""
    spec = SPEC.validate_python(platform.spec(launcher="ray"))
    store = Store(platform.folder / "runs" / RECORD)
    for number in range(14):
        run = store.add(Run(f"run-{number:02d}", RunState.QUEUED, spec, f"2026-11-28T00:00:{max(number, 2):02d}.000+00:00"))
        if number < 12:
            store.move(run, RunState.RUNNING)
            store.move(store.get(run.id), STATES[number % 4])
    store.close()
    return start_trainer()


def listed(trainer, **asked):
    answer = trainer.get(RUNS, params=asked).json()
    return [run["id"] for run in answer["runs"]], answer["next"]


def test_runs_are_listed_the_newest_first_by_state_and_page_by_page(trainer):
    everyone = [f"run-{number:02d}" for number in reversed(range(14))]
    assert listed(trainer) == (everyone, None)
    assert listed(trainer, state="queued") == (["run-13", "run-12"], None)
    assert listed(trainer, state=["failed", "cancelled"])[0] == ["run-10", "run-09", "run-06", "run-05", "run-02", "run-01"]

    for limit in (1, 5, 7, 14):
        pages, cursor = [], {}
        while cursor is not None:
            page, after = listed(trainer, limit=limit, **cursor)
            pages, cursor = [*pages, page], None if after is None else {"cursor": after}
        assert [run_id for page in pages for run_id in page] == everyone
        assert {len(page) for page in pages[:-1]} <= {limit}


def test_a_page_goes_on_where_the_one_before_ended_whatever_is_submitted_or_ends_meanwhile(trainer, platform):
    first, cursor = listed(trainer, state="queued", limit=1)
    trainer.submit(platform.spec())
    trainer.delete(f"{RUNS}/{first[0]}")

    assert listed(trainer, state="queued", cursor=cursor) == (["run-12"], None)


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"state": "done"}, "state"),
        ({"limit": 0}, "limit"),
        ({"limit": 1001}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"cursor": "nobody"}, "cursor"),
        ({"cursor": ""}, "cursor"),
    ],
)
def test_what_a_list_cannot_be_asked_is_refused_by_its_name(trainer, asked, field):
    answer = trainer.get(RUNS, params=asked)
    assert answer.status_code == 422
    assert field in answer.json()["detail"]


def test_the_watch_reads_no_run_that_is_over(trainer, platform):
    """What is read of another version is logged."""
    with closing(sqlite3.connect(platform.folder / "runs" / RECORD)) as database, database:
        database.execute("UPDATE training_runs SET spec = '{}' WHERE state != 'queued'")
    store = Store(platform.folder / "runs" / RECORD)
    runs = TrainingRuns(store, JobBuilder(platform.settings()), {})
    with capture_logs() as logged:
        runs.advance()
        Doctor(runs, Progress(runs.jobs)).visit()
        seen = {entry["event"] for entry in logged}
        store.page(limit=14)
    store.close()

    assert "run_unreadable" not in seen
    assert [entry["event"] for entry in logged].count("run_unreadable") == 12
    assert REGISTRY.get_sample_value("parallelsearch_training_runs", {"state": "failed"}) == 3


def test_a_page_that_points_its_name_here_reads_no_runs(trainer):
    refused = trainer.get(RUNS, headers={"host": "evil.example:8003"})
    assert refused.status_code == 403 and "TRAINER_ALLOWED_HOSTS" in refused.json()["detail"]
