"""A pipeline file between topics of a real Kafka broker, killed again and again.

    python benchmarks/kafka_kills.py [--rows 1000000] [--kills 5] [--page docs/kafka-kills.md]

Disordered messages of sensors lie in three partitions of different lengths and delays. `sfumato
run` puts them in order, each partition at its own pace (SOURCE), takes means over the newest ones,
and writes every answer to another topic and to files. Its process group is killed by SIGKILL each
time a further part of the answers has come, and it is started again; the last run goes to the end.
Answers are compared, value for value, with the static frame of the same query: files must have each
once; a topic, to which Spark promises "at least once", each, and doubles equal. Exits with 1
otherwise. The broker's and the connector's jars come from the Maven registry.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from servers.jars import jars  # noqa: E402
from servers.kafka_broker import KafkaBroker  # noqa: E402
from servers.pipeline_process import ended, killed, started  # noqa: E402
from servers.topics import ends, read, written  # noqa: E402

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
BROUGHT = ("hadoop-", "slf4j-", "jsr305", "lz4-", "spark-tags")  # which PySpark has itself
SHARES = (0.5, 0.3, 0.2)  # of the messages, by partition
DELAYS = (5.0, 30.0, 120.0)  # seconds by which their messages come late, on average
SENSORS = 100
START, SPAN = 1_700_000_000, 20_000  # seconds
COLUMNS = "id long, sensor int, t timestamp, arrival timestamp, celsius double"
TEXT = """
SELECT id, sensor, AVG(celsius) AS mean
FROM (SELECT * FROM readings [WATTR t ARRIVAL arrival SOURCE partition DRATIO 1%])
    [ROWS 20 ORDER t]
GROUP BY sensor
"""
FILE = """
checkpoint = "state"
flush = true

[spark]
master = "local[2]"
jars = {jars}

[sources.readings]
format = "kafka"
value = "json"
schema = "{columns}"
options = {{ "kafka.bootstrap.servers" = "${{BROKER}}", subscribe = "readings", \
startingOffsets = "earliest", maxOffsetsPerTrigger = {batch} }}

[queries.means]
sql = \"\"\"{text}\"\"\"

[sinks.answers]
query = "means"
format = "kafka"
value = "json"
key = "id"
options = {{ "kafka.bootstrap.servers" = "${{BROKER}}", topic = "answers" }}

[sinks.files]
query = "means"
format = "parquet"
path = "files"
"""

PAGE = """# Kills beside a broker

Written by `python benchmarks/kafka_kills.py --page docs/kafka-kills.md`; no number is typed.
Disordered messages of sensors lie in three partitions of a topic of a real Kafka broker ({shares}
of them, late by {delays} s on average). `sfumato run` of a pipeline file reads them, each partition
at its own pace, and writes the answers to another topic and to files:

```text
{text}
```

Its process group gets SIGKILL each time a further part of the answers has come, and is started
again; the last run goes to the end. Then all answers are compared, value for value, with those of
the same query over the same messages as a static frame.

| | |
|---|--:|
{table}

