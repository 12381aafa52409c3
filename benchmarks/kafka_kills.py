"""A pipeline file between topics of a real Kafka broker, killed repeatedly.

    python -m benchmarks.kafka_kills [--rows 1000000] [--kills 5] [--page docs/kafka-kills.md]

Three partitions of different lengths and delays hold disordered messages from sensors. `sfumato
run` puts them in order, with one punctuation per partition (SOURCE), computes means over the newest
messages, and writes every answer to another topic, to a Delta Lake table and to files. Its process
group is killed with SIGKILL each time a further part of the answers has arrived, and is restarted;
the last run goes to the end.

Answers are compared, value for value, with the query's answers over a static frame: the table and
the files must have each answer once. The topic must have each answer once if read by key: Spark
promises "at least once" for topics, and duplicates must be equal. Exits with 1 otherwise. Runs
itself again with the PySpark version for which the newest Delta Lake is made. PySpark and all jars
come from the registries.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data.streams import STAMP
from benchmarks.page import fill, table
from benchmarks.sink_files import committed_files

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from servers.jars import added  # noqa: E402
from servers.kafka_broker import KAFKA, KafkaBroker  # noqa: E402
from servers.other_pyspark import run_again_under  # noqa: E402
from servers.pipeline_process import ended, killed, started  # noqa: E402
from servers.topics import ends, read, written  # noqa: E402

Row: TypeAlias = tuple[int, int, float]  # id, sensor, mean

PYSPARK = "4.2.1"
CONNECTORS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "io.delta:delta-spark_4.2_2.13:4.4.0",
)
LAKE = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",  # one per core; otherwise 50 per micro-batch
}
SHARES = (0.5, 0.3, 0.2)  # shares of the messages, by partition
DELAYS = (5.0, 30.0, 120.0)  # mean delay of the messages in seconds, by partition
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

[spark.settings]
{settings}

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

[sinks.lake]
query = "means"
format = "delta"
path = "lake"

[sinks.files]
query = "means"
format = "parquet"
path = "files"
"""


def readings(rows: int) -> pa.Table:
    """Return all messages, partition by partition, in order of arrival."""
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
    return pa.array(micros).cast(STAMP)


def messages(sent: pa.Table) -> Iterator[tuple[int, str]]:
    for batch in sent.to_batches(10_000):
        for row in batch.to_pylist():
            partition = row.pop("partition")
            row |= {name: row[name].isoformat() for name in ("t", "arrival")}
            yield partition, json.dumps(row)


def awaited(address: str, process: subprocess.Popen[bytes], answers: int, folder: Path) -> None:
    """Wait until the answers' topic has this number of messages."""
    while ends(address, "answers") < answers:
        assert process.poll() is None, (folder / "said.txt").read_text()[-3000:]
        time.sleep(0.2)


