"""A version whose files have changed is no source of the next one."""

import pytest

from parallelsearch.errors import IndexMismatch
from retriever.documents.changes import Add, Delete, Replace, Sync
from retriever.documents.records import read_records
from retriever.index.build import build
from retriever.index.manifest import DocumentRules, read_manifest
from retriever.index.opened import open_index
from retriever.index.plan import BuildPlan


@pytest.mark.parametrize("name", ["passages.jsonl", "vectors.npy", "documents.jsonl"])
def test_documents_of_a_damaged_version_are_not_taken_over_into_a_new_one(tmp_path, minilm, name):
    folder, index = tmp_path / "docs", tmp_path / "index"
    folder.mkdir()

    def apply(change):
        return build(BuildPlan((), index, minilm, documents=DocumentRules(64, 8), change=change))

    for lake in ("Baikal", "Assal"):
        (folder / f"{lake}.txt").write_text(f"Lake {lake} is a lake.")
    before = apply(Replace((folder,)))
    path = index / before.version / name
    content = bytearray(path.read_bytes())
    content[-10] ^= 1
    path.write_bytes(content)
    (folder / "new.txt").write_text("A sea is shallow.")
    for change in (Add((folder / "new.txt",)), Sync(folder), Delete(("Baikal.txt",))):
        with pytest.raises(IndexMismatch, match=rf"{name} has sha256"):
            apply(change)
    assert read_manifest(index) == before
    after = apply(Replace((folder,)))
    assert [(one.source, one.state) for one in read_records(index / after.version)] == [
        ("Assal.txt", "indexed"),
        ("Baikal.txt", "indexed"),
        ("new.txt", "indexed"),
    ]
    opened = open_index(index)
    assert [passage.text for passage in opened.corpus] == ["Lake Assal is a lake.", "Lake Baikal is a lake.", "A sea is shallow."]
    opened.close()
