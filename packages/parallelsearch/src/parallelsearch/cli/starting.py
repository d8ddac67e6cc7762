"""What `up` and `down` do and say."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from parallelsearch.cli import here
from parallelsearch.cli.plain import plain
from parallelsearch.supervisor import demo_index, doctor, launch, snapshot
from parallelsearch.supervisor.plan import given_settings, make_plan
from parallelsearch.supervisor.settings import PlatformSettings
from parallelsearch.supervisor.snapshot import Phase, Snapshot, StepPhase
from parallelsearch.supervisor.status import Health, look
from parallelsearch.supervisor.steps import Plan
from parallelsearch.supervisor.watch import Watch, last_lines

SHOWN_LOG_LINES = 15
INTERRUPTED = 130


def up(*, foreground: bool) -> int:
    console, settings = Console(stderr=True), here.settings()
    with ExitStack() as turn:
        turn.enter_context(launch.turn(settings.state))
        return up_in_turn(console, settings, turn.close, foreground=foreground)


def up_in_turn(console: Console, settings: PlatformSettings, begun: Callable[[], None], *, foreground: bool) -> int:
    """`begun` lets the next one go on, which is to find the platform starting."""
    running = launch.running(settings.state)
    if running is not None and foreground:
        console.print(Text(f"The platform runs already at {running.url}; stop it first with: parallelsearch down"))
        return 1
    if running is not None and running.phase in {Phase.STARTING, Phase.READY}:
        begun()
        return resume(console, settings, running)
    if running is not None:
        console.print(Text("The platform is being stopped; waiting for that."))
        launch.stop(settings.state, lambda _: None)
    if swept := launch.sweep(settings.state):
        console.print(Text(f"Ended what a killed run had left: {', '.join(swept)}"))
    if problems := doctor.before_start(settings):
        for problem in problems:
            console.print(Text("✗ ", "red") + plain(problem.sentence), soft_wrap=True)
        return 1
    plan, environ = plan_of(settings), environ_of(settings)
    console.print(Text(f"Starting ParallelSearch (state and logs in {settings.state.root})"), soft_wrap=True)
    if foreground:
        begun()
        return run_attached(console, settings, plan, environ)
    return begin(console, settings, lambda watch: launch.start(plan, settings.state, environ, watch.update, begun=begun))


def plan_of(settings: PlatformSettings) -> Plan:
    settings.state.make()
    build = not settings.index and not demo_index.is_current(settings.state.demo_index, demo_index.corpus())
    plan = make_plan(settings, build_index=build)
    return replace(plan, given=given_settings(environ_of(settings), plan.env))


def environ_of(settings: PlatformSettings) -> dict[str, str]:
    return {**here.environment(), "ADMIN_TOKEN": settings.admin_token or settings.state.read_admin_token()}


def resume(console: Console, settings: PlatformSettings, running: Snapshot) -> int:
    """What there is to do for a platform that is up: nothing, wait with it, or start its dead ones again."""
    if running.phase is Phase.STARTING:
        console.print(Text("The platform is starting already; waiting for it."))
        return begin(console, settings, lambda watch: launch.follow(settings.state, watch.update))
    if running.dead:
        for step in running.dead:
            console.print(plain(f"{step.name} {step.death}"), soft_wrap=True)
        console.print(Text(f"Starting again: {', '.join(step.name for step in running.dead)}"))
        return begin(console, settings, lambda watch: launch.revive(settings.state, running, watch.update))
    if changed := changed_settings(settings):
        names = ", ".join(changed)
        console.print(Text(f"Up at {running.url}, but with other settings ({names})."), soft_wrap=True)
        console.print(Text("For the new ones, stop it first: parallelsearch down"))
        return 1
    status = look(settings.state)
    for service in status.services:
        if service.health is not Health.READY:
            console.print(plain(f"  {service.name:<10} {service.health}: {service.detail}"), soft_wrap=True)
    if doctor.changed_since(running.started_at):
        console.print(Text("Its code has changed since it was started; for the new one, stop it first: parallelsearch down"))
    console.print(Text(f"Already up at {status.url}"))
    return 0 if status.health in {Health.READY, Health.DEGRADED} else 1


def changed_settings(settings: PlatformSettings) -> list[str]:
    """The variables in which the platform that runs differs from what this environment asks for."""
    wanted, there = plan_of(settings), launch.read_plan(settings.state.plan)
    if there is None:
        return []
    asked, had = wanted.given | wanted.env, there.given | there.env
    return sorted(name for name in asked.keys() | had.keys() if asked.get(name) != had.get(name))


@contextmanager
def watching(console: Console) -> Iterator[Watch]:
    watch = Watch(console)
    try:
        yield watch
    finally:
        watch.close()


def begin(console: Console, settings: PlatformSettings, start: Callable[[Watch], Snapshot]) -> int:
    """Follows a start to its end and says how it went. A signal to end interrupts it, and rolls back like Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with watching(console) as watch:
            found = start(watch)
    except launch.StartFailed as error:
        explain(console, settings, error)
        return 1
    except KeyboardInterrupt:
        console.print(Text("Interrupted."))
        return INTERRUPTED
    if found.dead:
        names = ", ".join(step.name for step in found.dead)
        console.print(Text(f"Up at {found.url}, but not running: {names}. See: parallelsearch status", "yellow"), soft_wrap=True)
        return 1 if any(step.required for step in found.dead) else 0
    took = f" after {found.ready_after_s:.0f} s" if found.ready_after_s is not None else ""
    console.print(Text(f"Ready{took}: {found.url}", "green"), soft_wrap=True)
    return 0


def explain(console: Console, settings: PlatformSettings, error: launch.StartFailed) -> None:
    """The reason, and the last words of each that died."""
    found = snapshot.read(settings.state.snapshot)
    for step in found.steps if found else ():
        if step.phase is StepPhase.DIED and step.required:
            console.print(Text(f"The last lines of {step.log}:"), soft_wrap=True)
            for line in last_lines(step.log, SHOWN_LOG_LINES):
                console.print(Text(f"  │ {line}", "dim"), soft_wrap=True)
    console.print(Text("✗ ", "red") + plain(error.detail), soft_wrap=True)
    console.print(
        Text("  What had been started was stopped again. Look at the machine with: parallelsearch doctor"), soft_wrap=True
    )


def run_attached(console: Console, settings: PlatformSettings, plan: Plan, environ: dict[str, str]) -> int:
    """Supervises in this process until a signal, or until a required service dies."""
    last: list[Snapshot] = []

    def report(current: Snapshot) -> None:
        watch.update(current)
        if current.phase is Phase.READY and not (last and last[-1].phase is Phase.READY):
            watch.say(f"Ready after {current.ready_after_s or 0:.0f} s: {current.url}", "green")
        last[:] = [current]

    with watching(console) as watch:
        ended_well = launch.supervise(plan, settings.state, environ, report, attached=True)
    if not ended_well and last:
        explain(console, settings, launch.StartFailed(last[-1].detail or "A service died."))
    return 0 if ended_well else 1


def down() -> int:
    console, settings = Console(stderr=True), here.settings()
    with watching(console) as watch:
        result = launch.stop(settings.state, watch.update)
    if result.survivors:
        console.print(Text(f"✗ These could not be ended: {', '.join(result.survivors)}", "red"))
        return 1
    console.print(Text(f"Stopped: {', '.join(result.stopped)}" if result.stopped else "Nothing was running."))
    return 0
