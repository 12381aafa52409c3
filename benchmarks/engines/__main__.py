"""Run the same jobs on sfumato and on other engines: `python -m benchmarks.engines [JOB...]`.

Creates an environment per engine in `build/engines` (Flink needs Java 17) and runs each program in
turn, in a separate process. First, its answers on a few rows are compared with a plain reference.
`--page FILE` puts the figures between the two marks of that page.

Wall time is the median of the runs after the first, which compiles and fills caches; the job
`first` is one run, measured from the start of the process. Processor time is summed over all
processes, including Java; on a busy machine it is the better measure.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pyarrow.parquet as pq
from typer import Argument, Option, run

from benchmarks.engines import data

HERE = Path(__file__).parent
PLACE = Path("build/engines")
MARKS = "<!-- figures -->\n", "<!-- end of figures -->\n"
SMALL = 40_000
FLOOR = "floor"  # the call of a run without answers: the engine's own time
PACKAGES = {
    "frames": ["polars", "duckdb", "pyarrow"],
    "bytewax": ["bytewax", "pyarrow", "pandas"],
    "pathway": ["pathway", "pyarrow", "pandas"],
    "flink": ["apache-flink"],
    "here": [],
}


class Run(NamedTuple):
    """A line of the table: an engine, a job, the program and the number of rows."""

    job: str
    engine: str
    environment: str
    program: str
    call: str
    rows: int
    repeats: int = 4


MILLION = 1_000_000
RUNS = [
    Run("means", "sfumato on Spark, 20 micro-batches", "here", "ours", "means", 2 * MILLION),
    Run("means", "sfumato on Spark, 4 micro-batches", "here", "ours", "means_5", 2 * MILLION),
    Run("means", "Spark alone, 20 micro-batches", "here", "spark_alone", "means", 2 * MILLION),
    Run("means", "Spark alone, 4 micro-batches", "here", "spark_alone", "means_5", 2 * MILLION),
    Run("means", "Flink SQL", "flink", "flink", "means", 2 * MILLION),
    Run("means", "Flink SQL, checkpoints", "flink", "flink", "means_kept", 2 * MILLION),
    Run("means", "Bytewax", "bytewax", "bytewax_flow", "means", MILLION // 4, 2),
    Run("means", "Pathway", "pathway", "pathway_table", "means", MILLION // 4, 2),
    Run("means", "sfumato, Spark DataFrame", "here", "ours", "means_static", 2 * MILLION),
    Run("means", "Spark alone, frame", "here", "spark_alone", "static", 2 * MILLION),
    Run("means", "sfumato, in memory", "here", "ours", "memory", 2 * MILLION),
    Run("static", "sfumato", "here", "ours", "static", 2 * MILLION),
    Run("static", "DuckDB", "frames", "frames", "duckdb_static", 2 * MILLION),
    Run("static", "DuckDB, panes first", "frames", "frames", "duckdb_panes", 2 * MILLION),
    Run("static", "Polars", "frames", "frames", "polars_static", 2 * MILLION),
    Run("static", "Polars, panes first", "frames", "frames", "polars_panes", 2 * MILLION),
    Run("newest", "sfumato", "here", "ours", "newest", 2 * MILLION),
    Run("newest", "DuckDB", "frames", "frames", "duckdb_newest", 2 * MILLION),
    Run("newest", "Polars", "frames", "frames", "polars_newest", 2 * MILLION),
    Run("join", "sfumato, in memory", "here", "ours", "join", MILLION),
    Run("join", "sfumato on Spark, 10 micro-batches", "here", "ours", "join_spark", MILLION),
    Run("join", "Spark alone, rows and pairs to Python", "here", "spark_alone", FLOOR, MILLION),
    Run("join", "sorted list in plain Python", "here", "plain", "join", MILLION),
    Run("join", "Flink SQL, interval join", "flink", "flink", "join", MILLION // 5, 2),
    Run("first", "sfumato on Spark", "here", "ours", "first", 1_000, 1),
    Run("first", "sfumato, in memory", "here", "ours", "first_memory", 1_000, 1),
    Run("first", "Spark alone", "here", "spark_alone", "first", 1_000, 1),
    Run("first", "Flink SQL", "flink", "flink", "first", 1_000, 1),
    Run("first", "Bytewax", "bytewax", "bytewax_flow", "first", 1_000, 1),
    Run("first", "Pathway", "pathway", "pathway_table", "first", 1_000, 1),
]
JOBS = list(dict.fromkeys(line.job for line in RUNS))


def main(
    jobs: Annotated[list[str] | None, Argument(help=f"Some of {', '.join(JOBS)}.")] = None,
    scale: Annotated[float, Option(help="Share of the rows; small shares show that it runs.")] = 1,
    page: Annotated[Path | None, Option(help="Page whose figures are replaced.")] = None,
) -> None:
    """Measure, and print one table per job."""
    lines = [line for line in RUNS if jobs is None or line.job in jobs]
    for name in dict.fromkeys(line.environment for line in lines):
        python(name)
    tables = []
    for job in dict.fromkeys(line.job for line in lines):
        found = [measured(line, scale) for line in lines if line.job == job]
        tables.append(table_of(job, found))
        print(tables[-1], flush=True)
    if page is not None:
        before, rest = page.read_text().split(MARKS[0])
        after = rest.split(MARKS[1])[1]
        page.write_text(before + MARKS[0] + "\n".join(tables) + MARKS[1] + after)


def python(environment: str) -> Path:
    """Return an environment's interpreter; create the environment if it is absent."""
    if environment == "here":
        return Path(sys.executable)
    folder = PLACE / environment
    found = folder / "bin" / "python"
    if not found.exists():
        venv.create(folder, with_pip=True)
        install = [str(found), "-m", "pip", "install", "--quiet", *PACKAGES[environment]]
        subprocess.run(install, check=True)
    return found.absolute()


