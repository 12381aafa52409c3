"""Run live queries at a steady rate, and check that memory and state stay flat.

    python -m benchmarks.soak [--minutes 30] [--rate 1000] [--page docs/soak.md]

Two queries read a stream of disordered readings whose devices come and go, so that only
`forget_after` bounds their state: `reorder` by device before extents, and a similarity join of two
reordered halves. The whole run samples the resident memory of this process, of the JVM and of the
Python workers, and the bytes of Spark's state and checkpoints. "Flat" compares the mean of the last
third of the samples with the mean of the middle third (the first third warms up).
"""

import argparse
import json
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import sfumato as sf
from benchmarks.harness import Row
from benchmarks.page import fill, table
from sfumato.cli.session import session
from sfumato.metrics.session_metrics import SessionMetrics

GROWTH = 1.1  # maximum ratio of the last third to the middle third
EVERY = 10.0  # seconds between two samples
TRIGGER = 5  # least seconds between the starts of two micro-batches
DEVICES, LIFE = 50, 60  # devices at a time, and seconds until others replace them
MB = 2**20


Sample = dict[str, Any]  # at one moment: MB of memory, and the queries' state and progress


def readings(spark: SparkSession, rate: int) -> DataFrame:
    """Build a stream of rows: event times some seconds back, uncertain values, changing devices."""
    stream = spark.readStream.format("rate").option("rowsPerSecond", rate).load()
    delay = "make_dt_interval(0, 0, 0, -ln(1 - pmod(hash(value), 1000) / 1000.0))"
    device = f"concat('d', value % {DEVICES}, '-', floor(value / {rate * LIFE}))"
    x = "pmod(hash(value, 1), 1000) / 1000.0"
    return stream.select(
        F.col("value").alias("id"),
        F.expr(device).alias("device"),
        F.expr(f"timestamp - {delay}").alias("event"),
        F.col("timestamp").alias("arrival"),
        F.expr(
            f"array(named_struct('prob', 0.5D, 'x', double({x})),"
            f" named_struct('prob', 0.4D, 'x', double({x} + 0.01)))"
        ).alias("alternatives"),
    )


def queries(rows: DataFrame) -> dict[str, DataFrame]:
    """Return the queries by name."""
    control: Any = {"event_time": "event", "arrival": "arrival", "drop_ratio": 0.01}
    by_device = sf.reorder(rows, **control, key="device", forget_after="1 minute")
    sides = [sf.reorder(rows.where(f"id % 2 = {i}"), **control) for i in (0, 1)]
    return {
        "extents": sf.window_aggregate(
            by_device, {"mean": "avg(x)", "n": "count(*)"}, key="device", order="event",
            window=sf.Range("10 seconds", slide="5 seconds"), forget_after="1 minute",
        ),
        "join": sf.similarity_join(
            *sides, on="x", within=0.0005, probability=0.3, window=sf.Rows(200), order="event"
        ),
    }  # fmt: skip


def sample(metrics: SessionMetrics, running: list[Any], folder: Path, begun: float) -> Sample:
    """Take a sample. Ends the program if a query has failed."""
    for query in running:
        if query.exception() is not None:
            raise SystemExit(f"{query.name} failed: {query.exception()}")
        metrics.take(query.name, query.recentProgress)
    known = list(metrics.queries())
    newest = [of.newest for of in known if of.newest is not None]
    return {
        "seconds": round(time.monotonic() - begun, 1),
        **resident(),
        "state_mb": round(sum(batch.state.get("memory", 0) for batch in newest) / MB, 1),
        "checkpoint_mb": round(bytes_of(folder) / MB, 1),
        "rows": sum(of.rows_in for of in known),
        "held": sum(of.held or 0 for of in known),
        "batch_seconds": max((batch.seconds for batch in newest), default=0.0),
    }


def bytes_of(folder: Path) -> int:
    """Return the current size of a folder's files."""
    total = 0
    for file in folder.rglob("*"):
        with suppress(OSError):  # deleted meanwhile
            total += file.stat().st_size
    return total


