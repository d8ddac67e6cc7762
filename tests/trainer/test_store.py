"""What is said of runs whose record or folder is taken away while the service runs."""

import shutil
import sqlite3
from contextlib import closing

import pytest
from training_platform import until

from trainer.store import RECORD, Store

RUNS = "/v1/training-runs"


def test_a_record_that_cannot_be_read_any_more_is_said_and_read_again_when_it_can(start_trainer, platform):
    platform.does("exit 0")
    trainer = start_trainer()
    run_id = trainer.submit(platform.spec()).json()["id"]
    trainer.wait(run_id, "succeeded")
    record = platform.folder / "runs" / "runs.sqlite"
    with closing(sqlite3.connect(record)) as connection:
        connection.execute("ALTER TABLE training_runs RENAME TO elsewhere")
        answers = [
            trainer.get(RUNS),
            trainer.get(f"{RUNS}/{run_id}"),
            trainer.get(f"{RUNS}/{run_id}/logs"),
            trainer.delete(f"{RUNS}/{run_id}"),
            trainer.submit(platform.spec()),
        ]
        connection.execute("ALTER TABLE elsewhere RENAME TO training_runs")

    assert {answer.status_code for answer in answers} == {503}
    assert all("See to TRAINER_RUNS_DIR" in answer.json()["detail"] for answer in answers)
    assert trainer.run(run_id)["state"] == "succeeded"


def test_a_run_whose_folder_was_removed_is_failed_and_says_so(start_trainer, platform):
    platform.does("sleep 0.5")
    trainer = start_trainer()
    run_id = trainer.submit(platform.spec()).json()["id"]
    trainer.wait(run_id, "running")
    shutil.rmtree(platform.folder / "runs" / run_id)

    assert "folder" in trainer.wait(run_id, "failed")["detail"]
    assert trainer.get(f"{RUNS}/{run_id}/logs").text == ""


def move_the_record(runs):
    (runs / RECORD).rename(runs / "moved")
    yield "unable to open database file"
    (runs / "moved").rename(runs / RECORD)


def move_the_folder(runs):
    runs.rename(runs.with_name("moved"))
    yield "unable to open database file"
    runs.with_name("moved").rename(runs)


def rename_the_table(runs):
    with closing(sqlite3.connect(runs / RECORD)) as connection:
        connection.execute("ALTER TABLE training_runs RENAME TO elsewhere")
        yield "no such table"
        connection.execute("ALTER TABLE elsewhere RENAME TO training_runs")


def hold_the_lock(runs):
    with closing(sqlite3.connect(runs / RECORD, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield "database is locked"
        connection.execute("ROLLBACK")


@pytest.mark.parametrize("takes_away", [move_the_record, move_the_folder, rename_the_table, hold_the_lock])
def test_a_trainer_is_not_ready_while_its_record_cannot_be_used_and_loses_nothing_of_it(start_trainer, platform, takes_away):
    trainer = start_trainer()
    before = trainer.submit(platform.spec(name="before")).json()["id"]
    trainer.wait(before, "succeeded")
    assert trainer.get("/readyz").json() == {"status": "ready", "checks": {"record": "ok"}}

    fault = takes_away(platform.folder / "runs")
    reason = next(fault)
    until(lambda: trainer.get("/readyz").status_code == 503)
    answer = trainer.get("/readyz").json()
    assert answer["status"] == "failed"
    assert reason in answer["checks"]["record"] and "TRAINER_RUNS_DIR" in answer["checks"]["record"]
    assert trainer.get("/healthz").status_code == 200
    assert trainer.submit(platform.spec()).status_code == 503

    assert not list(fault)
    until(lambda: trainer.get("/readyz").status_code == 200)
    after = trainer.submit(platform.spec(name="after")).json()["id"]
    assert trainer.wait(after, "succeeded")
    assert [run["id"] for run in trainer.get(RUNS).json()["runs"]] == [after, before]


@pytest.mark.parametrize("takes_away", [move_the_record, rename_the_table])
def test_a_log_is_followed_on_while_the_record_cannot_be_read(start_trainer, platform, takes_away):
    platform.does(f"echo one; {waits_for(platform.folder / 'go')}; echo two; {waits_for(platform.folder / 'end')}")
    trainer = start_trainer()
    run_id = trainer.submit(platform.spec()).json()["id"]
    trainer.wait(run_id, "running")
    with trainer.stream("GET", f"{RUNS}/{run_id}/logs", params={"follow": True}) as answer:
        lines = answer.iter_lines()
        found = [next(lines)]
        fault = takes_away(platform.folder / "runs")
        next(fault)
        until(lambda: trainer.get(RUNS).status_code == 503)
        (platform.folder / "go").touch()
        found.append(next(lines))
        assert not list(fault)
        (platform.folder / "end").touch()
        found += lines

    assert found == ["one", "two"]
    assert trainer.wait(run_id, "succeeded")


def waits_for(path):
    return f"while [ ! -e {path} ]; do sleep 0.05; done"


def test_readiness_is_asked_of_the_record_once_a_second_however_often_it_is_asked_for(start_trainer, platform):
    trainer = start_trainer()
    trainer.get("/readyz")
    wal = platform.folder / "runs" / f"{RECORD}-wal"
    size = wal.stat().st_size
    for _ in range(50):
        trainer.get("/readyz")

    assert wal.stat().st_size <= size + 3 * 4_120


def test_a_record_without_an_index_of_now_gets_it(tmp_path):
    Store(tmp_path / RECORD).close()
    with closing(sqlite3.connect(tmp_path / RECORD)) as connection:
        connection.execute("DROP INDEX ix_training_runs_by_state")
    Store(tmp_path / RECORD).close()
    with closing(sqlite3.connect(tmp_path / RECORD)) as connection:
        assert "ix_training_runs_by_state" in {row[1] for row in connection.execute("PRAGMA index_list(training_runs)")}