def rows_of(job: str, rows: int) -> Path:
    """Return the folder of a job's rows."""
    make = data.numbers if job == "join" else data.readings
    folder = PLACE / "data" / f"{make.__name__}-{rows}"
    data.write(make(rows), folder)
    return folder


def measured(line: Run, scale: float) -> dict[str, Any]:
    """Compare the answers on a few rows, then measure."""
    result: dict[str, Any] = {"engine": line.engine}
    try:
        with tempfile.TemporaryDirectory() as place:
            answers = Path(place, "answers.parquet")
            if line.call != FLOOR:
                started(line, rows_of(line.job, SMALL), 1, answers)
            result["answers"] = "none" if line.call == FLOOR else compared(line.job, answers)
        rows = max(int(line.rows * scale), 1_000)
        began = time.perf_counter()
        found = started(line, rows_of(line.job, rows), line.repeats)
        whole = time.perf_counter() - began
    except (subprocess.SubprocessError, RuntimeError) as error:
        return result | {"answers": f"failed: {str(error)[-300:]}"}
    seconds = statistics.median(found["seconds"][1:] or [whole])
    processor = statistics.median(found["processor"][1:] or [found["whole"]])
    result |= {"version": found["version"], "rows": rows, "seconds": seconds}
    return result | {"processor": processor, "rows/s": rows / seconds}


def started(line: Run, folder: Path, repeats: int, answers: Path | None = None) -> dict[str, Any]:
    """Run one process of an engine and return what it prints."""
    command = [python(line.environment), HERE / f"{line.program}.py", line.call, folder, repeats]
    done = subprocess.run(
        [str(part) for part in (*command, *([answers] if answers else []))],
        check=False,
        capture_output=True,
        text=True,
        timeout=900,
        start_new_session=True,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def compared(job: str, answers: Path) -> str:
    """Compare answers with the reference, except for windows that a stream leaves open."""
    make = data.numbers if job == "join" else data.readings
    rows = make(SMALL)
    wanted, found = (
        table.to_pandas() for table in (data.REFERENCES[job](rows), pq.read_table(answers))
    )
    keys = ["a", "b"] if job == "join" else ["k", "end"]
    both = wanted.merge(found, on=keys, how="outer", suffixes=("", "_found"), indicator=True)
    missing = both["_merge"] == "left_only"
    if job in ("means", "first"):
        missing &= both["end"] <= rows["ts"].to_numpy().max() - 120_000
    differ = both["_merge"] == "right_only"
    for name in set(wanted.columns) - set(keys):
        differ |= (both[name] - both[f"{name}_found"]).abs() > 1e-6 * both[name].abs()
    counts = {"differ": int(differ.sum()), "left out": int(missing.sum())}
    return ", ".join(f"{n:,} {what}" for what, n in counts.items() if n) or "equal"


def table_of(job: str, found: list[dict[str, Any]]) -> str:
    """Return a Markdown table of one job."""
    lines = [
        f"### `{job}`\n",
        "| engine | version | rows | seconds | processor s | rows/s | answers",
    ]
    lines[-1] += " |"
    lines.append("|" + "---|" * 7)
    for row in found:
        figures = " | | | "
        if "rows" in row:
            times = f"{row['seconds']:.2f} | {row['processor']:.2f}"
            figures = f"{row['rows']:,} | {times} | {row['rows/s']:,.0f}"
        version = row.get("version", "")
        lines.append(f"| {row['engine']} | {version} | {figures} | {row['answers']} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    run(main)
