"""The command line of the cluster; see the package."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from pathlib import Path

from benchmarks.cluster import __doc__ as about
from benchmarks.cluster.standalone import Cluster

ROOT = Path(__file__).resolve().parents[2]


def up(chosen: argparse.Namespace) -> None:
    cluster = Cluster(chosen.folder.absolute(), chosen.workers).up()
    print(cluster.master)


def down(chosen: argparse.Namespace) -> None:
    Cluster.known(chosen.folder.absolute()).down()


def submit(chosen: argparse.Namespace) -> None:
    cluster = Cluster.known(chosen.folder.absolute())
    job = cluster.submit(chosen.job.absolute(), *chosen.arguments, archive=chosen.archive)
    assert job.stdout is not None
    for line in job.stdout:
        print(line, end="", flush=True)
    raise SystemExit(job.wait())


def check(chosen: argparse.Namespace) -> None:
    from benchmarks.cluster.checks import checked
    from benchmarks.data.streams import readings_of_three

    with tempfile.TemporaryDirectory() as name, Cluster(Path(name)) as cluster:
        found = checked(cluster, readings_of_three(4_800, 1), 12, archive=chosen.archive)
    for part, outcome in found.items():
        outcome.pop("pairs", None)
        print(part, json.dumps(outcome))
    if any(of["lost"] or of["doubled"] for of in found.values()):
        raise SystemExit("answers lost or doubled")


def scaling(chosen: argparse.Namespace) -> None:
    from benchmarks.cluster.growth import run
    from benchmarks.cluster.scaling import measured
    from benchmarks.cluster.scaling_page import written

    figures = json.loads(chosen.out.read_text()) if chosen.out.exists() else {}
    parts = {"growth": run, "cluster": lambda: measured(chosen.turns)}
    for name, measure in parts.items():
        if chosen.only in (None, name):
            figures[name] = measure()
            chosen.out.parent.mkdir(parents=True, exist_ok=True)
            chosen.out.write_text(json.dumps(figures, indent=1) + "\n")
    chosen.page.write_text(written(figures))


def archive(chosen: argparse.Namespace) -> None:
    from benchmarks.cluster.environment import archive as packed

    packed(chosen.file.absolute(), chosen.source)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cluster",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True)
    found = {
        function: commands.add_parser(function.__name__)
        for function in (up, down, submit, check, scaling, archive)
    }
    for function in (up, down, submit):
        found[function].add_argument("folder", type=Path, help="what the machines share")
    found[up].add_argument("--workers", type=int, default=2, help="of one core each")
    found[submit].add_argument("job", type=Path, help="a Python file")
    found[submit].add_argument("arguments", nargs="*", help="of the job")
    for function in (submit, check):
        found[function].add_argument("--archive", type=Path, help="environment for the workers")
    out, page = (ROOT / "docs" / name for name in ("benchmarks/alone/scaling.json", "scaling.md"))
    found[scaling].add_argument("--turns", type=int, default=2)
    found[scaling].add_argument("--only", choices=("growth", "cluster", "page"))
    found[scaling].add_argument("--out", type=Path, default=out)
    found[scaling].add_argument("--page", type=Path, default=page)
    found[archive].add_argument("file", type=Path, help="NAME.tar.gz")
    found[archive].add_argument("--source", default=str(ROOT), help="what pip installs")
    for function, of in found.items():
        of.set_defaults(function=function)
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # a cluster in `with` ends then, too
    chosen.function(chosen)


if __name__ == "__main__":
    main()
