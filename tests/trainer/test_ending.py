"""What a run is said to have come to where it is ended and ends by itself at the same time, or by several at once."""

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from training_platform import processes_of, until

from parallelsearch.clients.trainer import EndedRun
from parallelsearch.errors import Gone
from parallelsearch.schemas.training import SPEC, LauncherName, RunState, TrainingRun
from trainer.jobs import JobBuilder
from trainer.launchers.local import LocalLauncher
from trainer.service import TrainingRuns
from trainer.store import RECORD, Store


@pytest.fixture
def runs(platform):
    """Runs that nobody watches."""
    store = Store(platform.folder / "runs" / RECORD)
    launcher = LocalLauncher(gpus=lambda: [platform.gpu(0)], grace_s=1)
    yield TrainingRuns(store, JobBuilder(platform.settings()), {LauncherName.LOCAL: launcher})
    store.close()
    platform.end_runs()


def started(runs, platform, does):
    platform.does(does)
    run = runs.submit(SPEC.validate_python(platform.spec()))
    runs.advance()
    return run.id


@pytest.mark.parametrize(
    ("ends", "state", "words"),
    [
        ("exit 0", RunState.SUCCEEDED, ""),
        ("echo 'ValueError: no row'; exit 3", RunState.FAILED, "The run ended with exit code 3. In its log: ValueError: no row"),
    ],
)
def test_a_run_that_has_ended_is_told_as_it_ended_whoever_wants_to_end_it(runs, platform, ends, state, words):
    run_id = started(runs, platform, ends)
    until(lambda: not processes_of(run_id))
    runs.end(runs.get(run_id), RunState.FAILED, "It was sick.")

    assert runs.cancel(run_id).state is state
    assert runs.get(run_id).detail == words


def test_a_run_that_several_cancel_at_once_is_cancelled(runs, platform):
    run_id = started(runs, platform, "sleep 60")
    with ThreadPoolExecutor(9) as callers:
        watch = callers.submit(lambda: [runs.advance() for _ in range(50)])
        ended = list(callers.map(lambda _: runs.cancel(run_id).state, range(8)))
        watch.result()

    assert ended == [RunState.CANCELLED] * 8
    assert runs.get(run_id).detail == "Cancelled by an administrator."


def becomes_of_another_version(platform, run_id, change):
    """Its specification has a field that is not known here, and is otherwise changed."""
    with closing(sqlite3.connect(platform.folder / "runs" / RECORD)) as database, database:
        (spec,) = database.execute("SELECT spec FROM training_runs WHERE id = ?", (run_id,)).fetchone()
        spec = json.dumps(json.loads(spec) | {"colour": "green"} | change) if change is not None else "{"
        database.execute("UPDATE training_runs SET spec = ? WHERE id = ?", (spec, run_id))


def test_a_run_of_another_version_can_be_cancelled(start_trainer, platform):
    platform.does("sleep 60")
    trainer = start_trainer()
    run_id = trainer.submit(platform.spec()).json()["id"]
    trainer.wait(run_id, "running")
    becomes_of_another_version(platform, run_id, {})
    assert trainer.get(f"/v1/training-runs/{run_id}").status_code == 410

    for _ in range(2):
        answer = trainer.delete(f"/v1/training-runs/{run_id}")
        assert (answer.status_code, answer.json()["spec"]["colour"]) == (200, "green")
        assert EndedRun.model_validate_json(answer.content) == EndedRun(id=run_id, state=RunState.CANCELLED)
        assert answer.json().keys() == TrainingRun.model_fields.keys()
    assert not processes_of(run_id)


def test_a_run_of_another_version_that_waits_or_is_over_is_told_as_it_is(runs, platform):
    over = started(runs, platform, "echo 'ValueError: no row'; exit 3")
    until(lambda: not processes_of(over))
    waits = runs.submit(SPEC.validate_python(platform.spec())).id
    for run_id in (waits, over):
        becomes_of_another_version(platform, run_id, {})
    assert runs.cancel(waits).state is RunState.CANCELLED
    told = runs.cancel(over)
    assert (told.state, told.last_log_lines) == (RunState.FAILED, ("ValueError: no row",))
    becomes_of_another_version(platform, over, None)
    assert json.loads(runs.cancel(over).to_json())["spec"] is None


@pytest.mark.parametrize("change", [{"launcher": "teleport"}, None])
def test_a_run_of_another_version_on_what_is_not_known_here_goes_on(runs, platform, change):
    run_id = started(runs, platform, "sleep 60")
    becomes_of_another_version(platform, run_id, change)
    with pytest.raises(Gone, match="another version"):
        runs.cancel(run_id)
    assert processes_of(run_id)
