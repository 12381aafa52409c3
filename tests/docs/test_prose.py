"""The prose of pages, source and examples is plain English, in the words of the glossary.

Spelling is checked by codespell (`make lint`). This file checks constructions that a reader has to
translate, words that the glossary replaces, words that promise instead of describing, and letters
that stand for papers.
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

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
    r"texts": "strings, or queries",
}
PLAIN = {
    r"lack(s|ed|ing)?": "has no, is not in, is missing",
    r"(come|comes|came|coming) out": "emit",
    r"let(s|ting)? (\w+ )?(go|out)": "emit, release or evict",
    r"(hold|holds|held|holding) (\w+ )?back": "buffer",
    r"(take|takes|took|taken|taking) part": "is included",
    r"(hang|hangs|hung|hanging) on": "depends on",
    r"(say|says|said) so|(is|are|was|were) told": "report, raise, or name what is said",
    r"beside": "next to, in addition to",
    r"behind (a|an|the|each|every) (step|operator|join|window|reorder|sink|query)": "downstream of",
    r"anew": "again",
    r"for ever|for good": "forever",
    r"of (its|their|his|her|our|your) own": "separate",
    r"of (theirs|ours|yours|hers)": "repeat the noun",
    r"(?<!twice )(?<!times )(as|so) many|half as": "the number",
    r"no (more|less|fewer) than": "at most, at least",
    r"(?<!there )(is|are) no(?! longer)": "is not, has no",
    r"than nothing": "positive",
    r"that which|none of (its|their)": "repeat the noun",
    r", also (if|when|where|with|in|under|after)": "even if, including, too",
    r"one [\w-]+ an? (row|key|query|micro-batch|tuple|alternative|source|task|extent)": "per",
    r"(is|are) wanted here|shall": "is expected, should, must",
    r"likewise|thereby|thereof|whereof|wherein|hence|upon|or else|till|so as": "plain words",
}
"""Constructions that are not plain English, with what to write."""
ALLOWED = {
    ("src/sfumato/live/page/page.html", "behind the newest row"),
}
CLAUSE = re.compile(r"(What|Which|Whether|Those|That|Whose|Whom?|Where|How|Of|As) [^?]*$")
PLACES = re.compile(rf"\b({'|'.join(PLAIN)})\b", re.IGNORECASE)
LETTERS = re.compile(r"\bpapers? [A-E]\b|\b[A-E]'s\b|\([A-E], (section|equation)|^Source: [A-E]\b")
DOCSTRING_LINES = 64
GENERATED = ("results.md", "benchmarks.md")
"""Pages written by programs: the measured text is in `experiments` and `benchmarks`."""


def prose(name: str) -> list[tuple[int, str]]:
    """The paragraphs of a page that are text, not code, with the lines of their beginnings."""
    parts = {"softbreak": "\n", "hardbreak": "\n", "code_inline": "``"}
    return [
        (
            token.map[0] + 1,
            "".join(parts.get(c.type, c.content) for c in token.children or () if not c.hidden),
        )
        for token in tokens(ROOT / name)
        if token.type == "inline" and token.map
    ]


def written(path: Path) -> Iterator[tuple[int, str]]:
    """Texts of a file of source with their lines: strings, docstrings and comments of Python."""
    text = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        for cell in json.loads(text)["cells"]:
            yield 1, "".join(cell["source"])
    elif path.suffix in (".py", ".pyi"):
        kinds = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", -1)}
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in kinds:
                yield token.start[0], token.string
    else:
        yield 1, text


def files(*folders: str) -> list[Path]:
    kinds = {".py", ".pyi", ".lark", ".js", ".html", ".ipynb", ".toml"}
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*"))]
    return [path for path in found if path.suffix in kinds]


def constructions(name: str, line: int, text: str) -> list[str]:
    found = []
    for match in PLACES.finditer(text):
        better = next(b for wrong, b in PLAIN.items() if re.fullmatch(wrong, match[0], re.I))
        found.append(
            f"{name}:{line + text[: match.start()].count(chr(10))}: {match[0]!r}: {better}"
        )
    return found


def test_pages_are_plain_english():
    names = [str(page.relative_to(ROOT)) for page in pages() if page.name not in GENERATED]
    found = [
        hit
        for name in (*names, "CHANGELOG.md", "CONTRIBUTING.md")
        for line, text in prose(name)
        for hit in constructions(name, line, text)
    ]
    assert not found, "\n".join(found)


def test_tables_have_a_head():
    names = [str(page.relative_to(ROOT)) for page in pages()]
    assert not [f"{n}:{line}" for n in names for line, text in prose(n) if text.startswith("|")]


def test_source_and_examples_are_plain_english():
    found = [
        hit
        for path in files("src", "examples", "docs/_ext")
        for line, text in written(path)
        for hit in constructions(str(path.relative_to(ROOT)), line, text)
    ]
    assert not found, "\n".join(found)


def test_docstrings_begin_with_a_verb_or_a_noun():
    found = []
    for path in files("src"):
        if path.suffix != ".py":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                first = (ast.get_docstring(node) or "").partition("\n")[0]
                if CLAUSE.match(first):
                    found.append(f"{path.relative_to(ROOT)}: {first}")
    assert not found, "\n".join(found)


def test_docstrings_are_short():
    found = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in files("src")
        if path.suffix == ".py"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
        if len((ast.get_docstring(node) or "").splitlines()) > DOCSTRING_LINES
    ]
    assert not found, f"move details to docs/reference/notes: {found}"


def test_notes_are_of_functions_that_link_to_them():
    for path in (DOCS / "reference" / "notes").glob("*.md"):
        assert f"More: docs/reference/notes/{path.name}\n" in doc(path.stem)


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


def test_public_docstrings_name_papers_by_their_authors_and_no_internal_modules():
    for name in PUBLIC:
        assert "Source:" not in doc(name), name
        assert not re.search(r"`(sfumato\.)?(kernels|operators|tables|warmup)\.", doc(name)), name
        assert not LETTERS.search(doc(name)), name


def test_every_term_of_the_glossary_is_in_order_and_once():
    text = (DOCS / "reference" / "glossary.md").read_text()
    terms = re.findall(r"^(\w[\w -]*)\n: ", text, re.MULTILINE)
    assert len(terms) > 20
    assert terms == sorted(set(terms), key=str.lower)
