"""Keeps a copy of the served weights and of those that are to be, so that a rollback finds its files whatever others delete.

A copy is a hard link where the file system allows it. The folder belongs to one server and is emptied when it starts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from parallelsearch.errors import UpstreamUnavailable
from policy.candidates import Candidate, FullWeights
from policy.engines.lifetime import end_with_parent

MERGE_TIMEOUT_S = 1_800.0
LAST_WORDS = 300


@dataclass(frozen=True, slots=True)
class Staging:
    folder: Path

    def empty(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)

    def take(self, candidate: Candidate, version: int) -> Path:
        """A folder with the full weights of `candidate`; an adapter is merged in a process of its own. Takes seconds to minutes.

        Raises:
            UpstreamUnavailable: the merge failed, or the files cannot be kept.
        """
        try:
            return self._take(candidate, version)
        except OSError as error:
            raise UpstreamUnavailable(
                f"The weights cannot be copied to {self.folder}: {error.strerror or error}. The old weights serve on."
            ) from error

    def _take(self, candidate: Candidate, version: int) -> Path:
        target = self.folder / str(version)
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        if isinstance(candidate, FullWeights):
            for file in (candidate.directory / "config.json", *candidate.files):
                _link(file.resolve(), target / file.name)
            index = candidate.directory / "model.safetensors.index.json"
            if index.is_file():
                _link(index.resolve(), target / index.name)
        else:
            _merge(candidate.base, candidate.directory, target)
        return target

    def keep_only(self, *kept: Path) -> None:
        for path in self.folder.iterdir():
            if path not in kept:
                shutil.rmtree(path, ignore_errors=True)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _merge(base: Path, adapter: Path, target: Path) -> None:
    # Behind the engine in the queue for the processor: the old weights go on serving meanwhile.
    command = ["nice", "-n", "10", sys.executable, "-m", "policy", "merge", str(base), str(adapter), str(target)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=MERGE_TIMEOUT_S, check=False, preexec_fn=end_with_parent
        )
    except subprocess.TimeoutExpired:
        raise UpstreamUnavailable(
            f"Merging the adapter took more than {MERGE_TIMEOUT_S:.0f} s. The old weights serve on."
        ) from None
    if done.returncode:
        raise UpstreamUnavailable(f"Merging the adapter failed: {done.stderr.strip()[-LAST_WORDS:]} The old weights serve on.")
