"""The prose of README and site keeps to the project's words, and says things plainly.

Spelling is codespell's (`make lint`). What is here are words that the glossary has a name for,
words that promise in place of saying, and letters that stand for papers.
"""

from __future__ import annotations

import re

import pytest

from docs.pages import DOCS, ROOT, pages, tokens
from public_names import PUBLIC, doc

RESEARCH = (
    "papers",
    "results",
    "speed",
    "benchmarks",
    "only-here",
    "chaos",
    "soak",
    "static-frames",
)
USER_PAGES = [
    str(page.relative_to(ROOT))
    for page in pages()
    if page.stem not in RESEARCH and page.parent.name not in ("decisions", "research")
]
WORDS = {
    r"utili[sz]e": "use",
    r"leverag\w+": "use",
    r"simply|obviously|of course|easily|just works": "leave it out",
    r"seamless\w*|powerful|cutting.edge|blazing\w*|robustly|world.class": "say what it does",
    r"data frame": "DataFrame, or frame",
    r"micro batch(es)?": "micro-batch",
    r"event.time timestamp": "event time",
    r"materiali[sz]ations? of a tuple": "alternatives",
    r"membership probabilit\w+": "existence",
    r"out.of.orderness": "disorder",
    r"in order to": "to",
    r"e\.g\.|i\.e\.|etc\.": "for example, that is, and so on",
}
LETTERS = re.compile(r"\bpapers? [A-E]\b|\b[A-E]'s\b|\([A-E], (section|equation)|^Source: [A-E]\b")


def prose(name: str) -> list[tuple[int, str]]:
    """The lines of a page that are text, not code, with their numbers."""
    return [
        (token.map[0] + 1, "".join(c.content for c in token.children or () if c.type == "text"))
        for token in tokens(ROOT / name)
        if token.type == "inline" and token.map
    ]


@pytest.mark.parametrize("name", USER_PAGES)
def test_pages_use_the_words_of_the_glossary(name):
    found = [
        f"{name}:{line}: {match[0]!r}: {better}"
        for line, text in prose(name)
        for wrong, better in WORDS.items()
        if (match := re.search(rf"\b({wrong})\b", text, re.IGNORECASE))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", USER_PAGES)
def test_no_letter_stands_for_a_paper(name):
    found = [f"{name}:{line}: {text}" for line, text in prose(name) if LETTERS.search(text)]
    assert not found, "\n".join(found)


def test_docstrings_name_papers_under_source_only():
    for name in PUBLIC:
        said = doc(name).partition("Source:")[0]
        assert not LETTERS.search(said), name


def test_every_term_of_the_glossary_is_in_order_and_once():
    text = (DOCS / "reference" / "glossary.md").read_text()
    terms = re.findall(r"^(\w[\w -]*)\n: ", text, re.MULTILINE)
    assert len(terms) > 20
    assert terms == sorted(set(terms), key=str.lower)
