"""The trainer's settings, from the environment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, SecretStr
from pydantic_settings import NoDecode, SettingsConfigDict

from servicekit.settings import HttpAddress, ServiceSettings
from trainer.launchers.manifests import KubernetesSettings


def _split(value: object) -> object:
    return tuple(Path(part) for part in value.split(os.pathsep) if part) if isinstance(value, str) else value


Roots = Annotated[tuple[Path, ...], NoDecode, BeforeValidator(_split)]


class TrainerSettings(ServiceSettings):
    """Prefix `TRAINER_`. Roots are folders with `:` between; a path outside of them is refused."""

    model_config = SettingsConfigDict(env_prefix="TRAINER_", env_nested_delimiter="__")

    port: int = Field(default=8003, ge=1, le=65535)
    runs_dir: Path = Path(".state/trainer/runs")
    model_roots: Roots = (Path("models"), Path(".state/trainer/runs"))
    data_roots: Roots = (Path("data"),)
    openrlhf_version: Literal["0.11.2", "0.10.4"] = "0.11.2"
    openrlhf_python: Path = Path(".envs/openrlhf-0.11.2/bin/python")
    retriever_url: HttpAddress = Field(default="http://127.0.0.1:8001", validation_alias="RETRIEVER_URL")
    policy_url: HttpAddress = Field(default="http://127.0.0.1:8002", validation_alias="POLICY_URL")
    wandb_key: SecretStr | None = Field(default=None, validation_alias="WANDB_API_KEY")
    max_running: int = Field(default=1, ge=1, description="Local runs at a time; others wait.")
    runs_per_gpu: int = Field(default=1, ge=1, description="Local runs that may share a GPU; small models leave room.")
    poll_s: float = Field(default=2.0, gt=0)
    cancel_grace_s: float = Field(default=10.0, gt=0)
    ray_address: HttpAddress | None = Field(default=None, description="The head's dashboard, http://head:8265; none: no ray.")
    kubernetes: KubernetesSettings | None = Field(default=None, description="None: no kubernetes launcher.")
    promote_timeout_s: float = Field(default=300.0, gt=0)
