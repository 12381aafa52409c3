"""Try the wheel and the source distribution in fresh environments.

1. `pip install sfumato`: tables in memory work without PySpark, the import is quick, and what needs
   another package says so.
2. Next to `pyspark-client`, the thin client of Spark Connect, every public name exists.
3. `sfumato[demo]`: the README's example, and the demo of `examples` with the installed package.
4. Uninstalling leaves nothing.
5. The source distribution builds the same wheel.
"""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path

from environments import ROOT, Environment, Outcome, fresh, run, run_demo, run_page

WORK = ROOT / "build" / "check"
MAX_IMPORT_SECONDS = 0.3  # for `import sfumato`
BARE = """
import importlib.util, sys
assert not [n for n in ("pyspark", "pandas", "typer", "rich") if importlib.util.find_spec(n)]
import pyarrow as pa
import sfumato as sf
times = [pa.array(t, pa.timestamp("us", "UTC")) for t in ([3, 1, 2], [3, 4, 5])]
rows = pa.table(times, ["made", "arrival"])
late = sf.reorder(rows, event_time="made", arrival="arrival", slack=1)["late"].to_pylist()
assert late == [False, False, False], late
try:
    sf.reorder
except ImportError as error:
    print(error)
"""
TIMED = """
import time
began = time.perf_counter()
import sfumato
print(time.perf_counter() - began)
"""


def main(wheel: Path, source: Path) -> None:
    """Run all checks and print each. Raises SystemExit for the first that fails."""
    bare(wheel)
    thin_client(wheel)
    complete(wheel)
    from_source(wheel, source)


def bare(wheel: Path) -> None:
    environment = fresh(WORK / "bare")
    before = files(environment)
    passed("installs without Spark", environment.pip("install", str(wheel)))
    said = passed("answers without Spark", environment.run(["python", "-c", BARE])).text
    expect("says what is missing", "pip install 'sfumato[spark]'" in said, said)
    command = environment.run(["sfumato", "run"])
    as_wanted = command.code == 1 and "pip install 'sfumato[cli]'" in command.text
    expect("the command says what is missing", as_wanted, command.text)
    times = [float(environment.run(["python", "-c", TIMED]).text) for _ in range(5)]
    quick = min(times) <= MAX_IMPORT_SECONDS
    expect(f"is imported in {min(times):.2f} s", quick, f"{times} s; at most {MAX_IMPORT_SECONDS}")
    uninstall(environment, before, kept="var/cache/sfumato/kernels")


def thin_client(wheel: Path) -> None:
    environment = fresh(WORK / "client")
    passed(
        "installs next to a thin client",
        environment.pip("install", str(wheel), "pyspark-client>=4.1,<5"),
    )
    names = (
        "import sfumato as sf; [getattr(module, name) for module in "
        "(sf, sf.engine_free, sf.errors, sf.ops) for name in module.__all__]"
    )
    passed("has every name with a thin client", environment.run(["python", "-c", names]))
    shutil.rmtree(environment.folder)


def complete(wheel: Path) -> None:
    environment = fresh(WORK / "demo")
    before = files(environment)
    passed("installs with the demo", environment.pip("install", f"{wheel}[demo,java]"))
    kernels = environment.folder / "var" / "cache" / "sfumato" / "kernels"  # where they are kept
    passed("runs the README's example", run_page(environment, kernels, "README.md", None))
    passed("runs the demo", run_demo(environment, kernels))
    passed("removes its kernels", environment.run(["sfumato", "warm-up", "--remove"]))
    uninstall(environment, before)


def uninstall(environment: Environment, before: set[str], kept: str = "") -> None:
    """Uninstall the package, and check that it leaves nothing. kept : compiled kernels"""
    passed("is uninstalled", environment.pip("uninstall", "sfumato"))
    left = [name for name in files(environment) - before if "sfumato" in name]
    others = [of for of in left if not kept or not (kept.startswith(of) or of.startswith(kept))]
    expect("leaves nothing else", not others, "\n".join(others))
    shutil.rmtree(environment.folder)


def from_source(wheel: Path, source: Path) -> None:
    folder = WORK / "from-source"
    shutil.rmtree(folder, ignore_errors=True)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, source]
    passed("is built from the source distribution", run(build))
    (again,) = folder.glob("*.whl")
    expect("is the same from source", contents(again) == contents(wheel), f"{again} and {wheel}")


def contents(wheel: Path) -> dict[str, int]:
    """Return the files of a wheel with their checksums."""
    with zipfile.ZipFile(wheel) as archive:
        return {each.filename: each.CRC for each in archive.infolist()}


def files(environment: Environment) -> set[str]:
    found = environment.folder.rglob("*")
    return {str(path.relative_to(environment.folder)) for path in found}


def passed(what: str, outcome: Outcome) -> Outcome:
    expect(f"{what} ({outcome.seconds:.0f} s)", outcome.code == 0, outcome.text)
    return outcome


def expect(what: str, holds: bool, output: str) -> None:
    if not holds:
        raise SystemExit(f"the check failed that the package {what}:\n{output}")
    print(f"  {what}", flush=True)


if __name__ == "__main__":
    main(*(Path(path) for path in sys.argv[1:]))
