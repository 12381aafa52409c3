"""The command without streams: `warm-up` compiles kernels."""

from typing import Annotated

import typer
from rich.console import Console

from sfumato.cli.commands.shared import FAILED


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
        done = sf.ops.warm_up(None, lambda name: status.update(f"Compiling: {name}"), processes)
    console.print(f"{done.compiled} kernels compiled, {done.loaded} read from disk.")
    if not done.compiled:  # an image's kernels, say, in a folder that only root may write to
        return
    if done.folder is None:
        raise typer.Exit(FAILED)
    console.print(f"Kept in {done.folder}", markup=False, highlight=False, soft_wrap=True)
