"""What the platform on this machine is to look like, read once from the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from parallelsearch.errors import ConfigurationError
from parallelsearch.supervisor import places

DEFAULT_PORTS = {"gateway": 8080, "retriever": 8001, "policy": 8002, "trainer": 8003}
ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # where to reach what listens everywhere


@dataclass(frozen=True)
class Endpoint:
    """Where a service listens."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The address under which this machine reaches it."""
        host = ANY_ADDRESS.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


@dataclass(frozen=True)
class PlatformSettings:
    """`redis_url`, `policy_base_url` and `index` are empty where the platform brings its own."""

    state: places.StateFolder
    cache: Path
    endpoints: Mapping[str, Endpoint]
    redis_url: str = ""
    redis_port: int | None = None
    policy_base_url: str = ""
    index: str = ""
    given_indexes: str = ""
    given_runs: str = ""
    model_roots: str = ""
    checkpoint_roots: str = ""
    watch_s: str = ""
    serve_uploads: str = ""
    admin_token: str = ""

    @property
    def indexes(self) -> Path:
        """The folder of the indexes that go by a name."""
        return Path(self.given_indexes) if self.given_indexes else self.state.demo_index.parent

    @property
    def runs(self) -> Path:
        """The folder of the training runs, of which a platform has one of its own."""
        return Path(self.given_runs) if self.given_runs else self.state.training_runs

    @property
    def gateway_url(self) -> str:
        return self.endpoints["gateway"].url


def port(environ: Mapping[str, str], name: str) -> int | None:
    """The port that a variable names.

    Raises:
        ConfigurationError: it is no port.
    """
    text = environ.get(name, "")
    if not text:
        return None
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise ConfigurationError(f"{name} must be a port from 1 to 65535, and is {text!r}.")
    return int(text)


def from_environment(environ: Mapping[str, str], here: Path) -> PlatformSettings:
    """The settings as the environment gives them.

    Raises:
        ConfigurationError: a variable is wrong, or two services would share a port.
    """
    endpoints = {
        name: Endpoint(environ.get(f"{name.upper()}_HOST") or "127.0.0.1", port(environ, f"{name.upper()}_PORT") or default)
        for name, default in DEFAULT_PORTS.items()
    }
    ports = [endpoint.port for endpoint in endpoints.values()]
    if len(set(ports)) < len(ports):
        listing = ", ".join(f"{name.upper()}_PORT={endpoint.port}" for name, endpoint in endpoints.items())
        raise ConfigurationError(f"Each service needs a port of its own: {listing}.")
    return PlatformSettings(
        state=places.state_folder(environ, here),
        cache=places.cache_folder(environ, here),
        endpoints=endpoints,
        redis_url=environ.get("REDIS_URL", ""),
        redis_port=port(environ, "REDIS_PORT"),
        policy_base_url=environ.get("POLICY_BASE_URL", ""),
        index=str((here / index).resolve()) if (index := environ.get("RETRIEVER_INDEX", "")) else "",
        given_indexes=str((here / indexes).resolve()) if (indexes := environ.get("RETRIEVER_INDEXES", "")) else "",
        given_runs=str((here / runs).resolve()) if (runs := environ.get("TRAINER_RUNS_DIR", "")) else "",
        model_roots=environ.get("TRAINER_MODEL_ROOTS", ""),
        checkpoint_roots=environ.get("POLICY_CHECKPOINT_ROOTS", ""),
        watch_s=environ.get("RETRIEVER_WATCH_S", ""),
        serve_uploads=environ.get("RETRIEVER_SERVE_UPLOADS", ""),
        admin_token=environ.get("ADMIN_TOKEN", ""),
    )
