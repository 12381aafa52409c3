"""Operators that run in one step give the same answers as in separate steps."""

import json

import pytest
from pyspark.sql import functions as F  # noqa: N812

import sfumato as sf
from seeds import nightly_except
from sfumato.metrics.progress import NOT_COUNTERS
from spark_tables import tables_of
from streams import observed
from two_sources import CONTROL, SCHEMA, add_files, run_over, source, write_files

RANGE = sf.Range("4 minutes", "2 minutes")


def reordered(df, key="device", **more):
    return sf.reorder(df, **CONTROL, key=key, **more)


def averages(df, window=RANGE, key="device", result="m", **more):
    return sf.window_aggregate(df, {result: "avg(x)"}, window=window, order="ts", key=key, **more)


def warm(df):
    some = {"n": "count_if(x > 20)", "m": "avg(x) FILTER (WHERE device <> 'd0' OR half)"}
    return sf.window_aggregate(df, some, window=RANGE, order="ts")


def ranked(df, by="x"):
    return sf.top_k(df, 2, by=by, window=sf.Range("5 minutes"), order="ts", key="device")


def toll(df):
    """Join the extents of two windows that share one controller."""
    rows = reordered(df, None)
    each, all_ = averages(rows), averages(rows, sf.Range("6 minutes", "2 minutes"), None)
    return sf.extent_join(each, all_)


def pairs(df):
    halves = [reordered(df.where(f"id % 2 = {i}")) for i in (0, 1)]
    return sf.similarity_join(
        *halves, on="x", within=1.0, probability=0.2, window=sf.Rows(6), order="ts", key="device"
    )


CHAINS = {  # number of operators in one step, query
    "extents": (2, lambda df: averages(reordered(df))),
    "conditions": (2, lambda df: warm(reordered(df, None))),
    "members": (2, lambda df: averages(reordered(df), with_rows=True)),
    "keys of a controller without": (2, lambda df: averages(reordered(df, None))),
    "sources": (2, lambda df: averages(reordered(df, source=["half"], expected_sources=2))),
    "rows, then a ranking": (3, lambda df: ranked(averages(reordered(df), sf.Rows(5)), "m.mean")),
    "delta, then earlier values": (
        3,
        lambda df: sf.earlier_values(
            averages(reordered(df), sf.Delta(3.0, on="x")), "id", order="ts", key="device"
        ),
    ),
    "ranking": (2, lambda df: ranked(reordered(df))),
    "pairs": (3, pairs),
    "toll": (4, toll),
}  # fmt: skip


@pytest.fixture(scope="module")
def frame(spark):
    rows = source(1) + source(2)
    rows[7]["alternatives"] = [{"prob": 1.5, "x": 1.0}]  # invalid: counted by either step
    return spark.createDataFrame([json.dumps(row) for row in rows], "string").select(
        F.from_json("value", SCHEMA).alias("r")
    ).select("r.*").withColumn("half", F.expr("id > 2000"))  # fmt: skip


@pytest.fixture(scope="module")
def apart(spark):
    """Return a function that builds frames in which every operator has a separate step."""

    def made(build):
        spark.conf.set("spark.sfumato.fuse", "false")
        try:
            return build()
        finally:
            spark.conf.unset("spark.sfumato.fuse")

    return made


def steps(df):
    """Return the number of operators in a frame's last step, and why there are not more."""
    from sfumato.spark.runtime.fuse import lineage_of

    how = lineage_of(df)
    return len(how.fused_with) or 1, how.not_fused_because


def rows_of(df):
    return sorted(df.select(F.to_json(F.struct("*")).alias("row")).toPandas()["row"])


@pytest.fixture(scope="module")
def chains(frame, apart):
    """Return {name: (fused frame, its rows, frame in several steps, its rows)}, by two queries."""
    fused = {name: chain(frame) for name, (_, chain) in CHAINS.items()}
    alone = apart(lambda: {name: chain(frame) for name, (_, chain) in CHAINS.items()})
    one, other = tables_of(fused), tables_of(alone)
    return {name: (fused[name], one[name], alone[name], other[name]) for name in CHAINS}


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_in_one_step_answers_as_its_operators_apart(chains, name):
    fused, found, alone, expected = chains[name]
    assert steps(fused) == (CHAINS[name][0], [])
    assert steps(alone)[0] == 1
    assert "`spark.sfumato.fuse` is false" in steps(alone)[1][0]
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected.to_pylist()))
    assert found.num_rows > 5


