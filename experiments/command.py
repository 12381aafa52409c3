"""`python -m experiments`: measure the papers' figures again."""

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from experiments.catalogue import experiments
from experiments.experiment import Experiment, Setting
from experiments.record import page, provenance, run, write
from sfumato.cli.main import USAGE, failed

_COLOUR = {"reproduced": "green", "refuted": "red", "differs": "yellow"}


class UnknownExperimentError(Exception):
    """No experiment has this name."""


def chosen(names: Iterable[str]) -> list[Experiment]:
    """Return the experiments with these names, in any case; a letter selects its paper's."""
    known = experiments()
    found: list[Experiment] = []
    for name in names:
        wanted = name.upper()
        if len(wanted) == 1:
            matches = [e for e in known.values() if e.name.startswith(wanted)]
        else:
            matches = [known[wanted]] if wanted in known else []
        if not matches:
            raise UnknownExperimentError(
                f"there is no experiment {name!r}; there are {', '.join(known)}"
            )
        found += [e for e in matches if e not in found]
    return found


def list_experiments(console: Console) -> None:
    """Print a table of the experiments."""
    table = Table("experiment", "what", "source", box=None, padding=(0, 2, 0, 0))
    for experiment in experiments().values():
        table.add_row(experiment.name, escape(experiment.title), escape(experiment.source))
    console.print(table)


def reproduce(
    wanted: list[Experiment], setting: Setting, out: Path, console: Console, page_at: Path | None
) -> list[str]:
    """Run experiments one after the other; print claim, numbers and verdict; write into `out`."""
    failed, began = [], time.monotonic()
    for experiment in wanted:
        console.print(f"[bold]{experiment.name}[/bold] {escape(experiment.title)}")
        try:
            _one(experiment, setting, out, console)
        except Exception as error:
            failed.append(experiment.name)
            said = escape(f"{type(error).__name__}: {error}")
            console.print(f"  [red]failed[/red]   {said}")
    if wanted:
        took = _duration(time.monotonic() - began)
        console.print(f"{len(wanted) - len(failed)} of {len(wanted)} experiments in {took}")
    console.print(f"Raw numbers and charts: {escape(str(out))}", soft_wrap=True)
    if page_at is not None:
        charts = os.path.relpath(out, page_at.parent).replace(os.sep, "/")
        page_at.write_text(page(experiments().values(), out, charts) + "\n")
        console.print(f"Page: {escape(str(page_at))}", soft_wrap=True)
    return failed


def _one(experiment: Experiment, setting: Setting, out: Path, console: Console) -> None:
    began = time.monotonic()
    result = run(experiment, setting)
    write(experiment, result, out)
    verdict = experiment.judge(result.rows)
    colour = _COLOUR[verdict.status]
    console.print(f"  claim    {escape(experiment.claim)}")
    console.print(f"  measured {escape(verdict.because)}")
    console.print(f"  verdict  [{colour}]{verdict.status}[/{colour}]")
    if note := provenance(result):
        console.print(f"  note     [yellow]{escape(note)}[/yellow]")
    console.print(f"  took     {_duration(time.monotonic() - began)}")


def _duration(seconds: float) -> str:
    """Format seconds: 75.2 is "1 min 15 s"."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="A10, DT9, ..., or a letter for a whole paper."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every experiment.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller sizes and fewer repetitions.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            file_okay=False,
            exists=True,
            help="Folder of the public data sets, which some experiments need.",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(file_okay=False, help="Folder for raw numbers and charts.")
    ] = Path("reproduced"),
    page: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write a Markdown page of all results.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")] = 1,
) -> None:
    """Measure the papers' figures again; without NAME, list them (or write the page of --out)."""
    console = Console()
    if not names and not everything and page is None:
        list_experiments(console)
        return
    try:
        wanted = list(experiments().values()) if everything else chosen(names or [])
    except UnknownExperimentError as error:
        raise failed(error, USAGE) from None
    setting = Setting(quick=quick, data=data, seed=seed)
    if names_failed := reproduce(wanted, setting, out, console, page):
        raise failed(f"failed: {', '.join(names_failed)}")
