"""The gateway's settings, from the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, AliasChoices, Field, model_validator
from pydantic_settings import SettingsConfigDict
from redis.asyncio import ConnectionPool

from parallelsearch.protocol.observations import Layout
from parallelsearch.rollout.settings import PaperCut
from servicekit.hosts import is_loopback
from servicekit.settings import HttpAddress, ServiceSettings, Token, address


def _addresses(text: str) -> str:
    for url in text.rstrip(", ").split(","):
        address(url.strip())
    return text


def _redis_address(text: str) -> str:
    address(text, ("redis", "rediss", "unix"))
    try:
        ConnectionPool.from_url(text).make_connection()  # type: ignore[no-untyped-call]  # it connects to nothing yet
    except (TypeError, ValueError) as error:  # an option that is none, or is of another type
        raise ValueError(f"has an option that cannot be used: {str(error).rpartition(' got ')[2]}") from None
    return text


Addresses = Annotated[str, AfterValidator(_addresses)]
RedisAddress = Annotated[str, AfterValidator(_redis_address)]


class GatewaySettings(ServiceSettings):
    """Prefix `GATEWAY_`; where the upstreams are goes by names of its own, which other parts of the platform share."""

    model_config = SettingsConfigDict(env_prefix="GATEWAY_")

    port: int = Field(default=8080, ge=1, le=65535)
    retriever_url: HttpAddress = Field(default="http://127.0.0.1:8001", validation_alias="RETRIEVER_URL")
    policy_base_url: Addresses = Field(default="http://127.0.0.1:8002/v1", validation_alias="POLICY_BASE_URL")
    """One address, or several replicas with commas between."""
    policy_discovery: Literal["list", "dns"] = Field(default="list", validation_alias="POLICY_DISCOVERY")
    """`dns`: each address that the host of `policy_base_url` resolves to is a replica."""
    policy_model: str | None = Field(default=None, validation_alias="POLICY_MODEL")
    policy_api_key: Token | None = Field(default=None, validation_alias="POLICY_API_KEY")
    policy_layout: Layout | None = Field(default=None, validation_alias="POLICY_LAYOUT")
    redis_url: RedisAddress | None = Field(default="redis://127.0.0.1:6379/0", validation_alias="REDIS_URL")

    trainer_url: HttpAddress = Field(default="http://127.0.0.1:8003", validation_alias="TRAINER_URL")

    store_path: Path | None = None
    store_retention_days: float = Field(default=30.0, gt=0)
    trainer_timeout_s: float = Field(default=600.0, gt=0)
    policy_timeout_s: float = Field(default=120.0, gt=0)
    policy_probe_timeout_s: float = Field(default=10.0, gt=0)
    retriever_timeout_s: float = Field(default=10.0, gt=0)
    cache_timeout_s: float = Field(default=0.1, gt=0)
    cache_ttl_s: int = Field(default=86_400, ge=1)
    answer_cache_ttl_s: int = Field(default=0, ge=0)
    """0 keeps no answers."""
    max_in_flight: int = Field(default=512, ge=1)
    max_body_bytes: int = Field(default=256_000, ge=1_000)
    max_upload_bytes: int = Field(default=64_000_000, ge=1_000)
    """Of one upload of documents, which the retriever limits as well."""
    upstream_refresh_s: float = Field(default=5.0, gt=0)
    auth: Literal["on", "off"] = Field(default="on", validation_alias=AliasChoices("AUTH", "GATEWAY_AUTH"))
    """`off` lets anybody in who can reach the port. `on` needs keys, or loopback alone."""
    api_keys_file: Path | None = None
    key_requests_per_minute: int | None = Field(default=None, ge=1)
    key_concurrent: int | None = Field(default=None, ge=1)
    condense_chats: bool = False
    """Whether a chat's follow-ups are rewritten as one question, which costs a generation."""
    trace_text: bool = False
    """Whether spans carry what was asked and written."""
    cors_origins: list[str] = []
    heartbeat_s: float = Field(default=15.0, gt=0)
    stream_write_timeout_s: float = Field(default=30.0, gt=0)
    stream_grace_s: float = Field(default=5.0, ge=0, le=600)
    """How long a streamed answer goes on without a reader, who may come back; 0 ends it at once."""
    turn_tokens: int | None = Field(default=None, ge=1)
    observation_tokens: int = Field(default=1_000, ge=1)
    observation_tokens_further: int = Field(default=250, ge=0)
    """For each sub-query beyond two."""
    passage_words: int = Field(default=120, ge=1)
    passage_words_wide: int = Field(default=60, ge=1)
    """With more than two sub-queries."""
    paper_cut: PaperCut = "tag_safe"

    @model_validator(mode="after")
    def _one_name_to_resolve(self) -> Self:
        if self.policy_discovery == "dns" and "," in self.policy_base_url:
            raise ValueError("POLICY_DISCOVERY=dns resolves one address: name one in POLICY_BASE_URL, or list them without it")
        return self

    @model_validator(mode="after")
    def _closed_beyond_loopback(self) -> Self:
        if self.auth == "on" and self.api_keys_file is None and not is_loopback(self.host):
            raise ValueError(
                f"{self.host} is reachable from other machines and there are no API keys: "
                "set GATEWAY_API_KEYS_FILE, or AUTH=off to let anybody in"
            )
        return self

    @model_validator(mode="after")
    def _limits_of_keys_need_keys(self) -> Self:
        names = [name for name in ("key_requests_per_minute", "key_concurrent") if getattr(self, name) is not None]
        if names and (self.auth == "off" or self.api_keys_file is None):
            limits = " and ".join(f"GATEWAY_{name.upper()}" for name in names)
            asked = "AUTH=off asks for none" if self.auth == "off" else "there is no GATEWAY_API_KEYS_FILE"
            raise ValueError(f"{limits}: what a key may do is limited here, but {asked}: ask for keys or leave the limit out")
        return self
