"""Examples in the docstrings of public names run over the frames of the page of functions."""

import doctest
import inspect
from typing import Any

import pytest

import sfumato as sf
from docs.pages import DOCS, blocks
from public_names import PUBLIC, doc, home, public

WITHOUT = {
    "DriftWarning", "FewRowsWarning", "Imputation", "InvalidRowsWarning", "ReplaySource",
    "SqlError", "Timetable", "chart", "run_to_end", "upsert_revisions", "warm_up",
    "watch",
}  # fmt: skip
"""Names whose use is shown on pages: they write files, wait, open a port, or are not functions."""

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def needs_spark(name: str) -> bool:
    return (
        home(name).startswith(("sfumato.api", "sfumato.spark", "sfumato.language"))
        and name != "settings"
    )


@pytest.fixture(scope="module")
def frames(spark) -> dict[str, Any]:
    """Return the frames that the page defines for the examples."""
    names: dict[str, Any] = {"sf": sf, "spark": spark}
    for block in blocks(DOCS / "reference" / "functions.md"):
        if block.kind == "python":
            exec(block.text, names)
    return names


def run(name: str, names: dict[str, Any]) -> None:
    said: list[str] = []
    finder = doctest.DocTestFinder(recurse=True, exclude_empty=True)
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    for found in finder.find(public(name), name, extraglobs=names):
        runner.run(found, out=said.append, clear_globs=True)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)


@pytest.mark.parametrize("name", [name for name in PUBLIC if not needs_spark(name)])
def test_examples_without_spark(name):
    run(name, {"sf": sf})


@pytest.mark.parametrize("name", [name for name in PUBLIC if needs_spark(name)])
def test_examples_on_spark(name, frames):
    run(name, frames)


def test_every_function_has_an_example():
    lacking = {name for name in PUBLIC if ">>>" not in doc(name)}
    assert lacking <= WITHOUT


def test_every_argument_of_a_function_is_in_its_table():
    missing = []
    for name in set(PUBLIC) - {"ReplaySource", "SqlError", "checked", "rejected"}:
        if not inspect.isroutine(public(name)):
            continue
        table = doc(name).partition("Parameters\n")[2].partition("\n\nReturns")[0]
        heads = [line for line in table.splitlines() if line[:1].strip()]
        listed = {each.strip() for line in heads for each in line.split(",")}
        arguments = set(inspect.signature(public(name)).parameters)
        if "..." not in listed and arguments - listed:
            missing.append(f"{name}: {sorted(arguments - listed)}")
    assert not missing
