"""Stand-ins for the two upstreams as ASGI applications: a vLLM-like policy that follows a script, and a retriever over a dict."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from parallelsearch.schemas.retrieval import IndexesModel, IndexModel, Method, PassageModel, RetrieveRequest, RetrieveResponse

BOTH = "<think> both </think>\n\n<search> When was Claude Monet born? ## When was Camille Pissarro born? </search>"
DONE = "<think> 1830 is before 1840 </think>\n\n<answer> Camille Pissarro </answer>"
PASSAGES = {
    "When was Claude Monet born?": [
        ("monet-1", "Claude Monet", "Claude Monet was born in 1840."),
        ("other", "Giverny", "A village."),
    ],
    "When was Camille Pissarro born?": [("pissarro-1", "Camille Pissarro", "Camille Pissarro was born in 1830.")],
}
METHODS = ("dense", "bm25", "hybrid")
QUESTION = "Who is older, Claude Monet or Camille Pissarro?"


Line = str | int | Callable[[str], str]


def sse(chunks):
    """The chunks as vLLM streams them."""
    yield from (f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
    yield "data: [DONE]\n\n"


class Bytes:
    """Tokens are bytes."""

    file = None

    def encode(self, text):
        return list(text.encode())

    def message(self, text):
        return self.encode(f"<user>{text}<assistant>")

    def decode(self, tokens):
        return bytes(tokens).decode()


class HandedOut(Bytes):
    """A Hugging Face tokenizer, whose file the policy hands out; `file` may be another one's."""

    def __init__(self, tokenizer, file=None):
        self._tokenizer = tokenizer
        self.file = (file or tokenizer).backend_tokenizer.to_str().encode()

    def encode(self, text):
        return self._tokenizer.encode(text, add_special_tokens=False)

    def message(self, text):
        messages = [{"role": "user", "content": text}]
        return self.encode(self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))

    def decode(self, tokens):
        return self._tokenizer.decode(tokens)


def fake_policy(
    script: Sequence[Line],
    *,
    version: str = "7",
    own_routes: bool = True,
    tokenizes: bool = True,
    streams: bool = True,
    tokens: Bytes | None = None,
) -> FastAPI:
    """A line that is a number is answered as that HTTP status; contexts seen are in `app.state.contexts`, texts in `.tokenized`."""
    app = FastAPI()
    app.state.contexts, app.state.tokenized = [], []
    tokens = tokens or Bytes()

    def next_line(context: str):
        app.state.contexts.append(context)
        line = script[len(app.state.contexts) - 1]
        return line(context) if callable(line) else line

    @app.get("/v1/models")
    async def models():
        return {"data": [{"id": "tiny", "max_model_len": 60_000}]}

    if own_routes:

        @app.get("/v1/policy")
        async def policy():
            return {
                "model": "tiny",
                "version": version,
                "context_length": 50_000,
                "layout": "labelled",
                "turn_tokens": 300,
                "special_tokens": ["<gh_stars>"],
            } | ({"tokenizer": hashlib.sha256(tokens.file).hexdigest()} if tokens.file else {})

        if tokens.file:

            @app.get("/v1/policy/tokenizer")
            async def tokenizer():
                return Response(tokens.file, media_type="application/json")

    if tokenizes:

        @app.post("/tokenize")
        async def tokenize(request: Request):
            body = await request.json()
            text = body["prompt"] if "prompt" in body else body["messages"][0]["content"]
            app.state.tokenized.append(text)
            return {"tokens": tokens.encode(text) if "prompt" in body else tokens.message(text)}

        @app.post("/detokenize")
        async def detokenize(request: Request):
            return {"prompt": tokens.decode((await request.json())["tokens"])}

        @app.post("/v1/completions")
        async def completions(request: Request):
            body = await request.json()
            app.state.last = body
            line = next_line(tokens.decode(body["prompt"]))
            if isinstance(line, int):
                return JSONResponse({"error": {"message": "scripted"}}, line)
            choice = {"text": line, "token_ids": tokens.encode(line), "finish_reason": "stop"}
            usage = {"completion_tokens": len(line.encode()), "prompt_tokens": len(body["prompt"])}
            if body.get("stream") and streams:
                chunks = [{"choices": [{"index": 0, "text": chr(byte), "token_ids": [byte]}]} for byte in line.encode()]
                chunks += [{"choices": [], "usage": usage}]
                return StreamingResponse(sse(chunks), media_type="text/event-stream", headers={"X-Policy-Version": version})
            return JSONResponse({"choices": [choice], "usage": usage}, headers={"X-Policy-Version": version})

    @app.post("/v1/chat/completions")
    async def chat(request: Request):
        body = await request.json()
        app.state.last = body
        line = next_line("".join(message["content"] for message in body["messages"]))
        if body.get("stream") and streams:
            chunks = [{"choices": [{"index": 0, "delta": {"content": character}}]} for character in line]
            chunks += [{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]
            return StreamingResponse(sse(chunks), media_type="text/event-stream")
        return {"choices": [{"message": {"content": line}, "finish_reason": "stop"}], "usage": {"completion_tokens": 3}}

    return app


def fake_retriever(
    passages: Mapping[str, Sequence[tuple[str, str, str]] | int],
    *,
    fingerprint: str = "f1",
    named: Sequence[str] = (),
    methods: Sequence[Method] = METHODS,
    default_method: Method | None = None,
    documents: int | None = 2,
) -> FastAPI:
    """A batch that holds a query filed as a number is answered as that HTTP status. Batches seen are in `app.state.batches`.

    `named` indexes hold the same passages as documents: each is page 2 of a file of its id. What was asked of them is in
    `app.state.scopes`, whole requests in `.requests`. `.ranking` is what it says of how it ranks. `documents` of None: every
    index was built of passages.
    """
    app = FastAPI()
    app.state.batches = []
    app.state.scopes, app.state.requests = [], []
    app.state.ranking = "r1"
    app.state.named = list(named)
    app.state.fingerprint = fingerprint

    def index(name=""):
        return IndexModel(
            fingerprint=app.state.fingerprint + name,
            ranking=app.state.ranking,
            methods=tuple(methods),
            default_method=default_method,
            encoder="none",
            dimension=1,
            metric="inner_product",
            kind="flat",
            passages=2,
            name=name or "default",
            documents=documents,
        )

    if named:

        @app.get("/v1/indexes")
        async def indexes() -> IndexesModel:
            return IndexesModel(indexes=[index(), *map(index, app.state.named)])

    def passage(name, identifier, title, text):
        about = {"source": f"{identifier}.pdf", "page": 2, "section": "Life"} if name else {}
        url = f"https://example.org/{identifier}.pdf#page=2" if name else ""
        return PassageModel(id=identifier, title=title, text=text, score=0.5, url=url, metadata=about)

    @app.get("/v1/index")
    async def describe() -> IndexModel:
        return index()

    @app.post("/v1/retrieve")
    async def retrieve(body: RetrieveRequest):
        app.state.batches.append(body.queries)
        app.state.requests.append(body)
        app.state.scopes.append((body.index, body.filter.model_dump(exclude_defaults=True) if body.filter else None))
        for query in body.queries:
            if isinstance(passages.get(query), int):
                return JSONResponse({"detail": "scripted"}, passages[query])
        rows = [[passage(body.index, *each) for each in list(passages.get(query, ()))[: body.top_k]] for query in body.queries]
        return RetrieveResponse(results=rows, index=index(body.index or ""))

    return app
