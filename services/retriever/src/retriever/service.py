"""The retriever as an object: takes queries, gives passages, says which index it serves, and takes a new one while serving."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import structlog

from parallelsearch.clients.web_search import WebSearchClient
from parallelsearch.errors import ConfigurationError, DeadlineExceeded, InvalidInput, Overloaded, ParallelSearchError
from parallelsearch.rollout.types import EVERYWHERE, Passage, Scope
from parallelsearch.schemas.retrieval import LEXICAL_METHODS, IndexesModel, IndexModel, Method
from retriever import metrics
from retriever.batcher import Batcher, BatchLimits, Gone, Timings
from retriever.described import describe
from retriever.encoders.cached import QueryVectors
from retriever.encoders.identity import EncoderNotLoaded, LoadedEncoder, Precision, Vectors
from retriever.index.manifest import Manifest
from retriever.index.opened import OpenIndex
from retriever.places import DEFAULT, IndexPlaces
from retriever.reranking import Reranker
from retriever.searcher import NO_FILTER, Ask, Originals, Searcher, Served
from retriever.watching import Watch
from retriever.web import LACKING, search_web
from servicekit.health import Readiness

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Retrieved:
    rows: list[tuple[Passage, ...]]
    timings: Timings
    index: IndexModel


@dataclass(frozen=True, slots=True)
class Extras:
    """What is searched with beside the indexes, where it is configured; `ranking` names it all (`retriever.ranking`)."""

    reranker: Reranker | None = None
    web: WebSearchClient | None = None
    ranking: str = ""


class Retriever:
    """The open indexes behind one batcher. All methods belong to the event loop that serves."""

    def __init__(
        self,
        places: IndexPlaces,
        limits: BatchLimits,
        cached_queries: int = 0,
        default_method: Method = "dense",
        watch_s: float = 0.0,
        extras: Extras = Extras(),
    ) -> None:
        """Opens the indexes. One that is named and cannot be opened is a fault that `indexes` tells; the default one must open.

        Raises:
            ConfigurationError, IndexMismatch: as `open_index`; also if the default index does not serve the default method.
        """
        self.places, self._cached_queries, self._default_method = places, cached_queries, default_method
        self._extras = extras
        self._served: dict[str, Served] = {}
        self.faults: dict[str, str] = {}
        default = places.open("", ())
        self._refuse_lacking_default(default.manifest)
        self._put("", default)
        for name in places.names():
            self._open_at_start(name)
        self._batcher = Batcher(Searcher(self._served, extras.reranker).run, limits)
        self._reloading = asyncio.Lock()
        self._deadline_s = limits.deadline_s
        self._watch = Watch(places, watch_s, self.reload_in_turn, self._blame, self._forget_all_but)

    def _refuse_lacking_default(self, manifest: Manifest) -> None:
        """The default index must serve the default method: who asks for none cannot ask for another."""
        if self._default_method not in self._methods(manifest):
            raise ConfigurationError(f"RETRIEVER_METHOD is {self._default_method}, but {LACKING[self._default_method]}")

    def _open_at_start(self, name: str) -> None:
        try:
            self._put(name, self.places.open(name, self._encoders()))
        except ParallelSearchError as error:
            self._blame(name, error.detail)

    def _put(self, name: str, new: OpenIndex) -> None:
        """Warms it and serves it in the place of the one of that name. On the owner's thread, where batches run."""
        new.warm()
        old = self._served.get(name)
        known = next((served.vectors for served in self._all.values() if served.index.encoder is new.encoder), None)
        vectors = known or QueryVectors(new.encoder, self._cached_queries)
        self._served[name] = Served(new, vectors, self._originals(name, new))
        if old is not None:
            old.index.close()

    def _originals(self, name: str, index: OpenIndex) -> Originals:
        uploads = self.places.uploads(name)
        if uploads is None or index.documents is None:
            return Originals()
        return Originals(f"/v1/indexes/{name or self.places.default_name}", index.documents.sources_under(uploads))

    @property
    def _all(self) -> dict[str, Served]:
        """As they are now, to be gone through: the owner's thread puts new ones among them meanwhile."""
        return self._served.copy()

    def _encoders(self) -> list[LoadedEncoder]:
        return [served.index.encoder for served in self._all.values()]

    @property
    def described(self) -> IndexModel:
        return self.describe("")

    @property
    def indexes(self) -> IndexesModel:
        """The default one first."""
        return IndexesModel(indexes=[self.describe(name) for name in self._all], faults=self.faults)

    def describe(self, name: str) -> IndexModel:
        manifest = self._served[self.known(name)].index.manifest
        how = self._methods(manifest), self._default_method, self._extras.ranking
        return describe(manifest, name or self.places.default_name, *how)

    def _methods(self, manifest: Manifest) -> tuple[Method, ...]:
        """How an index can be searched here; `web` leaves it aside."""
        lexical = LEXICAL_METHODS if manifest.lexical else ()
        rerank: tuple[Method, ...] = ("rerank",) if self._extras.reranker is not None else ()
        web: tuple[Method, ...] = ("web",) if self._extras.web is not None else ()
        return ("dense", *lexical, *rerank, *web)

    def serves(self, name: str) -> bool:
        return name in {DEFAULT, self.places.default_name} or name in self._served

    def encoder_of(self, name: str) -> str:
        """Where the encoder of an index lies now; that of the default one where there is none of that name."""
        served = self._served[self.known(name) if self.serves(name) else ""]
        return served.index.encoder.identity.name

    def known(self, name: str) -> str:
        """The name under which an index is served: empty for the default one.

        Raises:
            InvalidInput: there is none of that name.
        """
        if name in {"", DEFAULT, self.places.default_name}:
            return ""
        if name not in self._served:
            names = ", ".join([self.places.default_name, *(each for each in self._all if each)])
            fault = f" It cannot be opened: {self.faults[name]}" if name in self.faults else ""
            raise InvalidInput(f"index: {name!r} is not served here; there are: {names}.{fault}")
        return name

    async def start(self) -> None:
        self._count()
        self._batcher.start()
        self._watch.start()

    async def stop(self) -> None:
        await self._watch.stop()
        await self._batcher.stop()
        if self._extras.web is not None:
            await self._extras.web.close()
        for served in self._served.values():
            served.index.close()

    async def retrieve(
        self,
        queries: Sequence[str],
        top_k: int,
        method: Method | None = None,
        scope: Scope = EVERYWHERE,
        *,
        deadline_s: float | None = None,
        gone: Gone | None = None,
    ) -> Retrieved:
        """At most `top_k` passages per query, in the order of the queries, all from one index; none for no queries.

        Raises:
            InvalidInput: there is no such index, or it has no part for this method or nothing to filter by.
            Overloaded, DeadlineExceeded, CallerGone: see `Batcher.submit`.
        """
        method = method or self._default_method
        within_s, asked = min(deadline_s or self._deadline_s, self._deadline_s), time.perf_counter()
        if method == "web":
            rows, timings, described = await search_web(self._extras.web, queries, top_k, scope, within_s)
            return Retrieved(rows, timings, described)
        scope = replace(scope, index=self.known(scope.index))
        if not queries:
            return Retrieved([], Timings(), self.describe(scope.index))
        asks = [Ask(query, method, scope, self._scored(method, top_k)) for query in queries]
        self._refuse_unserved(asks[0])
        left_s = within_s
        while left_s > 0:
            answered = await self._batcher.submit(asks, top_k, deadline_s=left_s, gone=gone)
            described = self.describe(scope.index)
            # Rows of two versions mean that a swap fell in between: then they are asked for again.
            if answered.fingerprints == {described.fingerprint}:
                return Retrieved(answered.rows, answered.timings, described)
            left_s = within_s - (time.perf_counter() - asked)
        raise DeadlineExceeded(f"Not answered within {within_s:g} s by one version of the index. Try again.")

    def _scored(self, method: Method, top_k: int) -> int:
        """How many passages a cross-encoder scores for one query."""
        reranker = self._extras.reranker
        return max(top_k, reranker.candidates) if method == "rerank" and reranker is not None else 0

    def _refuse_unserved(self, ask: Ask) -> None:
        index = self._served[ask.scope.index].index
        if ask.method not in self._methods(index.manifest):
            raise InvalidInput(f"method: {ask.method} was asked for, but {LACKING[ask.method]}")
        if ask.scope.filter != NO_FILTER and index.documents is None:
            raise InvalidInput("filter: this index was built of passages, which have no documents to filter by.")

    async def encode(self, key: str, precision: Precision, what: Literal["passages", "queries"], texts: Sequence[str]) -> Vectors:
        """Vectors for an index that is being changed, between two batches.

        Raises:
            EncoderNotLoaded: no encoder here would give what the one asked for gives.
        """
        encoder = next(
            (one for one in self._encoders() if one.identity.key == key and one.makes_same_bytes_as_cpu(precision)), None
        )
        if encoder is None:
            raise EncoderNotLoaded(
                f"No encoder that is loaded here gives the vectors of this one on a CPU in {precision} precision."
            )
        work = encoder.encode_passages if what == "passages" else encoder.encode_queries
        return await self._batcher.on_owner(partial(work, texts))

    async def reload(self, name: str = "") -> bool:
        """Opens what is published now beside what is served, warms it and swaps; false if it is served already.

        Queries that run or wait go on: each batch is answered by one index, and the old one is closed behind its last batch.

        Raises:
            InvalidInput: nothing of that name is served or published.
            Overloaded: a reload runs already.
            ConfigurationError, IndexMismatch: the published index cannot be served; the old one still is.
        """
        if self._reloading.locked():
            raise Overloaded("An index is being loaded already. Ask again when it is done.", retry_after_s=5)
        return await self.reload_in_turn(name)

    async def reload_in_turn(self, name: str) -> bool:
        """The same behind a reload that runs."""
        async with self._reloading:
            published = await asyncio.to_thread(self.places.names)
            self._forget_all_but(published)
            return await self._reload(name if name in published else self.known(name))

    async def _reload(self, name: str) -> bool:
        published = await asyncio.to_thread(self.places.fingerprint, name)
        current = self._served.get(name)
        if current is not None and published == current.index.manifest.fingerprint:
            self._clear_fault(name)
            return False
        new = await asyncio.to_thread(self.places.open, name, self._encoders())
        try:
            if not name:
                self._refuse_lacking_default(new.manifest)
            await self._batcher.on_owner(partial(self._put, name, new))
        except Exception:
            new.close()
            raise
        self._clear_fault(name)
        self._count()
        log.info("index_reloaded", index=name, fingerprint=new.manifest.fingerprint, passages=new.manifest.passages)
        return True

    def _blame(self, name: str, detail: str) -> None:
        """Until what is published there is served."""
        name = name or self.places.default_name
        if self.faults.get(name) != detail:
            log.warning("index_not_opened", index=name, detail=detail)
        self.faults[name] = detail

    def _clear_fault(self, name: str) -> None:
        self.faults.pop(name or self.places.default_name, None)

    def _forget_all_but(self, published: Collection[str]) -> None:
        """What is wrong with an index that is not there any more is of no interest."""
        for name in self.faults.keys() - {self.places.default_name, *published}:
            del self.faults[name]

    def _count(self) -> None:
        metrics.INDEX_PASSAGES.set(sum(served.index.manifest.passages for served in self._all.values()))

    async def readiness(self) -> Readiness:
        ready = self._batcher.running
        checks = {"index": f"{self._served[''].index.manifest.passages} passages"}
        checks |= {f"index {name}": f"{served.index.manifest.passages} passages" for name, served in self._all.items() if name}
        checks |= {f"index {name}": fault for name, fault in self.faults.items()}
        return Readiness("ready" if ready else "starting", checks)
