"""Is the package whole? Its wheel and source distribution in brand-new environments.

1. `pip install sfumato`: local functions answer without PySpark, the import is quick, and what
   needs more says so in a sentence.
2. Beside `pyspark-client`, the thin client of Spark Connect, every public name is there.
3. `sfumato[demo]`: the README's example, and the demo of `examples` with the installed package.
4. Uninstalled, nothing is left of it.
5. The source distribution builds the same wheel.
"""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path

import steps
from environments import ROOT, Environment, Outcome, fresh, run

WORK = ROOT / "build" / "check"
MOST_SECONDS = 0.3  # for `import sfumato`
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


class NotWholeError(Exception):
    """A check failed; what its program said."""


def main(wheel: Path, source: Path) -> None:
    """Run all checks, saying each. Raises SystemExit with what failed."""
    try:
        bare(wheel)
        thin_client(wheel)
        complete(wheel)
        from_source(wheel, source)
    except NotWholeError as error:
        raise SystemExit(f"the package is not whole:\n{error}") from None


def bare(wheel: Path) -> None:
    environment = fresh(WORK / "bare", sys.executable)
    before = files(environment)
    told("installs without Spark", environment.install(str(wheel)))
    said = told("answers without Spark", environment.run(["python", "-c", BARE])).text
    expected("says what is missing", "pip install 'sfumato[spark]'" in said, said)
    command = environment.run(["sfumato", "run"])
    as_wanted = command.code == 1 and "pip install 'sfumato[cli]'" in command.text
    expected("the command says what is missing", as_wanted, command.text)
    times = [float(environment.run(["python", "-c", TIMED]).text) for _ in range(5)]
    quick = min(times) <= MOST_SECONDS
    expected(f"is imported in {min(times):.2f} s", quick, f"{times} s; at most {MOST_SECONDS}")
    told("is uninstalled", environment.uninstall("sfumato"))
    left = [name for name in files(environment) - before if "sfumato" in name]
    kept = "var/cache/sfumato/kernels"  # and the folders that it is in
    others = [name for name in left if not (kept.startswith(name) or name.startswith(kept))]
    expected("leaves nothing but compiled kernels", not others, "\n".join(others))
    shutil.rmtree(environment.folder)


def thin_client(wheel: Path) -> None:
    environment = fresh(WORK / "client", sys.executable)
    told("installs beside a thin client", environment.install(str(wheel), "pyspark-client>=4.1,<5"))
    names = (
        "import sfumato as sf; [getattr(module, name) for module in "
        "(sf, sf.engine_free, sf.errors, sf.ops) for name in module.__all__]"
    )
    told("has every name with a thin client", environment.run(["python", "-c", names]))
    shutil.rmtree(environment.folder)


def complete(wheel: Path) -> None:
    environment = fresh(WORK / "demo", sys.executable)
    before = files(environment)
    told("installs with the demo", environment.install(f"{wheel}[demo,java]"))
    kernels = environment.folder / "var" / "cache" / "sfumato" / "kernels"  # where they are kept
    told("runs the README's example", steps.readme(environment, kernels))
    told("runs the demo", steps.demo(environment, kernels))
    told("removes its kernels", environment.run(["sfumato", "warm-up", "--remove"]))
    told("is uninstalled", environment.uninstall("sfumato"))
    left = [name for name in files(environment) - before if "sfumato" in name]
    expected("leaves nothing", not left, "\n".join(left))
    shutil.rmtree(environment.folder)


def from_source(wheel: Path, source: Path) -> None:
    folder = WORK / "from-source"
    shutil.rmtree(folder, ignore_errors=True)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, source]
    told("is built from the source distribution", run(build))
    (again,) = folder.glob("*.whl")
    expected("is the same from source", contents(again) == contents(wheel), f"{again} and {wheel}")


def contents(wheel: Path) -> dict[str, int]:
    """The files of a wheel with their checksums."""
    with zipfile.ZipFile(wheel) as archive:
        return {each.filename: each.CRC for each in archive.infolist()}


def files(environment: Environment) -> set[str]:
    found = environment.folder.rglob("*")
    return {str(path.relative_to(environment.folder)) for path in found}


def told(what: str, outcome: Outcome) -> Outcome:
    expected(f"{what} ({outcome.seconds:.0f} s)", outcome.code == 0, outcome.text)
    return outcome


def expected(what: str, holds: bool, else_said: str) -> None:
    if not holds:
        raise NotWholeError(f"{what}: no\n{else_said}")
    print(f"  {what}", flush=True)


if __name__ == "__main__":
    main(*(Path(path) for path in sys.argv[1:]))
