"""Makes `.venv` at the root of the project and installs one of the pinned lists into it. Standard library only.

usage: python3 requirements/install.py light|engine-cpu|dev

pip's own settings (index, extra indexes, find-links, certificates) are read from pip and handed to uv, which reads none.
A list that is installed already costs a hash of its file. Every step says what it does, and no step is silent for long.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlparse

ROOT = Path(__file__).resolve().parent.parent
LISTS = ROOT / "requirements"
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
PYTORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
DISK_NEEDED_GB = {"light": 1, "engine-cpu": 6, "dev": 6}


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


def check_host(name: str) -> None:
    if sys.version_info[:2] not in {(3, 11), (3, 12)}:
        version = ".".join(map(str, sys.version_info[:3]))
        stop(f"Python 3.11 or 3.12 is needed, this is {version}. Say which to use with: make PYTHON=python3.11 …")
    free_gb = shutil.disk_usage(ROOT).free / 1e9
    if not PYTHON.exists() and free_gb < DISK_NEEDED_GB[name]:
        stop(f"{DISK_NEEDED_GB[name]} GB of free disk are needed below {ROOT}, {free_gb:.1f} GB are there.")


def make_venv() -> None:
    if PYTHON.exists():
        return
    run("making .venv", [sys.executable, "-m", "venv", "--clear", str(VENV)])


def pip_settings() -> dict[str, list[str]]:
    """pip's index, extra indexes, find-links and certificate as it sees them itself (files and environment).

    The environment goes over the files, as in pip.
    """
    listing = subprocess.run([str(PYTHON), "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    found: dict[str, list[str]] = {}
    for line in sorted(listing.stdout.splitlines(), key=lambda line: line.startswith(":env:")):
        key, _, value = line.partition("=")
        found[key.rpartition(".")[2]] = value.strip().strip("'\"").replace("\\n", " ").split()
    return found


def is_there(location: str) -> bool:
    """A remote location is believed; a folder must exist, else uv refuses where pip only warns."""
    url = urlparse(location)
    return url.scheme not in {"", "file"} or Path(url.path).exists()


def uv_environment(settings: dict[str, list[str]]) -> dict[str, str]:
    env = dict(os.environ)
    names = {"index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX", "find-links": "UV_FIND_LINKS"}
    for ours, theirs in names.items():
        usable = [location for location in settings.get(ours, []) if is_there(location)]
        if usable and theirs not in env:
            env[theirs] = (" " if theirs == "UV_INDEX" else ",").join(usable)
    if settings.get("cert"):
        env.setdefault("SSL_CERT_FILE", settings["cert"][0])
    env.update(VIRTUAL_ENV=str(VENV), UV_INDEX_STRATEGY="unsafe-best-match", UV_LINK_MODE=env.get("UV_LINK_MODE", "hardlink"))
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return env


def torch_source(settings: dict[str, list[str]]) -> list[str]:
    """The CPU build of torch: out of pip's find-links where it lies there for this Python, else PyTorch's CPU index."""
    tag = f"cp3{sys.version_info[1]}"
    for location in settings.get("find-links", []):
        folder = Path(urlparse(location).path)
        if folder.is_dir() and any(folder.glob(f"torch-*+cpu-{tag}-*.whl")):
            return []
    return ["--extra-index-url", PYTORCH_CPU_INDEX]


def digest(*paths: Path) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(paths))).hexdigest()


def list_state(name: str) -> str:
    return digest(LISTS / f"{name}.txt", LISTS / "torch-cpu.txt")


def is_installed(stamp: Path, state: str) -> bool:
    return stamp.exists() and stamp.read_text() == state


def install(name: str) -> None:
    check_host(name)
    projects = sorted(path for path in ROOT.glob("*/*/pyproject.toml") if path.parts[-3] in {"packages", "services"})
    packages_state = digest(*projects, LISTS / "bootstrap.txt")
    # A longer list holds the shorter ones.
    held_by = {"light": ["dev", "engine-cpu", "light"], "engine-cpu": ["dev", "engine-cpu"], "dev": ["dev"]}[name]
    lists_there = any(
        is_installed(VENV / f".{held}.sha256", digest(LISTS / f"{held}.txt", LISTS / "torch-cpu.txt")) for held in held_by
    )
    packages_there = is_installed(VENV / ".packages.sha256", packages_state)
    if PYTHON.exists() and lists_there and packages_there:
        return
    make_venv()
    uv = VENV / "bin" / "uv"
    if not uv.exists():
        pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run("fetching the installer (uv)", [*pip, "--require-hashes", "-r", str(LISTS / "bootstrap.txt")])
    settings = pip_settings()
    env = uv_environment(settings)
    if not lists_there:
        pip = [str(uv), "pip", "install", "--no-deps", "--quiet", "--compile-bytecode"]
        pins = (LISTS / f"{name}.txt").read_text().count("==")
        if name != "light":
            torch = [*pip, *torch_source(settings), "-r", str(LISTS / "torch-cpu.txt")]
            run("installing torch for CPU", torch, env)
        command = [*pip, "--require-hashes", "-r", str(LISTS / f"{name}.txt")]
        run(f"installing {pins} pinned packages ({name}.txt)", command, env)
        (VENV / f".{name}.sha256").write_text(list_state(name))
    editable = [part for path in projects for part in ("--editable", str(path.parent))]
    run("installing the project itself", [str(uv), "pip", "install", "--quiet", "--no-deps", *editable], env)
    (VENV / ".packages.sha256").write_text(packages_state)
    say("done")


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in DISK_NEEDED_GB:
        stop("usage: python3 requirements/install.py light|engine-cpu|dev")
    install(sys.argv[1])
