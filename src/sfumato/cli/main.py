"""The command `sfumato`."""

from typing import Annotated

import typer

from sfumato.cli.commands.machine import warm_up
from sfumato.cli.commands.pipelines import check, explain, init, run, watch

app = typer.Typer(
    help="Continuous queries on Spark over uncertain, incomplete and out-of-order streams.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        import sfumato

        typer.echo(f"sfumato {sfumato.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Continuous queries on Spark over uncertain, incomplete and out-of-order streams."""


for command in (run, watch, explain, check, init, warm_up):
    app.command()(command)


if __name__ == "__main__":
    app()
