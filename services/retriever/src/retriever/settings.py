"""The retriever's settings, read from the environment with the prefix RETRIEVER_."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from parallelsearch.clients.web_search import WebProvider, WebSearchClient
from parallelsearch.errors import ConfigurationError
from parallelsearch.schemas.retrieval import Method
from retriever.encoders.identity import Precision
from retriever.gpu.plan import GpuPlan, HostRows, Placement
from retriever.index.manifest import MilvusAddress
from servicekit.settings import ServiceSettings


class RetrieverSettings(ServiceSettings):
    model_config = SettingsConfigDict(**{**ServiceSettings.model_config, "env_prefix": "RETRIEVER_"})

    port: int = Field(default=8001, ge=1, le=65535)
    index: Path = Field(description="The folder of the index: what `parallelsearch index build --out` was given.")
    indexes: Path | None = Field(default=None, description="The folder of the indexes that go by a name, that of their folder.")
    watch_s: float = Field(default=0.0, ge=0, description="Seconds between looks for newly published indexes; 0: none.")
    serve_uploads: bool = Field(default=False, description="Whether the originals of uploaded documents are given out.")
    encoder: str | None = Field(default=None, description="Where the index's encoder lies now: a bundled name, a folder, a hub id.")
    encoder_device: str = Field(default="cpu", description="Where queries are encoded: cpu, or a GPU such as cuda or cuda:1.")
    precision: Precision = Field(
        default="auto", description="Of the encoder's matrix products; auto: half precision where the device has it."
    )
    milvus_uri: str = Field(default="", validation_alias="MILVUS_URI", description="Where the vectors of a milvus index are.")
    milvus_token: SecretStr = Field(default=SecretStr(""), validation_alias="MILVUS_TOKEN")
    search: Placement = Field(
        default="cpu",
        description="Of a flat index: cpu, or on GPUs fused, torch, faiss, eight_bit, or auto (the fastest exact one).",
    )
    gpu_devices: str = Field(default="", description="Devices of the GPU engine, such as cuda:0,cuda:1; empty: all of the host.")
    eight_bit_candidates: int = Field(default=16, ge=1, description="Rows per query that eight_bit scores again exactly.")
    eight_bit_rows: HostRows = Field(
        default="mapped", description="Of the full vectors eight_bit keeps on the host: mapped from the file, or pinned in memory."
    )
    method: Method = Field(
        default="dense", description="How a query is searched that does not say: dense, bm25, hybrid, rerank or web."
    )
    reranker: Path | None = Field(default=None, description="The folder of a cross-encoder, for the method rerank.")
    rerank_candidates: int = Field(default=30, ge=1, le=1_000, description="Passages per query that the cross-encoder scores.")
    web_provider: WebProvider | None = Field(default=None, description="For the method web: serper or serpapi; empty: off.")
    web_key: SecretStr = Field(default=SecretStr(""), description="The key of the web search API.")
    web_url: str = Field(default="", description="Where the web search API is; empty: where its provider has it.")
    web_timeout_s: float = Field(default=10.0, gt=0, description="Seconds to wait for one answer of the web search API.")
    default_top_k: int = Field(default=3, ge=1, description="Passages per query on /retrieve where the client names no number.")
    max_body_bytes: int = Field(default=64_000_000, gt=0)
    max_batch: int = Field(default=64, ge=1, description="Distinct queries encoded and searched at once.")
    max_queued: int = Field(default=8_192, ge=1, description="Queries that may wait; more are answered 503 at once.")
    window_ms: float = Field(default=4.0, ge=0, description="How long a batch may be held back under load; never when idle.")
    deadline_s: float = Field(default=110.0, gt=0, description="Seconds after which a waiting request is answered 504.")
    cached_queries: int = Field(default=20_000, ge=0, description="Query vectors kept, by text; 1.5 kB each at 384 dimensions.")

    @property
    def gpu(self) -> GpuPlan | None:
        """None for the CPU."""
        if self.search == "cpu":
            return None
        devices = tuple(name.strip() for name in self.gpu_devices.split(",") if name.strip())
        return GpuPlan(self.search, devices, self.eight_bit_candidates, self.eight_bit_rows)

    @property
    def milvus(self) -> MilvusAddress | None:
        return MilvusAddress(self.milvus_uri, self.milvus_token.get_secret_value()) if self.milvus_uri else None

    @property
    def web(self) -> WebSearchClient | None:
        """None where it is off.

        Raises:
            ConfigurationError: it is on and there is no key.
        """
        if self.web_provider is None:
            return None
        key = self.web_key.get_secret_value()
        if not key:
            raise ConfigurationError(f"RETRIEVER_WEB_PROVIDER is {self.web_provider}, but RETRIEVER_WEB_KEY is empty. Set it.")
        return WebSearchClient(self.web_provider, key, url=self.web_url, timeout_s=self.web_timeout_s)
