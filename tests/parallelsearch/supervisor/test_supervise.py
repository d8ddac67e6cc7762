"""The platform of tiny stand-in services: starting, failing, dying, stopping, and leaving nothing behind."""

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import psutil
import pytest
from service_stand_ins import eventually, service, task

from parallelsearch.supervisor import groups, launch, snapshot
from parallelsearch.supervisor.places import StateFolder
from parallelsearch.supervisor.snapshot import Phase, StepPhase
from parallelsearch.supervisor.steps import Plan


@pytest.fixture
def state(tmp_path):
    state = StateFolder(tmp_path / "state")
    yield state
    launch.stop(state, lambda _: None)


def start(state, *steps, report=lambda _: None):
    return launch.start(Plan(steps), state, os.environ, report)


def by_name(found):
    return {step.name: step for step in found.steps}


def children_of(step):
    return [process.pid for process in groups.family(step.group)]


def alive(pids):
    return [pid for pid in pids if groups.identify(pid)]


def test_a_plan_becomes_ready_in_order_and_stops_without_a_trace(state):
    made = state.root / "made"
    index = task("index", f"import pathlib, time; time.sleep(0.5); pathlib.Path({str(made)!r}).touch()")
    found = start(state, service("policy", "late=1"), index, service("retriever", after=("index",)))
    steps = by_name(found)
    assert found.phase is Phase.READY
    assert [step.phase for step in found.steps] == [StepPhase.READY, StepPhase.DONE, StepPhase.READY]
    assert made.exists()
    assert steps["retriever"].group.created_at >= steps["index"].group.created_at
    pids = [step.group.pid for step in (steps["policy"], steps["retriever"])]
    assert len(alive(pids)) == 2
    result = launch.stop(state, lambda _: None)
    assert (result.stopped, result.survivors) == (("policy", "retriever"), ())
    assert alive([*pids, found.supervisor.pid]) == []
    assert launch.running(state) is None
    assert "stand-in speaks" in state.log("policy").read_text()


def test_what_is_waited_for_says_what_it_reports(state):
    details = set()
    start(state, service("policy", "late=1.5"), report=lambda seen: details.add(by_name(seen)["policy"].detail))
    assert "starting: model loading" in details


def test_a_service_that_dies_at_its_start_is_named_and_all_is_rolled_back(state):
    pids = set()

    def note(seen):
        pids.update(step.group.pid for step in seen.steps if step.group)

    with pytest.raises(launch.StartFailed, match=r"trainer died at .* with exit code 7, see .*trainer\.log"):
        start(state, service("policy", "parent"), service("trainer", "dies"), report=note)
    assert pids
    assert alive(pids) == []
    assert snapshot.read(state.snapshot).phase is Phase.FAILED
    assert "stand-in cannot go on" in state.log("trainer").read_text()


def test_a_task_that_fails_fails_the_start(state):
    with pytest.raises(launch.StartFailed, match=r"index died at .* with exit code 3"):
        start(state, task("index", "raise SystemExit(3)"), service("retriever", after=("index",)))


def test_a_service_that_is_never_ready_is_given_up(state):
    with pytest.raises(launch.StartFailed, match=r"policy was not ready after 1 s \(starting: model loading\)"):
        start(state, service("policy", "late=600", timeout_s=1.0))


def test_a_command_that_cannot_be_run_fails_the_start(state):
    step = service("policy")
    with pytest.raises(launch.StartFailed, match="policy cannot be started"):
        start(state, type(step)("policy", ("/nowhere/policy",), probe=step.probe))


def test_an_optional_service_may_die_at_its_start(state):
    found = start(state, service("valkey", "dies", required=False), service("gateway"))
    assert found.phase is Phase.READY
    assert [step.name for step in found.dead] == ["valkey"]


def test_one_that_ignores_the_signal_is_killed_with_its_children_after_the_grace(state):
    found = start(state, service("policy", "deaf", "parent", grace_s=1.0))
    pids = children_of(found.steps[0])
    assert len(pids) == 3, "itself, a child, and a child with a session of its own"
    began = time.monotonic()
    assert launch.stop(state, lambda _: None).survivors == ()
    assert time.monotonic() - began < 8
    assert alive(pids) == []


def test_a_death_is_written_down_and_revived_on_the_next_start(state):
    found = start(state, service("retriever"), service("gateway"))
    victim = by_name(found)["retriever"]
    os.kill(victim.group.pid, signal.SIGKILL)
    assert eventually(lambda: launch.running(state).dead)
    current = launch.running(state)
    assert "died at" in current.dead[0].death
    assert "signal 9" in current.dead[0].death
    assert current.phase is Phase.READY
    again = launch.revive(state, current, lambda _: None)
    assert (again.phase, again.dead) == (Phase.READY, ())
    assert by_name(again)["retriever"].group != victim.group
    assert by_name(again)["gateway"].group == by_name(found)["gateway"].group
    assert state.log("retriever").with_name("retriever.log.1").exists()


def test_a_dead_leaders_children_are_ended_too_and_nobody_elses(state):
    found = start(state, service("policy", "parent"), service("other", "parent"))
    (policy, other) = (by_name(found)[name] for name in ("policy", "other"))
    pids, others = children_of(policy), children_of(other)
    assert len(pids) == 3, "itself, a child, and a child with a session of its own"
    os.kill(policy.group.pid, signal.SIGKILL)
    assert eventually(lambda: not alive(pids))
    assert alive(others) == others


