"""Links in README and site lead to files, pages and headings; every page is listed."""

from pathlib import Path
from urllib.parse import unquote

import pytest

from docs.pages import DOCS, ROOT, anchors, blocks, links, pages

NOTES = DOCS / "reference" / "notes"  # parts of the pages of functions
NAMES = [str(page.relative_to(ROOT)) for page in pages()]


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name):
    page = ROOT / name
    dead = []
    for target, line in links(page):
        if ":" in target:
            continue
        path, _, anchor = unquote(target).partition("#")
        at = (page.parent / path).resolve() if path else page
        if not at.exists():
            dead.append(f"{name}:{line}: {target}: there is no such file")
        elif at.parent == NOTES and page.parent != NOTES:
            dead.append(f"{name}:{line}: {target}: notes are no page of the site")
        elif anchor and at.suffix == ".md" and anchor not in anchors(at):
            dead.append(f"{name}:{line}: {target}: the page has no such heading")
    assert not dead, "\n".join(dead)


def listed(page: Path) -> set[Path]:
    """Return the pages in a page's tables of contents."""
    found: set[Path] = set()
    for block in blocks(page):
        if block.kind != "{toctree}":
            continue
        for line in block.text.splitlines():
            if line and not line.startswith(":"):
                folder, _, name = line.rpartition("/")
                found |= set((page.parent / folder).resolve().glob(f"{name}.md"))
                found |= set((page.parent / folder).resolve().glob(f"{name}.ipynb"))
    return found


def test_every_page_is_in_a_list_of_pages():
    inside = {DOCS / "index.md", *NOTES.glob("*.md")}.union(*(listed(page) for page in pages()))
    missing = [name for name in NAMES[1:] if ROOT / name not in inside]
    assert not missing, f"name them in a toctree, of docs/reference/index.md say: {missing}"
