"""Who calls: API keys, of which only hashes are kept, and the admin token, which stands above them."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, TypeAdapter, ValidationError

from parallelsearch.errors import ConfigurationError, Forbidden, Unauthorized
from servicekit.hosts import Hosts

KEY_PREFIX = "ps-"
KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Caller:
    """Who a request is from. Limits that are None are not limited."""

    name: str
    requests_per_minute: int | None = None
    concurrent: int | None = None


ANONYMOUS = Caller("anonymous")
ADMIN = Caller("admin")


def _not_taken(name: str) -> str:
    if name in {ANONYMOUS.name, ADMIN.name}:
        raise ValueError(f"must not be {name}, which is the name of callers without a key")
    return name


class ApiKey(BaseModel):
    """One entry of the keys file. A key is 256 random bits, so a plain hash cannot be turned back; the name is for metrics."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$"), AfterValidator(_not_taken)]
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    requests_per_minute: int | None = Field(default=None, ge=1)
    concurrent: int | None = Field(default=None, ge=1)


_KEYS = TypeAdapter(list[ApiKey])


class Authenticator:
    """Tells callers apart by `Authorization: Bearer …`. Without `keys` everybody is anonymous who asks by a name of `hosts`."""

    def __init__(
        self,
        keys: Sequence[ApiKey] | None,
        admin_token: SecretStr | None,
        *,
        default: Caller = ANONYMOUS,
        hosts: Hosts | None = None,
    ) -> None:
        self._callers = {key.sha256: _caller(key, default) for key in keys or ()}
        self._admin = digest(admin_token.get_secret_value()) if admin_token else None
        self._open = keys is None
        self._hosts = hosts

    def caller(self, headers: Mapping[str, str]) -> Caller:
        """Whom the token of a request's headers belongs to.

        Raises:
            Unauthorized: keys are needed, and this is none.
            Forbidden: none are, and the request came by another name than those of `hosts`.
        """
        authorization, host = headers.get("authorization", ""), headers.get("host", "")
        scheme, _, token = authorization.partition(" ")
        given = digest(token.strip()) if scheme.lower() == "bearer" else ""
        if self._admin is not None and hmac.compare_digest(given, self._admin):
            return ADMIN
        if self._open:
            if self._hosts is not None and not self._hosts.know(host):
                raise Forbidden(f"{self._hosts.refusal(host)} With API keys, any name will do.")
            return ANONYMOUS
        # All are compared, so that the time taken does not tell which one was close.
        matching = [caller for sha256, caller in self._callers.items() if hmac.compare_digest(given, sha256)]
        if not matching:
            raise Unauthorized("Send a valid API key as `Authorization: Bearer …`.")
        return matching[0]


def _caller(key: ApiKey, default: Caller) -> Caller:
    return Caller(key.name, key.requests_per_minute or default.requests_per_minute, key.concurrent or default.concurrent)


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def new_key(name: str) -> tuple[str, ApiKey]:
    """A fresh key, to be handed over once, and the entry that stays."""
    token = KEY_PREFIX + secrets.token_urlsafe(KEY_BYTES)
    return token, ApiKey(name=name, sha256=digest(token))


def load_keys(path: Path) -> list[ApiKey]:
    """The entries of a keys file: a JSON list.

    Raises:
        ConfigurationError: it cannot be read, is not such a list, or a name stands twice.
    """
    try:
        keys = _KEYS.validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"GATEWAY_API_KEYS_FILE: {path} cannot be read: {error.strerror}.") from error
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise ConfigurationError(
            f"GATEWAY_API_KEYS_FILE: {path} is not a list of keys: {where} {error.errors()[0]['msg']}."
        ) from None
    names = [key.name for key in keys]
    if len(set(names)) < len(names):
        raise ConfigurationError(f"GATEWAY_API_KEYS_FILE: a name stands twice in {path}.")
    if len({key.sha256 for key in keys}) < len(keys):
        raise ConfigurationError(f"GATEWAY_API_KEYS_FILE: a key stands twice in {path}, under two names.")
    return keys
