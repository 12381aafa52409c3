"""Multi-top-k on Spark: Tables 1-3 of D, streams against static frames, and what is refused."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from pyspark.sql import functions as F  # noqa: N812

import sfumato as sf
from sfumato.metrics.progress import NOT_COUNTERS
from sfumato.reports import IDENTITY
from streams import observed, put_parts, run, stream_of

pytestmark = pytest.mark.spark
START = datetime(2026, 1, 1, 9, tzinfo=UTC)
SCHEMA = "id long, k long, ts timestamp, rule string, "
SCHEMA += "alternatives array<struct<prob: double, x: double>>"
QUERIES = [sf.Top(1, every="2 seconds"), sf.Top(3, every="5 seconds", name="wide")]

# Table 1 of D; R2 and R3 exclude each other, and R5 and R6.
SPEEDS = [
    ("R1", 5, 80.0, 0.3, None),
    ("R2", 10, 65.0, 0.4, "GR1"),
    ("R3", 10, 45.0, 0.5, "GR1"),
    ("R4", 15, 30.0, 1.0, None),
    ("R5", 20, 50.0, 0.8, "GR2"),
    ("R6", 20, 25.0, 0.2, "GR2"),
]
TOP_2 = {"R5": 0.704, "R2": 0.4}  # Table 3
TOP_3 = {"R5": 0.8, "R4": 0.784, "R3": 0.5}


@pytest.fixture(scope="module")
def speeds(spark):
    rows = [(i, START + timedelta(minutes=m), s, p, g) for i, m, s, p, g in SPEEDS]
    return spark.createDataFrame(
        rows, "id string, ts timestamp, speed double, confidence double, rule string"
    )


def ask(df, queries, **changes):  # D's Q1
    arguments = {
        "by": "speed", "window": sf.Range("20 minutes"), "order": "ts", "exclusive": "rule",
        "existence": "confidence",
    } | changes  # fmt: skip
    return sf.top_k(df, queries, **arguments)


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


def test_the_last_window_of_table_1_has_the_answers_of_table_3(speeds):
    out = ask(speeds, [sf.Top(2, every="2 minutes"), sf.Top(3, every="6 minutes", name="three")])
    fixed = ["query", "k", "time", "rank", "score", "probability", "row"]
    assert out.columns == [*fixed, "answered"]
    assert dict(out.dtypes)["time"] == "timestamp"
    rows = out.collect()
    last = {
        name: [row for row in rows if row["query"] == name and row["time"] == max(
            row["time"] for row in rows if row["query"] == name
        )] for name in ("top_2", "three")
    }  # fmt: skip
    assert {row["row"]["id"]: row["probability"] for row in last["top_2"]} == pytest.approx(TOP_2)
    assert {row["row"]["id"]: row["probability"] for row in last["three"]} == pytest.approx(TOP_3)
    assert [row["rank"] for row in last["three"]] == [1, 2, 3]
    assert [row["score"] for row in last["three"]] == [50.0, 30.0, 45.0]
    assert set(last["three"][0]["row"].asDict()) == {"id", "ts", "speed", "confidence", "rule"}


def stream_rows(spark, folder, rows, cuts, build):
    """What a stream gives in the files between these cuts, restarted in the middle."""
    table, half = spark.createDataFrame(rows, SCHEMA).toArrow(), len(cuts) // 2
    found = []
    for part in (cuts[: half + 1], cuts[half:]):
        put_parts(folder / "in", table, part)
        found += run(build(stream_of(spark, folder / "in", SCHEMA)), folder)[0]
    return found


def answered(rows):
    return sorted(
        (
            r["k_"], r["query"], r["time"], r["rank"], r["row"]["id"],
            "" if r["answered"] is None else str(r["answered"]), round(r["probability"], 12),
        )
        for r in rows
    )  # fmt: skip


def expected_best(window, k):
    """The best Pr_k of some tuples, from the arrays."""
    names = {}
    rule = [-1 if r[3] is None else names.setdefault(r[3], len(names)) for r in window]
    owner = [i for i, r in enumerate(window) for _ in r[4]]
    chances = sf.engine_free.top_k_probabilities(
        [x for r in window for _, x in r[4]], [p for r in window for p, _ in r[4]],
        [rule[i] for i in owner], k=k, tuples=owner,
    )  # fmt: skip
    return sorted(chances.tolist(), reverse=True)[:k]


def by_key(df, **window):
    return sf.top_k(
        df.withColumnRenamed("k", "k_"), QUERIES, by="x", window=sf.Range("8 seconds", **window),
        order="ts", key="k_", exclusive="rule",
    )  # fmt: skip


def test_a_stream_in_any_batches_and_across_a_restart_answers_as_the_static_frame(spark, tmp_path):
    rows = tuples(3, 64)
    cuts = [0, 11, 12, 28, 51, 64]
    came = answered(stream_rows(spark, tmp_path, rows, cuts, by_key))
    whole = answered(by_key(spark.createDataFrame(rows, SCHEMA)).collect())
    assert len(whole) > len(came) > 60
    known = [row for row in whole if row[5]]
    assert came == known  # all but those that no row calls for
    groups = {}
    for key, query, due, *_, shown, probability in whole:
        at = due.replace(tzinfo=UTC)
        groups.setdefault((key, query, at), []).append(probability)
        later = [r[2] for r in rows if r[1] == key and r[2] >= at]
        assert shown == (str(min(later).replace(tzinfo=None)) if later else "")
    for (key, query, at), got in groups.items():
        begin = at - timedelta(seconds=8)
        window = [r for r in rows if r[1] == key and begin <= r[2] < at]
        best = expected_best(window, 1 if query == "top_1" else 3)
        assert got == pytest.approx(best, abs=1e-11)


def test_a_quiet_stream_gives_its_last_answers_and_reports_what_it_did(spark, tmp_path):
    rows = tuples(5, 30)
    put_parts(tmp_path / "in", spark.createDataFrame(rows, SCHEMA).toArrow(), [0, 30])
    stream = stream_of(spark, tmp_path / "in", SCHEMA)
    query = (
        by_key(stream, idle_timeout="1 second").writeStream.format("memory").queryName("quiet")
        .option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    )  # fmt: skip
    whole = answered(by_key(spark.createDataFrame(rows, SCHEMA)).collect())
    try:
        deadline = time.monotonic() + 120
        while spark.table("quiet").count() < len(whole) and time.monotonic() < deadline:
            time.sleep(0.3)  # not processAllAvailable: timers keep it going for ever
        assert answered(spark.table("quiet").collect()) == whole  # with no row after the last one
    finally:
        query.stop()
        spark.catalog.dropTempView("quiet")
    counted, by_query = {}, {}
    for name, row in observed(query):
        into = by_query if name.endswith("_answers") else counted
        for field, count in row.asDict().items():
            if field in IDENTITY or (field in NOT_COUNTERS and into is counted):
                continue
            into[field] = into.get(field, 0) + count
    assert counted["rows"] == 2 * 30  # as they come, and as they are ranked
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


def test_after_sf_reorder_the_rows_that_are_not_late_are_ranked(spark, tmp_path):
    rng = np.random.default_rng(4)
    rows = tuples(4, 120)
    order = np.argsort(np.arange(120) + rng.exponential(6, 120))
    arrived = [(at, *rows[i][1:]) for at, i in enumerate(order.tolist())]

    def ordered(df):
        return sf.reorder(
            df.withColumnRenamed("k", "k_").selectExpr("*", "timestamp_seconds(id) AS arrival"),
            event_time="ts", arrival="arrival", slack=4,
        )  # fmt: skip

    def build(df):
        return sf.top_k(
            ordered(df), QUERIES, by="x", window=sf.Range("8 seconds"), order="ts", key="k_"
        )

    cuts = [0, 37, 60, 101, 120]
    came = answered(stream_rows(spark, tmp_path, arrived, cuts, build))
    static = spark.createDataFrame(arrived, SCHEMA)
    whole = answered(build(static).collect())
    late = [row["id"] for row in ordered(static).where("late").collect()]
    assert 0 < len(late) < 60
    assert set(came) <= set(whole)
    assert len(came) > len(whole) * 0.8
    kept = [row for row in arrived if row[0] not in late]
    groups = {}
    for key, query, at, *_, probability in whole:
        groups.setdefault((key, query, at.replace(tzinfo=UTC)), []).append(probability)
    for (key, query, at), got in groups.items():
        begin = at - timedelta(seconds=8)
        window = [(*r[:3], None, r[4]) for r in kept if r[1] == key and begin <= r[2] < at]
        assert got == pytest.approx(expected_best(window, 1 if query == "top_1" else 3), abs=1e-11)
    first = sf.reorder(
        static.selectExpr("*", "ts AS arrival"),
        event_time="ts",
        arrival="arrival",
        key="k",
        slack=1,
    )
    with pytest.raises(ValueError, match="add k to `key`, or reorder without key"):
        sf.top_k(first, QUERIES, by="x", window=sf.Range("1 minute"), order="ts")


def test_a_column_in_place_of_an_expression_is_refused(speeds):
    with pytest.raises(TypeError, match=r"`by` must be .* as text"):
        ask(speeds, 2, by=F.col("speed"))
