"""The prose of pages, source and examples is plain English, in the words of the glossary.

Spelling is checked by codespell (`make lint`). This file checks constructions that a reader has to
translate, words that the glossary replaces, words that promise instead of describing, and letters
that stand for papers.
"""

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
    r", also (if|when|where|with|in|under|after)": "even if, including",
    r"one [\w-]+ an? (second|minute|hour|day)|one [\w-]+ an? (row|key|query|micro-batch|tuple)|"
    r"one [\w-]+ an? (alternative|source|task|extent)": "per",
    r"(is|are) wanted here|shall": "is expected, should, must",
    r"(rows|tuples|answers|readings|lines|times?|(micro)?seconds|[nmµ]?s|[kMG]?B|bytes|numbers) "
    r"an? (second|minute|hour|row|key|query|micro-batch|tuple|timestamp|arrival|task|batch|worker"
    r"|core|process|bucket|partition|column|file|call|pane|group)": "per",
    r"the (row|bin|extent|minute|stage|quarters?|window|value) before(?=[,.;:)]| (is|was|in) )": (
        "previous"
    ),
    r"(?<=[.:;,(] )(those|that) of|(and|return|given|gives|finds|including) (those|that) of": (
        "repeat the noun"
    ),
    r"likewise|thereby|thereof|whereof|wherein|hence|upon|or else|till|so as": "plain words",
    r", too(?=[.;,)])": "also",
    r"names no": "is not, has no",
    r"of these(?=,)": "repeat the noun",
    r"turn has come|those since": "plain words",
}
"""Constructions that are not plain English, with what to write."""
PAGES = {
    r"(DataFrame|frame|column|table|step|function|type|option|module)s? of (Spark|pandas|Polars"
    r"|Arrow|Kafka|Parquet|Avro)": "Spark DataFrame, Kafka column",
    r"(a|an empty|of a|non-empty) text(?! (column|file|value|field|format))|texts": "string, query",
    r"(that|those) of": "repeat the noun",
    r"another (number|kind|type|order|layout|configuration|unit|version|schema|zone|repository"
    r"|seed|format|parallelism|first|cause|field|checkpoint|Python|window)": "a different",
    r"from \d+ \w+ on|from its first \w+ on|from the first \w+ on": "with at least, from",
    r"for (growing|rising|falling|increasing)": "as ... grows",
    r", else(?! if)": "otherwise",
    r"windows? of (time|event time|rows)|windows? by time": "time window, count window",
    r"any more": "no longer, can still",
    r"columns? of (times|probabilities|radii|ids|flags|instants)": "time column, radius column",
    r"(for|in|with) (these|those)(?=[.;:])": "repeat the noun",
    r", whatever": "for any, even if",
    r"(tuples?|values|rows|pairs) held(?= (must|have|are|is|of|may|in)\b|[,.;:)])": "held tuples",
    r"also (where|across|long)|(refused|and) also if|, also (those|another|at)": "including, even",
    r"other \w+s than": "different from, differ from",
    r"(?<=[.:;] )(?-i:Of)|^(?-i:Of)": "subject first",
    r"(those|ones) (that|which|who|in|near|found)": "repeat the noun",
    r"by the clock|to the bit|(the|its|each) begin": "wall-clock time, bit for bit, start",
    r"knows? no|(answer|interval|row|error|file|column|text)s? says?": "has no, reports, shows",
}
"""Further constructions, for pages and source, but not for kernels."""
NAMES_IN_SOURCE = ("a text", "texts")
ALLOWED = {
    ("src/sfumato/live/page/page.html", "behind the newest row"),
}
CLAUSE = re.compile(r"(What|Which|Whether|Those|That|Whose|Whom?|Where|How|Of|As) [^?]*$")
PLACES = re.compile(rf"\b({'|'.join(PLAIN)})\b", re.IGNORECASE)
LETTERS = re.compile(
    r"\bpapers? [A-E]\b|\b[A-E]'s\b|\([A-E], (section|equation)|^Source: [A-E]\b|"
    r"\b[B-E] (has|have|gives?|names?|takes?|runs?|draws|does|reports|states|goes)\b|"
    r"(?<=[.:;,] )A (gives|names|takes|runs|draws|does|reports|states|goes)\b|"
    r"\b[A-E], (section|Figure|Table|Lemma|equation)"
)
DOCSTRING_LINES = 60
PAGE_WIDTH = 128
CODE_WIDTH = 102  # characters of a Python block on a page 1280 pixels wide
GENERATED = {"docs/results.md"}


def prose(name: str) -> list[tuple[int, str]]:
    """Return a page's paragraphs of text, without code, with their first lines."""
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
    """Yield the texts of a source file with their lines.

    The texts of Python files are strings and docstrings, with adjacent pieces joined, and comments,
    with adjacent lines joined.
    """
    text = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        for cell in json.loads(text)["cells"]:
            yield 1, "".join(cell["source"])
    elif path.suffix in (".py", ".pyi"):
        yield from strings(ast.parse(text))
        yield from comments(text)
    else:
        yield 1, text


