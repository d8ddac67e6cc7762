"""HTML by lxml: what a reader of the page would see. Scripts, styles and what is hidden are not text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lxml import etree, html

from retriever.documents.document import Document, Outline, Part, one_line
from retriever.documents.readers.encoding import read_text

_UNSEEN = frozenset(("script", "style", "noscript", "template", "head", "svg", "math", "iframe", "object", "embed", "canvas"))
_CONTROLS = frozenset(("audio", "video", "select", "textarea"))
_HIDING = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_PARAGRAPHS = frozenset(
    ("address", "blockquote", "dd", "details", "dl", "dt", "figcaption", "hr", "li", "ol", "p", "pre", "summary", "ul")
)
_AREAS = frozenset(
    ("article", "aside", "body", "div", "fieldset", "figure", "footer", "form", "header", "main", "nav", "section", "table")
)
_BLOCKS = _PARAGRAPHS | _AREAS
_DATES = ("article:modified_time", "article:published_time", "last-modified", "dcterms.modified", "dcterms.date", "date")


def read_html(path: Path) -> Document:
    root = _parsed(read_text(path, html=True))
    named = {_name(meta): meta.get("content", "") for meta in root.iter("meta") if _name(meta) and meta.get("content")}
    titles = [one_line(element.text_content()) for element in root.iter("title")]
    links = [link.get("href", "") for link in root.iter("link") if link.get("rel") == "canonical"]
    url = next((link for link in links if link.startswith(("https://", "http://"))), "")
    date = next((named[name] for name in _DATES if name in named), "")
    metadata = {str(name): named[name] for name in ("author", "description", "keywords") if name in named}
    return Document(next(iter(titles), ""), tuple(_parts(root)), url, date, metadata)


def text_of(fragment: str) -> str:
    """The visible text of a piece of HTML; nothing where it is none."""
    try:
        return "\n\n".join(part.text for part in _parts(_parsed(fragment))).strip()
    except (etree.ParserError, etree.XMLSyntaxError):
        return ""


def _parsed(text: str) -> Any:
    return html.document_fromstring(text.encode(), parser=html.HTMLParser(encoding="utf-8", no_network=True))


def _name(meta: Any) -> str:
    return (meta.get("name") or meta.get("property") or meta.get("http-equiv") or "").lower()


def _parts(root: Any) -> Iterator[Part]:
    """The text between headings. Walked by events: a page may be nested deeper than Python calls."""
    outline, pieces = Outline(), list[str]()
    hidden, heading = 0, list[str]()
    in_heading = ""
    for event, element in etree.iterwalk(root, events=("start", "end", "comment", "pi")):
        tag = element.tag if isinstance(element.tag, str) else ""
        into = heading if in_heading else pieces
        if event == "start":
            if hidden or _is_hidden(tag, element):
                hidden += 1
                continue
            if tag in _HEADINGS:
                if in_heading:  # one within another ends that
                    outline.enter(_HEADINGS[in_heading], one_line("".join(heading)))
                yield Part("".join(pieces), outline.section)
                in_heading, pieces, heading = tag, [], []
                into = heading
            into.append(_before(tag) + (element.text or ""))
            continue
        if event == "end":
            if hidden:
                hidden -= 1
            elif tag == in_heading:
                outline.enter(_HEADINGS[tag], one_line("".join(heading)))
                in_heading, into = "", pieces
            else:
                into.append(_after(tag))
        if not hidden:
            into.append(element.tail or "")
    yield Part("".join(pieces), outline.section)


def _is_hidden(tag: str, element: Any) -> bool:
    if tag in _UNSEEN or tag in _CONTROLS or element.get("hidden") is not None:
        return True
    return _HIDING.search(element.get("style") or "") is not None


def _before(tag: str) -> str:
    if tag == "br":
        return "\n"
    return ("\n\n- " if tag == "li" else "\n\n") if tag in _BLOCKS else ""


def _after(tag: str) -> str:
    if tag in {"td", "th"}:
        return " | "
    if tag == "tr":
        return "\n"
    return "\n\n" if tag in _BLOCKS or tag in _HEADINGS else ""
