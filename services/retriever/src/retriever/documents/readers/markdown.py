"""Markdown by markdown-it: headings become sections, and what is read is the text and not its markup."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from retriever.documents.document import Document, Outline, Part, one_line, says_more
from retriever.documents.readers.encoding import read_text
from retriever.documents.readers.front_matter import take_front_matter
from retriever.documents.readers.html import text_of


def read_markdown(path: Path) -> Document:
    metadata, text = take_front_matter(read_text(path).replace("\r\n", "\n"))
    named = {name: metadata.pop(name, "") for name in ("title", "url", "date")}
    title, parts = _parts(MarkdownIt("commonmark").enable("table").parse(text), named["title"])
    return Document(named["title"] or title, tuple(parts), named["url"], named["date"], metadata)


def _parts(tokens: Sequence[Token], named: str) -> tuple[str, list[Part]]:
    """The first heading of the highest level, and the text between headings. That heading is one like others where the document
    is `named` in other words."""
    outline, parts, pieces, title = Outline(), list[Part](), list[str](), ""
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            parts.append(Part("".join(pieces), outline.section))
            pieces = []
            heading, level = one_line(_inline(tokens[place + 1])), int(token.tag[1])
            is_title = level == 1 and not title
            title = heading if is_title else title
            if not is_title or (named and says_more(heading, named)):
                outline.enter(level, heading)
        elif token.type == "inline" and tokens[place - 1].type != "heading_open":
            pieces.append(_inline(token))
        else:
            pieces.append(_block(token))
    return title, [*parts, Part("".join(pieces), outline.section)]


def _block(token: Token) -> str:
    if token.type in {"fence", "code_block"}:
        return f"{token.content}\n"
    if token.type == "html_block":
        return f"{text_of(token.content)}\n\n"
    if token.type == "list_item_open":
        return "- "
    if token.type in {"td_close", "th_close"}:
        return " | "
    if token.type == "tr_close" or (token.type == "paragraph_close" and token.hidden):
        return "\n"
    return "\n\n" if token.type in {"paragraph_close", "table_close", "bullet_list_close", "ordered_list_close"} else ""


def _inline(token: Token) -> str:
    pieces = []
    for child in token.children or ():
        if child.type in {"text", "code_inline"}:
            pieces.append(child.content)
        elif child.type == "image":
            pieces.append(_inline(child))
        elif child.type in {"softbreak", "hardbreak"}:
            pieces.append("\n")
    return "".join(pieces)