def resident() -> dict[str, float]:
    """Return MB of this process, the JVM and Python workers, and their processor time so far."""
    me = psutil.Process()
    found = {"driver": me.memory_info().rss / MB, "jvm": 0.0, "workers": 0.0}
    spent = sum(me.cpu_times()[:2])
    for child in me.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            kind = "jvm" if child.name() == "java" else "workers"
            found[kind] += child.memory_info().rss / MB
            spent += sum(child.cpu_times()[:2])
    return {name: round(of, 1) for name, of in {**found, "processor_seconds": spent}.items()}


def load(samples: list[Sample]) -> float:
    """Return the share of all cores' time that the queries took after the first third."""
    since, last = samples[len(samples) // 3], samples[-1]
    spent = last["processor_seconds"] - since["processor_seconds"]
    return spent / max((last["seconds"] - since["seconds"]) * (psutil.cpu_count() or 1), 1e-9)


def thirds(samples: list[Sample], name: str) -> list[float]:
    """Return the means of the three thirds of the run."""
    third, values = max(1, len(samples) // 3), [of[name] for of in samples]
    parts = (values[: -2 * third], values[-2 * third : -third], values[-third:])
    return [sum(part) / max(len(part), 1) for part in parts]


def growth(samples: list[Sample], name: str) -> float:
    """Return the mean of the last third over the mean of the middle third."""
    _, middle, last = thirds(samples, name)
    return last / max(middle, 1e-9)


WATCHED = {
    "driver": "memory of the driver's Python, MB",
    "jvm": "memory of the JVM, MB",
    "workers": "memory of the Python workers, MB",
    "state_mb": "memory of Spark's state store, MB",
    "checkpoint_mb": "files of both checkpoints, MB",
    "held": "rows held by reorders",
}


def page(samples: list[Sample], rate: int) -> str:
    """Format the metrics as Markdown: means of thirds of the run, and a description of the run."""
    last, rows = samples[-1], list[Row]()
    for name, meaning in WATCHED.items():
        first, middle, final = (f"{mean:,.0f}" for mean in thirds(samples, name))
        means = {"first third": first, "middle third": middle, "last third": final}
        rows.append({"name": meaning, **means, "last / middle": growth(samples, name)})
    batches = sorted(of["batch_seconds"] for of in samples)
    devices = int(DEVICES * last["seconds"] / LIFE)
    return f"""{table(rows)}

Minutes: {last["seconds"] / 60:.0f}. Rows per second: {rate}. Cores: {psutil.cpu_count()};
the queries used {load(samples):.0%} of their time. Devices: {devices:,}, replaced every {LIFE}
seconds. Rows read: {last["rows"]:,}. Slower micro-batch of the two queries: median
{batches[len(batches) // 2]:.1f} s, largest {batches[-1]:.1f} s, with a trigger of {TRIGGER} s."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rate", type=int, default=1000, help="rows per second, of each query")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--out", type=Path, help="every sample, as JSON lines")
    chosen = parser.parse_args()
    spark = session("soak")
    samples: list[Sample] = []
    with tempfile.TemporaryDirectory(prefix="sfumato-soak-") as folder:
        running = [
            frame.writeStream.queryName(name)
            .option("checkpointLocation", f"{folder}/{name}")
            .trigger(processingTime=f"{TRIGGER} seconds")
            .format("noop")
            .start()
            for name, frame in queries(readings(spark, chosen.rate)).items()
        ]
        metrics, begun = SessionMetrics(), time.monotonic()
        while time.monotonic() - begun < chosen.minutes * 60:
            time.sleep(EVERY)
            samples.append(sample(metrics, running, Path(folder), begun))
            print(json.dumps(samples[-1]), flush=True)
        for query in running:
            query.stop()
    spark.stop()
    if chosen.out:
        chosen.out.write_text("".join(json.dumps(of) + "\n" for of in samples))
    if chosen.page:
        fill(chosen.page, page(samples, chosen.rate))
    print(page(samples, chosen.rate))
    grown = [name for name in WATCHED if growth(samples, name) > GROWTH]
    if grown:
        raise SystemExit(f"more than {GROWTH} times the middle third: {', '.join(grown)}")


if __name__ == "__main__":
    main()
