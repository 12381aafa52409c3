"""The pages of the site, parsed: blocks of code, links, and the anchors of headings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TARGET = re.compile(r"^\(([\w-]+)\)=$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page, or a comment that begins with a word and a line's end."""

    kind: str  # "python", "sql", "text", ..., or of a comment its first word
    text: str
    line: int  # of the page, where the text begins, from 1


@cache
def pages() -> tuple[Path, ...]:
    """README.md and the Markdown pages of the site that are written by hand."""
    written = DOCS / "reference" / "functions"  # by docs/_ext/api.py
    return (ROOT / "README.md", *(p for p in sorted(DOCS.rglob("*.md")) if p.parent != written))


@cache
def tokens(page: Path) -> tuple[Token, ...]:
    return tuple(MarkdownIt("commonmark").enable("table").parse(page.read_text("utf-8")))


def blocks(page: Path) -> list[Block]:
    """Blocks of code in their order, and comments `<!-- word ... -->`, which readers do not see."""
    found = []
    for token in tokens(page):
        line = (token.map or [0])[0]
        if token.type == "fence":
            kind = token.info.strip().split(" ")[0]
            found.append(Block(kind, token.content, line + 2))
        elif token.type == "html_block" and token.content.startswith("<!-- "):
            word, _, rest = token.content[5:].partition("\n")
            found.append(Block(word.strip(), rest.partition("-->")[0], line + 2))
    return found


def links(page: Path) -> list[tuple[str, int]]:
    """What a page's links and pictures lead to, with the line of their paragraph."""
    found = []
    for token in tokens(page):
        for child in token.children or ():
            to = child.attrGet("href") or child.attrGet("src")
            if to:
                found.append((str(to), (token.map or [0])[0] + 1))
    return found


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors that GitHub and the site give the page's headings, and those it sets itself."""
    found: list[str] = []
    for opening, inline in zip(tokens(page), tokens(page)[1:], strict=False):
        if opening.type != "heading_open":
            continue
        name = "".join(c.content for c in inline.children or ())
        slug = re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-")
        again = sum(re.fullmatch(re.escape(slug) + r"(-\d+)?", old) is not None for old in found)
        found.append(f"{slug}-{again}" if again else slug)
    return frozenset(found) | frozenset(TARGET.findall(page.read_text("utf-8")))