def ended_if_alive(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        killed(process)


def expected_and_lake(sent: pa.Table, folder: Path) -> tuple[list[Row], list[Row]]:
    """Return the query's answers over a static frame of all messages, and the Delta rows."""
    import sfumato as sf
    from sfumato.cli.pipeline.model import SparkPart
    from sfumato.cli.session import session

    pq.write_table(sent, folder / "all.parquet")
    part = SparkPart(jars=tuple(added(*CONNECTORS)), settings=LAKE)
    spark = session("kafka_kills", short=True, part=part)
    frame = sf.sql(spark, TEXT, readings=spark.read.parquet(str(folder / "all.parquet")))
    lake = spark.read.format("delta").load(str(folder / "lake"))
    both = rows_of(frame.toArrow().to_pylist()), rows_of(lake.toArrow().to_pylist())
    spark.stop()
    return both


def rows_of(found: Iterable[dict[str, Any]]) -> list[Row]:
    return [(row["id"], row["sensor"], row["mean"]) for row in found]


def by_key(found: Iterable[tuple[str | None, str]]) -> dict[str | None, set[Row]]:
    """Return a topic's distinct rows by key."""
    different: dict[str | None, set[Row]] = {}
    for key, value in found:
        different.setdefault(key, set()).update(rows_of([json.loads(value)]))
    return different


def compared(
    expected: list[Row], lake: list[Row], files: list[Row], topic: list[tuple[str | None, str]]
) -> tuple[dict[str, int], dict[str, bool]]:
    """Return the numbers of answers, and the conditions that must hold."""
    counts, keyed = Counter(expected), by_key(topic)
    figures = {"answers of the static frame": len(expected)}
    for name, rows in {"in the Delta table": lake, "in files": files}.items():
        figures[f"answers {name}"] = len(rows)
        figures[f"duplicates {name}"] = len(rows) - len(set(rows))
    figures |= {
        "messages in the topic of answers": len(topic),
        "messages equal to an earlier message with the same key": len(topic)
        - sum(len(rows) for rows in keyed.values()),
        "keys in that topic": len(keyed),
    }
    read_by_key = Counter(row for rows in keyed.values() for row in rows)
    held = {
        "each key identifies one answer of the static frame": len({row[0] for row in expected})
        == len(expected),
        "the Delta table has each answer once, like the static frame": Counter(lake) == counts,
        "the files contain each answer once, like the static frame": Counter(files) == counts,
        "the topic, read by key, has each answer once, like the static frame": read_by_key == counts
        and all(key == str(row[0]) for key, rows in keyed.items() for row in rows),
    }
    return figures, held


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--page", type=Path, help="write a page of what was found")
    given = parser.parse_args()
    run_again_under(PYSPARK, sys.argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that started processes end too
    with tempfile.TemporaryDirectory(prefix="kafka-kills-") as place:
        folder, sent = Path(place), readings(given.rows)
        seconds, topic = run_and_killed(sent, given.kills, folder)
        load = os.getloadavg()[2]
        expected, lake = expected_and_lake(sent, folder)
        files = rows_of(pq.read_table(committed_files(folder / "files")).to_pylist())
    figures, held = compared(expected, lake, files, topic)
    figures = {
        "PySpark, broker": f"{PYSPARK}, {KAFKA.rpartition(':')[2]}",
        "messages": given.rows,
        "kills": given.kills,
        "seconds, all runs together": seconds,
        "cores of the machine": os.cpu_count() or 1,
        "load of the machine: running and waiting processes, mean of 15 minutes": round(load),
        **figures,
        **{name: "yes" if value else "no" for name, value in held.items()},
    }
    rows = [{"name": name, "found": value} for name, value in figures.items()]
    print(table(rows))
    if given.page is not None:
        fill(given.page, table(rows))
    return 0 if all(held.values()) else 1


def run_and_killed(
    sent: pa.Table, kills: int, folder: Path
) -> tuple[int, list[tuple[str | None, str]]]:
    """Return the seconds of all runs together, and the messages in the topic of answers."""
    rows = len(sent)
    with KafkaBroker(folder / "kafka") as broker, ExitStack() as stack:
        os.environ["BROKER"] = broker.address
        written(broker.address, "readings", messages(sent), partitions=3)
        written(broker.address, "answers", [], partitions=3)
        file = folder / "p.toml"
        file.write_text(
            FILE.format(
                jars=json.dumps(added(*CONNECTORS)),
                settings="\n".join(f'"{name}" = "{value}"' for name, value in LAKE.items()),
                columns=COLUMNS,
                text=TEXT,
                batch=max(1_000, rows // 20),
            )
        )
        begun = time.monotonic()
        for kill in range(kills):
            process = started(file, "--log", "text")
            stack.callback(ended_if_alive, process)
            awaited(broker.address, process, rows * (kill + 1) // (kills + 2), folder)
            killed(process)
            print(f"killed after {time.monotonic() - begun:.0f} s", flush=True)
        process = started(file, "--once")
        stack.callback(ended_if_alive, process)
        ended(process, file, 3000)
        return round(time.monotonic() - begun), read(broker.address, "answers")


if __name__ == "__main__":
    sys.exit(main())
