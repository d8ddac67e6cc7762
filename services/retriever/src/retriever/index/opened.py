"""Opens a published index with its encoder, and refuses one whose parts do not belong together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from parallelsearch.errors import IndexMismatch
from retriever.corpus.store import CorpusStore
from retriever.documents.filtering import DocumentFilter
from retriever.documents.records import read_records
from retriever.encoders.identity import LoadedEncoder, Precision
from retriever.encoders.load import load
from retriever.encoders.resolve import ResolvedEncoder, resolve, with_rules
from retriever.gpu.plan import GpuPlan
from retriever.index.manifest import VECTORS_FILE, Manifest, MilvusAddress, read_manifest
from retriever.index.progress import Progress
from retriever.index.search import EmptySearch, FilteredSearch, VectorSearch, open_search
from retriever.index.verified import verify_once

if TYPE_CHECKING:
    from retriever.index.lexical import LexicalSearch


@dataclass(frozen=True, slots=True)
class OpenIndex:
    """Everything that answers a query; whoever holds it owns it."""

    folder: Path
    manifest: Manifest
    corpus: CorpusStore
    search: VectorSearch
    encoder: LoadedEncoder
    lexical: LexicalSearch | None = None
    documents: DocumentFilter | None = None
    """None for an index of passages, which has no documents to filter by."""
    filtered: FilteredSearch | None = None

    def warm(self) -> None:
        """One query through encoder and search, so that the first caller does not pay. On the owner's thread.

        Raises:
            IndexMismatch: the encoder gives vectors of another dimension than its identity says.
        """
        vectors = self.encoder.encode_queries(["warm-up"])
        if vectors.shape[1] != self.search.dimension:
            given = f"The encoder {self.encoder.identity.name} gives {vectors.shape[1]} dimensions"
            raise IndexMismatch(f"{given}, the vectors in {self.folder} have {self.search.dimension}. {_again(self.folder)}")
        self.search.search(vectors, 1)

    def close(self) -> None:
        self.search.close()
        self.corpus.close()


def open_index(
    folder: Path,
    encoder_name: str | None = None,
    precision: Precision = "float32",
    milvus: MilvusAddress | None = None,
    gpu: GpuPlan | None = None,
    encoder_device: str = "cpu",
    loaded: Sequence[LoadedEncoder] = (),
) -> OpenIndex:
    """The index of `folder`, checked, not yet warm.

    `encoder_name` says where its encoder lies now, if not where it lay at the build; `encoder_device` where it runs;
    one of those that are `loaded` is used again if it is that one.

    Raises:
        ConfigurationError: there is no index, or its encoder cannot be found.
        IndexMismatch: encoder, vectors, corpus and manifest do not belong together; the message says which is which.
    """
    manifest = read_manifest(folder)
    encoder = next((one for one in loaded if one.identity.same_vectors_as(manifest.encoder)), None)
    resolved = _matching_encoder(folder, manifest, encoder_name) if encoder is None else None
    with Progress(f"checking {folder}"):
        verify_once(folder, manifest)
    data = folder / manifest.version
    with Progress("loading vectors"):
        corpus = CorpusStore(data)
        search = _open_search(data, manifest, milvus, gpu)
        lexical = _open_lexical(data, manifest) if manifest.lexical else None
    _same_shape(folder, manifest, corpus, search)
    if encoder is None:
        assert resolved is not None
        with Progress(f"loading the encoder {manifest.encoder.name}"):
            encoder = load(resolved, precision, encoder_device)
    if manifest.documents is None:
        return OpenIndex(folder, manifest, corpus, search, encoder, lexical)
    documents, filtered = DocumentFilter(read_records(data)), FilteredSearch(data / VECTORS_FILE)
    return OpenIndex(folder, manifest, corpus, search, encoder, lexical, documents, filtered)


def _open_search(data: Path, manifest: Manifest, milvus: MilvusAddress | None, gpu: GpuPlan | None) -> VectorSearch:
    if not manifest.passages:
        return EmptySearch(manifest.dimension)
    return open_search(data, manifest.kind, manifest.effort, milvus, gpu)


def _open_lexical(data: Path, manifest: Manifest) -> LexicalSearch:
    from retriever.index.lexical import LexicalSearch

    return LexicalSearch(data, manifest.passages)


def _matching_encoder(folder: Path, manifest: Manifest, name: str | None) -> ResolvedEncoder:
    """The encoder of the manifest; its rules are those of the build, its weights must be too."""
    resolved = resolve(name or manifest.encoder.name)
    built_with, found = manifest.encoder, resolved.identity
    if not built_with.same_model_as(found):
        raise IndexMismatch(
            f"The index in {folder} was built with the encoder {built_with}, but the configured encoder is {found}. "
            f"Set RETRIEVER_ENCODER to the former, or build for the latter: "
            f"parallelsearch index build CORPUS --out {folder} --encoder {found.name}"
        )
    return with_rules(resolved, built_with.rules)


def _same_shape(folder: Path, manifest: Manifest, corpus: CorpusStore, search: VectorSearch) -> None:
    counts = {"manifest": manifest.passages, "corpus": len(corpus), "vectors": search.rows}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{name} {count:,}" for name, count in counts.items())
        raise IndexMismatch(f"{folder} disagrees on the number of passages ({told}). {_again(folder)}")
    if search.dimension != manifest.dimension:
        raise IndexMismatch(
            f"{folder}: vectors have {search.dimension} dimensions, the manifest says {manifest.dimension}. {_again(folder)}"
        )


def _again(folder: Path) -> str:
    return f"Build the index again: parallelsearch index build CORPUS --out {folder}"
