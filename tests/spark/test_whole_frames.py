"""Static frames pass through an operator one batch at a time, with the answers of one call."""

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType, StructType, TimestampType

import sfumato as sf
from engine_cases import A, rows_of
from sfumato.errors import InvalidRowsWarning
from sfumato.spark.crossing import chunks, whole_frames
from sfumato.spark.crossing.chunks import OperatorMetrics, place, spark_hash
from sfumato.spark.crossing.whole_frames import ANSWERS_COLUMN, answer_batches, feed, read_ahead
from sfumato.tables.operator import ROW, TableConfig, TableOperator
from spark_tables import tables_of


@contextmanager
def in_batches_of_seven(spark):
    spark.conf.set(whole_frames.BATCH_ROWS_SETTING, "7")
    try:
        yield
    finally:
        spark.conf.unset(whole_frames.BATCH_ROWS_SETTING)


EVENT = "IF(id % 7 = 3, NULL, unix_seconds(made))"
KINDS = {
    "timestamp": f"timestamp_micros({EVENT})",
    "timestamp without zone": f"cast(timestamp_micros({EVENT}) as timestamp_ntz)",
    "date": f"date_from_unix_date(cast({EVENT} / 3 as int))",
    "decimal": f"cast({EVENT} / 7 as decimal(20, 10))",
    "float": f"case id % 9 when 0 then double('NaN') when 1 then -0.0D when 2 then 0D else {EVENT} "
    "/ 4 end",
    "boolean": f"{EVENT} % 2 = 0",
}


@pytest.mark.spark
def test_spark_sorts_as_the_operator_does(spark):
    """For any type of the order, with ties, NULL and NaN: tables in memory are not cut."""
    source, frames, expected = spark.createDataFrame(A), {}, {}
    for kind, text in KINDS.items():
        then = text.replace("made", "arrival")
        rows = source.selectExpr("*", "m.mean AS y", f"{text} AS at", f"{then} AS then")
        asked = [
            lambda of: sf.window_aggregate(of, {"mean": "avg(x)"}, window=sf.Rows(5), order="at")
        ]
        if kind in ("decimal", "float"):
            asked.append(lambda of: sf.earlier_values(of, "y", order="at", key="room"))
        if kind.startswith("timestamp"):
            asked.append(lambda of: sf.reorder(of, event_time="at", arrival="then", slack=4))
        table = rows.toArrow()
        with in_batches_of_seven(spark):
            for number, query in enumerate(asked):
                frames[kind, number] = query(rows.repartition(3))
                expected[kind, number] = rows_of(query(table))
    with in_batches_of_seven(spark):
        found = {name: rows_of(table) for name, table in tables_of(frames).items()}
    for name, rows in expected.items():
        assert found[name] == rows, name


@pytest.mark.spark
@pytest.mark.parametrize("partitions", [1, 2, 3, 8, 32])
def test_buckets_are_dealt_out_evenly(spark, partitions):
    buckets = spark.range(64).select((F.col("id") % 32).cast("int").alias(chunks.BUCKET))
    there = buckets.repartitionById(partitions, chunks.BUCKET)
    there = there.select(F.spark_partition_id().alias("at"), chunks.BUCKET)
    dealt = [set() for _ in range(partitions)]
    for at, bucket in there.collect():
        dealt[at].add(bucket)
    assert set.union(*dealt) == set(range(32))
    assert sum(map(len, dealt)) == 32
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 1


@pytest.mark.spark
def test_places_are_where_spark_hashes_to_the_number(spark):
    numbers = [0, 1, 31, 32, 5000, 2**31 - 1]
    rows = spark.createDataFrame([(i, place(i)) for i in numbers], "number int, place int")
    for number, at, hashed in rows.select("number", "place", F.hash("place")).collect():
        assert number == hashed == spark_hash(at)


@pytest.mark.spark
def test_the_rows_of_a_batch_are_a_whole_number(spark):
    for wrong in ("0", "many", "-1"):
        spark.conf.set(whole_frames.BATCH_ROWS_SETTING, wrong)
        try:
            with pytest.raises(ValueError, match="must be an integer of at least 1; got"):
                sf.earlier_values(spark.range(3), "id", order="id")
        finally:
            spark.conf.unset(whole_frames.BATCH_ROWS_SETTING)


# ---- what an operator is fed


@dataclass(frozen=True, kw_only=True)
class FedConfig(TableConfig):
    """An operator that emits the numbers of rows it got, and at the end the number of its calls."""

    kind, counters, gauges = "fed", ("rows", "calls"), {"most": ("long", "max(most)")}

    def make(self):
        return Fed(self)


class Fed(TableOperator):
    state: dict = {}

    def process(self, batch, now):
        rows = [(side, table.num_rows) for side, table in batch]
        self.counts["rows"] += sum(n for _, n in rows)
        self.counts["calls"] += 1
        return [pa.table({"fed": [sum(n for _, n in rows)]})]

    def flush(self):
        return [pa.table({"fed": [-self.counts["calls"]]})]

    def gauges(self):
        return {"most": self.counts["rows"]}


def batches(buckets, cuts) -> Iterator[pa.RecordBatch]:
    """Yield rows of these buckets, cut into batches."""
    for part in np.split(np.asarray(buckets, np.int32), cuts):
        yield pa.record_batch({ROW: np.arange(len(part)), chunks.BUCKET: part})


