"""Settings that every service has. A service subclasses `ServiceSettings` with its own prefix and fields."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeVar

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

S = TypeVar("S", bound="ServiceSettings")


class ServiceSettings(BaseSettings):
    """Read once at start from the environment; frozen. Everything binds to loopback unless told otherwise."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", env_ignore_empty=True, populate_by_name=True)

    host: str = "127.0.0.1"
    port: int = Field(ge=1, le=65535)
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    log_format: Literal["json", "text"] = "json"
    shutdown_grace_s: float = Field(default=20.0, gt=0)
    otlp_endpoint: str | None = Field(default=None, validation_alias="OTEL_EXPORTER_OTLP_ENDPOINT")
    trace_file: Path | None = Field(default=None, validation_alias="TRACE_FILE")
    admin_token: SecretStr | None = Field(default=None, validation_alias="ADMIN_TOKEN")


def load(settings: type[S]) -> S:
    """The settings from the environment, or an exit with one line for each variable that is wrong."""
    try:
        return settings()  # type: ignore[call-arg]  # the environment gives the rest
    except ValidationError as error:
        prefix = settings.model_config.get("env_prefix", "")
        lines = []
        for fault in error.errors():
            name = ".".join(str(part) for part in fault["loc"])
            said = fault["msg"].removeprefix("Value error, ")
            # A fault between several settings has no place; it names them itself.
            lines.append(f"{name if name.isupper() else (prefix + name).upper()}: {said}" if name else said)
        raise SystemExit("configuration: " + "; ".join(lines)) from None
