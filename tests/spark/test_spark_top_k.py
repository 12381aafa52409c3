"""Multi-top-k on Spark: a stream that falls silent, and its counters."""

import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

import sfumato as sf
from sfumato.metrics.progress import NOT_COUNTERS
from sfumato.reports import IDENTITY
from streams import observed, put_parts, stream_of

pytestmark = pytest.mark.spark
START = datetime(2026, 1, 1, 9, tzinfo=UTC)
SCHEMA = "id long, k long, ts timestamp, rule string, "
SCHEMA += "alternatives array<struct<prob: double, x: double>>"
QUERIES = [sf.Top(1, every="2 seconds"), sf.Top(3, every="5 seconds", name="wide")]


def tuples(seed, count, keys=2):
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        n = int(rng.integers(1, 3))
        share = rng.dirichlet(np.ones(n + 1))[:n] / 4
        ts = START + timedelta(seconds=i // 2)
        pairs = [(float(p), float(v)) for p, v in zip(share, rng.random(n).round(4), strict=True)]
        rule = f"g{i // 4}" if rng.random() < 0.5 else None
        rows.append((i, int(rng.integers(0, keys)), ts, rule, pairs))
    return rows


def answered(rows):
    return sorted(
        (
            r["k_"], r["query"], r["time"], r["rank"], r["row"]["id"],
            "" if r["answered"] is None else str(r["answered"]), round(r["probability"], 12),
        )
        for r in rows
    )  # fmt: skip


def by_key(df, processing_time=False, **window):
    return sf.top_k(
        df.withColumnRenamed("k", "k_"), QUERIES, by="x", window=sf.Range("8 seconds", **window),
        order="ts", key="k_", exclusive="rule", processing_time=processing_time,
    )  # fmt: skip


@contextmanager
def silent(spark, answers, tmp_path):
    """Start a query on a stream without further rows, whose answers are the table `quiet`."""
    query = (
        answers.writeStream.format("memory").queryName("quiet")
        .option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    )  # fmt: skip
    try:
        yield query
    finally:
        query.stop()
        spark.catalog.dropTempView("quiet")


def wait_for(spark, count):
    deadline = time.monotonic() + 120
    while spark.table("quiet").count() < count and time.monotonic() < deadline:
        time.sleep(0.3)  # processAllAvailable never returns, see how-to/testing
    return answered(spark.table("quiet").collect())


@pytest.mark.nightly  # one silent stream is enough: test_spark_window_streams
def test_a_quiet_stream_gives_its_last_answers_and_reports_what_it_did(spark, tmp_path):
    rows = tuples(5, 30)
    put_parts(tmp_path / "in", spark.createDataFrame(rows, SCHEMA).toArrow(), [0, 30])
    stream = stream_of(spark, tmp_path / "in", SCHEMA)
    whole = answered(by_key(spark.createDataFrame(rows, SCHEMA)).collect())
    with silent(spark, by_key(stream, idle_timeout="1 second"), tmp_path) as query:
        assert wait_for(spark, len(whole)) == whole  # although no row follows the last one
    counted, by_query = {}, {}
    for name, row in observed(query):
        into = by_query if name.endswith("_answers") else counted
        for field, count in row.asDict().items():
            if field in IDENTITY or (field in NOT_COUNTERS and into is counted):
                continue
            into[field] = into.get(field, 0) + count
    assert counted["rows"] == 2 * 30  # once on arrival, and once when ranked
    assert (counted["invalid"], counted["late"], counted["rejected"]) == (0, 0, 0)
    each = {(key, query, at) for key, query, at, *_ in whole}
    assert counted["answers"] == len(whole)
    assert counted["answered"] == len(each) > 0
    assert by_query == {
        name: len([one for one in each if one[1] == name]) for name in ("top_1", "wide")
    }
    assert counted["executions"] > 0
    waits = {row[:3]: datetime.fromisoformat(row[5]) - row[2] for row in whole if row[5]}
    assert counted["latency"] == sum(waits.values(), timedelta()) / timedelta(microseconds=1)
    every = {"top_1": timedelta(seconds=2), "wide": timedelta(seconds=5)}
    assert counted["late_answers"] == len([k for k, wait in waits.items() if wait > every[k[1]]])


@pytest.mark.nightly
def test_in_processing_time_a_quiet_stream_is_answered_until_its_windows_are_empty(spark, tmp_path):
    rows = tuples(5, 30)
    put_parts(tmp_path / "in", spark.createDataFrame(rows, SCHEMA).toArrow(), [0, 30])
    last = rows[-1][2] + timedelta(seconds=10)  # reveals all query times of the windows above
    ends = [(100 + key, key, last, None, [(0.5, 0.0)]) for key in {row[1] for row in rows}]
    shown = by_key(spark.createDataFrame([*rows, *ends], SCHEMA)).collect()
    whole = [row for row in answered(shown) if row[4] < 100]
    stream = stream_of(spark, tmp_path / "in", SCHEMA)
    answers = by_key(stream, processing_time=True, idle_timeout="1 second")
    with silent(spark, answers, tmp_path):
        found = wait_for(spark, len(whole))
    assert [(*row[:5], row[6]) for row in found] == [(*row[:5], row[6]) for row in whole]
    newest = {key: max(row[2] for row in rows if row[1] == key) for key in {0, 1}}
    by_clock = [row[2].astimezone(UTC) > newest[row[0]] for row in found]
    assert [row[5] == "" for row in found] == by_clock
