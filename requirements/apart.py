"""Makes an environment of its own under `.envs` for a list that shares none with the platform. Standard library only.

usage: python3 requirements/apart.py ray

It says where the environment's Python is. A list that is installed already costs a hash of its file.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import install
import pip_settings

LISTS_APART = ("ray",)


def install_apart(name: str) -> Path:
    """The Python of `.envs/NAME`, which holds the list and nothing else; needs `.venv` for its uv."""
    folder = install.ROOT / ".envs" / name
    python, stamp, listed = folder / "bin" / "python", folder / ".list.sha256", install.LISTS / f"{name}.txt"
    # The place counts too: an environment that was moved or copied points at the old one.
    state = install.digest(listed, root=str(install.ROOT))
    if not (install.is_installed(stamp, state) and python.exists()):
        install.make_venv()
        pip = install.uv_install(install.fetch_uv(), python)
        env = pip_settings.uv_environment(pip_settings.read(install.PYTHON), dict(os.environ), folder)
        install.run(f"making .envs/{name}", [str(install.PYTHON), "-m", "venv", "--clear", "--without-pip", str(folder)])
        pins = listed.read_text().count("==")
        title = f"installing {pins} pinned packages ({listed.name})"
        install.run(title, [*pip, "--require-hashes", "-r", str(listed)], env)
        stamp.write_text(state)
    return python


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in LISTS_APART:
        install.stop(f"usage: python3 requirements/apart.py {'|'.join(LISTS_APART)}")
    try:
        with install.alone():
            print(install_apart(sys.argv[1]))
    except KeyboardInterrupt:
        install.stop("interrupted. Run the same command again to resume.")
