"""OpenRLHF's environments, which are apart from the platform's because its pins differ: `python -m trainer.environments`.

usage: python -m trainer.environments install VERSION [FOLDER]    an environment with OpenRLHF, vLLM and DeepSpeed (for CUDA)
       python -m trainer.environments sources VERSION [FOLDER]    OpenRLHF's own Python files only: its parsers and its agent

FOLDER is `.envs` unless given. Either is done once; a second call finds it and says where it is.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Literal, get_args

Version = Literal["0.11.2", "0.10.4"]
FOLDER = Path(".envs")
OURS = ("httpx2", "stamina", "orjson", "fastokens")
"""What a run's processes import of the platform's libraries that OpenRLHF does not; in the versions that the service has."""


def sources(version: str, folder: Path = FOLDER) -> Path:
    """The folder that holds the package `openrlhf` of this version, fetched with pip if it is not there."""
    target = folder / f"openrlhf-{version}-sources"
    if not target.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as work:
            download = ["download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", work, f"openrlhf=={version}"]
            subprocess.run([sys.executable, "-m", "pip", *download], check=True, timeout=300)
            wheel = next(Path(work).glob("openrlhf-*.whl"))
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(Path(work) / "x")
            shutil.move(_root(Path(work) / "x"), target)
    return target


def _root(unpacked: Path) -> Path:
    """The wheel keeps its packages under `.data/purelib`."""
    return next(unpacked.glob("*.data/purelib"), unpacked)


def install(version: str, folder: Path = FOLDER) -> Path:
    """The Python of an environment with OpenRLHF of this version and the vLLM that it names."""
    python = folder / f"openrlhf-{version}" / "bin" / "python"
    done = python.parent.parent / ".installed"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", str(python.parent.parent)], check=True, timeout=300)
        pip = [str(python), "-m", "pip", "install"]
        subprocess.run([*pip, "torch", "wheel", "packaging", "ninja", "setuptools"], check=True, timeout=3_600)
        subprocess.run([*pip, "--no-build-isolation", f"openrlhf[vllm]=={version}"], check=True, timeout=7_200)
        subprocess.run([*pip, *(f"{name}=={metadata.version(name)}" for name in OURS)], check=True, timeout=600)
        done.touch()
    return python


def main(arguments: list[str]) -> None:
    if len(arguments) not in {2, 3} or arguments[0] not in {"install", "sources"} or arguments[1] not in get_args(Version):
        raise SystemExit(__doc__)
    make = install if arguments[0] == "install" else sources
    sys.stdout.write(f"{make(arguments[1], Path(arguments[2]) if len(arguments) == 3 else FOLDER)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
