"""A disk that is full at any stage of a build: one sentence, nothing published, and the same index when there is room again."""

import json
import re
import resource
import sys
from dataclasses import replace

import faiss
import pytest

from parallelsearch.errors import ConfigurationError
from retriever.command_arguments import refusals
from retriever.documents.changes import Sync
from retriever.documents.records import read_records
from retriever.index.build import build
from retriever.index.manifest import LEXICAL_FILES, DocumentRules, read_manifest
from retriever.index.plan import BuildPlan

ROOM = 64
"""Bytes that still fit into the file that fills the disk."""


class FullDisk:
    """From the moment when a file of this name is opened on, no file of this process grows beyond `room` bytes."""

    def __init__(self):
        self.name, self.room = None, ROOM
        sys.addaudithook(self._look)

    def _look(self, event, arguments):
        if self.name is not None and event == "open" and str(arguments[0]).endswith(self.name):
            self.name = None
            _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.room, most))

    def empty(self):
        self.name = None
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


@pytest.fixture
def disk():
    made = FullDisk()
    yield made
    made.empty()


@pytest.fixture
def one_thread():
    """With several the graph of `hnsw` depends on their order."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    yield
    faiss.omp_set_num_threads(before)


def content(out):
    manifest = json.loads((out / "manifest.json").read_text())
    data = out / manifest["version"]
    kept = {path.name: path.read_bytes() for path in data.iterdir() if path.name not in {"manifest.json", "verified.json"}}
    return manifest["fingerprint"], kept


def refused(plan, capsys):
    """It ends in one sentence that names the place and says what is wrong."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended, refusals():
        build(plan)
    told = str(ended.value.code)
    assert "\n" not in told
    assert re.fullmatch(rf"\[index\] {plan.out}[\w./-]*: File too large\. When that is put right, .* goes on from here\.", told), (
        told
    )


STAGES = [("flat", "vectors.npy"), ("ivf_sq8", "index.faiss"), ("hnsw", "index.faiss"), ("flat", "manifest.json.new")]
REST = ["passages.jsonl", "offsets.u64", "ids.u64", "plan.json", "block-0000001.part", *LEXICAL_FILES, "data/manifest.json"]
STAGES += [pytest.param("flat", name, marks=pytest.mark.e2e) for name in REST]  # a minute


@pytest.mark.parametrize(("kind", "file"), STAGES)
def test_a_disk_that_is_full_is_a_sentence_and_the_build_goes_on_when_there_is_room(
    kind, file, disk, one_thread, tmp_path, write_corpus, rows, minilm, capsys
):
    corpus = write_corpus(rows)
    plan = BuildPlan((corpus,), tmp_path / "full", minilm, kind, lexical=file.startswith("bm25"), block_passages=16)
    disk.name = "block-0000002.npy" if file == "index.faiss" else file  # which is read last before FAISS opens its file itself
    refused(plan, capsys)
    disk.empty()
    with pytest.raises(ConfigurationError, match="holds an unfinished build"):
        read_manifest(plan.out)
    build(plan)
    build(replace(plan, out=tmp_path / "undisturbed"))
    assert content(plan.out) == content(tmp_path / "undisturbed")
    assert not (plan.out / ".building").exists()


def test_a_disk_too_full_for_the_copy_of_a_document_is_no_fault_of_the_document(disk, tmp_path, minilm, capsys):
    """Else an index would be published without it."""
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "lakes.html").write_text(f"<p>All about lakes.</p><!--{'x' * 500_000}-->")
    (folder / "rivers.txt").write_text("All about rivers.")
    plan = BuildPlan((), tmp_path / "full", minilm, documents=DocumentRules(64, 8), change=Sync(folder))
    disk.name, disk.room = "plan.json", 200_000
    refused(plan, capsys)
    disk.empty()
    with pytest.raises(ConfigurationError, match="holds an unfinished build"):
        read_manifest(plan.out)
    manifest = build(plan)
    assert [record.state for record in read_records(plan.out / manifest.version)] == ["indexed"] * 2
