"""A checkpoint on disk: what its config.json says, and whether it can be served at all. Reads no tensor."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from parallelsearch.errors import ConfigurationError
from policy.bundle import Bundle


class _Tolerant(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Rope(_Tolerant):
    rope_theta: float | None = None


class ModelConfig(_Tolerant):
    """What is read of a config.json; null is as good as absent."""

    architectures: list[str] | None = None
    max_position_embeddings: int | None = None
    rope_theta: float | None = None
    rope_parameters: _Rope | None = None

    @property
    def theta(self) -> float | None:
        """The base of the rotary positions, in either way to write it."""
        nested = self.rope_parameters.rope_theta if self.rope_parameters else None
        return self.rope_theta if nested is None else nested


class WeightsIndex(_Tolerant):
    """What is read of a model.safetensors.index.json: which file holds a tensor."""

    weight_map: dict[str, str] = {}


class AdapterConfig(_Tolerant):
    """What is read of an adapter_config.json."""

    peft_type: str | None = None
    base_model_name_or_path: str | None = None
    modules_to_save: list[str] | None = None


F = TypeVar("F", bound=_Tolerant)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`context_length` is the model's own limit in tokens, None where the config names none."""

    path: Path
    architecture: str
    context_length: int | None
    weight_bytes: int


def read_checkpoint(directory: Path, name: str) -> Checkpoint:
    """`name` is how the operator called it, for the sentences of refusal.

    Raises:
        ConfigurationError: no directory, no config.json, an adapter alone, or no safetensors.
    """
    if not directory.is_dir():
        raise ConfigurationError(f"{name} is no directory. Name one that holds config.json and safetensors, or leave it out.")
    if not (directory / "config.json").is_file():
        if (directory / "adapter_config.json").is_file():
            raise ConfigurationError(
                f"{name} is an adapter of {adapter_base(directory)!r} alone. Merge it into its base first and name the merged "
                "model (python -m policy merge BASE ADAPTER TARGET), or send it to POST /v1/policy/weights of a policy that serves "
                "its base."
            )
        raise ConfigurationError(f"{name} has no config.json, so it is no model directory. Name the directory that holds it.")
    weights = sorted(directory.glob("*.safetensors"))
    if not weights:
        raise ConfigurationError(f"{name} holds no safetensors. Other weight files are not loaded: convert them first.")
    config = read_fields(ModelConfig, directory / "config.json", name)
    return Checkpoint(
        path=directory,
        architecture=(config.architectures or ["unknown"])[0],
        context_length=config.max_position_embeddings,
        weight_bytes=sum(file.stat().st_size for file in weights),
    )


def adapter_base(directory: Path) -> str:
    """The base that an adapter says it belongs to."""
    return read_fields(AdapterConfig, directory / "adapter_config.json", directory.name).base_model_name_or_path or ""


def require_adapter(directory: Path) -> None:
    """Raises:
    ConfigurationError: one of a LoRA adapter's two files is missing.
    """
    for file in ("adapter_config.json", "adapter_model.safetensors"):
        if not (directory / file).is_file():
            raise ConfigurationError(f"{directory} holds no {file}, so it is no LoRA adapter. Name the folder that holds both.")


def find_base(name: str, bundled: Callable[[], Bundle]) -> Path:
    """What an adapter is merged into: a model directory, a GGUF file, or the base of the bundled policy by its name.

    Raises:
        ConfigurationError: it is none of them, or the bundled base is not the file of this release.
    """
    try:
        path = Path(name).expanduser()
    except RuntimeError:  # the home of nobody
        path = Path(name)
    if (path / "config.json").is_file() or (path.is_file() and path.suffix == ".gguf"):
        return path
    bundle = bundled()
    if name != bundle.base_name:
        raise ConfigurationError(
            f"{name} is neither a directory with config.json nor a GGUF file. Name one, or {bundle.base_name}, the base of the "
            "bundled policy."
        )
    bundle.base.verify()
    return bundle.base.path


def read_json(path: Path, name: str) -> dict[str, Any]:
    """The object in a JSON file of the checkpoint called `name`.

    Raises:
        ConfigurationError: there is none.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise ConfigurationError(f"{path.name} of {name} cannot be read as JSON. Copy the checkpoint again.") from None
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path.name} of {name} is not a JSON object. Copy the checkpoint again.")
    return content


def read_fields(kind: type[F], path: Path, name: str) -> F:
    """What is needed of such a file.

    Raises:
        ConfigurationError: there is none, or a field holds something else than it should.
    """
    try:
        return kind.model_validate(read_json(path, name))
    except ValidationError as error:
        fault = error.errors()[0]
        field = ".".join(map(str, fault["loc"]))
        raise ConfigurationError(f"{path.name} of {name}: {field}: {fault['msg']}. Copy the checkpoint again.") from None
