"""Tables in memory give the same results as static Spark frames of the same rows: every column,
its metadata, and every row, including ties and rejections."""

import json
import warnings
from functools import reduce

import pyarrow as pa
import pytest

import sfumato as sf
from engine_cases import (
    AT,
    CASES,
    CERTAIN_CASES,
    COMPLETE,
    IMPUTED,
    INCOMPLETE,
    MEASURED,
    PLAIN_CASES,
    RANGE,
    REORDERED,
    ROWS,
    TOTALS,
    UTC,
    A,
    B,
    P,
    measured,
    plain,
    rows_of,
    with_times,
)
from seeds import nightly_except
from sfumato.tables.reading.job import DRAWS_KEY, ORIGINS_KEY
from spark_tables import in_groups, tables_of


@pytest.fixture(scope="module", autouse=True)
def small_batches(spark):
    """Pass static frames through operators a few rows at a time; tables in memory pass at once."""
    spark.conf.set("spark.sfumato.batchRows", "7")
    yield
    spark.conf.unset("spark.sfumato.batchRows")


def certain_rows() -> pa.Table:
    seen = P.column("at").cast(UTC)
    up = pa.array([i % 3 == 0 for i in range(ROWS)])
    return P.drop_columns(["existence"]).append_column("seen", seen).append_column("up", up)


def far_times() -> pa.Table:
    """Return times of three kinds, one of each beyond 2**60 microseconds from 1970."""
    times = pa.array([10, 11, 2**62])
    stamps = (times.cast(pa.timestamp("us", zone)) for zone in ("UTC", None))
    return pa.table([[0, 1, 2], times, *stamps, [1.0] * 3], ["id", "whole", "utc", "local", "x"])


def joined_by(order):
    how = {"on": "x", "within": 0.5, "probability": 0.5, "window": sf.Range("5 us")}
    return lambda sf, table: sf.self_join(table, order=order, **how)


# name -> a query and its tables
QUERIES = {
    **{name: (case, (A, B)) for name, case in CASES.items()},
    "uncertain times": (CASES["uncertain times"], (with_times(A), B)),
    **{name: (case, (certain_rows(),)) for name, case in CERTAIN_CASES.items()},
    **{name: (case, (P, plain(6))) for name, case in PLAIN_CASES.items()},
    **{name: (case, (INCOMPLETE, COMPLETE)) for name, case in IMPUTED.items()},
    **{name: (case, (measured(7),)) for name, case in MEASURED.items()},
    **{
        f"far {name} times": (joined_by(name), (far_times(),)) for name in ("whole", "utc", "local")
    },
}
# Spark handles the rows and answers of these like those of the other queries.
NIGHTLY = {
    "reorder with a share of late rows", "reorder sources", "reorder by sent punctuations",
    "extents",
    "averages over time", "sessions", "extents of unique rows", "count windows",
    "count windows with a slide", "keys are forgotten", "top-k after reorder",
    "joined", "joined with itself", "neighbours after reorder", "as of, after reorder",
    "extents joined one to one", "windows over windows", "joined in worlds", "pruned",
    "pruned and joined", "extents of certain rows", "windows of certain rows", "rules",
    "plain rows joined", "neighbours within radii", "scaled rules", "imputed by key",
    "incomplete rows joined", "two fused", "far local times",
}  # fmt: skip
KEPT = QUERIES.keys() - NIGHTLY
GROUPS = in_groups(filter(KEPT.__contains__, QUERIES), 6) | in_groups(sorted(NIGHTLY), 6)


@pytest.fixture(scope="module")
def of_spark(spark):
    """Return a function from a query's name to its frame and answers; groups are Spark queries."""
    found: dict = {}
    sources: dict = {}

    def frame_of(table):
        if id(table) not in sources:
            sources[id(table)] = spark.createDataFrame(table)
        return sources[id(table)]

    def answers(name):
        if name not in found:
            frames = {
                each: QUERIES[each][0](sf, *map(frame_of, QUERIES[each][1]))
                for each in GROUPS[name]
            }
            tables = tables_of(frames)
            found.update({each: (frames[each], tables[each]) for each in frames})
        return found[name]

    return answers


def said(schema) -> list[dict]:
    """Return the metadata of each field, of Arrow or Spark, except names of sources."""
    metadata = [field.metadata or {} for field in schema]
    names = [of for key in (ORIGINS_KEY, DRAWS_KEY) for of in (key, key.encode())]
    return [
        {getattr(k, "decode", lambda k=k: k)(): getattr(v, "decode", lambda v=v: v)()
         for k, v in one.items() if k not in names}
        for one in metadata
    ]  # fmt: skip


@pytest.mark.parametrize("name", nightly_except(QUERIES, *KEPT))
def test_a_query_answers_as_on_spark(of_spark, name):
    query, tables = QUERIES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sf.errors.InvalidRowsWarning)
        got = query(sf, *tables)
        empty = query(sf, *(table.slice(0, 0) for table in tables[:1]), *tables[1:])
    frame, answers = of_spark(name)
    assert got.column_names == frame.columns
    assert said(got.schema) == said(frame.schema)
    assert rows_of(got) == rows_of(answers)
    assert answers.num_rows > 0
    assert [field.type for field in empty.schema] == [field.type for field in got.schema]


CONDITIONS = [
    "x > 1", "not (x > 1)", "x in (1, y)", "x not in (1, 2.5e0)", "x not between 1 and y",
    "x is null", "y >= 1.5 and m.n between 3 and 100 or room = 'hall'",
    "x = y", "x <> 2 * y - 1", "y <= 0.5 AND NOT room != 'ü'", "m.mean / 2 < x",
    "abs(x - y) > 1", "sqrt (x) >= 1.25", "ABS(-m.n) = 7 or sqrt(x - 2) > y",
]  # fmt: skip
OF_ROWS = ["m.mean > 2", "room is not null and not room = 'hall'", "true", "id / 2 > m.mean + 10"]


