"""What a new operator inherits, shown by `tests/newest_rows.py`."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import newest_rows as toy
import sfumato as sf
from sfumato.metrics.progress import NOT_COUNTERS
from sfumato.operators.state.config import differences
from sfumato.tables.operator import ROW, TIE

CONFIG = toy.NewestConfig(step=3, keys=1)


def by_definition(rows, step):
    """Return the (key, order) rows that exceed their key's newest by `step` or more."""
    newest, news = {}, []
    for key, order in rows:
        if order >= newest.get(key, -step) + step:
            newest[key] = order
            news.append((key, order))
    return news


def test_the_operator_and_its_function_are_80_lines_at_most():
    assert len(Path(toy.__file__).read_text().splitlines()) <= 80


@given(
    steps=st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 4)), max_size=30),
    cuts=st.sets(st.integers(1, 29)),
    restart=st.integers(0, 30),
)
def test_its_answers_depend_neither_on_cuts_nor_on_a_restart(steps, cuts, restart):
    order = np.cumsum([step for _, step in steps]).tolist()
    rows = [(key, at) for (key, _), at in zip(steps, order, strict=True)]
    operator, answers = CONFIG.make(), []
    for begin, end in pairwise(sorted({0, len(rows), *(c for c in cuts if c < len(rows))})):
        if begin >= restart:
            operator = CONFIG.restore(operator.snapshot())
        keys, at = zip(*rows[begin:end], strict=True)
        table = pa.table(
            {
                ROW: [{"c0": k, "c1": o} for k, o in rows[begin:end]],
                "key0": pa.array(keys, pa.string()),
                "order0": at,
                TIE: range(begin, end),
            }
        )
        for out in operator.process([(0, table)], 0):
            answers += [tuple(row.values()) for row in out.column(ROW).to_pylist()]
    assert answers == by_definition(rows, 3)
    assert operator.counters()["news"] == len(answers)


def test_another_configuration_is_named():
    other = toy.NewestConfig(step=4, keys=1)
    assert differences(CONFIG.fingerprint(), other.fingerprint()) == "`step` was 3 and is 4"
    with pytest.raises(ValueError, match="`step` must be an integer of at least 1; got 0"):
        toy.NewestConfig(step=0)


ROWS = [("a", 1), ("b", 2), ("a", 3), ("a", 5), ("b", 9), ("a", 6), ("b", 10), ("a", 90)]
SCHEMA = "`a key` string, `at.time` long"


def newest(df):
    return toy.newest_rows(df, order="at.time", key="a key", step=3)


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_its_function_takes_tables_in_memory(kind):
    keys, order = zip(*ROWS, strict=True)
    table = pa.table({"a key": keys, "at.time": order})
    given = {"pandas": pa.Table.to_pandas, "polars": pl.from_arrow, "arrow": lambda t: t}[kind]
    found = newest(given(table))
    assert type(found) is type(given(table))
    arrow = pa.Table.from_pandas(found) if kind == "pandas" else pa.table(found)
    rows = [tuple(row.values()) for row in arrow.select(["a key", "at.time"]).to_pylist()]
    assert sorted(rows) == sorted(by_definition(sorted(ROWS, key=lambda row: row[1]), 3))


@pytest.mark.spark
def test_static_and_streaming_frames_give_the_same_with_metrics_and_across_a_restart(
    spark, tmp_path
):
    df = spark.createDataFrame(ROWS, SCHEMA)
    static = newest(df)
    assert static.columns == df.columns
    assert sorted(map(tuple, static.collect())) == sorted(by_definition(ROWS, 3))
    found, counts = [], {}

    def run(made):
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        query = (
            made(stream.parquet(str(tmp_path / "in")))
            .writeStream.foreachBatch(lambda batch, _: found.extend(map(tuple, batch.collect())))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        for progress in query.recentProgress:
            for metrics, row in progress.observedMetrics.items():
                assert metrics.startswith("sfumato_newest_rows_")
                for name, value in row.asDict().items():
                    if name not in NOT_COUNTERS:
                        counts[name] = counts.get(name, 0) + value

    (tmp_path / "in").mkdir()
    for number, (begin, end) in enumerate([(0, 3), (3, 4), (4, 8)]):
        keys, at = zip(*ROWS[begin:end], strict=True)
        table = pa.table({"a key": keys, "at.time": at})
        pq.write_table(table, tmp_path / "in" / f"{number}.parquet")
        run(newest)
    assert sorted(found) == sorted(by_definition(ROWS, 3))
    assert (counts["rows"], counts["news"], counts["invalid"]) == (8, len(found), 0)
    pq.write_table(table, tmp_path / "in" / "more.parquet")
    with pytest.raises(Exception, match="`step` was 3 and is 1"):
        run(lambda df: toy.newest_rows(df, order="at.time", key="a key"))


@pytest.mark.spark
def test_it_is_a_table_function_that_is_explained_and_refused_where_it_is_wrong(spark):
    s = spark.createDataFrame(ROWS, "k string, at long")
    text = "SELECT k, at FROM newest_rows(s, order => at, key => k, step => 3) WHERE at > 1"
    out = sf.sql(spark, text, s=s)
    expected = [(key, at) for key, at in by_definition(ROWS, 3) if at > 1]
    assert sorted(map(tuple, out.collect())) == sorted(expected)
    lines = sf.explain(spark, text, s=s)
    assert "newest_rows" in lines
    for arguments, word, message in (
        ("order => at, key => k, step => 0", "0", "integer of at least 1"),
        ("order => at, key => q", "q", "not in the frame|no column"),
        ("key => k", "newest_rows", "needs the argument order"),
        ("order => at, key => k, steps => 2", "steps", "did you mean step"),
    ):
        with pytest.raises(sf.errors.SqlError, match=message) as error:
            sf.sql(spark, f"SELECT * FROM newest_rows(s, {arguments})", s=s)
        assert error.value.word == word
