"""Makes `.venv` at the root of the project and installs one of the pinned lists into it. Standard library only.

usage: python3 requirements/install.py light|engine-cpu|dev

pip's own settings are honoured (see pip_settings.py). A list that is installed already costs a hash of its file.
Every step says what it does, and no step is silent for long. An interrupted run is resumed by the next one.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pip_settings

ROOT = Path(__file__).resolve().parent.parent
LISTS = ROOT / "requirements"
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
PYTORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
SUPPORTED = {(3, 11), (3, 12)}
DISK_NEEDED_GB = {"light": 1, "engine-cpu": 6, "dev": 6}
HELD_BY = {"light": ("dev", "engine-cpu", "light"), "engine-cpu": ("dev", "engine-cpu"), "dev": ("dev",)}
"""A longer list holds the shorter ones."""


def say(text: str) -> None:
    print(f"[setup] {text}", file=sys.stderr, flush=True)


def stop(text: str) -> None:
    raise SystemExit(f"[setup] {text}")


def run(title: str, command: list[str], env: dict[str, str] | None = None) -> None:
    """Runs a command, with a sign of life every five seconds; its own output is passed on."""
    say(title)
    started, done = time.monotonic(), threading.Event()

    def beat() -> None:
        while not done.wait(5):
            say(f"{title} … {time.monotonic() - started:.0f} s")

    threading.Thread(target=beat, daemon=True).start()
    try:
        code = subprocess.call(command, cwd=ROOT, env=env or dict(os.environ), stdout=sys.stderr)
    finally:
        done.set()
    if code:
        stop(f"{title}: failed with exit code {code}; its own words stand above. Run the same command again to resume.")


@contextmanager
def alone() -> Iterator[None]:
    """One setup at a time in this tree: a second one waits, then finds everything done."""
    folder = os.open(LISTS, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another setup is at work in this folder; waiting for it")
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def check_host(name: str) -> None:
    if sys.version_info[:2] not in SUPPORTED:
        version = ".".join(map(str, sys.version_info[:3]))
        stop(f"Python 3.11 or 3.12 is needed, this is {version}. Say which to use with: make PYTHON=python3.11 …")
    free_gb = shutil.disk_usage(ROOT).free / 1e9
    if free_gb < DISK_NEEDED_GB[name]:
        stop(f"{DISK_NEEDED_GB[name]} GB of free disk are needed below {ROOT}, {free_gb:.1f} GB are there.")


def venv_version(venv: Path) -> tuple[int, int] | None:
    """The Python version of an environment that is whole (interpreter and pip are there), else None."""
    if not (venv / "bin" / "python").exists():
        return None
    for record in venv.glob("lib/python3.*/site-packages/pip-*.dist-info/RECORD"):
        major, _, minor = record.parts[-4].removeprefix("python").partition(".")
        return int(major), int(minor)
    return None


def make_venv() -> tuple[int, int]:
    """Makes the environment unless a usable one is there, and gives its Python version."""
    found = venv_version(VENV)
    if found in SUPPORTED:
        return found
    if VENV.exists():
        say("the .venv that is there is incomplete or of another Python; making it anew")
    run("making .venv", [sys.executable, "-m", "venv", "--clear", str(VENV)])
    return sys.version_info[:2]


def fetch_uv() -> Path:
    uv = VENV / "bin" / "uv"
    if not uv.exists():
        # Settings that send packages elsewhere make no sense inside an environment, and pip refuses them there.
        elsewhere = {"PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON"}
        env = {name: value for name, value in os.environ.items() if name not in elsewhere} | {"PIP_USER": "0"}
        pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run("fetching the installer (uv)", [*pip, "--require-hashes", "-r", str(LISTS / "bootstrap.txt")], env)
    return uv


def torch_source(pip: list[str], env: dict[str, str]) -> list[str]:
    """Nothing where pip's own sources have the CPU build of torch, else PyTorch's CPU index on top of them."""
    dry = subprocess.run(
        [*pip, "--dry-run", "-r", str(LISTS / "torch-cpu.txt")], cwd=ROOT, env=env, capture_output=True, check=False
    )
    return [] if dry.returncode == 0 or env.get("UV_NO_INDEX") else ["--extra-index-url", PYTORCH_CPU_INDEX]


def digest(*paths: Path, root: str = "") -> str:
    return hashlib.sha256(root.encode() + b"".join(path.read_bytes() for path in sorted(paths))).hexdigest()


def list_state(name: str) -> str:
    return digest(LISTS / f"{name}.txt", LISTS / "torch-cpu.txt")


def is_installed(stamp: Path, state: str) -> bool:
    return stamp.exists() and stamp.read_text() == state


def uv_install(uv: Path, python: Path) -> list[str]:
    """The beginning of a command that installs for that Python, whichever one the files of uv's settings name."""
    return [str(uv), "pip", "install", "--python", str(python), "--no-deps", "--quiet"]


def install_list(name: str, uv: Path, env: dict[str, str]) -> None:
    pip = [*uv_install(uv, PYTHON), "--compile-bytecode"]
    if name != "light":
        torch = torch_source(pip, env)
        run("installing torch for CPU", [*pip, *torch, "-r", str(LISTS / "torch-cpu.txt")], env)
    pins = (LISTS / f"{name}.txt").read_text().count("==")
    run(f"installing {pins} pinned packages ({name}.txt)", [*pip, "--require-hashes", "-r", str(LISTS / f"{name}.txt")], env)
    (VENV / f".{name}.sha256").write_text(list_state(name))


def spell_in_ascii(venv: Path) -> None:
    """Writes where the project lies as seen from the environment: Python 3.11 reads these files in the locale's encoding."""
    for link in venv.glob("lib/python3.*/site-packages/parallelsearch*.pth"):
        if not (place := link.read_bytes()).isascii():
            link.write_bytes(os.path.relpath(place, os.fsencode(link.parent)))


def install(name: str) -> None:
    projects = sorted(path for path in ROOT.glob("*/*/pyproject.toml") if path.parts[-3] in {"packages", "services"})
    # The place counts too: an environment that was moved or copied points at the old one.
    packages_state = digest(*projects, LISTS / "bootstrap.txt", root=str(ROOT))
    whole = venv_version(VENV) in SUPPORTED
    spell_in_ascii(VENV)
    list_there = whole and any(is_installed(VENV / f".{held}.sha256", list_state(held)) for held in HELD_BY[name])
    packages_there = whole and is_installed(VENV / ".packages.sha256", packages_state)
    if list_there and packages_there:
        return
    if not list_there:
        check_host(name)
    make_venv()
    uv = fetch_uv()
    env = pip_settings.uv_environment(pip_settings.read(PYTHON), dict(os.environ), VENV)
    if not list_there:
        install_list(name, uv, env)
    editable = [part for path in projects for part in ("--editable", str(path.parent))]
    run("installing the project itself", [*uv_install(uv, PYTHON), *editable], env)
    spell_in_ascii(VENV)
    (VENV / ".packages.sha256").write_text(packages_state)
    say("done")


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in DISK_NEEDED_GB:
        stop("usage: python3 requirements/install.py light|engine-cpu|dev")
    try:
        with alone():
            install(sys.argv[1])
    except KeyboardInterrupt:
        stop("interrupted. Run the same command again to resume.")
