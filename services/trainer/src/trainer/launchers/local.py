"""Runs on this machine: one process group per run, which outlives the trainer service and is found again after a restart.

A run's processes carry its id in their environment, so that cancelling reaches those that left the group too (Ray's daemons).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path

import psutil

from parallelsearch.schemas.training import RunState
from parallelsearch.supervisor.groups import MARK
from trainer.launchers.interface import Job, LauncherUnavailable, LaunchRefused, RunFiles, Status, read_log

RUN_ID = "PARALLELSEARCH_RUN_ID"
VISIBLE = "CUDA_VISIBLE_DEVICES"
_NAMES_GPU = re.compile(r"\d+|(?:GPU|MIG)-\S+")
# Each run starts a Ray of its own: apart from the others', under a short path (sockets), not with a third of the memory, and
# without a worker for every core before one is needed.
RAY = {
    "RAY_TMPDIR": "/tmp/ray-{run_id}",
    "RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES": "8000000000",
    "RAY_prestart_worker_first_driver": "0",
}
NOT_FOR_RUNS = {"ADMIN_TOKEN", MARK}
"""What the service knows and code of a run's own must not, and what marks that which ends with the service."""
EXIT_CODE = "exit_code"
ENDED = "0"
"""The handle of a run that was over before its start was recorded; else it is the process id of the run's shell."""
NO_SPACE = 1_000_000
LOOK_EVERY_S = 0.05
SHOWS_WITHIN_S = 5.0
# The shell stays until the command is over and leaves its exit code behind, whether or not the service is there to see it, in the
# room that was taken for it beforehand: a full disk has no other.
WRAPPER = 'set +e; echo "    " > "$0.new"; "$@"; code=$?; echo $code 1<> "$0.new" && mv "$0.new" "$0"; exit $code'


def visible_gpus(devices: Path = Path("/dev")) -> tuple[str, ...]:
    """The NVIDIA GPUs that the driver shows here, or those that CUDA_VISIBLE_DEVICES leaves of them.

    CUDA reads the latter up to what names no GPU: -1, say, hides all.
    """
    there = sorted(int(name) for path in devices.glob("nvidia[0-9]*") if (name := path.name.removeprefix("nvidia")).isdigit())
    given = os.environ.get(VISIBLE)
    if given is None or not there:
        return tuple(map(str, there))
    return tuple(takewhile(_NAMES_GPU.fullmatch, (part.strip() for part in given.split(","))))


class LocalLauncher:
    """`gpus` names the machine's GPUs; each run gets those with the fewest runs, never more than `runs_per_gpu` on one.

    `grace_s` is how long a cancelled run may take to end by itself.
    """

    def __init__(self, *, gpus: Callable[[], Sequence[str]] = visible_gpus, grace_s: float = 10.0, runs_per_gpu: int = 1) -> None:
        self._gpus = gpus
        self._grace_s = grace_s
        self._runs_per_gpu = runs_per_gpu

    def check(self, job: Job) -> None:
        resources, there = job.resources, len(self._gpus())
        if resources.nodes > 1:
            raise LaunchRefused("resources.nodes: the local launcher has one machine; use ray or kubernetes for several.")
        if there == 0:
            raise LaunchRefused(
                "This machine has no NVIDIA GPU, so a training run cannot start here: use the ray or kubernetes launcher, "
                "or ask for a dry run to see the command."
            )
        if resources.gpus_per_node > there:
            raise LaunchRefused(f"resources.gpus_per_node: {resources.gpus_per_node} GPUs are asked for, this machine has {there}.")
        _require_executable(job)

    def start(self, job: Job) -> str:
        job.folder.mkdir(parents=True, exist_ok=True)
        _require_executable(job)
        if (job.folder / EXIT_CODE).exists():
            return ENDED
        running = _shell_of(job.run_id)
        return str(running.pid) if running else self._spawn(job, self._free_gpus(job.resources.gpus_per_node))

    def _free_gpus(self, wanted: int) -> str:
        taken = {(env[RUN_ID], gpu) for _, env in _processes_with(RUN_ID) for gpu in env.get(VISIBLE, "").split(",")}
        runs = Counter(gpu for _, gpu in taken)
        free = [gpu for gpu in self._gpus() if runs[gpu] < self._runs_per_gpu]
        if len(free) < wanted:
            raise LauncherUnavailable(f"{wanted} GPUs are needed, {len(free)} are free.")
        return ",".join(sorted(free, key=runs.__getitem__)[:wanted])

    def _spawn(self, job: Job, gpus: str) -> str:
        command = ["/bin/sh", "-c", WRAPPER, str(job.folder.resolve() / EXIT_CODE), *job.command]
        inherited = {name: value for name, value in os.environ.items() if name not in NOT_FOR_RUNS}
        environment = {**inherited, **job.environment, RUN_ID: job.run_id, VISIBLE: gpus}
        environment |= {name: value.format(run_id=job.run_id) for name, value in RAY.items()}
        with job.log.open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=job.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        handle, until = str(process.pid), time.monotonic() + SHOWS_WITHIN_S
        # A process has begun a moment before its environment can be read.
        while _leader(handle, job.run_id) is None and process.poll() is None and time.monotonic() < until:
            time.sleep(0.001)
        return handle

    def status(self, handle: str, run: RunFiles) -> Status:
        """Of a run that is over, what it left behind is ended, or it would keep its GPUs."""
        if _leader(handle, run.run_id) is not None:
            return Status(RunState.RUNNING)
        self._end(handle, run)
        try:
            code = int((run.folder / EXIT_CODE).read_text())
        except (OSError, ValueError):
            return Status(RunState.FAILED, f"The run's processes are gone without an exit code: {_why_gone(run.folder)}.")
        if code == 0:
            _forget_ray(run)
            return Status(RunState.SUCCEEDED)
        return Status(RunState.FAILED, f"The run ended with exit code {code}{_and_why(run.folder)}.")

    def cancel(self, handle: str, run: RunFiles) -> None:
        self._end(handle, run)
        _forget_ray(run)

    def _end(self, handle: str, run: RunFiles) -> None:
        """Asks, then kills; looks again for what was started in between."""
        found: dict[int, psutil.Process] = {}
        for signal_ in (signal.SIGTERM, signal.SIGKILL, signal.SIGKILL):
            leader = _leader(handle, run.run_id)
            found |= {process.pid: process for process in _processes_of(run.run_id)}
            if leader is not None:
                found |= {process.pid: process for process in [leader, *leader.children(recursive=True)]}
            alive = [process for process in found.values() if _lives(process)]
            for process in alive:
                _send(process, signal_)
            until = time.monotonic() + self._grace_s
            while any(map(_lives, alive)) and time.monotonic() < until:
                time.sleep(LOOK_EVERY_S)

    def logs(self, handle: str, run: RunFiles, offset: int) -> bytes:
        return read_log(run, offset)


