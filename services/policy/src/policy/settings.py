"""The policy service's settings, from the environment."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from parallelsearch.protocol.observations import Layout
from servicekit.settings import ServiceSettings

BUNDLED = "bundled"


class EngineChoice(StrEnum):
    """Which build of vLLM must serve; `auto` takes the one that is installed."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


class CacheSettings(BaseSettings):
    """Where prepared models lie; the whole platform shares the folder."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", env_ignore_empty=True, populate_by_name=True)

    cache_dir: Path = Field(default=Path("~/.cache/parallelsearch"), validation_alias="PARALLELSEARCH_CACHE_DIR")

    @property
    def models_dir(self) -> Path:
        return self.cache_dir.expanduser().absolute() / "models"


class PolicySettings(ServiceSettings):
    """Prefix `POLICY_`. What is None is taken from the bundled policy, or left to vLLM."""

    model_config = SettingsConfigDict(env_prefix="POLICY_")

    port: int = Field(default=8002, ge=1, le=65535)
    checkpoint: str = Field(default=BUNDLED, min_length=1)
    """`bundled`, a directory with config.json and safetensors, or a model's name on a hub."""
    served_name: str | None = None
    layout: Layout | None = None
    turn_tokens: int | None = Field(default=None, ge=1)
    max_model_len: int | None = Field(default=None, ge=64)
    engine: EngineChoice = EngineChoice.AUTO
    kv_cache_gb: float | None = Field(default=None, gt=0)
    enforce_eager: bool | None = None
    trust_remote_code: bool = False
    vllm_arguments: str = ""
    """Further arguments of vLLM's server, such as `--tensor-parallel-size 2`."""
    max_body_bytes: int = Field(default=16_000_000, ge=1_000)
