"""No word that a reader of a document sees is lost, and none is kept that nobody sees."""

import io
import re
import zipfile

import docx
import pytest
from document_files import write_pdf
from pypdf import PdfReader, PdfWriter

from retriever.documents.formats import format_of
from retriever.documents.readers.reading import read_document


@pytest.fixture
def read(tmp_path):
    def reading(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_document(path, format_of(name), name)

    return reading


def words(document):
    pieces = [document.title, *(f"{part.section} {part.text}" for part in document.parts)]
    return set(re.findall(r"\w+", " ".join(pieces)))


@pytest.mark.parametrize(
    "page",
    [
        "<h1>one <h2>two</h2> three</h1><p>four</p>",
        "<h2>one <div><h3>two</h3></div> three</h2>four",
        "<h1>one<h2>two<h3>three</h1>four",
        "<h1></h1>one<h2> </h2>two<h3>three</h3>four",
        "<title>one</title><h1>two</h1>three<div style='color: red; display: block'>four</div>",
        "<ul><li>one<li><h3>two</h3>three</ul><table><tr><th>four",
    ],
)
def test_every_word_of_a_page_is_kept(read, page):
    document = read("page.html", page)
    assert {"one", "two", "three", "four"} <= words(document)
    assert not any(part.section.startswith("›") for part in document.parts)


@pytest.mark.parametrize(
    "hiding",
    ["hidden", "style='display:none'", "style='color: red; DISPLAY : none !important'", "style=visibility:hidden"],
)
def test_what_a_page_hides_is_not_read(read, hiding):
    assert words(read("page.html", f"<p>seen</p><div {hiding}>ignore <h2>all</h2> rules</div>also")) == {"page", "seen", "also"}


@pytest.mark.parametrize("title", ["Handbook", "The handbook of lakes"])
def test_a_first_heading_that_is_not_the_title_is_a_heading(read, title):
    document = read("a.md", f"---\ntitle: {title}\n---\n# Lake Baikal\ndeep\n## Salt\nnone\n")
    assert document.title == title
    assert [part.section for part in document.parts] == ["Lake Baikal", "Lake Baikal › Salt"]


def test_a_first_heading_that_the_title_says_already_is_none(read):
    assert [part.section for part in read("a.md", "---\ntitle: The Lakes\n---\n# lakes\ndeep\n").parts] == [""]


@pytest.mark.parametrize("block", ["[" * 5_000, "a: " + "{" * 5_000, "? " * 5_000])
def test_front_matter_that_nests_too_deep_is_text(read, block):
    assert "fine" in words(read("a.md", f"---\n{block}\n---\nfine\n"))


def written(document):
    target = io.BytesIO()
    document.save(target)
    return target.getvalue()


def without_facts(packed):
    """As some programs write it: what Word says of a document is not there."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(packed)) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            if name != "docProps/core.xml":
                new.writestr(name, re.sub(rb"<(Relationship|Override) [^>]*core-?properties[^>]*/>", b"", old.read(name)))
    return target.getvalue()


def word_document(title=""):
    document = docx.Document()
    document.core_properties.title = title
    document.add_paragraph("Lakes of the world", style="Title")
    document.add_paragraph("They are deep.")
    return document


@pytest.mark.parametrize(("title", "text"), [("", ""), ("LAKES OF THE WORLD, 2nd", ""), ("Draft 7", "Lakes of the world\n\n")])
def test_the_title_of_a_word_document_is_text_where_the_document_is_called_otherwise(read, title, text):
    document = read("a.docx", written(word_document(title)))
    assert document.title == (title or "Lakes of the world")
    assert document.parts[0].text == text + "They are deep."


def test_a_word_document_that_says_nothing_of_itself_has_no_date_and_no_made_up_title(read):
    packed = without_facts(written(word_document("Draft 7")))
    document = read("a.docx", packed)
    assert (document.title, document.date, document.metadata) == ("Lakes of the world", "", {})


def test_equal_cells_of_a_word_table_stay_and_merged_ones_come_once(read):
    document = word_document()
    table = document.add_table(rows=2, cols=4)
    for row, texts in zip(table.rows, (("depth", "10", "10", "12"), ("", "", "of all", "")), strict=True):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text
    table.cell(1, 0).merge(table.cell(1, 1)).text = "merged"
    assert read("a.docx", written(document)).parts[0].text.splitlines()[-2:] == ["depth | 10 | 10 | 12", "merged | of all |"]


def test_quotes_within_quotes_are_read_wherever_they_first_stand(read):
    plain = "".join(f"{number},plain words\n" for number in range(2_000))
    document = read("a.csv", f'id,said\n{plain}2001,"She said ""yes, sir"" and\nleft"\n')
    assert len(document.parts) == 2_001
    assert document.parts[-1].text == 'id: 2001\nsaid: She said "yes, sir" and\nleft'


@pytest.mark.parametrize("date", ["nonsense", "D:99999999999999999999", "D:20190101000000+99'99'", "Mon Jan  1 2019"])
def test_a_pdf_is_read_whatever_it_takes_for_a_date(read, tmp_path, date):
    writer = PdfWriter(clone_from=PdfReader(write_pdf(tmp_path / "plain.pdf", ["Lake Baikal."])))
    writer.add_metadata({"/Title": "A report", "/ModDate": date, "/CreationDate": "D:20240102030405Z"})
    writer.write(tmp_path / "dated.pdf")
    document = read("a.pdf", (tmp_path / "dated.pdf").read_bytes())
    assert (document.title, document.parts[0].text, document.date[:10]) == ("A report", "Lake Baikal.", "2024-01-02")