To files Spark writes each answer once. To a topic it writes at least once: after a kill some
answers come again, equal to the first ones, and a consumer drops them by their key.
"""


def readings(rows: int) -> pa.Table:
    """All messages, by partition in their order there."""
    luck = np.random.default_rng(5)
    tables, first = [], 0
    for partition, (share, delay) in enumerate(zip(SHARES, DELAYS, strict=True)):
        count = round(rows * share)
        event = np.sort(luck.uniform(0, SPAN, count))
        arrival = event + luck.exponential(delay, count)
        order = np.argsort(arrival, kind="stable")
        tables.append(
            pa.table(
                {
                    "id": np.arange(first, first + count),
                    "sensor": luck.integers(0, SENSORS, count).astype(np.int32),
                    "t": stamps(event[order]),
                    "arrival": stamps(arrival[order]),
                    "celsius": luck.normal(20, 3, count).round(3),
                    "partition": np.full(count, partition, np.int32),
                }
            )
        )
        first += count
    return pa.concat_tables(tables)


def stamps(seconds: np.ndarray) -> pa.Array:
    micros = ((START + seconds) * 1e6).astype(np.int64)
    return pa.array(micros).cast(pa.timestamp("us", tz="UTC"))


def messages(table: pa.Table) -> Iterator[tuple[int, str]]:
    for batch in table.to_batches(10_000):
        for row in batch.to_pylist():
            partition = row.pop("partition")
            row |= {name: row[name].isoformat() for name in ("t", "arrival")}
            yield partition, json.dumps(row)


def awaited(address: str, process: subprocess.Popen[bytes], answers: int, folder: Path) -> None:
    """Wait until the topic has so many messages."""
    while ends(address, "answers") < answers:
        assert process.poll() is None, (folder / "said.txt").read_text()[-3000:]
        time.sleep(0.2)


def ended_if_alive(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        killed(process)


def static_answers(table: pa.Table, folder: Path) -> dict[int, tuple[object, ...]]:
    """By id, what the query gives of all messages as a static frame."""
    import sfumato as sf
    from sfumato.cli.session import session

    pq.write_table(table, folder / "all.parquet")
    spark = session("kafka_kills", short=True)
    frame = sf.sql(spark, TEXT, readings=spark.read.parquet(str(folder / "all.parquet")))
    found = {row.id: (row.sensor, row.mean) for row in frame.collect()}
    spark.stop()
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--page", type=Path, help="write a page of what was found")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started ends too
    with tempfile.TemporaryDirectory(prefix="kafka-kills-") as place:
        folder = Path(place)
        with KafkaBroker(folder / "kafka") as broker, ExitStack() as stack:
            os.environ["BROKER"] = broker.address
            table = readings(given.rows)
            written(broker.address, "readings", messages(table), partitions=3)
            written(broker.address, "answers", [], partitions=3)
            connector = [str(j) for j in jars(CONNECTOR) if not j.name.startswith(BROUGHT)]
            batch = max(1_000, given.rows // 20)
            file = folder / "p.toml"
            text = FILE.format(jars=json.dumps(connector), columns=COLUMNS, text=TEXT, batch=batch)
            file.write_text(text)
            begun = time.monotonic()
            for kill in range(given.kills):
                process = started(file, "--log", "text")
                stack.callback(ended_if_alive, process)
                awaited(
                    broker.address, process, given.rows * (kill + 1) // (given.kills + 2), folder
                )
                killed(process)
                print(f"killed after {time.monotonic() - begun:.0f} s", flush=True)
            process = started(file, "--once")
            stack.callback(ended_if_alive, process)
            ended(process, file, 3000)
            seconds = time.monotonic() - begun
            of_topic = [json.loads(value) for _, value in read(broker.address, "answers")]
        expected = static_answers(table, folder)
        of_files = pq.read_table(_committed(folder / "files")).to_pylist()
    in_topic = {row["id"]: (row["sensor"], row["mean"]) for row in of_topic}
    in_files = {row["id"]: (row["sensor"], row["mean"]) for row in of_files}
    consistent = all(in_topic[r["id"]] == (r["sensor"], r["mean"]) for r in of_topic)
    figures = {
        "messages": given.rows,
        "kills": given.kills,
        "seconds, all runs together": round(seconds),
        "answers of the static frame": len(expected),
        "answers in files": len(of_files),
        "answers in the topic": len(of_topic),
        "of them doubles of equal answers": len(of_topic) - len(in_topic),
    }
    held = {
        "files have each answer once, as the static frame": len(of_files) == len(in_files)
        and in_files == expected,
        "the topic has each answer, as the static frame": consistent and in_topic == expected,
    }
    for name, value in (figures | held).items():
        print(f"{name}: {value}")
    if given.page is not None:
        given.page.write_text(page(figures, held))
    return 0 if all(held.values()) else 1


def page(figures: dict[str, int], held: dict[str, bool]) -> str:
    """The page of a run."""
    lines = [f"| {name} | {value:,} |" for name, value in figures.items()]
    lines += [f"| {name} | {'yes' if value else 'no'} |" for name, value in held.items()]
    return PAGE.format(
        table="\n".join(lines),
        shares=", ".join(f"{share:.0%}" for share in SHARES),
        delays=", ".join(f"{delay:g}" for delay in DELAYS),
        text=TEXT.strip(),
    )


def _committed(folder: Path) -> list[str]:
    """Files that the sink's log of finished micro-batches names, each once."""
    names = {
        Path(json.loads(line)["path"]).name
        for log in (folder / "_spark_metadata").glob("[0-9]*")
        for line in log.read_text().splitlines()[1:]
    }
    return [str(folder / name) for name in sorted(names)]


if __name__ == "__main__":
    sys.exit(main())
