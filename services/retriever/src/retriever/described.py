"""What is told of an index that is served."""

from __future__ import annotations

from parallelsearch.schemas.retrieval import IndexModel, Method
from retriever.index.manifest import Manifest


def describe(manifest: Manifest, name: str, methods: tuple[Method, ...], default_method: Method, ranking: str) -> IndexModel:
    return IndexModel(
        name=name,
        fingerprint=manifest.fingerprint,
        ranking=ranking,
        encoder=manifest.encoder.name,
        dimension=manifest.dimension,
        metric=manifest.metric,
        kind=manifest.kind,
        passages=manifest.passages,
        documents=manifest.documents.documents if manifest.documents else None,
        built_at=manifest.built_at,
        methods=methods,
        default_method=default_method,
    )
