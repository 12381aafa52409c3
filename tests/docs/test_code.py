"""Every code block of README and site runs, page by page, and prints the output shown.

A page's Python blocks run in order, as if typed one after another, all pages in one session. A
block `text` after a block is its output, where `...` matches anything; a block that prints without
one fails. SQL is planned over the page's frames and tables, TOML is parsed. Things that a reader
already has, such as a file, are created in a comment `<!-- setup`. The next block is skipped after
a comment `<!-- not run: REASON -->`. Pictures that a page saves must equal the ones in
docs/pictures; SFUMATO_PICTURES=1 writes them.
"""

import ast
import io
import os
import re
import shutil
import tomllib
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from pathlib import PurePath
from typing import Any

import pytest

from docs.pages import DOCS, ROOT, blocks, links, pages
from seeds import nightly_except

CODE = ("python", "sql", "toml")
NAMES = [
    str(page.relative_to(ROOT))
    for page in pages()
    if any(block.kind in CODE for block in blocks(page))
]
# The streams of these pages take most of the time of all pages.
NIGHTLY = (
    "docs/backfill.md",
    "docs/how-to/end-of-stream.md",
    "docs/how-to/late-rows.md",
    "docs/how-to/model-scores.md",
    "docs/how-to/port-watermark.md",
)
TASKS = ("docs/how-to/", "docs/tutorials/", "docs/backfill.md")
"""Pages of tasks: each writes only to a folder with its name."""
PATH_CALLS = {
    "Path", "csv", "json", "load", "mkdir", "open", "orc", "parquet", "save", "start", "text",
    "to_csv", "to_json", "to_parquet",
}  # fmt: skip
PATH_OPTIONS = {"checkpointLocation", "path"}
PATH_KEYS = {"checkpoint", "path", "late"}
WITH_FOLDER = re.compile(r"(\./)?[\w-]+(/[\w.*=-]*)+")
NOT_OF_A_PAGE = {
    "docs/how-to/local-days.md": {"America/New_York", "America/New_Yrok"},  # time zones
    "docs/how-to/declarative-pipelines.md": {"/data/in", "/data/warehouse/readings"},
    "docs/tutorials/project.md": {"project.toml"},  # the pipeline file, next to its folder
}
NOT_RUN_AT_MOST = 12
"""Largest number of skipped blocks over all pages: they need a broker, a cluster or a different
version.
"""


def run(text: str, page: str, line: int, names: dict[str, Any]) -> str:
    """Return the output of a Python block; errors have the page's line numbers."""
    said = io.StringIO()
    code = compile("\n" * (line - 1) + text, page, "exec")
    with redirect_stdout(said):
        exec(code, names)
    return said.getvalue()


def given(page: str, spark) -> dict[str, Any]:
    """Return the names that exist before a page's first block; none if it is self-contained."""
    if page.startswith(("README", "docs/how-to", "docs/tutorials")):
        return {"__name__": "page"}
    import sfumato as sf

    return {"__name__": "page", "spark": spark, "sf": sf}


def same(said: str, shown: str) -> bool:
    return OutputChecker().check_output(shown, said, ELLIPSIS | NORMALIZE_WHITESPACE)


def plan(spark, text: str, names: dict[str, Any]) -> None:
    """Plan SQL over the session's tables and the page's frames. Nothing is started."""
    from pyspark.sql import DataFrame

    import sfumato as sf

    frames = {name: frame for name, frame in names.items() if isinstance(frame, DataFrame)}
    if text.strip().upper().startswith("EXPLAIN"):
        sf.explain(spark, text, **frames)
    else:
        sf.sql(spark, text, **frames)


@pytest.fixture
def tidy(spark, spark_folder):
    """Yield the session, then remove queries, views and files, so that the next page finds none."""
    before = set(spark_folder.iterdir())
    yield spark
    for query in spark.streams.active:
        query.stop()
    for table in spark.catalog.listTables():
        if table.isTemporary:
            spark.catalog.dropTempView(table.name)
    for path in set(spark_folder.iterdir()) - before:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.mark.parametrize("name", nightly_except(NAMES, *set(NAMES) - set(NIGHTLY)))
