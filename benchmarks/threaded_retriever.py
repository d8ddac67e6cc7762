"""The named baseline: a retrieval server that encodes and searches per request in a thread pool, as the field runs it.

Written for these benchmarks, after the behaviour of the public servers: `POST /retrieve` is a plain function that the web
framework runs in its thread pool; each request is tokenised, encoded in one padded batch and searched on its own; passages
stand in a list. It is kept free of anything that would slow it down on purpose: same encoder, same vectors, FAISS flat, fast JSON.

    python benchmarks/threaded_retriever.py INDEX PORT
"""

from __future__ import annotations

import sys
from pathlib import Path

import faiss
import numpy as np
import torch
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from transformers import AutoModel, AutoTokenizer

from retriever.corpus.store import CorpusStore
from retriever.encoders.resolve import resolve
from retriever.index.manifest import read_manifest


class Query(BaseModel):
    queries: list[str]
    topk: int | None = None
    return_scores: bool = False


def create_app(folder: Path) -> FastAPI:
    manifest = read_manifest(folder)
    resolved = resolve(manifest.encoder.name)
    tokenizer, model = AutoTokenizer.from_pretrained(resolved.path), AutoModel.from_pretrained(resolved.path).eval()
    passages = list(CorpusStore(folder / manifest.version))
    index = faiss.IndexFlatIP(manifest.dimension)
    index.add(np.load(folder / manifest.version / "vectors.npy"))
    app = FastAPI()

    @torch.no_grad()
    def encode(queries: list[str]) -> np.ndarray:
        prefixed = [manifest.encoder.rules.query_prefix + query for query in queries]
        inputs = tokenizer(prefixed, padding=True, truncation=True, max_length=256, return_tensors="pt")
        hidden = model(**inputs).last_hidden_state
        mask = inputs["attention_mask"][..., None]
        pooled = (hidden * mask).sum(1) / mask.sum(1)
        return torch.nn.functional.normalize(pooled, dim=-1).numpy()

    @app.post("/retrieve")
    def retrieve(request: Query):
        scores, rows = index.search(encode(request.queries), request.topk or 3)
        result = []
        for scored in zip(scores, rows, strict=True):
            documents = [
                (
                    {
                        "id": passages[row].id,
                        "title": passages[row].title,
                        "text": passages[row].text,
                        "contents": passages[row].contents,
                    },
                    score,
                )
                for score, row in zip(*scored, strict=True)
            ]
            if request.return_scores:
                result.append([{"document": document, "score": float(score)} for document, score in documents])
            else:
                result.append([document for document, _ in documents])
        return {"result": result}

    @app.get("/readyz")
    def readyz():
        return {}

    return app


if __name__ == "__main__":
    uvicorn.run(create_app(Path(sys.argv[1])), host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")
