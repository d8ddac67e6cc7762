"""Prepares the bundled policy: merged once into the cache folder, whole or not at all, whoever asks and however often."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from parallelsearch.errors import ConfigurationError
from policy import manifest
from policy.bundle import Bundle
from policy.progress import Say, phase, say

DISK_NEEDED_BYTES = 600_000_000
Merge = Callable[[Path, Path, Path], None]


def prepared_dir(bundle: Bundle, models_dir: Path) -> Path:
    return models_dir / f"{bundle.name}-{bundle.fingerprint}"


def is_prepared(bundle: Bundle, models_dir: Path) -> bool:
    return manifest.fault(prepared_dir(bundle, models_dir), bundle.fingerprint) is None


def prepare(bundle: Bundle, models_dir: Path, *, merge: Merge, say: Say = say) -> Path:
    """The folder of the merged model, made if it is not there whole.

    Several callers may ask at once: one merges, the others wait and find it done. A merge that was killed leaves nothing that
    is served; the next call clears it away.

    Raises:
        ConfigurationError: base or adapter are not what this release pins, or the disk is full.
    """
    target = prepared_dir(bundle, models_dir)
    models_dir.mkdir(parents=True, exist_ok=True)
    with locked(models_dir / f".{target.name}.lock", say):
        trouble = manifest.fault(target, bundle.fingerprint)
        if trouble is None:
            say(f"the policy {bundle.name} lies ready in {target}")
            return target
        if target.exists():
            say(f"{target}: {trouble}; it is made anew")
            shutil.rmtree(target)
        for leftover in models_dir.glob(f"{target.name}.partial-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        free = shutil.disk_usage(models_dir).free
        if free < DISK_NEEDED_BYTES:
            raise ConfigurationError(
                f"{models_dir} has {free / 1e6:.0f} MB left, the policy needs {DISK_NEEDED_BYTES / 1e6:.0f} MB. "
                "Make room, or name another folder with PARALLELSEARCH_CACHE_DIR."
            )
        with phase("checking base and adapter", say):
            bundle.verify()
        return _build(bundle, target, merge, say)


def _build(bundle: Bundle, target: Path, merge: Merge, say: Say) -> Path:
    partial = Path(tempfile.mkdtemp(prefix=f"{target.name}.partial-", dir=target.parent))
    try:
        with phase(f"merging the adapter into {bundle.base_name} (once)", say):
            merge(bundle.base.path, bundle.adapter_dir, partial)
        manifest.write(partial, manifest.describe(partial, bundle.fingerprint))
        partial.chmod(0o755)
        partial.rename(target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    say(f"the policy {bundle.name} lies ready in {target}")
    return target


@contextmanager
def locked(path: Path, say: Say) -> Iterator[None]:
    """Holds an advisory lock on `path`, which the system lets go when the process dies."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with phase("waiting for another preparation of the same policy", say):
                fcntl.flock(file, fcntl.LOCK_EX)
        yield
