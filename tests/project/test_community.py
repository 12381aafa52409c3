"""The project's community files: issue forms are valid, and links have targets."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FORMS = sorted(
    set((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    - {ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml"}
)
PAGES = ["SECURITY.md", "CODE_OF_CONDUCT.md", "ROADMAP.md", "CONTRIBUTING.md", "CHANGELOG.md"]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_a_form_has_what_forms_need(form):
    found = yaml.safe_load(form.read_text())
    assert {"name", "description", "body"} <= set(found)
    asked = [part for part in found["body"] if part["type"] != "markdown"]
    assert all(part["attributes"]["label"] for part in asked)
    names = [part["id"] for part in asked]
    assert len(set(names)) == len(names)
    assert any(part.get("validations", {}).get("required") for part in asked)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / page).read_text()):
        assert (ROOT / target).exists(), f"{page} links to {target}"


def test_the_source_distribution_takes_them_along():
    taken = (ROOT / "MANIFEST.in").read_text().split()
    assert set(PAGES) <= set(taken)
