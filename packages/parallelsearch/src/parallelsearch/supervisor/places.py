"""Where the platform keeps its state on this machine: logs, process records, the demo index, the admin token."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from parallelsearch.errors import ConfigurationError

MAX_SOCKET_PATH_BYTES = 107
"""What the kernel takes as the path of a unix socket."""
SOURCE_ROOT = Path(__file__).resolve().parents[5]
"""The project this package runs from, if it is not installed elsewhere."""


@dataclass(frozen=True)
class StateFolder:
    """The folders and files below one root; nothing is made before `make`."""

    root: Path

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def snapshot(self) -> Path:
        return self.run / "platform.json"

    @property
    def plan(self) -> Path:
        return self.run / "plan.json"

    @property
    def lock(self) -> Path:
        return self.run / "lock"

    @property
    def turn(self) -> Path:
        return self.run / "turn"

    @property
    def valkey_socket(self) -> Path:
        return self.run / "valkey.sock"

    @property
    def demo_index(self) -> Path:
        return self.root / "index" / "demo"

    @property
    def training_runs(self) -> Path:
        return self.root / "trainer" / "runs"

    @property
    def admin_token(self) -> Path:
        return self.root / "admin-token"

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def make(self) -> None:
        for folder in (self.root, self.logs, self.demo_index.parent):
            folder.mkdir(parents=True, exist_ok=True)
        # The plan may hold passwords of a Redis, and whoever reaches the socket reads the cache.
        self.run.mkdir(mode=0o700, exist_ok=True)

    def read_admin_token(self) -> str:
        """The token of this installation, made on first use and readable by its owner alone.

        One that was not written to its end (a kill, a full disk) is none.
        """
        with suppress(FileNotFoundError):
            if token := self.admin_token.read_text().strip():
                return token
        draft = self.admin_token.with_suffix(".new")
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(token := secrets.token_urlsafe(32))
        draft.replace(self.admin_token)
        return token


def is_project_root(folder: Path) -> bool:
    return (folder / "packages" / "parallelsearch" / "pyproject.toml").is_file()


def state_folder(environ: Mapping[str, str], here: Path, source: Path = SOURCE_ROOT) -> StateFolder:
    """`PARALLELSEARCH_STATE_DIR`, else `.state` of the project (called at its root, or installed from it), else the user's."""
    if chosen := environ.get("PARALLELSEARCH_STATE_DIR"):
        return StateFolder(_chosen("PARALLELSEARCH_STATE_DIR", chosen, here))
    for root in (here, source):
        if is_project_root(root):
            return StateFolder(root.resolve() / ".state")
    return StateFolder(_home("PARALLELSEARCH_STATE_DIR") / ".local" / "state" / "parallelsearch")


def cache_folder(environ: Mapping[str, str], here: Path) -> Path:
    """Where prepared models lie, shared by all state folders of a user."""
    if chosen := environ.get("PARALLELSEARCH_CACHE_DIR"):
        return _chosen("PARALLELSEARCH_CACHE_DIR", chosen, here)
    return _home("PARALLELSEARCH_CACHE_DIR") / ".cache" / "parallelsearch"


def _home(variable: str) -> Path:
    """Where a folder lies that is not named.

    Raises:
        ConfigurationError: nobody knows of a home of this user.
    """
    try:
        return Path.home()
    except RuntimeError:
        raise ConfigurationError(f"This user has no home folder. Set HOME, or name a folder in {variable}.") from None


def _chosen(variable: str, text: str, here: Path) -> Path:
    """The folder that a variable names.

    Raises:
        ConfigurationError: it is below the home of nobody, or its links lead in a circle.
    """
    try:
        return (here / Path(text).expanduser()).resolve()
    except RuntimeError as error:
        raise ConfigurationError(f"{variable}: {text} is no folder: {str(error).rstrip('.')}.") from None