@pytest.mark.parametrize("conditions", [CONDITIONS, OF_ROWS], ids=["attributes", "columns"])
def test_conditions(spark, conditions):
    frame = spark.createDataFrame(A)
    parts = [
        sf.where(frame, text).selectExpr(f"{i} as number", "id", "alternatives as kept")
        for i, text in enumerate(conditions)
    ]
    answers = reduce(lambda one, other: one.union(other), parts).toArrow()
    expected = sorted(repr(row) for row in answers.to_pylist())
    got = []
    for i, text in enumerate(conditions):
        for row in sf.where(A, text).to_pylist():
            got.append(repr({"number": i, "id": row["id"], "kept": row["alternatives"]}))
    assert sorted(got) == expected


def test_conditions_with_nan(spark):
    numbers = [1.0, float("nan"), None, -1.0]
    table = pa.table({"a": [a for a in numbers for _ in numbers], "b": numbers * 4})
    frame = spark.createDataFrame(table)
    for sign in ("=", "<>", "<", "<=", ">", ">="):
        expected = frame.where(f"a {sign} b").toArrow().to_pylist()
        assert repr(sf.where(table, f"a {sign} b").to_pylist()) == repr(expected), sign


def test_numbers_of_alternatives(spark):
    from pyspark.sql import functions as F  # noqa: N812

    frame = spark.createDataFrame(A)
    expected = frame.select(
        sf.existence(), sf.expected("x").alias("e"), sf.stddev("y").alias("s"),
        sf.expected("x", conditional=True).alias("ec"),
        sf.stddev("y", conditional=True).alias("sc"),
        sf.samples(F.col("m.mean"), 0.5, 7, attributes="x").alias("points"),
        sf.samples(["m.mean", "m.n"], [0.5, "m.n"], 3, "uniform", ["x", "y"]).alias("plane"),
        sf.between("m.mean", "m.n", 4, "triangular", "x").alias("between"),
        sf.between("m.n", 9.5, 3).alias("to_a_number"),
        sf.below("m.mean", "m.n", 3).alias("below"),
        sf.above("m.mean", 0.5, 3).alias("above"),
        sf.alternatives(F.col("alternatives.x"), F.col("alternatives.prob")).alias("again"),
        sf.alternatives("alternatives", F.col("alternatives.prob"), ["x", "y"]).alias("both"),
        sf.alternatives("alternatives").alias("whole"),
        sf.alternatives("alternatives", attributes=["x"]).alias("some"),
        sf.alternatives("alternatives", "alternatives.prob").alias("named"),
        *(sf.quantile("x", q).alias(f"q{q}") for q in (0.0, 0.3, 0.5, 1.0)),
        sf.alternatives("alternatives", normalize=True).alias("scaled"),
        sf.alternatives(
            F.col("alternatives.x"), F.expr("transform(alternatives, a -> a.x - 1)"), normalize=True
        ).alias("odd"),
    ).toArrow()  # fmt: skip
    lists = A.column("alternatives").combine_chunks()
    plain_lists = [lists.to_pylist()[i] for i in range(ROWS)]
    xs = [None if row is None else [a["x"] for a in row] for row in plain_lists]
    prob = [None if row is None else [a["prob"] for a in row] for row in plain_lists]
    mean, n = (pa.array([m[name] for m in A.column("m").to_pylist()]) for name in ("mean", "n"))
    got = {
        "existence": sf.existence(A),
        "e": sf.expected("x", A),
        "s": sf.stddev("y", lists),
        "ec": sf.expected("x", lists, conditional=True),
        "sc": sf.stddev("y", A, conditional=True),
        "points": sf.samples(mean, 0.5, 7, attributes="x"),
        "plane": sf.samples([mean, n], [0.5, n], 3, "uniform", ["x", "y"]),
        "between": sf.between(mean, n, 4, "triangular", "x"),
        "to_a_number": sf.between(n, 9.5, 3),
        "below": sf.below(mean, n, 3),
        "above": sf.above(mean, 0.5, 3),
        "again": sf.alternatives(xs, prob),
        "both": sf.alternatives(lists, prob, ["x", "y"]),
        "whole": sf.alternatives(lists),
        "some": sf.alternatives(lists, attributes=["x"]),
        "named": sf.alternatives(lists, "prob"),
        **{f"q{q}": sf.quantile("x", q, lists) for q in (0.0, 0.3, 0.5, 1.0)},
        "scaled": sf.alternatives(lists, normalize=True),
        "odd": sf.alternatives(
            xs, [x and [None if n is None else n - 1 for n in x] for x in xs], normalize=True
        ),
    }
    for name, column in got.items():
        assert repr(column.to_pylist()) == repr(expected[name].to_pylist()), name


def test_what_spark_observes_is_counted(spark):
    frame = spark.createDataFrame(A)
    found = sf.window_aggregate(
        sf.reorder(frame, **REORDERED, slack=3, name="first"), TOTALS, window=RANGE, name="n", **AT
    )
    assert found.count() > 0
    with pytest.warns(sf.errors.InvalidRowsWarning, match="were left out as invalid"):
        table = sf.window_aggregate(
            sf.reorder(A, **REORDERED, slack=3, name="first"), TOTALS, window=RANGE, name="n", **AT
        )
    counted = sf.ops.counters(table)
    assert list(counted) == ["sfumato_reorder_first", "sfumato_window_n_input", "sfumato_window_n"]
    assert json.dumps(counted)
