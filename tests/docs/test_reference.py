"""The reference lists every public name, and each docstring has the sections of its kind."""

import inspect
import re

import pytest

from docs.pages import DOCS, blocks, pages
from public_names import MODULES, PUBLIC, doc, public

INDEX = DOCS / "reference" / "functions.md"
BLOCK = re.compile(r"^```\{api\} (.*)\n(?::module: (\S+)\n)?```$", re.MULTILINE)
OTHERS = {"checked", "rejected"}
"""Names that are described by other names."""
CANNOT_RAISE = {"counters", "Timetable"}
"""Names that only read a table or hold numbers."""
RESULT_TABLES = (
    "asof_join", "earlier_values", "extent_join", "impute", "neighbours", "reorder",
    "similarity_join", "top_k", "window_aggregate",
)  # fmt: skip
OF_A_PAPER = {
    "Delta", "Dependency", "Imputation", "Imputer", "PoissonBinomial", "Punctuator", "Range",
    "Rows", "Timetable", "Top", "UncertainWindow", "asof_join", "discover_dependencies",
    "draw_worlds", "existence", "expected_ranks", "extent_join", "fuse", "impute", "join_streams",
    "merge_worlds", "neighbours", "pk_topk", "prf", "prfe", "pt_k", "rank_probabilities",
    "reorder", "self_join", "similarity_join", "timetable", "top_k", "top_k_probabilities",
    "top_k_streams", "u_kranks", "u_topk", "where", "window_aggregate",
}  # fmt: skip
COST = re.compile(r"\bCost:|\b[Cc]osts?\b|Memory:")
ENTRY = re.compile(r"^[A-Z][^()]*\(\d{4}\)", re.MULTILINE)
LINKED = {
    "Dallachiesa et al. (2015)": "https://doi.org/10.1007/s10115-014-0804-5",
    "Kim et al. (2006)": "https://doi.org/10.1109/CIT.2006.33",
}


def section(name: str, title: str) -> str:
    """Return the text of a numpydoc section, or an empty string."""
    found = re.search(
        rf"^{title}\n-{{{len(title)}}}\n(.*?)(?=\n\n[A-Z][a-z]+\n-{{3,}}\n|\Z)",
        doc(name),
        re.MULTILINE | re.DOTALL,
    )
    return found[1] if found else ""


def kind(name: str) -> str:
    found = public(name)
    if not inspect.isclass(found):
        return "function"
    return "error" if issubclass(found, Exception) else "class"


def needed(name: str) -> list[str]:
    """Return the sections that a docstring must have."""
    if kind(name) == "error":
        return []
    sections = ["Parameters", "Notes", "Examples"]
    if kind(name) == "function":
        sections.append("Returns")
    if name not in CANNOT_RAISE:
        sections.append("Raises")
    if name in OF_A_PAPER:
        sections.append("References")
    return sections


def test_the_reference_lists_every_public_name_once():
    listed = []
    for names, module in BLOCK.findall(INDEX.read_text("utf-8")):
        called = module.replace("sfumato", "sf", 1) if module else "sf"
        assert called in MODULES
        listed += [(name, called) for name in names.split()]
    assert len(listed) == len(set(listed))
    assert {*PUBLIC.items()} - {*listed} <= {(name, PUBLIC[name]) for name in OTHERS}
    assert {*listed} <= {*PUBLIC.items()}


@pytest.mark.parametrize("name", sorted(set(PUBLIC) - OTHERS))
def test_a_docstring_has_its_sections(name):
    assert [title for title in needed(name) if not section(name, title)] == []


@pytest.mark.parametrize("name", sorted(set(PUBLIC) - OTHERS))
def test_a_docstring_says_what_a_call_costs(name):
    assert kind(name) == "error" or COST.search(section(name, "Notes"))


@pytest.mark.parametrize("name", sorted(OF_A_PAPER))
def test_references_name_authors_and_year_and_have_a_link_where_one_is_known(name):
    text = section(name, "References")
    assert ENTRY.search(text)
    for authors, link in LINKED.items():
        assert text.count(authors) == text.count(link)
    assert "References:" not in doc(name)


def test_the_links_of_references_are_on_the_page_of_papers():
    papers = (DOCS / "papers.md").read_text("utf-8")
    assert [link for link in LINKED.values() if link not in papers] == []


def test_code_of_pages_imports_no_internal_modules():
    found = [
        f"{page.relative_to(DOCS.parent)}:{block.line}: {match[0]}"
        for page in pages()
        for block in blocks(page)
        if block.kind == "python"
        for match in re.finditer(r"(from|import) sfumato\.\w+\.\w+", block.text)
    ]
    assert not found, "\n".join(found)


def test_pages_that_docstrings_name_exist():
    paths = {
        str(page.relative_to(DOCS).with_suffix("")) for page in pages() if DOCS in page.parents
    }
    paths |= {f"reference/functions/{name}" for name in PUBLIC}
    for name in PUBLIC:
        assert not re.search(r"\bdocs/\S+\.md", doc(name)), name
        for page in re.findall(r"page (\S+) of the documentation", doc(name)):
            assert page in paths, name


@pytest.mark.parametrize("name", RESULT_TABLES)
def test_a_page_has_its_columns_as_a_table(name):
    text = (DOCS / "reference" / "notes" / f"{name}.md").read_text("utf-8")
    assert re.search(
        r"^## (Columns|.*[Rr]esult).*\n(?:\n|[^#|].*\n)*\| (column|window)", text, re.M
    )
