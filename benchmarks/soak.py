"""Live queries at a steady rate: does memory stay flat, in every process and in state?

    python -m benchmarks.soak [--minutes 30] [--rate 1000] [--page docs/soak.md]

Two queries read a stream of disordered readings whose devices come and go, so that only
`forget_after` keeps state bounded: `reorder` by device before extents, and a similarity join of two
reordered halves. Sampled all along: resident memory of this process, of the JVM and of the Python
workers, the bytes of Spark's state and of its checkpoints. "Flat" compares the mean of the
last third of the samples with that of the middle third (the first third warms up).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import sfumato as sf
from sfumato.cli.session import session

GROWTH = 1.1  # of the last third over the middle one, at most
EVERY = 10.0  # seconds between two samples
TRIGGER = 5  # seconds between the beginnings of two micro-batches, at least
DEVICES, LIFE = 50, 60  # devices at a time, and seconds until others replace them
MB = 2**20


@dataclass
class Sample:
    """At one moment: MB of resident memory, and what the queries hold and have done."""

    seconds: float
    driver: float
    jvm: float
    workers: float
    state_mb: float
    checkpoint_mb: float
    rows: int
    held: int
    batch_seconds: float
    processor_seconds: float


def readings(spark: SparkSession, rate: int) -> DataFrame:
    """Rows as they come: event times some seconds back, uncertain values, devices that change."""
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
    """The queries, by name."""
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


@dataclass
class Watch:
    """Running queries, and what their micro-batches have done: rows read, rows more held."""

    running: list[Any]
    folder: Path
    begun: float = field(default_factory=time.monotonic)
    rows: dict[tuple[str, int], int] = field(default_factory=dict)
    held: dict[tuple[str, int], int] = field(default_factory=dict)

    def sample(self) -> Sample:
        """How things are now. Ends the program if a query has failed."""
        last = []
        for query in self.running:
            if query.exception() is not None:
                raise SystemExit(f"{query.name} failed: {query.exception()}")
            reports = [json.loads(report.json) for report in query.recentProgress]
            for report in reports:
                self._take(query.name, report)
            last += reports[-1:]
        state = [operator for report in last for operator in report["stateOperators"]]
        spent = [report["durationMs"].get("triggerExecution", 0) for report in last]
        return Sample(
            seconds=round(time.monotonic() - self.begun, 1),
            **resident(),
            state_mb=round(sum(of["memoryUsedBytes"] for of in state) / MB, 1),
            checkpoint_mb=round(bytes_of(self.folder) / MB, 1),
            rows=sum(self.rows.values()),
            held=sum(self.held.values()),
            batch_seconds=max(spent, default=0) / 1000,
        )

    def _take(self, name: str, report: dict[str, Any]) -> None:
        batch = (name, report["batchId"])
        self.rows[batch] = report["numInputRows"]
        self.held[batch] = sum(
            counts.get("held") or 0
            for metric, counts in report.get("observedMetrics", {}).items()
            if metric.startswith("sfumato_reorder")
        )


def bytes_of(folder: Path) -> int:
    """What the files of a folder take, as of now."""
    total = 0
    for file in folder.rglob("*"):
        with suppress(OSError):  # gone meanwhile
            total += file.stat().st_size
    return total


def resident() -> dict[str, float]:
    """MB of this process, the JVM, and the Python workers; processor time of all of them so far."""
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
    """Share of all cores' time that the queries took, from the second third on."""
    since, last = samples[len(samples) // 3], samples[-1]
    cores = psutil.cpu_count() or 1
    spent = last.processor_seconds - since.processor_seconds
    return spent / max((last.seconds - since.seconds) * cores, 1e-9)


def growth(samples: list[Sample], name: str) -> float:
    """Mean of the last third over the mean of the middle third."""
    third = max(1, len(samples) // 3)
    values = [getattr(of, name) for of in samples]
    last, middle = values[-third:], values[-2 * third : -third]
    return (sum(last) / len(last)) / max(sum(middle) / max(len(middle), 1), 1e-9)


WATCHED = {
    "driver": "memory of the driver's Python, MB",
    "jvm": "memory of the JVM, MB",
    "workers": "memory of the Python workers, MB",
    "state_mb": "memory of Spark's state store, MB",
    "checkpoint_mb": "files of both checkpoints, MB",
    "held": "rows held by reorders",
}
HEAD = """# Soak

Written by `make soak`; no number is typed. Two queries (a reorder by device before extents; a
similarity join of two reordered halves) ran {minutes:.0f} minutes at {rate} rows a second on
{cores} cores, {load:.0%} of whose time they took; the devices were replaced every {life} seconds,
so {devices:,} came by. The means of thirds of the run: the first one warms up.

| | first third | middle third | last third | last / middle |
|---|--:|--:|--:|--:|
"""


def page(samples: list[Sample], rate: int) -> str:
    """The figures as Markdown."""
    minutes = samples[-1].seconds / 60
    third = len(samples) // 3
    head = HEAD.format(
        minutes=minutes, rate=rate, cores=psutil.cpu_count(), life=LIFE, load=load(samples),
        devices=int(DEVICES * samples[-1].seconds / LIFE),
    )  # fmt: skip
    lines = []
    for name, meaning in WATCHED.items():
        values = [getattr(of, name) for of in samples]
        parts = (values[:third], values[third : 2 * third], values[2 * third :])
        means = " | ".join(f"{sum(part) / max(len(part), 1):,.0f}" for part in parts)
        lines.append(f"| {meaning} | {means} | {growth(samples, name):.2f} |")
    batches = sorted(of.batch_seconds for of in samples)
    return (
        head
        + "\n".join(lines)
        + f"\n\nRows read: {samples[-1].rows:,}. Slower micro-batch of the two queries, seconds: "
        f"median {batches[len(batches) // 2]:.1f} of the {TRIGGER} between two, "
        f"most {batches[-1]:.1f}.\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rate", type=int, default=1000, help="rows a second, of each query")
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
        watch = Watch(running, Path(folder))
        while time.monotonic() - watch.begun < chosen.minutes * 60:
            time.sleep(EVERY)
            samples.append(watch.sample())
            print(json.dumps(asdict(samples[-1])), flush=True)
        for query in running:
            query.stop()
    spark.stop()
    if chosen.out:
        chosen.out.write_text("".join(json.dumps(asdict(of)) + "\n" for of in samples))
    if chosen.page:
        chosen.page.write_text(page(samples, chosen.rate))
    print(page(samples, chosen.rate))
    grown = [name for name in WATCHED if growth(samples, name) > GROWTH]
    if grown:
        raise SystemExit(f"more than {GROWTH} times the middle third: {', '.join(grown)}")


if __name__ == "__main__":
    main()
