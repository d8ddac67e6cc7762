"""Settings that every service has. A service subclasses `ServiceSettings` with its own prefix and fields."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from servicekit.hosts import Hosts, is_loopback

S = TypeVar("S", bound=BaseSettings)


def address(text: str, schemes: tuple[str, ...] = ("http", "https")) -> str:
    """The text, if it says how to reach a host, or a socket by its path.

    Raises:
        ValueError: it does not; its words do not repeat the text, which may hold a password.
    """
    try:
        split = urlsplit(text)
        reachable = split.scheme in schemes and (bool(split.path) if split.scheme == "unix" else bool(split.hostname))
        reachable = reachable and split.port != 0
    except ValueError:  # the port
        reachable = False
    if not reachable:
        raise ValueError(f"is no address of the form {schemes[0]}://host:port")
    return text


def _sendable(token: SecretStr) -> SecretStr:
    """The token, if a header can hold it; what the words say does not repeat it."""
    text = token.get_secret_value()
    if not (text.isascii() and text.isprintable() and text == text.strip()):
        raise ValueError("only printable ASCII characters without blanks around them can be sent")
    return token


Token = Annotated[SecretStr, AfterValidator(_sendable)]
HttpAddress = Annotated[str, AfterValidator(address)]


class ServiceSettings(BaseSettings):
    """Read once at start from the environment; frozen. Everything binds to loopback unless told otherwise."""

    model_config = SettingsConfigDict(
        frozen=True, extra="ignore", env_ignore_empty=True, populate_by_name=True, allow_inf_nan=False
    )

    host: str = "127.0.0.1"
    port: int = Field(ge=1, le=65535)
    allowed_hosts: list[str] = []
    """Names, beside those of loopback, by which a service on loopback may be asked; `*` for any."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    log_format: Literal["json", "text"] = "json"
    shutdown_grace_s: float = Field(default=20.0, gt=0)
    otlp_endpoint: HttpAddress | None = Field(default=None, validation_alias="OTEL_EXPORTER_OTLP_ENDPOINT")
    trace_file: Path | None = Field(default=None, validation_alias="TRACE_FILE")
    admin_token: Token | None = Field(default=None, validation_alias="ADMIN_TOKEN")

    @property
    def hosts(self) -> Hosts | None:
        """The names by which this service may be asked; None, for any, where it is reachable from other machines."""
        setting = str(self.model_config.get("env_prefix", "")) + "ALLOWED_HOSTS"
        return Hosts(frozenset(map(str.lower, self.allowed_hosts)), setting) if is_loopback(self.host) else None


def load(settings: type[S]) -> S:
    """The settings from the environment, or an exit with one line for each variable that is wrong."""
    prefix = settings.model_config.get("env_prefix", "")
    try:
        return settings()  # the environment gives what is left out
    except ValidationError as error:
        lines = []
        for fault in error.errors():
            name = "".join(f".{part}" if isinstance(part, int) else f"__{part}" for part in fault["loc"]).removeprefix("__")
            said = fault["msg"].removeprefix("Value error, ")
            # A fault between several settings has no place; it names them itself.
            lines.append(f"{name if name.isupper() else (prefix + name).upper()}: {said}" if name else said)
        raise SystemExit("configuration: " + "; ".join(lines)) from None
    except SettingsError as error:
        name = str(error).split('"')[1]
        raise SystemExit(f'configuration: {(prefix + name).upper()}: is a list in JSON, such as ["a", "b"]') from None
