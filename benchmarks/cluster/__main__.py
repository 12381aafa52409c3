"""The command line of the cluster; see the package."""

import json
import signal
import sys
import tempfile
from pathlib import Path
from typing import Annotated

from typer import Option, Typer

from benchmarks.cluster import environment
from benchmarks.cluster.checks import checked
from benchmarks.cluster.growth import run
from benchmarks.cluster.standalone import Cluster
from benchmarks.data.streams import readings_of_three
from benchmarks.page import fill, keep, table

ROOT = Path(__file__).resolve().parents[2]
app = Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def check(
    archive: Annotated[Path | None, Option(help="Environment for the workers.")] = None,
) -> None:
    """Compare the answers of a cluster with the answers of one machine."""
    with tempfile.TemporaryDirectory() as name, Cluster(Path(name)) as cluster:
        found = checked(cluster, readings_of_three(4_800, 1), 12, archive=archive)
    for part, outcome in found.items():
        outcome.pop("pairs", None)
        print(part, json.dumps(outcome))
    if any(of["lost"] or of["doubled"] for of in found.values()):
        raise SystemExit("answers lost or duplicated")


@app.command()
def growth(
    out: Path = ROOT / "docs" / "benchmarks" / "alone", page: Path = ROOT / "docs" / "scaling.md"
) -> None:
    """Measure how time and state grow, and write the table of a page."""
    rows = run()
    keep(out, "growth", rows)
    fill(page, table(rows))


@app.command()
def archive(
    file: Path, source: Annotated[str, Option(help="What pip installs.")] = str(ROOT)
) -> None:
    """Pack an environment as NAME.tar.gz."""
    environment.archive(file.absolute(), source)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that `with` ends the cluster
    app()
