"""The uncertain tuple in Spark SQL, compared with the possible worlds of one tuple."""

import re

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812

import sfumato as sf

pytestmark = pytest.mark.spark

TUPLES = "k long, site string, alternatives array<struct<prob: double, x: double, y: double>>"


def frame(spark, tuples):
    rows = [(i, "ab"[i % 2], alternatives) for i, alternatives in enumerate(tuples)]
    return spark.createDataFrame(rows, TUPLES)


def test_where_takes_any_condition_of_spark_but_subqueries(spark):
    df = frame(spark, [[(0.5, 1.0, 0.0), (0.5, -1.0, 0.0)], [(1.0, 2.0, 5.0)]])
    texts = {
        "X + y BETWEEN -1 AND 2 -- trailing words": [(0, 2)],
        "CASE WHEN site = 'a' THEN x END > 0": [(0, 1)],
    }
    for text, expected in texts.items():
        assert [(r.k, len(r.alternatives)) for r in sf.where(df, text).collect()] == expected
    with pytest.raises(Exception, match=r"(?i)subquery|unsupported"):
        sf.where(df, "x IN (SELECT 1.0D)").collect()


def test_alternatives_from_arrays_of_numbers_structs_and_points(spark):
    df = spark.sql(
        "select array(1, 2) v, array(0.25D, 0.5D) p, "
        "array(named_struct('a', 1, 'b', 2)) s, array(1.0D) one, array(array(7, 8, 9)) pts"
    )
    row = df.select(
        sf.alternatives("v", "p").alias("plain"),
        sf.alternatives("s", "one", ["b", "a"]).alias("structs"),
        sf.alternatives("pts", "one", ["lat", "lon"], points=True).alias("points"),
        sf.alternatives("v", "one").alias("short"),
    ).head()
    assert [a.asDict() for a in row.plain] == [
        {"prob": 0.25, "value": 1.0},
        {"prob": 0.5, "value": 2.0},
    ]
    assert row.structs[0].asDict() == {"prob": 1.0, "b": 2.0, "a": 1.0}
    assert row.points[0].asDict() == {"prob": 1.0, "lat": 7.0, "lon": 8.0}
    assert row.short[1].prob is None  # `rejected` shows this alternative


def test_alternatives_from_structs_whatever_their_fields_are_called(spark):
    df = spark.sql(
        "select array(named_struct('lon', 1, 'score', 0.25F, 'lat', 2), "
        "named_struct('lon', 3, 'score', 0.5F, 'lat', 4)) s, "
        "array(named_struct('x', 5D, 'Prob', 1F)) q, map(7D, 0.25D, 8D, 0.75D) m, "
        "array(named_struct('my score', 0.5D, 'a.b', 9D)) o"
    )
    row = df.select(
        sf.alternatives("s", "s.score").alias("whole"),
        sf.alternatives(F.col("s"), F.col("s")["score"]).alias("by_columns"),
        sf.alternatives("s", "s.score", ["lat"]).alias("some"),
        sf.alternatives("q").alias("other_case"),
        sf.alternatives("q", attributes="x").alias("named"),
        sf.alternatives(F.map_keys("m"), F.map_values("m")).alias("map"),
        sf.alternatives("o", "o.`my score`").alias("odd"),
        sf.alternatives("s", "s.score", normalize=True).alias("scaled"),
    ).head()
    assert [a.asDict() for a in row.whole] == [
        {"prob": 0.25, "lon": 1, "lat": 2},
        {"prob": 0.5, "lon": 3, "lat": 4},
    ]
    assert row.by_columns == row.whole
    assert [a.asDict() for a in row.some] == [{"prob": 0.25, "lat": 2.0}, {"prob": 0.5, "lat": 4.0}]
    assert [a.asDict() for a in row.other_case] == [{"prob": 1.0, "x": 5.0}]
    assert [a.asDict() for a in row.named] == [{"prob": 1.0, "x": 5.0}]
    assert [a.asDict() for a in row.map] == [
        {"prob": 0.25, "value": 7.0},
        {"prob": 0.75, "value": 8.0},
    ]
    assert [a.asDict() for a in row.odd] == [{"prob": 0.5, "a.b": 9.0}]
    assert [a.prob for a in row.scaled] == [1 / 3, 2 / 3]


