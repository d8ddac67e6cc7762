"""All vectors of an index are of one precision, and another one that is asked for is made."""

import json

import numpy as np
import pytest

from retriever.documents.changes import Add, Sync
from retriever.index.build import build
from retriever.index.manifest import DocumentRules, read_manifest
from retriever.index.plan import BuildPlan


def vectors(index):
    return np.load(index / read_manifest(index).version / "vectors.npy")


def test_an_index_is_encoded_anew_in_another_precision_and_in_no_other_case(tmp_path, write_corpus, rows, minilm, capsys):
    corpus, index = write_corpus(rows[:4]), tmp_path / "index"
    versions = {}
    for precision, fresh in (("bfloat16", 1), ("bfloat16", 0), ("auto", 0), ("float32", 1), ("auto", 0), ("bfloat16", 1)):
        capsys.readouterr()
        manifest = build(BuildPlan((corpus,), index, minilm, precision=precision))
        assert ("Nothing to do" in capsys.readouterr().err) == (not fresh), precision
        if precision != "auto":
            assert manifest.precision == precision
            assert versions.setdefault(precision, manifest.version) == manifest.version
    assert len(set(versions.values())) == 2


def test_an_index_whose_build_did_not_note_its_precision_is_up_to_date(tmp_path, write_corpus, rows, minilm, capsys):
    corpus, index = write_corpus(rows[:4]), tmp_path / "index"
    build(BuildPlan((corpus,), index, minilm, precision="float32"))
    manifest = json.loads((index / "manifest.json").read_text())
    assert manifest.pop("precision") == "float32"
    (index / "manifest.json").write_text(json.dumps(manifest))
    assert build(BuildPlan((corpus,), index, minilm, precision="bfloat16")).precision == ""
    assert "Nothing to do" in capsys.readouterr().err


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_what_is_added_is_encoded_in_the_precision_of_the_rest(tmp_path, minilm, precision):
    folder = tmp_path / "docs"
    folder.mkdir()
    texts = {f"{number}.txt": f"Lake {number} has {number * 7} islands and is {number * 11} metres deep." for number in range(6)}

    def plan(name, change, precision):
        return BuildPlan((), tmp_path / name, minilm, precision=precision, documents=DocumentRules(64, 8), change=change)

    for name in list(texts)[:3]:
        (folder / name).write_text(texts[name])
    build(plan("grown", Sync(folder), precision))
    for name in list(texts)[3:]:
        (folder / name).write_text(texts[name])
    build(plan("grown", Add((folder / "3.txt",)), "auto"))
    assert build(plan("grown", Sync(folder), "auto")).precision == precision
    build(plan("full", Sync(folder), "float32"))

    def in_full():
        """Of which passages the vectors are those of float32; in bfloat16 they depend on what they are encoded with."""
        close = np.isclose(vectors(tmp_path / "grown"), vectors(tmp_path / "full"), rtol=0, atol=1e-6)
        return set(close.all(axis=1).tolist())

    assert in_full() == {precision == "float32"}
    other = "float32" if precision == "bfloat16" else "bfloat16"
    assert build(plan("grown", Sync(folder), other)).precision == other
    assert in_full() == {other == "float32"}
