"""Where the indexes of this retriever lie: the default one, and those that go by the name of their folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from parallelsearch.errors import ConfigurationError, InvalidInput
from retriever.command_arguments import NAME
from retriever.documents.files import UPLOADS, uploads_of
from retriever.documents.staged import drop_left_over
from retriever.encoders.identity import LoadedEncoder
from retriever.index.manifest import MANIFEST_FILE, read_manifest
from retriever.index.opened import OpenIndex
from retriever.index.progress import say
from retriever.index.verified import Stamps, stamps_of

DEFAULT = "default"
"""What the default index may be called by everywhere, whatever its folder is called."""
_SERVED_LATER = "What is published there is served when it is reloaded, or watched (RETRIEVER_WATCH_S)."


class Opener(Protocol):
    """Opens what is published in a folder; takes the encoders that are loaded already."""

    def __call__(self, folder: Path, *, is_default: bool, loaded: Sequence[LoadedEncoder]) -> OpenIndex: ...


class Published(NamedTuple):
    """What lies in the folder of an index: the version that its manifest names, and the state of its files."""

    fingerprint: str
    files: Stamps | None


@dataclass(frozen=True, slots=True)
class IndexPlaces:
    """`root` is the folder of the named indexes; the default one may be among them."""

    default: Path
    root: Path | None
    opener: Opener
    serves_uploads: bool = False
    """Whether the originals of uploaded documents are given out."""

    @property
    def default_name(self) -> str:
        return self.default.name if self._default_is_named else DEFAULT

    @property
    def _default_is_named(self) -> bool:
        return self.root is not None and self.default.resolve().parent == self.root.resolve()

    def check(self) -> None:
        """Says in a line where nothing is published yet; what is published there later is served when it is reloaded.

        Raises:
            ConfigurationError: the folder of the named indexes is none, cannot be read or is an index.
        """
        if self.root is None:
            return
        named = f"RETRIEVER_INDEXES: {self.root}"
        meant = "Name the folder in which the folders of the indexes are"
        try:
            found = {path.name for path in self.root.iterdir()}
        except FileNotFoundError:
            say(f"{named} is not there yet. {_SERVED_LATER}")
            return
        except OSError as error:
            raise ConfigurationError(f"{named} cannot be read ({error.strerror}). {meant}.") from None
        if MANIFEST_FILE in found:
            raise ConfigurationError(f"{named} is an index itself. {meant}: {self.root.parent}")
        if DEFAULT in found and not self._is_default(self.root / DEFAULT):
            say(f"{named}: {DEFAULT} stands for {self.default}, so the folder {self.root / DEFAULT} is not served. Rename it.")
        if not self.names() and not self._default_is_named:
            say(f"{named} holds no index yet. {_SERVED_LATER}")

    def names(self) -> list[str]:
        """What is published in the folder of the named indexes, without the default one."""
        if self.root is None or not self.root.is_dir():
            return []
        found = sorted(path.parent.name for path in self.root.glob(f"*/{MANIFEST_FILE}"))
        return [name for name in found if NAME.fullmatch(name) and name not in {DEFAULT, self.default_name}]

    def behind(self) -> list[str]:
        """The indexes whose uploads have changed since they were published, or that were never published."""
        return [name for name in self._with_uploads() if _is_behind(self.folder(name))]

    def drop_left_over(self) -> None:
        """Removes what was being uploaded to processes that are gone."""
        for name in self._with_uploads():
            drop_left_over(uploads_of(self.folder(name)))

    def _with_uploads(self) -> list[str]:
        """The default index, and those that have a folder of uploads."""
        folders = [] if self.root is None else sorted(path.parent for path in self.root.glob(f"*/{UPLOADS}"))
        named = [folder.name for folder in folders if NAME.fullmatch(folder.name) and not self._is_default(folder)]
        return [self.default_name, *named]

    def _is_default(self, folder: Path) -> bool:
        return folder.resolve() == self.default.resolve()

    def folder(self, name: str) -> Path:
        """Raises InvalidInput for a name that is none, or where there are no named indexes."""
        if name in {"", DEFAULT, self.default_name}:
            return self.default
        if self.root is None or not NAME.fullmatch(name):
            raise InvalidInput(f"index: {name!r} is no name of an index here.")
        return self.root / name

    def uploads(self, name: str) -> Path | None:
        """Where the originals lie that are given out; None where none are."""
        return uploads_of(self.folder(name)) if self.serves_uploads else None

    def fingerprint(self, name: str) -> str:
        """Of what is published; raises what `read_manifest` raises."""
        return read_manifest(self.folder(name)).fingerprint

    def published(self, name: str) -> Published:
        """Raises what `read_manifest` raises."""
        folder = self.folder(name)
        manifest = read_manifest(folder)
        return Published(manifest.fingerprint, stamps_of(folder / manifest.version, manifest))

    def open(self, name: str, loaded: Sequence[LoadedEncoder]) -> OpenIndex:
        return self.opener(self.folder(name), is_default=not name, loaded=loaded)


def _is_behind(folder: Path) -> bool:
    """A folder changes with every file that comes or goes; a manifest is written after the uploads were looked at."""
    uploads = uploads_of(folder)
    try:
        changed = uploads.stat().st_mtime_ns
        if (folder / MANIFEST_FILE).exists():
            return changed > (folder / MANIFEST_FILE).stat().st_mtime_ns
        return any(path.name[0] != "." for path in uploads.iterdir())
    except OSError:  # there are none, or they are out of reach
        return False