def test_scores_are_scaled_to_probabilities_where_that_is_wanted(spark):
    df = spark.sql(
        "select * from values (1, array(2D, 6D)), (2, array(0D, 3D)), (3, array(0D, 0D)), "
        "(4, array(-1D, 3D)), (5, array(1D, null)), (6, null) as t(k, p)"
    )
    values = F.array(F.lit(7), F.lit(8))
    made = df.select("k", sf.alternatives(values, "p", "x", normalize=True).alias("alternatives"))
    found = {
        row.k: row.alternatives and [tuple(a) for a in row.alternatives] for row in made.collect()
    }
    assert found[1] == [(0.25, 7.0), (0.75, 8.0)]
    assert found[2] == [(1.0, 8.0)]
    assert sorted(row.k for row in sf.split_invalid(made)[1].collect()) == [3, 4, 5, 6]
    over = df.where("k = 1").select(
        sf.alternatives(values, F.expr("transform(p, q -> q / 7.9)"), "x").alias("alternatives")
    )
    assert "sum to 1.01" in sf.split_invalid(over)[1].head().reason


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sf.samples("t", 1.0, 0), "`n` must be an integer"),
        (lambda: sf.samples("t", 1.0, 3, "cauchy"), "`distribution` must be one of"),
        (lambda: sf.samples(["t", "u"], 1.0, 3), "the same length; got 2, 2 and 1"),
        (lambda: sf.quantile("x", 1.5), r"`q` must lie in \[0, 1\]; got 1.5"),
        (lambda: sf.alternatives("v", "p", []), "at least one attribute"),
    ],
)
def test_wrong_arguments_are_named(spark, call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_frame_of_spark_is_no_column_and_has_no_counters(spark):
    given = spark.range(1)
    with pytest.raises(TypeError, match="expected a column, or a table in memory; got a Spark"):
        sf.expected("x", given)
    with pytest.raises(TypeError, match="`table` must be a pandas, Polars or Arrow table"):
        sf.ops.counters(given)


def test_alternatives_are_called_so_without_an_alias(spark):
    given = spark.createDataFrame(
        [([1.0], [1.0], 2.0)], "v array<double>, p array<double>, x double"
    )
    frame = given.select(sf.alternatives("v", "p"), sf.samples("x", 0.5, 3).alias("own"))
    assert frame.columns == ["alternatives", "own"]
    assert given.select(sf.samples("x", 0.5, 3)).columns == ["alternatives"]
    assert (
        given.select(F.array(F.struct(sf.expected("value", sf.samples("x", 0.5, 3))))).count() == 1
    )


TYPES = """
    SELECT array(named_struct('v', 1D, 'prob', 1D)) AS structs, array(1D) AS p, array(1D) AS nums,
           map(1D, 1D) AS m, 1D AS x, array(array(1D, 2D)) AS pts
"""
WRONG_TYPES = [
    (("structs", "p"), {}, "lists of numbers; for structs, name the fields to use"),
    (("structs", "p", "v"), {}, "lists of numbers; for structs, name the fields to use"),
    (("pts", "p"), {}, "for lists of coordinates, write a list of names and points=True"),
    (("m",), {}, "for a map, write alternatives(F.map_keys(m), F.map_values(m))"),
    (("m", "p"), {}, "for a map, write alternatives(F.map_keys(m), F.map_values(m))"),
    (("nums", "m"), {}, "`prob` must be a column of lists of numbers; for a map, write"),
    (("nums", "structs"), {}, "`prob` must be a column of lists of numbers; for a map, write"),
    (("nums", "x"), {}, "`prob` must be a column of lists of numbers; for a map, write"),
    (("nums",), {}, "a field `prob`, their probability; for numbers, write alternatives("),
    (("x",), {}, "a field `prob`, their probability; for numbers, write alternatives("),
    (("nums", "p", ["a"]), {}, "structs with the fields a, because `attributes` is a list"),
    (("nums", "p", ["a"]), {"points": True}, "lists of coordinates, because of points=True"),
    (("structs", "p", "a"), {"points": True}, "lists of coordinates, because of points=True"),
]  # fmt: skip


@pytest.mark.parametrize(("taken", "options", "wanted"), WRONG_TYPES)
def test_columns_of_other_types_are_refused_with_what_to_write(spark, taken, options, wanted):
    """The message is the same without Spark; Spark raises its own error when the frame is built."""
    frame = spark.sql(TYPES)
    with pytest.raises(AnalysisException) as of_spark:
        frame.select(sf.alternatives(*taken, **options))
    assert wanted in str(of_spark.value)
    table = frame.toArrow()
    columns = [table.column(name) for name in taken[:2]]
    with pytest.raises(TypeError, match=re.escape(wanted) + ".*; got "):
        sf.alternatives(*columns, *taken[2:], **options)


def test_an_attribute_with_a_dot_in_its_name_is_aggregated_in_backquotes(spark):
    columns = "id int, alternatives array<struct<prob: double, `a.b`: int>>"
    df = spark.createDataFrame([(1, [(0.5, 2), (0.5, 4)]), (2, [(1.0, 5)])], columns)
    out = sf.window_aggregate(df, {"m": "sum(`a.b`)"}, window=sf.Rows(1), order="id")
    assert {row.id: row.m.mean for row in out.collect()} == {1: 3.0, 2: 5.0}
