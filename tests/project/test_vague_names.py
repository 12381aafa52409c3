"""No class, function, field or constant has a name that does not describe it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "sfumato"

CLASSES = """
    Account Arrivals Arriving Asked ByKey Cells DiscreetConsole Due Edits FiniteLaws Frozen Fused
    Given HeldBack HeldTuples Holding Kept LawOptions LawfulResults Made Measured Moved Nearness
    Once Passed Passing Piece Places Reached Resident Sets Shown Taken Task Turn Visit Waits Wanted
    Whole
"""
FUNCTIONS = """
    anew apart asked asks begun behind_batch by_worth calibrated chosen damage_in decided evenly
    fitted forced grown is_passing judge judged keep_levels law_of lend lending lift lifted longer
    made moved never_behind noded numbered oddities owned plant prunes quick_probability recall
    refuse_later_work remember riders said says shown silence spans spares_late speak taken_at
    taken_by told wake
"""
FIELDS = "apart asked asks bands chosen judged lending lifted owned planes reals riders together"
CONSTANTS = """
    CALM CLOSE COARSE DAMAGE FARTHEST FLURRY GENTLE KEPT LENDING LONGEST MANY MARKS NEVER PASSING
    RARE RAREST RISE SEVERAL SIZES STANDS STAYS UNLIKELY
"""
VAGUE = {
    "class": set(CLASSES.split()),
    "function": set(FUNCTIONS.split()),
    "value": set(f"{FIELDS} {CONSTANTS}".split()),
}


LAW = re.compile(r"(^|_)(law|LAW)(s|S|ful)?(_|$)|Laws?(?![a-z])")  # a distribution, in this package


def names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield (kind, name) of classes, functions, and values of modules and classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield "class", node.name
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield "function", node.name
        if isinstance(node, (ast.ClassDef, ast.Module)):
            for part in node.body:
                targets = part.targets if isinstance(part, ast.Assign) else ()
                targets = (part.target,) if isinstance(part, ast.AnnAssign) else targets
                for of in (of for target in targets for of in ast.walk(target)):
                    if isinstance(of, ast.Name):
                        yield "value", of.id


def vague(text: str) -> list[str]:
    return [
        name
        for kind, name in names(ast.parse(text))
        if name.lstrip("_") in VAGUE[kind] or LAW.search(name)
    ]


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.stem)
def test_no_name_says_nothing(path):
    assert vague(path.read_text(encoding="utf-8")) == []


def test_each_kind_of_name_is_seen():
    text = "NEVER, _MANY = 1, 2\nclass Held:\n    asks: int\n    def said(self): told = 1\n"
    found = vague(text + "class _Made: ...\nasync def judge(law): ...\ndef law_of(): ...")
    assert sorted(found) == ["NEVER", "_MANY", "_Made", "asks", "judge", "law_of", "said"]
