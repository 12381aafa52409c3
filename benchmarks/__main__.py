"""Run all comparisons (`make bench`), or some: `python -m benchmarks windows cdf`.

`--out FOLDER` writes the rows of each suite to NAME.json. `--page FILE` writes a page with all rows
in that folder; without suites, nothing is measured. `--quick` runs a suite on the small sizes in
its `QUICK`: it checks that the suite works, and its figures mean nothing.

A suite is a module of `suites`. Its docstring describes what it measures and against which peer;
its `run` returns the rows. Ratios are the peer's time over ours (greater is better) unless stated
otherwise. Peers are straightforward C++ versions of the papers' algorithms, compiled here, and the
named libraries. Each comparison first checks that both sides agree.
"""

from importlib import import_module
from pathlib import Path
from typing import Annotated

from typer import Argument, BadParameter, Exit, Option, run

from benchmarks.page import SUITES, keep, plain, show, written


def main(
    suites: Annotated[list[str] | None, Argument(help="Some of the suites; none: all.")] = None,
    out: Annotated[Path | None, Option(help="Folder that keeps the rows of each suite.")] = None,
    page: Annotated[Path | None, Option(help="Write a Markdown page of all rows in --out.")] = None,
    quick: Annotated[bool, Option(help="Small sizes; the numbers mean nothing.")] = False,
) -> None:
    """Measure, and exit with 1 if a goal is missed."""
    if page is not None and out is None:
        raise BadParameter("`--page` is written from the rows in --out: name that folder too")
    if quick and out is not None:
        raise BadParameter("figures of `--quick` are not kept: leave out --out")
    unknown = [name for name in suites or () if name not in SUITES]
    if unknown:
        raise BadParameter(f"expected any of {', '.join(SUITES)}; got {', '.join(unknown)}")
    missed = 0
    for name in suites or (() if page is not None else SUITES):
        suite = import_module(f"benchmarks.suites.{name}")
        for constant, small in (suite.QUICK if quick else {}).items():
            setattr(suite, constant, small)
        rows = plain(suite.run())
        show(name.replace("_", " "), rows)
        missed += sum(row.get("met") is False for row in rows)
        if out is not None:
            keep(out, name, rows)
    if page is not None and out is not None:
        page.write_text(written(out))
    if missed and not quick:
        print(f"{missed} goals not met")
        raise Exit(1)


if __name__ == "__main__":
    run(main)
