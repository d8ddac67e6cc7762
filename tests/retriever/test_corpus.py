"""Reading a corpus: every shape it comes in, every way a row is broken, and the store an index keeps."""

import gzip
import json

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parallelsearch.errors import CorpusError
from retriever.corpus.reading import Broken, CorpusPassage, parse_row, read_corpus
from retriever.corpus.repeats import hash_of, refuse_repeated_ids
from retriever.corpus.store import CorpusStore, CorpusWriter

ROW = {"id": "1", "title": "Ed Wood (film)", "text": "A film of 1994."}


def passages(*paths):
    return [passage for _, passage in read_corpus(paths)]


def test_title_and_text_or_contents_are_the_same_passage(write_corpus):
    path = write_corpus([ROW, {"id": 2, "contents": '"Ed Wood (film)"\nA film of 1994.', "url": "u"}])
    assert passages(path) == [CorpusPassage("1", ROW["title"], ROW["text"]), CorpusPassage("2", ROW["title"], ROW["text"], "u")]
    assert passages(path)[0].contents == '"Ed Wood (film)"\nA film of 1994.'


@pytest.mark.parametrize(
    ("contents", "title", "text"),
    [
        ('"A "B" C"\nt\nu', 'A "B" C', "t\nu"),
        ("Plain\nt", "Plain", "t"),
        ('"\nt', '"', "t"),
        ("no title at all", "", "no title at all"),
    ],
)
def test_contents_are_split_at_the_first_newline(contents, title, text):
    assert parse_row({"id": "x", "contents": contents}) == CorpusPassage("x", title, text)


def test_gzip_and_parquet_are_read_whatever_their_name(tmp_path, write_corpus):
    plain = write_corpus([ROW])
    packed, columns = tmp_path / "a.bin", tmp_path / "b.bin"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([ROW]), columns)
    assert passages(plain) == passages(packed) == passages(columns)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_byte_order_mark_is_taken_before_the_first_line_of_each_file_alone(pack, tmp_path):
    line = json.dumps(ROW).encode()
    marked, broken, bare = (tmp_path / name for name in ("marked.jsonl", "broken.jsonl", "bare.jsonl"))
    marked.write_bytes(pack(b"\xef\xbb\xbf" + line + b"\r\n"))
    assert passages(marked, marked) == [CorpusPassage("1", ROW["title"], ROW["text"])] * 2
    broken.write_bytes(pack(line + b"\n\xef\xbb\xbf" + line))
    with pytest.raises(CorpusError, match=r"broken\.jsonl, line 2: is not valid JSON"):
        passages(broken)
    bare.write_bytes(pack(b"\xef\xbb\xbf"))
    assert passages(bare) == []


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (b'{"id": "2", "title": "t", "te', "valid JSON"),
        (b'{"id": "2", "title": "t", "text": NaN}', "valid JSON"),
        (b'{"id": "2", "title": "t", "text": "\xff"}', "valid JSON"),
        (b'{"id": "2", "title": "t", "text": "\\ud800"}', "valid JSON"),
        (b"[]", "object"),
        (b'{"title": "t", "text": "x"}', "`id` is missing"),
        (b'{"id": " ", "title": "t", "text": "x"}', "`id` is blank"),
        (b'{"id": true, "title": "t", "text": "x"}', "`id` must be a string"),
        (b'{"id": 1.5, "title": "t", "text": "x"}', "`id` must be a string"),
        (b'{"id": "2", "text": "x"}', "`title` is missing"),
        (b'{"id": "2", "title": "t"}', "`contents`"),
        (b'{"id": "2", "title": "t", "text": "  "}', "no text"),
        (b'{"id": "2", "title": "t", "text": 5}', "`text` must be a string"),
        (b'{"id": "2", "title": "t", "text": "a\\u0000"}', "NUL"),
        (b'{"id": "2", "contents": "\\"t\\"\\n \\n"}', "no text"),
    ],
)
def test_a_broken_line_is_named_with_file_and_number(write_corpus, line, word):
    path = write_corpus([ROW, b"", line, {**ROW, "id": "3"}])
    with pytest.raises(CorpusError) as raised:
        passages(path)
    assert f"{path}, line 3: " in raised.value.detail
    assert word in raised.value.detail


