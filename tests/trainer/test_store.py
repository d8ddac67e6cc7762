"""What is said of runs whose record or folder is taken away while the service runs."""

import shutil
import sqlite3
from contextlib import closing

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