def test_when_the_supervising_process_is_killed_the_next_start_sweeps_up(state):
    found = start(state, service("retriever"))
    os.kill(found.supervisor.pid, signal.SIGKILL)
    assert eventually(lambda: launch.running(state) is None)
    orphan = found.steps[0].group
    assert groups.is_alive(orphan)
    again = start(state, service("retriever"))
    assert again.phase is Phase.READY
    assert not groups.is_alive(orphan)


def test_stopping_ends_the_orphans_of_a_killed_supervising_process(state):
    found = start(state, service("retriever", "parent"))
    os.kill(found.supervisor.pid, signal.SIGKILL)
    assert eventually(lambda: not groups.is_alive(found.supervisor))
    assert launch.stop(state, lambda _: None).stopped == ("retriever",)
    assert not groups.members(found.steps[0].group)


def test_a_pid_that_was_used_again_is_not_taken_for_ours(state):
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    try:
        state.make()
        stale = groups.Identity(stranger.pid, psutil.Process(stranger.pid).create_time() - 3600)
        step = snapshot.StepState("policy", StepPhase.READY, group=stale)
        snapshot.write(state.snapshot, snapshot.Snapshot(stale, Phase.READY, (step,), 0.0))
        assert launch.running(state) is None
        assert launch.stop(state, lambda _: None).stopped == ()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_two_platforms_cannot_share_a_state_folder(state):
    start(state, service("retriever"))
    with pytest.raises(launch.StartFailed):
        launch.start(Plan((service("other"),)), state, os.environ, lambda _: None)
    assert "runs out of" in state.log("supervisor").read_text()
    assert launch.running(state).phase is Phase.READY


def test_a_platform_whose_state_folder_is_deleted_ends(state):
    found = start(state, service("retriever"))
    shutil.rmtree(state.root)
    assert eventually(lambda: not alive([found.supervisor.pid, found.steps[0].group.pid]))


def test_stopping_what_does_not_run_is_no_error(state):
    assert launch.stop(state, lambda _: None) == launch.StopResult(())


def test_a_snapshot_that_cannot_be_written_does_not_end_the_platform_and_is_written_when_it_can_be(state):
    found = start(state, service("retriever"), service("gateway"))
    in_the_way = state.snapshot.with_suffix(".tmp")
    in_the_way.mkdir()
    victim = by_name(found)["retriever"]
    os.kill(victim.group.pid, signal.SIGKILL)
    time.sleep(1)
    assert groups.is_alive(found.supervisor)
    assert groups.is_alive(by_name(found)["gateway"].group)
    in_the_way.rmdir()
    assert eventually(lambda: [step.name for step in launch.running(state).dead] == ["retriever"])


def test_what_cannot_write_its_snapshot_stops_all_the_same(state):
    found = start(state, service("retriever", "parent"), service("gateway"))
    pids = [pid for step in found.steps for pid in children_of(step)]
    state.snapshot.with_suffix(".tmp").mkdir()
    os.kill(found.supervisor.pid, signal.SIGTERM)
    assert eventually(lambda: not alive([found.supervisor.pid, *pids]))


def set_clock(state, seconds):
    """What a snapshot looks like once the wall clock was set, by which the system tells when processes began."""
    found = snapshot.read(state.snapshot)

    def shifted(identity):
        return replace(identity, created_at=identity.created_at + seconds) if identity else None

    steps = tuple(replace(step, group=shifted(step.group)) for step in found.steps)
    snapshot.write(state.snapshot, replace(found, supervisor=shifted(found.supervisor), steps=steps))


@pytest.mark.parametrize("seconds", [-10_000, 5])
def test_a_platform_is_known_again_after_the_clock_was_set(state, seconds):
    found = start(state, service("retriever", "parent"), service("gateway"))
    pids = [found.supervisor.pid, *(pid for step in found.steps for pid in children_of(step))]
    set_clock(state, seconds)
    assert launch.running(state).phase is Phase.READY
    assert launch.stop(state, lambda _: None) == launch.StopResult(("retriever", "gateway"))
    assert alive(pids) == []


def test_orphans_are_ended_after_the_clock_was_set(state):
    found = start(state, service("retriever", "parent"))
    leader, pids = found.steps[0].group.pid, [process.pid for process in groups.members(found.steps[0].group)]
    for process in psutil.Process(leader).children():
        if os.getsid(process.pid) != leader:
            process.kill()  # it is nobody's once its parent is gone
    for pid in (found.supervisor.pid, leader):
        os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: not alive([found.supervisor.pid, leader]))
    set_clock(state, 10_000)
    launch.stop(state, lambda _: None)
    assert alive(pids) == []


@pytest.mark.parametrize("change", [{"boot": "another"}, {"ticks": 1}])
def test_a_process_of_another_boot_or_start_is_not_taken_for_ours_whatever_the_clock_says(change):
    ours = groups.identify(os.getpid())
    assert groups.is_alive(ours)
    assert not groups.is_alive(replace(ours, **change))
    assert groups.is_alive(replace(ours, boot="", ticks=0)), "as snapshots of earlier releases have it"