def strings(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the strings below a node; a value in an f-string is `{}`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.lineno, node.value
    if isinstance(node, ast.JoinedStr):
        parts = [p.value if isinstance(p, ast.Constant) else "{}" for p in node.values]
        yield node.lineno, "".join(parts)
    for child in ast.iter_child_nodes(node):
        if not (isinstance(node, ast.JoinedStr) and isinstance(child, ast.Constant)):
            yield from strings(child)


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield the comments of Python code. Comments on adjacent lines are one text."""
    block: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        line = token.start[0]
        if block and line > last + 1:
            yield last - len(block) + 1, "\n".join(block)
            block = []
        block.append(token.string.lstrip("# "))
        last = line
    if block:
        yield last - len(block) + 1, "\n".join(block)


def files(*folders: str) -> list[Path]:
    kinds = {".py", ".pyi", ".lark", ".js", ".html", ".ipynb", ".toml"}
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*"))]
    return [path for path in found if path.suffix in kinds]


def constructions(name: str, line: int, text: str) -> list[str]:
    """Return the hits in a text; a hit may span several lines."""
    whole = ". " + " ".join(text.split())
    found = []
    for match in PLACES.finditer(whole):
        better = next(
            b
            for wrong, b in PLAIN.items()
            if (m := re.compile(wrong, re.I).match(whole, match.start())) and m.end() == match.end()
        )
        around = whole[max(0, match.start() - 30) : match.end() + 20]
        found.append(f"{name}:{line}: {match[0]!r}: {better}: ...{around}...")
    return found


def test_pages_are_plain_english():
    names = [str(page.relative_to(ROOT)) for page in pages()]
    found = [
        hit
        for name in (*names, "CHANGELOG.md", "CONTRIBUTING.md", "ROADMAP.md", "SECURITY.md")
        for line, text in prose(name)
        for hit in constructions(name, line, text.replace("\n", " "))
    ]
    assert not found, "\n".join(found)


def test_pages_are_not_translated():
    names = {str(page.relative_to(ROOT)) for page in pages()}
    names |= {"CHANGELOG.md", "CONTRIBUTING.md", "ROADMAP.md", "SECURITY.md"}
    found = [
        f"{name}:{line + text[: match.start()].count(chr(10))}: {match[0]!r}: {better}"
        for name in sorted(names)
        for line, text in prose(name)
        for wrong, better in PAGES.items()
        for match in re.finditer(rf"\b({wrong})\b", text.replace("\n", " "), re.IGNORECASE)
    ]
    assert not found, "\n".join(found)


def test_tables_have_a_head():
    names = [str(page.relative_to(ROOT)) for page in pages()]
    assert not [f"{n}:{line}" for n in names for line, text in prose(n) if text.startswith("|")]


def test_lines_of_pages_are_short():
    """Code, tables and pictures are not wrapped."""
    names = {str(page.relative_to(ROOT)) for page in pages()} - GENERATED
    names |= {"CHANGELOG.md", "CONTRIBUTING.md", "ROADMAP.md", "SECURITY.md"}
    unwrapped = {"table_open", "fence", "code_block", "html_block"}
    found = []
    for name in sorted(names):
        whole = [range(*t.map) for t in tokens(ROOT / name) if t.type in unwrapped and t.map]
        for number, line in enumerate((ROOT / name).read_text("utf-8").splitlines()):
            wrapped = not line.lstrip().startswith("![") and not any(number in w for w in whole)
            if wrapped and len(line) > PAGE_WIDTH:
                found.append(f"{name}:{number + 1}: {len(line)} characters")
    assert not found, "\n".join(found)


def test_python_blocks_are_not_clipped():
    """Blocks of other languages are wrapped (docs/_static/site.css)."""
    found = [
        f"{page.relative_to(ROOT)}:{t.map[0] + 2 + number}: {len(line)} characters"
        for page in pages()
        for t in tokens(page)
        if t.type == "fence" and t.info.split()[:1] == ["python"]
        for number, line in enumerate(t.content.splitlines())
        if len(line) > CODE_WIDTH
    ]
    assert not found, "\n".join(found)


def test_source_and_examples_are_plain_english():
    found = [
        hit
        for path in files("src", "examples", "docs/_ext", "experiments", "benchmarks")
        for line, text in written(path)
        for hit in constructions(str(path.relative_to(ROOT)), line, text)
    ]
    assert not found, "\n".join(found)


def test_source_is_not_translated():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match[0]!r}: {better}"
        for path in files("src", "examples", "docs/_ext")
        if "kernels" not in path.parts
        for line, text in written(path)
        for wrong, better in PAGES.items()
        for match in re.finditer(rf"\b({wrong})\b", " ".join(text.split()), re.IGNORECASE)
        if match[0].lower() not in NAMES_IN_SOURCE
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
        page = f"reference/functions/{path.stem}"
        assert f"More: page {page} of the documentation.\n" in doc(path.stem)


@pytest.mark.parametrize("name", USER_PAGES)
def test_pages_use_the_words_of_the_glossary(name):
    found = [
        f"{name}:{line}: {match[0]!r}: {better}"
        for line, text in prose(name)
        for wrong, better in WORDS.items()
        if (match := re.search(rf"\b({wrong})\b", text, re.IGNORECASE))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", [*USER_PAGES, "docs/results.md", "docs/benchmarks.md"])
def test_no_letter_stands_for_a_paper(name):
    found = [f"{name}:{line}: {text}" for line, text in prose(name) if LETTERS.search(text)]
    assert not found, "\n".join(found)


def test_no_letter_stands_for_a_paper_in_experiments_and_benchmarks():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match[0]!r}"
        for path in files("experiments", "benchmarks")
        for line, text in written(path)
        if (match := LETTERS.search(" ".join(text.split())))
    ]
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
