"""The uncertain tuple in Spark SQL, against the possible worlds of one tuple."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812

import sfumato as sf
from seeds import examples
from sfumato.kernels.laws.tuples import existences
from worlds import law_over, moments_of, quantile_of, worlds

pytestmark = pytest.mark.spark

TUPLES = "k long, site string, alternatives array<struct<prob: double, x: double, y: double>>"


@st.composite
def valid_tuples(draw):
    """A list of (prob, x, y), the probabilities summing to at most 1."""
    count = draw(st.integers(1, 5))
    weights = [draw(st.integers(1, 9)) for _ in range(count + 1)]
    total = sum(weights)
    values = st.integers(-3, 3).map(float)
    return [(w / total, draw(values), draw(values)) for w in weights[:count]]


def frame(spark, tuples):
    rows = [(i, "ab"[i % 2], alternatives) for i, alternatives in enumerate(tuples)]
    return spark.createDataFrame(rows, TUPLES)


@examples(8)
@given(st.lists(valid_tuples(), min_size=20, max_size=40))
def test_numbers_read_off_alternatives_are_those_of_the_possible_worlds(spark, tuples):
    got = (
        frame(spark, tuples)
        .select(
            "k",
            sf.existence().alias("e"),
            sf.expected("x").alias("m"),
            sf.expected("x", conditional=True).alias("mc"),
            sf.stddev("x").alias("s"),
            sf.stddev("x", conditional=True).alias("sc"),
            *(sf.quantile("x", q).alias(f"q{i}") for i, q in enumerate((0.0, 0.3, 0.5, 1.0))),
        )
        .collect()
    )
    for row in got:
        alternatives = tuples[row.k]
        found = worlds([[(p, x) for p, x, _ in alternatives]])
        mean, variance, _ = moments_of(law_over(found, sum))
        given = law_over(found, lambda there: there[0] if there else None)
        mean_given, variance_given, exists = moments_of(given)
        assert row.e == pytest.approx(float(exists), abs=1e-12)
        assert row.m == pytest.approx(float(mean), abs=1e-12)
        assert row.mc == pytest.approx(float(mean_given), abs=1e-12)
        assert row.s**2 == pytest.approx(float(variance), abs=1e-9)
        assert row.sc**2 == pytest.approx(float(variance_given), abs=1e-9)
        for i, q in enumerate((0.0, 0.3, 0.5, 1.0)):
            assert row[f"q{i}"] == quantile_of(given, q - 1e-12)


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("x > 0", lambda x, y, site: x > 0),
        ("x > 0 AND y <= 1", lambda x, y, site: x > 0 and y <= 1),
        ("X + y BETWEEN -1 AND 2 -- trailing words", lambda x, y, site: -1 <= x + y <= 2),
        ("site = 'a' OR x < y", lambda x, y, site: site == "a" or x < y),
        ("CASE WHEN site = 'a' THEN x END > 0", lambda x, y, site: site == "a" and x > 0),
        ("x IN (SELECT 1.0D)", None),
    ],
)
@examples(3)
@given(tuples=st.lists(valid_tuples(), min_size=10, max_size=20))
def test_where_keeps_the_alternatives_that_satisfy_the_condition(spark, condition, holds, tuples):
    if holds is None:
        with pytest.raises(Exception, match=r"(?i)subquery|unsupported"):
            sf.where(frame(spark, tuples), condition).collect()
        return
    expected = {}
    for i, alternatives in enumerate(tuples):
        kept = [a for a in alternatives if holds(a[1], a[2], "ab"[i % 2])]
        if kept:
            expected[i] = kept
    got = sf.where(frame(spark, tuples), condition).collect()
    assert {row.k: [tuple(a) for a in row.alternatives] for row in got} == expected


def test_where_on_certain_columns_only_is_an_ordinary_filter(spark):
    df = frame(spark, [[(0.5, 1.0, 1.0)]] * 4)
    assert [row.k for row in sf.where(df, "site = 'b'").orderBy("k").collect()] == [1, 3]
    plain = spark.range(4)
    assert [row.id for row in sf.where(plain, "id > 2").collect()] == [3]


def test_a_comparison_with_null_is_not_satisfied(spark):
    df = spark.createDataFrame([(0, "a", [(0.5, None, 1.0), (0.5, 2.0, 1.0)])], TUPLES)
    assert sf.where(df, "x > 1 or x is null and 1 > cast(null as int)").head().alternatives == [
        (0.5, 2.0, 1.0)
    ]


def test_every_row_is_either_checked_or_rejected_with_its_reason(spark):
    nan, inf = float("nan"), float("inf")
    cases = [
        ([(1.0, 1.0, 1.0)], None),
        ([(0.5, 1.0, 1.0), (0.5 + 5e-10, 2.0, 1.0)], None),
        (None, "no alternatives"),
        ([], "no alternatives"),
        ([None], "an alternative is NULL"),
        ([(0.0, 1.0, 1.0)], "prob is not a number in"),
        ([(-0.1, 1.0, 1.0)], "prob is not a number in"),
        ([(nan, 1.0, 1.0)], "prob is not a number in"),
        ([(None, 1.0, 1.0)], "prob is not a number in"),
        ([(1.1, 1.0, 1.0)], "prob is not a number in"),
        ([(0.6, 1.0, 1.0), (0.6, 2.0, 1.0)], "sum to 1.2"),
        ([(0.6, nan, 1.0)], "x is missing or not finite"),
        ([(0.6, 1.0, -inf)], "y is missing or not finite"),
        ([(0.6, 1.0, None)], "y is missing or not finite"),
    ]
    df = frame(spark, [alternatives for alternatives, _ in cases])
    assert [r.k for r in sf.split_invalid(df)[0].orderBy("k").collect()] == [0, 1]
    assert sf.split_invalid(df)[0].columns == df.columns
    rejected = {row.k: row.reason for row in sf.split_invalid(df)[1].collect()}
    assert set(rejected) == set(range(2, len(cases)))
    for k, reason in rejected.items():
        assert cases[k][1] in reason
    with pytest.raises(Exception, match="invalid row: "):
        sf.split_invalid(df, strict=True)[0].collect()


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
    assert row.short[1].prob is None  # which `rejected` shows


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


def test_a_float32_softmax_loses_no_row(spark):
    """Sums of single-precision probabilities pass 1 by some 1e-7; some of them are 0."""
    scores = np.random.default_rng(1).normal(0, 40, (300, 10)).astype(np.float32)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    prob = weights / weights.sum(1, keepdims=True)
    sums = prob.astype(float).sum(1)
    assert (sums > 1 + 1e-9).any()
    assert (prob == 0).any()
    rows = [(i, list(range(10)), p.astype(float).tolist()) for i, p in enumerate(prob)]
    df = spark.createDataFrame(rows, "t long, v array<int>, p array<double>")
    made = df.select("t", sf.alternatives("v", "p", "x").alias("alternatives"))
    structs = F.expr("zip_with(p, v, (p, v) -> struct(cast(p as float) as prob, v as x))")
    whole = df.select("t", sf.alternatives(structs).alias("alternatives"))
    for frame_ in (made, whole):
        assert sf.split_invalid(frame_)[1].count() == 0
        worst = frame_.select(F.aggregate("alternatives.prob", F.lit(0.0), lambda a, p: a + p))
        assert max(row[0] for row in worst.collect()) <= 1 + 1e-12
        best = sf.top_k(frame_, 300, by="x", window=sf.Range("1 s"), order="t").collect()
        assert len(best) == 300


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


def test_existence_follows_the_rule_of_the_operators(spark):
    rng = np.random.default_rng(3)
    tuples = []
    for n in [*range(1, 60), 500]:
        for _ in range(3):
            weights = rng.random(n)
            weights *= (1.0 - rng.integers(-2, 9) * n * 2.0**-54) / weights.sum()
            tuples.append([(float(p), 0.0, 0.0) for p in np.minimum(weights, 1.0)])
    prob = np.array([p for each in tuples for p, _, _ in each])
    expected = existences(np.cumsum([0, *map(len, tuples)]), prob)
    got = frame(spark, tuples).orderBy("k").select(sf.existence().alias("e")).collect()
    assert [row.e for row in got] == expected.tolist()
    assert 20 < (expected == 1.0).sum() < expected.size - 20


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sf.samples("t", 1.0, 0), "`n` must be a whole number"),
        (lambda: sf.samples("t", 1.0, 3, "cauchy"), "`distribution` must be one of"),
        (lambda: sf.samples(["t", "u"], 1.0, 3), "of one length; got 2, 2 and 1"),
        (lambda: sf.quantile("x", 1.5), r"`q` must lie in \[0, 1\]; got 1.5"),
        (lambda: sf.alternatives("v", "p", []), "at least one attribute"),
    ],
)
def test_wrong_arguments_are_named(spark, call, message):
    with pytest.raises(ValueError, match=message):
        call()


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
    (("structs", "p"), {}, "lists of numbers; for structs write the fields to take"),
    (("structs", "p", "v"), {}, "lists of numbers; for structs write the fields to take"),
    (("pts", "p"), {}, "for lists of coordinates write a list of names and points=True"),
    (("m",), {}, "for a map alternatives(F.map_keys(m), F.map_values(m))"),
    (("m", "p"), {}, "for a map alternatives(F.map_keys(m), F.map_values(m))"),
    (("nums", "m"), {}, "`prob` must be a column of lists of numbers; of a map write"),
    (("nums", "structs"), {}, "`prob` must be a column of lists of numbers; of a map write"),
    (("nums", "x"), {}, "`prob` must be a column of lists of numbers; of a map write"),
    (("nums",), {}, "a field `prob`, their probability; for numbers, write alternatives("),
    (("x",), {}, "a field `prob`, their probability; for numbers, write alternatives("),
    (("nums", "p", ["a"]), {}, "structs with the fields a, because `attributes` is a list"),
    (("nums", "p", ["a"]), {"points": True}, "lists of coordinates, because of points=True"),
    (("structs", "p", "a"), {"points": True}, "lists of coordinates, because of points=True"),
]  # fmt: skip


@pytest.mark.parametrize(("taken", "options", "wanted"), WRONG_TYPES)
def test_columns_of_other_types_are_refused_with_what_to_write(spark, taken, options, wanted):
    """The same words without Spark; the error is Spark's own, when a frame takes the column."""
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
