"""The policy service's settings, from the environment."""

from __future__ import annotations

import os
import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from parallelsearch.protocol.observations import Layout
from servicekit.settings import ServiceSettings

BUNDLED = "bundled"


def at_home(path: Path) -> Path:
    """The path with `~` spelt out."""
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ValueError(f"{path}: there is no such user") from error


def _checkpoint(text: str) -> str:
    if text.startswith("~"):
        at_home(Path(text))
    return text


HomePath = Annotated[Path, AfterValidator(at_home)]


def _split(value: object) -> object:
    return tuple(Path(part) for part in value.split(os.pathsep) if part) if isinstance(value, str) else value


def _command_line(text: str) -> str:
    try:
        shlex.split(text)
    except ValueError as error:
        raise ValueError(f"is no command line: {error}") from None
    return text


Roots = Annotated[tuple[Path, ...], NoDecode, BeforeValidator(_split)]


class EngineChoice(StrEnum):
    """Which build of vLLM must serve; `auto` takes the one that is installed."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


class CacheSettings(BaseSettings):
    """Where prepared models lie; the whole platform shares the folder."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", env_ignore_empty=True, populate_by_name=True)

    cache_dir: HomePath = Field(default=Path("~/.cache/parallelsearch"), validation_alias="PARALLELSEARCH_CACHE_DIR")

    @property
    def models_dir(self) -> Path:
        return self.cache_dir.expanduser().absolute() / "models"


class PolicySettings(ServiceSettings):
    """Prefix `POLICY_`. What is None is taken from the bundled policy, or left to vLLM."""

    model_config = SettingsConfigDict(env_prefix="POLICY_")

    port: int = Field(default=8002, ge=1, le=65535)
    checkpoint: Annotated[str, AfterValidator(_checkpoint)] = Field(default=BUNDLED, min_length=1)
    """`bundled`, a directory with config.json and safetensors, or a model's name on a hub."""
    served_name: str | None = None
    layout: Layout | None = None
    turn_tokens: int | None = Field(default=None, ge=1)
    max_model_len: int | None = Field(default=None, ge=64)
    engine: EngineChoice = EngineChoice.AUTO
    kv_cache_gb: float | None = Field(default=None, gt=0)
    enforce_eager: bool | None = None
    trust_remote_code: bool = False
    vllm_arguments: Annotated[str, AfterValidator(_command_line)] = ""
    """Further arguments of vLLM's server, such as `--tensor-parallel-size 2`."""
    checkpoint_roots: Roots = (Path(".state/trainer/runs"),)
    """Folders with `:` between; weights sent to a running policy must lie below one of them."""
    drain_s: float = Field(default=120.0, gt=0)
    """How long a change of weights waits for running generations."""
    max_queued: int = Field(default=512, ge=1)
    """Requests in flight, waiting ones included; more are told to come back."""
    max_body_bytes: int = Field(default=16_000_000, ge=1_000)