def _require_executable(job: Job) -> None:
    executable = job.command[0]
    if shutil.which(executable) is None:
        raise LaunchRefused(f"{executable} is not there: make OpenRLHF's environment first (see docs/training.md).")


def _forget_ray(run: RunFiles) -> None:
    """Its files outside of the run's folder; those of a failed run stay, to be read."""
    shutil.rmtree(RAY["RAY_TMPDIR"].format(run_id=run.run_id), ignore_errors=True)


def _why_gone(folder: Path) -> str:
    """A folder that is gone takes no exit code, and a full disk may take none."""
    if not folder.is_dir():
        return f"their folder {folder} is gone too"
    return _full(folder) or "they were killed"


def _and_why(folder: Path) -> str:
    return f", and {full}" if (full := _full(folder)) else ""


def _full(folder: Path) -> str:
    return f"the disk of {folder} is full" if shutil.disk_usage(folder).free < NO_SPACE else ""


def _leader(handle: str, run_id: str) -> psutil.Process | None:
    """The run's shell if it lives. A process that merely took over its number has not the run's id; when it was started would not
    tell them apart, since that is said anew whenever the machine's clock is set."""
    try:
        process = psutil.Process(int(handle.partition(":")[0]))
        same = process.environ().get(RUN_ID) == run_id
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except (psutil.NoSuchProcess, psutil.AccessDenied, ValueError):
        return None


def _shell_of(run_id: str) -> psutil.Process | None:
    """The run's shell, else what it left behind. Numbers of processes start again at the bottom: its own may not be the lowest."""
    found = list(_processes_of(run_id))
    return next(filter(_is_shell, found), next(iter(found), None))


def _is_shell(process: psutil.Process) -> bool:
    try:
        # A child is the same until it has become another program, but for its session.
        return WRAPPER in process.cmdline() and os.getsid(process.pid) == process.pid
    except (psutil.NoSuchProcess, ProcessLookupError):
        return False


def _lives(process: psutil.Process) -> bool:
    """One that has ended and waits to be asked for is over: in a container, whose first process the trainer is, nobody asks."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _processes_of(run_id: str) -> Iterator[psutil.Process]:
    return (process for process, environment in _processes_with(RUN_ID) if environment[RUN_ID] == run_id)


def _processes_with(variable: str) -> Iterator[tuple[psutil.Process, dict[str, str]]]:
    """Living processes whose environment can be read and has the variable, each with its environment."""
    for process in psutil.process_iter():
        try:
            environment = process.environ()
            if process.status() != psutil.STATUS_ZOMBIE and variable in environment:
                yield process, environment
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue


def _send(process: psutil.Process, signal_: signal.Signals) -> None:
    try:
        process.send_signal(signal_)
    except psutil.NoSuchProcess:
        return
