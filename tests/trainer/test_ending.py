"""What a run is said to have come to where it is ended and ends by itself at the same time, or by several at once."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from training_platform import processes_of, until

from parallelsearch.schemas.training import SPEC, LauncherName, RunState
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
