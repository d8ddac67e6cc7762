"""A real index over the first passages of the demo corpus, with the real MiniLM encoder, served in process."""

import json
from importlib.resources import files

import pytest
from loopback import LoopbackClient

from retriever.app import create_app, open_retriever
from retriever.encoders.load import load
from retriever.encoders.resolve import resolve
from retriever.index.build import build
from retriever.index.plan import BuildPlan
from retriever.settings import RetrieverSettings

PASSAGES = 40


@pytest.fixture(scope="session")
def rows():
    lines = files("parallelsearch").joinpath("demo/corpus.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines[:PASSAGES]]


@pytest.fixture(scope="session")
def minilm():
    return resolve("minilm")


@pytest.fixture(scope="session")
def encoder(minilm):
    return load(minilm)


@pytest.fixture
def write_corpus(tmp_path):
    """Writes rows (dicts, or raw lines as bytes) as JSONL."""

    def write(rows, name="corpus.jsonl"):
        path = tmp_path / name
        path.write_bytes(b"".join((row if isinstance(row, bytes) else json.dumps(row).encode()) + b"\n" for row in rows))
        return path

    return write


@pytest.fixture(scope="session")
def index_folder(tmp_path_factory, rows, minilm):
    folder = tmp_path_factory.mktemp("index")
    corpus = folder / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    build(BuildPlan((corpus,), folder / "built", minilm))
    return folder / "built"


def settings_for(folder, **more):
    return RetrieverSettings(index=folder, **more)


@pytest.fixture(scope="session")
def client(index_folder):
    settings = settings_for(index_folder)
    with LoopbackClient(create_app(settings, open_retriever(settings)), raise_server_exceptions=False) as client:
        yield client
