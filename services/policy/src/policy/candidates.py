"""Finds the checkpoint that a request names, and verifies it against what is served, before anything touches the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from parallelsearch.errors import ConfigurationError, InvalidInput
from policy.checkpoint import adapter_base
from policy.model_shape import ModelShape, adapter_differences, differences, read_shape, summary, weight_files


@dataclass(frozen=True, slots=True)
class FullWeights:
    directory: Path
    files: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Adapter:
    """A LoRA adapter, and the model directory or GGUF file it is merged into."""

    directory: Path
    base: Path


Candidate = FullWeights | Adapter


@dataclass(frozen=True, slots=True)
class Verifier:
    """`initial` is what the service was started with; `bases` are further names of bases that adapters may carry."""

    roots: tuple[Path, ...]
    initial: Path
    shape: ModelShape
    bases: tuple[tuple[str, Path], ...] = ()

    def find(self, name: str) -> Candidate:
        """The verified candidate; reads headers only, and follows links before judging where a file lies.

        Raises:
            InvalidInput: not below an allowed root, broken, or not of the served model's shape.
        """
        try:
            directory = self._locate(name)
            # An adapter that training has written may lie beside the configuration of its base.
            if (directory / "adapter_config.json").is_file():
                return self._adapter(directory)
            if (directory / "config.json").is_file():
                return self._full(directory)
        except ConfigurationError as error:
            raise InvalidInput(f"checkpoint: {error.detail}") from error
        except (OSError, RuntimeError) as error:  # a name too long, no right to look, an unknown user's home, links in a circle
            raise InvalidInput(f"checkpoint: {name} cannot be looked at: {str(error).rstrip('.')}.") from error
        raise InvalidInput(f"checkpoint: {name} has neither config.json nor adapter_config.json, so it is no checkpoint.")

    def _locate(self, name: str) -> Path:
        for root in [self.initial, *self.roots]:
            directory = (root / Path(name).expanduser()).resolve()
            if directory.is_dir() and self._allows(directory):
                return directory
        allowed = ", ".join(map(str, self.roots)) or "none is set"
        raise InvalidInput(f"checkpoint: {name} is no directory below an allowed root (POLICY_CHECKPOINT_ROOTS: {allowed}).")

    def _allows(self, path: Path) -> bool:
        return any(path.is_relative_to(root.resolve()) for root in [self.initial, *self.roots])

    def _full(self, directory: Path) -> FullWeights:
        files = tuple(weight_files(directory))
        if not files:
            raise InvalidInput(f"checkpoint: {directory.name} holds no safetensors. Other weight files are not loaded.")
        self._check_links([directory / "config.json", *files])
        _refuse(directory, differences(read_shape(directory), self.shape))
        return FullWeights(directory, files)

    def _adapter(self, directory: Path) -> Adapter:
        weights = directory / "adapter_model.safetensors"
        if not weights.is_file():
            raise InvalidInput(f"checkpoint: {directory.name} holds no adapter_model.safetensors. Other files are not loaded.")
        self._check_links([directory / "adapter_config.json", weights])
        base = self._base(adapter_base(directory))
        _refuse(directory, adapter_differences(directory, self.shape))
        return Adapter(directory, base)

    def _base(self, name: str) -> Path:
        for known, path in self.bases:
            if name == known:
                return path
        directory = Path(name).expanduser().resolve() if name else self.initial
        if directory.is_dir() and self._allows(directory):
            _refuse(directory, differences(read_shape(directory), self.shape))
            return directory
        served = ", ".join(known for known, _ in self.bases)
        raise InvalidInput(f"checkpoint: the adapter belongs to another base ({name}); this policy serves {served}.")

    def _check_links(self, files: Sequence[Path]) -> None:
        for file in files:
            if not self._allows(file.resolve()):
                raise InvalidInput(f"checkpoint: {file.name} is a link out of the allowed roots.")


def _refuse(directory: Path, found: Sequence[str]) -> None:
    if found:
        raise InvalidInput(f"checkpoint: {directory.name} does not fit the served model: {summary(found)}.")