def given(found):
    return [table["fed"][0].as_py() for tables, _ in found for table in tables]


def metrics(found, name):
    numbers = [of.get(name) for _, of in found if of is not None]
    return [number for number in numbers if number is not None]


def test_an_operator_never_gets_more_than_a_batch_at_once_and_the_next_bucket_follows_its_end():
    buckets = [3] * 20 + [7] * 2 + [9] * 14
    for cuts in ([], [1, 2, 21], [5, 10, 15, 20, 25], np.arange(36)):
        found = list(feed(batches(buckets, cuts), FedConfig(), [[ROW]], 7))
        assert given(found) == [7, 7, 6, -3, 2, -1, 7, 7, -2]
        assert sum(metrics(found, "rows")) == 36
        assert sum(metrics(found, "calls")) == 6
        assert metrics(found, "most") == [20, 2, 14]


def test_large_rows_make_small_batches(monkeypatch):
    monkeypatch.setattr(whole_frames, "BATCH_BYTES", 100)
    found = list(feed(batches([1] * 40, np.arange(5, 40, 5)), FedConfig(), [[ROW]], 1000))
    assert given(found) == [15, 15, 10, -3]


class SkippingConfig(FedConfig):
    def make(self):
        fed = Fed(self)
        fed.gauges = lambda: {"0_reasons": '{"no alternatives": 3}', "1_reasons": None}
        return fed

    def function_of(self, gauge):
        return {"0_reasons": "prune"}[gauge]


def test_the_worker_warns_of_skipped_rows():
    with pytest.warns(InvalidRowsWarning, match=r"prune: .* \(no alternatives\): sf.split") as said:
        list(feed(batches([1] * 4, []), SkippingConfig(), [[ROW]], 7))
    assert len(said) == 1


def test_no_rows_no_answers():
    assert list(feed(iter([]), FedConfig(), [[ROW]], 7)) == []
    assert list(feed(batches([], []), FedConfig(), [[ROW]], 7)) == []


# ---- how answers go out, and batches come in


def test_metrics_wait_for_the_first_answer_whose_type_is_that_of_all():
    schema, kinds = (
        StructType().add("fed", LongType()),
        OperatorMetrics({"rows": "long", "most": "long"}),
    )
    table = pa.table({"other": [1, 2], "fed": pa.array([5, None], pa.int64())})
    found = [([], {"rows": 1}), ([table], {"rows": 2}), ([], {"rows": 0, "most": 7})]
    got = pa.Table.from_batches(answer_batches(found, schema, kinds)).to_pylist()
    assert got == [
        {ANSWERS_COLUMN: [{"fed": 5}, {"fed": None}], "numbers": None},
        {ANSWERS_COLUMN: None, "numbers": [1, None]},
        {ANSWERS_COLUMN: None, "numbers": [2, None]},
        {ANSWERS_COLUMN: None, "numbers": [0, 7]},
    ]


def test_metrics_without_any_answer_go_out_at_the_end():
    schema = StructType().add("at", TimestampType()).add("fed", LongType())
    found = [([], {"rows": 1}), ([], {"rows": 2})]
    got = pa.Table.from_batches(answer_batches(found, schema, OperatorMetrics({"rows": "long"})))
    assert got.to_pylist() == [
        {ANSWERS_COLUMN: None, "numbers": [1]},
        {ANSWERS_COLUMN: None, "numbers": [2]},
    ]
    assert got.schema.field(ANSWERS_COLUMN).type.value_type.names == ["at", "fed"]
    assert list(answer_batches([], schema, OperatorMetrics({"rows": "long"}))) == []


def test_what_is_read_ahead_comes_in_order_and_ends():
    assert list(read_ahead(iter(range(1000)), 3)) == list(range(1000))
    assert list(read_ahead(iter([]), 3)) == []


def test_an_error_comes_where_the_item_was_wanted():
    def items():
        yield 1
        raise OSError("the other end is gone")

    found = read_ahead(items(), 3)
    assert next(found) == 1
    with pytest.raises(OSError, match="the other end is gone"):
        next(found)


def test_no_more_is_read_ahead_than_was_asked_for_and_nothing_behind_the_end():
    read, wanted = [], threading.Semaphore(0)

    def items():
        for i in itertools.count():
            read.append(i)
            wanted.release()
            yield i

    found = read_ahead(items(), 2)
    assert next(found) == 0
    for _ in range(3):  # the delivered one, and two that wait
        assert wanted.acquire(timeout=60)
    found.close()
    assert read == [0, 1, 2]
    assert not wanted.acquire(timeout=0.3)


def test_one_side_of_a_join_need_not_have_rows(spark):
    """Its controller has sources whose names are unknown until they have rows."""
    named = {"ts": "id * 1000000", "arrival": "id * 1000000", "source": "id % 3", "x": "id / 2"}
    some = spark.range(20).selectExpr(*(f"{of} AS {name}" for name, of in named.items()))

    def extents(df):
        ordered = sf.reorder(df, event_time="ts", arrival="arrival", slack=2, source="source")
        return sf.window_aggregate(
            ordered, {"m": "sum(x)"}, window=sf.Range("5 seconds"), order="ts"
        )

    assert sf.extent_join(extents(some), extents(some.limit(0))).count() == 0
    assert sf.extent_join(extents(some), extents(some)).count() == 4
