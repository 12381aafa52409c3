"""Window aggregates on Spark: against definitions, over static and streaming frames."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import sfumato as sf
from streams import put_parts, run, stream_of
from worlds import aggregate_laws, moments_of, worlds

pytestmark = pytest.mark.spark
START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "id long, k long, ts timestamp, alternatives array<struct<prob: double, x: double>>"


def tuples(seed, count, keys=2):
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        n = int(rng.integers(1, 3))
        share = rng.dirichlet(np.ones(n + 1))[:n] if rng.random() < 0.6 else np.full(n, 1 / n)
        values = rng.integers(-3, 4, n).astype(float)
        ts = START + timedelta(seconds=float(i) + float(rng.integers(0, 3)) / 4)
        pairs = [(float(p), float(v)) for p, v in zip(share, values, strict=True)]
        rows.append((i, int(rng.integers(0, keys)), ts, pairs))
    return rows


def moments(window, function, newest=None):
    """mean, sd and existence of an aggregate over possible worlds."""
    tuples = [[(p, Fraction(v)) for p, v in pairs] for pairs in window]
    mean, variance, existence = moments_of(aggregate_laws([(function, None)], tuples, newest)[0])
    return float(mean), float(variance) ** 0.5, float(existence)


FUNCTIONS = ("sum", "count", "avg", "min", "max")
AGGREGATES = {f"of_{f}": f"{f}(x)" if f != "count" else "count(*)" for f in FUNCTIONS}


def test_nulls_are_skipped_and_expressions_are_sparks(spark):
    rows = [(0, 1.0), (1, None), (2, 5.0)]
    df = spark.createDataFrame(rows, "id long, v double")
    out = sf.window_aggregate(
        df,
        {"n": "count(*)", "known": "count(v)", "twice": "avg(2 * v)", "none": "max(nullif(v, v))"},
        window=sf.Rows(3),
        order="id",
    )
    last = out.where("id = 2").first()
    assert (last["n"], last["known"], last["twice"], last["none"]) == (3, 2, 6.0, None)


def test_results_of_certain_rows_have_the_types_of_sql(spark):
    columns = ("id", "CAST(id AS SMALLINT) AS small", "CAST(id AS DECIMAL(9, 2)) / 4 AS price")
    df = spark.range(3).selectExpr(*columns, "timestamp_seconds(id) AS ts", "id > 0 AS up")
    asked = {
        "n": "count(*)", "known": "count(nullif(id, 0))", "kinds": "count(DISTINCT id % 2)",
        "total": "sum(id)", "mean": "mean(id)", "spread": "stddev(id)", "v": "var(small)",
        "least": "min(small)", "most": "max(price)", "newest": "last(ts)", "oldest": "first(id)",
        "any": "max(up)", "half": "quantile(id, 0.5)", "double": "max(2D * id)",
    }  # fmt: skip
    for window, order in ((sf.Rows(3), "id"), (sf.Range("1 minute"), "ts")):
        out = sf.window_aggregate(df, asked, window=window, order=order)
        kinds = {name: out.schema[name].dataType.simpleString() for name in asked}
        assert kinds == {
            "n": "bigint", "known": "bigint", "kinds": "bigint", "total": "double",
            "mean": "double", "spread": "double", "v": "double", "least": "smallint",
            "most": df.schema["price"].dataType.simpleString(), "newest": "timestamp",
            "oldest": "bigint", "any": "boolean", "half": "double", "double": "double",
        }  # fmt: skip
        row = out.collect()[-1].asDict()
        found = {name: row[name] for name in asked}
        assert found == {
            "n": 3, "known": 2, "kinds": 2, "total": 3.0, "mean": 1.0, "spread": 1.0, "v": 1.0,
            "least": 0, "most": Decimal("0.5"), "newest": df.collect()[-1].ts, "oldest": 0,
            "any": True, "half": 1.0, "double": 4.0,
        }  # fmt: skip


def stream_rows(spark, folder, rows, size, build):
    """What a stream gives in files of `size` rows, restarted in the middle."""
    table = spark.createDataFrame(rows, SCHEMA).toArrow()
    cuts = [*range(0, len(rows), size), len(rows)]
    half, found = len(cuts) // 2, []
    for part in (cuts[: half + 1], cuts[half:]):
        put_parts(folder / "in", table, part)
        found += run(build(stream_of(spark, folder / "in", SCHEMA)), folder)[0]
    return found


def test_a_stream_across_a_restart_answers_as_the_whole_frame(spark, tmp_path):
    rows = tuples(3, 30)

    def build(df):
        return sf.window_aggregate(
            df, AGGREGATES, window=sf.Rows(3, confidence=0.95), order="id", key="k"
        )

    came = stream_rows(spark, tmp_path, rows, 7, build)
    whole = build(spark.createDataFrame(rows, SCHEMA)).collect()
    by_id = {row["id"]: row for row in whole}
    assert sorted(row["id"] for row in came) == list(range(30))
    for row in came:
        other = by_id[row["id"]]
        assert row["held"] == other["held"]
        for name in AGGREGATES:
            assert row[name]["mean"] == pytest.approx(other[name]["mean"], rel=1e-12, abs=1e-12)


def test_reorder_then_extents_in_one_query_equals_the_rows_that_came_in_time(spark, tmp_path):
    rng = np.random.default_rng(4)
    rows = tuples(4, 120)
    order = np.argsort(np.arange(120) + rng.exponential(3, 120))
    arrived = [(int(at), rows[i][1], rows[i][2], rows[i][3]) for at, i in enumerate(order.tolist())]

    def build(df):
        ordered = sf.reorder(
            df.selectExpr("*", "timestamp_seconds(id) AS arrival"),
            event_time="ts", arrival="arrival", slack=2,
        )  # fmt: skip
        return sf.window_aggregate(
            ordered,
            {"n": "count(*)", "total": "sum(x)"},
            window=sf.Range("10 seconds", slide="5 seconds"),
            order="ts",
            key="k",
        )

    came = stream_rows(spark, tmp_path, arrived, 10, build)
    whole = build(spark.createDataFrame(arrived, SCHEMA)).collect()
    late = {row["id"]: row["punctuation"].replace(tzinfo=UTC) for row in sf.reorder(
        spark.createDataFrame(arrived, SCHEMA).selectExpr(
            "*", "timestamp_seconds(id) AS arrival"
        ), event_time="ts", arrival="arrival", slack=2,
    ).where("late").collect()}  # fmt: skip
    assert 0 < len(late) < 60
    tick = timedelta(microseconds=1)
    joined = 0

    def known(out):
        return {(r["k"], r["window"]["end"].replace(tzinfo=UTC)): r for r in out}

    complete, first = known(whole), known(came)
    assert len(complete) == len(whole)
    assert len(first) == len(came)
    assert set(first) <= set(complete)
    assert len(first) >= len(complete) - 6
    for (k, end), row in complete.items():
        start = end - timedelta(seconds=10)
        window = [
            pairs for i, key, ts, pairs in arrived
            if key == k and start <= ts < end and (i not in late or end - tick > late[i])
        ]  # fmt: skip
        joined += sum(key == k and start <= ts < end and i in late and end - tick > late[i]
                      for i, key, ts, _ in arrived)  # fmt: skip
        assert row["held"] == len(window)
        mean, sd, _ = moments(window[:9], "sum") if len(window) <= 9 else (None, None, None)
        if mean is not None:
            assert row["total"]["mean"] == pytest.approx(mean, abs=1e-9)
            assert row["total"]["stddev"] == pytest.approx(sd, abs=1e-7)
        if (k, end) in first:
            assert first[k, end]["total"]["mean"] == row["total"]["mean"]
            assert first[k, end]["late"] == row["late"]
    assert joined > 0


def test_a_distribution_feeds_another_operator(spark):
    rows = tuples(6, 12, keys=1)
    df = spark.createDataFrame(rows, SCHEMA)
    out = sf.window_aggregate(
        df, {"highest": "max(x)"}, window=sf.Range("4 seconds"), order="ts", distribution=50
    ).select("window", sf.alternatives("highest.distribution"))
    high = sf.where(out, "value >= 2").select("window", sf.existence().alias("p")).collect()
    assert high
    for row in high:
        start, end = (row["window"][side].replace(tzinfo=UTC) for side in ("start", "end"))
        mine = [pairs for *_, ts, pairs in rows if start <= ts < end]
        expected = sum(p for p, values in worlds(mine) if values and max(values) >= 2)
        assert row["p"] == pytest.approx(expected)


def test_groups_across_controllers_are_refused_with_the_way_out(spark):
    df = spark.createDataFrame(tuples(8, 2), SCHEMA).selectExpr("*", "ts AS arrival")
    ordered = sf.reorder(df, event_time="ts", arrival="arrival", key="k", slack=1)
    with pytest.raises(ValueError, match="add k to `key`, or reorder without key"):
        sf.window_aggregate(ordered, {"n": "count(*)"}, window=sf.Range("1 minute"), order="ts")


def test_invalid_rows_take_no_part_and_are_counted(spark, tmp_path):
    rows = [
        (0, 0, START, [(0.5, 1.0)]),
        (1, 0, START, [(1.5, 1.0)]),
        (2, 0, START, [(0.5, float("inf"))]),
        (3, 0, START, []),
        (4, 0, START, [(1.0, 1e308)]),
        (5, 0, START, [(0.5, 2.0), (0.5, -1e308)]),
        (6, 0, START, [(1.0, 1e140)]),
    ]
    df = spark.createDataFrame(rows, SCHEMA)
    asked = {"t": "sum(x)", "a": "avg(x)", "m": "max(x)"}
    for window in (sf.Rows(2), sf.Delta(1e300, on="x"), sf.Range("1 minute")):
        order = "ts" if isinstance(window, sf.Range) else "id"
        frame = df if isinstance(window, sf.Range) else df.where("id != 6")
        out = sf.window_aggregate(frame, asked, window=window, order=order).collect()
        assert len(out) == 1
        assert all(math.isfinite(number) for name in asked for number in out[0][name])
        if order == "id":
            assert (out[0]["id"], out[0]["t"]["mean"], out[0]["a"]["mean"]) == (0, 0.5, 1.0)
    assert {row["id"] for row in sf.split_invalid(df)[1].collect()} == {1, 2, 3}


def test_extents_of_a_real_disordered_trace_equal_the_batch_answer_over_rows_in_time(
    spark, data_folder
):
    rows = (
        spark.read.parquet(str(data_folder / "ooo_dataset_d.parquet"))
        .where("session in ('d-2', 'd-3')")
        .select("session", "event_time", "arrival_time", "content_length")
    )
    ordered = sf.reorder(
        rows, event_time="event_time", arrival="arrival_time", key="session",
        drop_ratio=0.01, estimator="conformal",
    )  # fmt: skip
    out = sf.window_aggregate(
        ordered,
        {"n": "count(*)", "mean": "avg(content_length)"},
        window=sf.Range("20 seconds", slide="5 seconds"),
        order="event_time",
        key="session",
    )
    kept = ordered.where("not late")
    total, late = rows.count(), ordered.where("late").count()
    assert kept.count() + late == total
    assert 0 < late <= 0.0105 * total
    from pyspark.sql import functions as F  # noqa: N812

    extents = ordered.select("*", F.window("event_time", "20 seconds", "5 seconds"))
    in_time = extents.where("not late or window.end > punctuation + interval 1 microsecond")
    batch = in_time.groupBy("session", "window").agg(
        F.count("*").alias("count"), F.avg("content_length").alias("average")
    )
    both = out.join(batch, ["session", "window"], "full").select(
        F.count("*").alias("extents"),
        F.count_if(~F.col("n").eqNullSafe(F.col("count"))).alias("wrong"),
        F.max(F.abs(F.col("mean") - F.col("average")) / F.col("average")).alias("error"),
        F.max("late").alias("late"),
    )
    found = both.first()
    assert found["extents"] > 100
    assert found["wrong"] == 0
    assert found["error"] < 1e-9
    assert found["late"] <= late


def test_pairs_of_a_join_feed_a_filter_and_a_window(spark):
    rows = tuples(9, 30, keys=1)
    df = spark.createDataFrame(rows, SCHEMA)
    pairs = sf.similarity_join(
        df, df, on="x", within=1.0, probability=0.3, window=sf.Rows(4), order="id"
    )
    high = sf.where(pairs, "left_x >= 0").selectExpr(
        "left.id AS id", "left.ts AS ts", "alternatives"
    )
    out = sf.window_aggregate(
        high, {"of_sum": "sum(left_x)"}, window=sf.Range("5 seconds"), order="ts"
    ).collect()
    assert out
    certain = high.collect()
    for row in out:
        start, end = (row["window"][side].replace(tzinfo=UTC) for side in ("start", "end"))
        mine = [r for r in certain if start <= r["ts"].replace(tzinfo=UTC) < end]
        assert row["held"] == len(mine)
        mean = sum(a["prob"] * a["left_x"] for r in mine for a in r["alternatives"])
        assert row["of_sum"]["mean"] == pytest.approx(mean)