def test_a_broken_row_of_parquet_is_named(tmp_path):
    path = tmp_path / "c.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([ROW, {**ROW, "id": "2", "text": None}]), path)
    with pytest.raises(CorpusError, match=r"c\.parquet, line 2: "):
        passages(path)


@pytest.mark.parametrize(("start", "end"), [(2_000, 5_000), (-60, -20)], ids=["data", "footer"])
def test_parquet_with_broken_bytes_is_one_line_that_says_to_write_it_again(tmp_path, start, end):
    path = tmp_path / "c.parquet"
    rows = [{**ROW, "id": str(number), "text": f"passage {number}"} for number in range(5_000)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    content = bytearray(path.read_bytes())
    content[start:end] = b"\xa5" * (end - start)
    path.write_bytes(content)
    with pytest.raises(CorpusError, match=r"c\.parquet: is not a readable parquet file \([^\n]*\)\. Write it again\.$"):
        list(read_corpus([path]))


def test_a_row_of_parquet_that_is_no_text_is_named(tmp_path):
    path = tmp_path / "c.parquet"
    table = pyarrow.Table.from_pylist([{**ROW, "id": str(n), "text": "here" if n == 3 else "text"} for n in range(6)])
    pyarrow.parquet.write_table(table, path, compression="none", use_dictionary=False)
    path.write_bytes(path.read_bytes().replace(b"\x04\0\0\0here", b"\x04\0\0\0h\xff\xfee"))
    with pytest.raises(CorpusError, match=r"c\.parquet, line 4: is not UTF-8"):
        passages(path)


def test_a_cut_gzip_is_named_with_the_last_good_line(tmp_path):
    path = tmp_path / "c.jsonl.gz"
    lines = b"".join(json.dumps({**ROW, "id": str(n)}).encode() + b"\n" for n in range(2_000))
    path.write_bytes(gzip.compress(lines)[:-40])
    with pytest.raises(CorpusError, match=r"damaged or cut after line \d+"):
        passages(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(CorpusError, match=r"gone\.jsonl"):
        passages(tmp_path / "gone.jsonl")


def test_the_second_place_of_a_repeated_id_is_named(tmp_path, write_corpus):
    first, second = write_corpus([ROW, {**ROW, "id": "2"}], "a.jsonl"), write_corpus([{**ROW, "id": "3"}, ROW], "b.jsonl")
    hashes = tmp_path / "ids.u64"
    hashes.write_bytes(b"".join(hash_of(identifier) for identifier in ("1", "2", "3", "1")))
    with pytest.raises(CorpusError) as raised:
        refuse_repeated_ids(hashes, [first, second])
    assert f"{second}, line 2" in raised.value.detail
    assert f"{first}, line 1" in raised.value.detail


@given(st.binary(max_size=200))
def test_no_line_ends_in_anything_but_a_passage_or_a_reason(line):
    try:
        assert parse_row(line).text.strip()
    except Broken as error:
        assert str(error)


text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1).filter(str.strip)


@given(st.lists(st.builds(CorpusPassage, text, text, text, st.just("") | text), min_size=1, max_size=5))
def test_the_store_gives_back_what_was_written(tmp_path_factory, written):
    folder = tmp_path_factory.mktemp("store")
    with CorpusWriter(folder) as writer:
        for passage in written:
            writer.append(passage)
    store = CorpusStore(folder)
    assert list(store) == written
    with pytest.raises(IndexError):
        store[-1]
    with pytest.raises(IndexError):
        store[len(written)]
    store.close()


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_a_row_of_parquet_with_a_moment_that_python_does_not_know_is_named(tmp_path, unit):
    path = tmp_path / "c.parquet"
    moments = pyarrow.array([0, 9 * 10**18 + 1], pyarrow.timestamp(unit))
    pyarrow.parquet.write_table(pyarrow.table({"id": ["1", "2"], "title": ["t", "t"], "text": moments}), path)
    with pytest.raises(CorpusError, match=r"c\.parquet, line [12]: "):
        list(read_corpus([path]))
