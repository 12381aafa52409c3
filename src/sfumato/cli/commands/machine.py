"""The commands without streams: `reproduce` measures, `warm-up` compiles."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sfumato.cli.commands.shared import FAILED, USAGE, failed


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="A10, DT9, ..., or a letter for all of a paper."),
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
            help="Folder of the public data sets; without it stand-ins are used, and said.",
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
    try:
        from sfumato.cli import reproduce as command
    except ImportError as error:
        raise failed(f"{error}; install the extra: pip install 'sfumato[reproduce]'") from None
    from sfumato.reproduce.experiment import Setting

    console = Console()
    if not names and not everything and page is None:
        command.list_experiments(console)
        return
    try:
        wanted = command.chosen(names or [])
    except command.UnknownExperimentError as error:
        raise failed(error, USAGE) from None
    if everything:
        wanted = list(command.experiments().values())
    setting = Setting(quick=quick, data=data, seed=seed)
    if lacking := command.reproduce(wanted, setting, out, console, page):
        raise failed(f"failed: {', '.join(lacking)}")


def warm_up(
    processes: Annotated[
        int | None,
        typer.Option(min=1, help="How many compile at a time; default: one for each core."),
    ] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Delete all compiled kernels instead: to uninstall.")
    ] = False,
) -> None:
    """Compile all that queries will need, once for this machine or image."""
    import sfumato as sf

    console = Console()
    if remove:
        from sfumato.cli.leftovers import remove_leftovers

        for folder in remove_leftovers():
            console.print(f"Removed: {folder}", markup=False, highlight=False, soft_wrap=True)
        return
    with console.status("Compiling") as status:
        done = sf.warm_up(None, lambda name: status.update(f"Compiling: {name}"), processes)
    console.print(f"{done.compiled} kernels compiled, {done.loaded} read from disk.")
    if not done.compiled:  # an image's kernels, say, in a folder that only root may write to
        return
    if done.folder is None:
        raise typer.Exit(FAILED)
    console.print(f"Kept in {done.folder}", markup=False, highlight=False, soft_wrap=True)
