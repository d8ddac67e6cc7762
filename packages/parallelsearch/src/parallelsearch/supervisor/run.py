"""The supervising loop: starts the steps of a plan in order, watches them, and stops them in reverse.

A step starts when all that it comes after is ready or done. While the platform starts, the death of a required step
fails the start, and everything is stopped again. Later a death is written down and the rest goes on, unless the loop
is told to end with it (`attached`, for containers). `revive` starts the dead ones again.
"""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from parallelsearch.supervisor import groups, probes
from parallelsearch.supervisor.groups import Identity
from parallelsearch.supervisor.places import StateFolder
from parallelsearch.supervisor.snapshot import Phase, Snapshot, StepPhase, StepState
from parallelsearch.supervisor.steps import Plan, Step

TICK_S = 0.2
SETTLED = {StepPhase.READY, StepPhase.DONE}
Report = Callable[[Snapshot], None]


class Supervisor:
    """Owns the processes of one plan. `report` is given the snapshot at every tick of the loop."""

    def __init__(self, plan: Plan, state: StateFolder, environ: Mapping[str, str], report: Report, *, attached: bool) -> None:
        self.plan, self.state, self.report, self.attached = plan, state, report, attached
        self.environ = {**environ, **plan.env}
        self.steps = {step.name: step for step in plan.steps}
        self.states = {step.name: self._initial(step) for step in plan.steps}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.marks: dict[str, str] = {}
        self.client = probes.create_client()
        self.identity = groups.identify(os.getpid()) or Identity(os.getpid(), time.time())
        self.phase, self.detail = Phase.STARTING, ""
        self.started_at = self.attempt_at = time.time()
        self.ready_after_s: float | None = None
        self.stop_requested = self.revive_requested = False

    def _initial(self, step: Step) -> StepState:
        log = str(self.state.log(step.name))
        return StepState(step.name, url=step.url, log=log, required=step.required, task=step.probe is None)

    def request_stop(self) -> None:
        self.stop_requested = True

    def request_revival(self) -> None:
        self.revive_requested = True

    def run(self) -> bool:
        """Runs until told to stop; false if a required step made it end."""
        try:
            while not self.stop_requested and self.phase is not Phase.FAILED:
                self._tick()
                self._publish()
                time.sleep(TICK_S)
        finally:
            ended_well = self.phase is not Phase.FAILED
            self._stop_all()
        return ended_well

    def snapshot(self) -> Snapshot:
        return Snapshot(
            supervisor=self.identity,
            phase=self.phase,
            steps=tuple(self.states.values()),
            started_at=self.started_at,
            url=self.plan.url,
            ready_after_s=self.ready_after_s,
            detail=self.detail,
        )

    def _publish(self) -> None:
        self.report(self.snapshot())

    def _publish_stop(self) -> None:
        """Whoever watched may be gone (a terminal, or a pipe, of which rich makes an exit): what runs is ended all the same."""
        with suppress(OSError, SystemExit):
            self._publish()

    def _tick(self) -> None:
        if not self.state.lock.exists():  # the state folder was deleted: nobody could ever stop this platform again
            self.request_stop()
        self._note_deaths()
        if self.revive_requested:
            self._revive()
        if self.phase is Phase.STARTING:
            self._start_due()
            self._probe_starting()
            self._conclude()

    def _set(self, name: str, phase: StepPhase, **changes: object) -> None:
        self.states[name] = replace(self.states[name], phase=phase, since=time.time(), **changes)  # type: ignore[arg-type]

    def _note_deaths(self) -> None:
        for name, process in list(self.processes.items()):
            code = process.poll()
            if code is None:
                continue
            del self.processes[name]
            if code == 0 and self.states[name].task:
                self._set(name, StepPhase.DONE, exit_code=0)
                continue
            self._set(name, StepPhase.DIED, exit_code=code, detail="")
            self._bury(name)
            if self.steps[name].required and (self.attached or self._is_first_start()):
                self._fail(f"{name} {self.states[name].death}")

    def _bury(self, name: str) -> None:
        """Ends what a dead step's leader left behind, in its group and in others."""
        if group := self.states[name].group:
            groups.stop(group, grace_s=2, mark=self.marks.get(name, ""))

    def _is_first_start(self) -> bool:
        return self.phase is Phase.STARTING and self.ready_after_s is None

    def _fail(self, detail: str) -> None:
        self.phase, self.detail = Phase.FAILED, detail

    def _revive(self) -> None:
        self.revive_requested = False
        dead = [name for name, state in self.states.items() if state.phase is StepPhase.DIED]
        for name in dead:
            self.states[name] = self._initial(self.steps[name])
        if dead and self.phase is Phase.READY:
            self.phase, self.attempt_at, self.detail = Phase.STARTING, time.time(), ""

    def _start_due(self) -> None:
        for name, step in self.steps.items():
            waiting = self.states[name].phase is StepPhase.WAITING
            if waiting and all(self.states[other].phase in SETTLED for other in step.after):
                self._start(step)

    def _start(self, step: Step) -> None:
        log = self.state.log(step.name)
        groups.rotate(log)
        self.marks[step.name] = mark = f"{step.name}-{uuid.uuid4().hex}"
        try:
            process = groups.start(step.command, {**self.environ, **step.env, groups.MARK: mark}, log)
        except OSError as error:
            self._set(step.name, StepPhase.DIED, detail=str(error))
            self._fail(f"{step.name} cannot be started: {error}")
            return
        self.processes[step.name] = process
        identity = groups.identify(process.pid) or Identity(process.pid, time.time())
        self._set(step.name, StepPhase.STARTING, group=identity)

    def _probe_starting(self) -> None:
        for name, state in list(self.states.items()):
            step = self.steps[name]
            if state.phase is not StepPhase.STARTING:
                continue
            if time.time() - state.since > step.start_timeout_s:
                self._give_up(step, f"was not ready after {step.start_timeout_s:.0f} s ({state.detail or 'no answer'})")
            elif step.probe is not None:
                answer = probes.ask(step.probe, self.client)
                if answer.ready:
                    self._set(name, StepPhase.READY, detail=answer.detail)
                else:
                    self.states[name] = replace(state, detail=answer.detail)

    def _give_up(self, step: Step, detail: str) -> None:
        if group := self.states[step.name].group:
            groups.stop(group, grace_s=2)
        if process := self.processes.pop(step.name, None):
            process.wait()
        self._set(step.name, StepPhase.DIED, detail=detail)
        if step.required and (self.attached or self._is_first_start()):
            self._fail(f"{step.name} {detail}, see {self.states[step.name].log}")

    def _conclude(self) -> None:
        """The start is over when nothing is left to wait for; a step behind a dead one will never come."""
        if self.phase is not Phase.STARTING:
            return
        phases = {state.phase for state in self.states.values()}
        running = StepPhase.STARTING in phases
        if running or (StepPhase.WAITING in phases and StepPhase.DIED not in phases):
            return
        self.phase = Phase.READY
        self.ready_after_s = time.time() - self.attempt_at

    def _stop_all(self) -> None:
        failed = self.phase is Phase.FAILED
        if not failed:
            self.phase = Phase.STOPPING
        for name in reversed(self.steps):
            state = self.states[name]
            if state.group is None or state.phase in {StepPhase.DIED, StepPhase.DONE}:
                continue
            self._set(name, StepPhase.STOPPING)
            self._publish_stop()
            groups.stop(state.group, self.steps[name].stop_grace_s)
            if process := self.processes.pop(name, None):
                self.states[name] = replace(self.states[name], exit_code=process.wait())
            self._set(name, StepPhase.STOPPED)
        if not failed:
            self.phase = Phase.STOPPED
        self._publish_stop()