def streamed(spark, files, build, folder):
    """Return (rows, totals of all counters by operator) of a stopped and restarted query."""
    totals = {}

    for part in (files[:2], files[2:]):
        add_files(part, folder / "in")
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        rows = build(stream.json(str(folder / "in"))).select(F.to_json(F.struct("*")).alias("row"))
        for _, row in observed(run_over(rows, folder)):
            for name, count in row.asDict().items():
                if isinstance(count, int) and name not in NOT_COUNTERS:
                    place = row.kind, row.side, name
                    totals[place] = totals.get(place, 0) + count
    return sorted(r["row"] for r in spark.read.parquet(str(folder / "out")).collect()), totals


@pytest.mark.parametrize("name", nightly_except(["rows, then a ranking", "toll", "pairs"], "pairs"))
def test_a_stream_through_a_chain_answers_and_counts_as_through_its_operators(
    spark, apart, name, tmp_path
):
    """Run one micro-batch per file, with a restart from the checkpoint in the middle."""
    operators, chain = CHAINS[name]
    rows = sorted(source(1) + source(2), key=lambda row: row["arrival"])
    rows[7]["alternatives"] = [{"prob": 1.5, "x": 1.0}]
    files = write_files(tmp_path / "files", rows)

    def named(df):
        found = chain(df)
        assert steps(found)[0] in (operators, 1)
        return found

    fused = streamed(spark, files, named, tmp_path / "fused")
    alone = apart(lambda: streamed(spark, files, named, tmp_path / "alone"))
    assert fused[0] == alone[0]
    assert len(fused[0]) > 5
    assert fused[1] == alone[1]
    assert sum(total for (*_, name), total in fused[1].items() if name == "invalid") > 0


def test_what_cannot_be_in_one_step_is_a_step_of_its_own(frame, spark):
    rows = reordered(frame)
    assert steps(averages(rows.where("NOT late")))[0] == 1  # Spark's filter is in between
    answers = averages(rows, sf.Rows(5))
    by_result = ranked(answers, "id % 7")
    assert steps(by_result)[0] == 1
    assert "only Spark can compute" in steps(by_result)[1][0]
    finer = averages(rows, sf.Rows(5), ["device", "id"])
    assert steps(finer)[0] == 1
    assert "different keys" in steps(finer)[1][0]
    waiting = averages(rows, sf.Range("1 minute", idle_timeout="1 minute"))
    assert "separate idle timeout" in steps(waiting)[1][0]
    rows.cache()
    try:
        assert "cached" in steps(averages(rows))[1][0]
    finally:
        rows.unpersist()


def test_the_setting_is_true_or_false(frame, spark):
    spark.conf.set("spark.sfumato.fuse", "no")
    try:
        with pytest.raises(ValueError, match="must be true or false; got 'no'"):
            averages(reordered(frame))
    finally:
        spark.conf.unset("spark.sfumato.fuse")


def test_rows_of_extents_cannot_have_a_result_named_like_a_column_of_theirs(frame):
    with pytest.raises(
        ValueError, match="names a result `id`, but the answer already has a column"
    ):
        averages(reordered(frame), result="id", with_rows=True)


def test_a_frame_may_be_read_by_an_operator_and_by_spark_in_one_query(frame):
    """Its metrics are observed twice, under two names: Spark does not allow duplicate names."""
    rows = reordered(frame)
    means = averages(rows).selectExpr("device", "m.mean AS mean")
    late = rows.groupBy("device").agg(F.count_if("late").alias("late"))
    found = means.join(late, "device").collect()
    assert len(found) > 5
    assert steps(averages(rows))[0] == 2


def test_members_of_extents_meet(frame, apart):
    def joined():
        rows = reordered(frame, None)
        sides = [averages(rows, RANGE, key, "m", with_rows=True) for key in ("device", None)]
        return sf.extent_join(*sides, on="x", within=0.5, probability=0.2)

    fused = joined()
    assert steps(fused) == (4, [])
    assert rows_of(fused) == rows_of(apart(joined))


def test_sql_says_which_operators_run_in_one_step(frame):
    text = """
        SELECT a.device, a.n, b.m FROM
        (SELECT device, window, COUNT(*) AS n FROM s [RANGE 2 MINUTES WATTR ts SLACK 3]
            GROUP BY device) a
        JOIN (SELECT device, window, EXPECTED(AVG(x)) AS m
            FROM s [RANGE 6 MINUTES SLIDE 2 MINUTES WATTR ts SLACK 3]
            GROUP BY device HAVING EXPECTED(AVG(x)) < 3) b ON a.device = b.device
    """
    plan = sf.explain(frame.sparkSession, text, s=frame)
    said = [line for line in plan.splitlines() if " runs " in line]
    assert len(said) == 3, plan
    assert "reorder" in said[0]
    assert said[0].count("window") == 2
