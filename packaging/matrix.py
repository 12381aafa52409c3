"""Try the package with each Python and each PySpark: `make matrix`.

Each combination gets a fresh environment with the wheel and the newest versions of all other
packages. uv makes it; a Python that is not on the PATH is downloaded. It runs the examples of the
documentation, the demo and some tests, and takes some minutes. Its line in docs/versions.md is
replaced; lines of combinations that are not given stay.

    python packaging/matrix.py                       all
    python packaging/matrix.py 3.12/4.1 3.13/4.3     some
"""

from __future__ import annotations

import re
import shutil
import sys
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path

import environments as env
from environments import ROOT, Environment, Outcome, fresh, require, run

PYTHONS, SPARKS = ("3.11", "3.12", "3.13", "3.14"), ("4.1", "4.2", "4.3")
COMBINATIONS = [f"{python}/{spark}" for python, spark in product(PYTHONS, SPARKS)]
STEPS = {
    "without Spark": partial(env.run_page, page="docs/in-memory.md", blocks=1),
    "README": partial(env.run_page, page="README.md", blocks=None),
    "demo": env.run_demo,
    "tests": env.run_tests,
}
WORK = ROOT / "build" / "matrix"
PAGE = ROOT / "docs" / "versions.md"
LISTED = ("numpy", "numba", "pyarrow", "pandas", "pyspark")
VERSIONS = "import sys; from importlib.metadata import version as v; print(*map(v, sys.argv[1:]))"


def try_combination(name: str, wheel: Path) -> list[str]:
    """Return the cells of a combination: the result of each step, the date and the packages."""
    version, spark = name.split("/")
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    environment = fresh(WORK / name.replace("/", "-"), version)
    needs = [f"{wheel}[demo,java]", f"pyspark=={spark}.*", *env.FOR_TESTS]
    if (done := environment.pip("install", *needs)).code:
        return [*("cannot be installed" for _ in STEPS), today, done.last_line]
    found = []
    for step, run_step in STEPS.items():
        if step == "demo" and spark == "4.1":
            found.append("needs PySpark 4.2")
            continue
        outcome = run_step(environment, WORK / "kernels")
        (WORK / f"{environment.folder.name}-{step.replace(' ', '-')}.log").write_text(outcome.text)
        found.append(word(outcome))
        print(f"{name}: {step}: {found[-1]}", flush=True)
    versions = _versions(environment)
    shutil.rmtree(environment.folder)
    return [*found, today, versions]


def _versions(environment: Environment) -> str:
    found = require(environment.run(["python", "-c", VERSIONS, *LISTED])).text.split()
    return ", ".join(map(" ".join, zip(LISTED, found, strict=True)))


def word(outcome: Outcome) -> str:
    """Return the counts of tests, yes, or why a step failed."""
    counts = re.search(r"\d+ (failed|passed).*(?= in )", outcome.last_line)
    if counts:
        return counts[0]
    return "yes" if outcome.code == 0 else f"fails: {outcome.last_line[:80]}"


def with_line(page: str, name: str, cells: list[str]) -> str:
    """Replace the line of a combination in the page."""
    start = "| {} | {} |".format(*name.split("/"))
    line = f"{start} {' | '.join(cells)} |"
    return re.sub(rf"^{re.escape(start)}.*$", lambda _: line, page, flags=re.MULTILINE)


def main(wanted: list[str]) -> None:
    shutil.rmtree(WORK / "wheel", ignore_errors=True)
    require(run([sys.executable, "-m", "build", "--wheel", "--outdir", WORK / "wheel", ROOT]))
    (wheel,) = (WORK / "wheel").glob("*.whl")
    for name in wanted or COMBINATIONS:
        PAGE.write_text(with_line(PAGE.read_text(), name, try_combination(name, wheel)))


if __name__ == "__main__":
    main(sys.argv[1:])
