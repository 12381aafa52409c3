"""CONTRIBUTING.md describes the actual tree: its layers, concepts and modules."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "sfumato"
MAP = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
CONCEPT_LAYERS = ("kernels", "operators", "tables")


def folders(of: Path) -> set[str]:
    return {path.parent.name for path in of.glob("*/__init__.py")}


def table(heading: str) -> list[list[str]]:
    """Return the rows, without the header, of the table whose first cell is `heading`."""
    lines = MAP.split(f"| {heading}", 1)[1].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_layer_has_a_row():
    assert {row[0].strip("`") for row in table("layer")} == folders(SOURCE)


def test_every_concept_has_a_row_and_a_cell_in_its_layers():
    rows = {row[0].strip("`"): row[1:] for row in table("concept")}
    for place, layer in enumerate(CONCEPT_LAYERS):
        described = {concept for concept, cells in rows.items() if cells[place]}
        assert described == folders(SOURCE / layer), layer


def test_every_module_between_the_layers_is_named():
    named = set(re.findall(r"`(\w+)`", MAP))
    modules = {path.stem for path in SOURCE.glob("*.py")} - {"__init__"}
    assert not modules - named