def test_code_runs_and_prints_what_the_page_says(name, tidy, spark_folder):
    found = blocks(ROOT / name)
    names = given(name, tidy)
    left_out = False
    before = set(spark_folder.iterdir())
    with chdir(spark_folder):
        for block, after in zip(found, [*found[1:], None], strict=True):
            if block.kind.startswith("not run:"):
                left_out = True
                continue
            if block.kind in CODE and left_out:
                left_out = False
                continue
            at = f"{name}:{block.line}"
            if block.kind in ("setup", "python"):
                said = run(block.text, name, block.line, names)
                shown = after.text if after and after.kind == "text" else ""
                assert block.kind == "setup" or same(said, shown), f"{at} prints\n{said}"
            elif block.kind == "sql":
                plan(tidy, block.text, names)
            elif block.kind == "toml":
                tomllib.loads(block.text)
    if name.startswith(TASKS):
        written = {path.name for path in set(spark_folder.iterdir()) - before}
        written -= {"spark-warehouse", "metastore_db", "derby.log"} | NOT_OF_A_PAGE.get(name, set())
        # Spark may still write to the previous page's folder, which then appears again.
        written -= {PurePath(other).stem for other in NAMES if other != name}
        assert written <= {PurePath(name).stem}, "a page writes into a folder of its name only"
    shown = {PurePath(to).name for to, _ in links(ROOT / name)}
    for picture in spark_folder.rglob("*.svg"):
        if picture.name not in shown:
            continue  # a picture that is shown only to the reader
        kept = DOCS / "pictures" / picture.name
        if "SFUMATO_PICTURES" in os.environ:
            shutil.copy(picture, kept)
        assert kept.is_file(), f"run this with SFUMATO_PICTURES=1 to keep {picture.name}"


def beginning(node: ast.AST | None) -> str:
    """Return the text of a string, or the beginning of an f-string; otherwise an empty string."""
    if isinstance(node, ast.JoinedStr):
        node = node.values[0] if node.values else None
    known = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return node.value if known else ""


def python_paths(text: str) -> Iterator[str]:
    """Yield the relative paths in a block of Python: first arguments of calls that read or write,
    values of options, and strings that look like a path with a folder."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and node.args:
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            place = 1 if called == "save" else 0
            if called in PATH_CALLS and len(node.args) > place:
                yield beginning(node.args[place])
            if called == "option" and beginning(node.args[0]) in PATH_OPTIONS:
                yield beginning(node.args[1])
        elif WITH_FOLDER.fullmatch(beginning(node)):
            yield beginning(node)


def toml_paths(value: Any) -> Iterator[str]:
    """Yield the paths of a pipeline file."""
    for key, inner in value.items() if isinstance(value, dict) else ():
        if isinstance(inner, dict):
            yield from toml_paths(inner)
        elif key in PATH_KEYS and isinstance(inner, str):
            yield inner


def test_pages_of_tasks_use_folders_of_their_names():
    found = []
    for page in pages():
        name = str(page.relative_to(ROOT))
        if not name.startswith(TASKS):
            continue
        for block in blocks(page):
            kind = block.kind
            if kind == "python":
                paths = [path for path in python_paths(block.text) if path]
            else:
                paths = [*toml_paths(tomllib.loads(block.text))] if kind == "toml" else []
            for path in paths:
                top = path.removeprefix("./").partition("/")[0]
                if top != page.stem and path not in NOT_OF_A_PAGE.get(name, set()):
                    found.append(f"{name}:{block.line}: {path!r} is not in {page.stem}/")
    assert not found, "\n".join(found)


def test_few_blocks_are_left_out():
    left = [
        f"{page.relative_to(DOCS.parent)}:{block.line}: {block.kind}"
        for page in pages()
        for block in blocks(page)
        if block.kind.startswith("not run:")
    ]
    assert len(left) <= NOT_RUN_AT_MOST, "\n".join(left)
