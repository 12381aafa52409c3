"""Static frames go through an operator a batch at a time, and the answers are those of one call."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType, StructType, TimestampType

import sfumato as sf
from sfumato.spark.crossing import chunks
from sfumato.spark.crossing.buckets import place, spark_hash
from sfumato.spark.crossing.figures import OperatorFigures
from sfumato.spark.runtime import run
from sfumato.spark.static import whole_frames
from sfumato.spark.static.whole_frames import (
    ANSWERS_COLUMN,
    answer_batches,
    answer_type,
    feed,
    read_ahead,
)
from sfumato.tables.operator import ROW, TableConfig, TableOperator

ROWS, FARTHEST = 240, 1 << 60
# Measured where a batch ends, so that they follow its cut; or with the number of an operator.
UNEQUAL = ("waits", "window_size", "operator")


# ---- one call, as it was done before: what the answers are measured against


def in_one_call(sides, config, buckets, given):
    """All rows of a bucket at once, those of each side as they are in the frame."""
    packed = reduce(
        lambda a, b: a.union(b), [chunks.pack(of.frame, side) for side, of in enumerate(sides)]
    )
    known = OperatorFigures.of(config)

    def whole(table: pa.Table) -> pa.Table:
        operator = config.make()
        read = zip(table["side"].to_pylist(), table["chunk"].to_pylist(), strict=True)
        batch = [(side, chunks.from_bytes(chunk)) for side, chunk in read]
        outputs = [*operator.process(batch, 0), *operator.flush()]
        figures = operator.counters() | operator.gauges()
        return pa.Table.from_batches(answer_batches([(outputs, figures)], given, known))

    return packed.groupBy(chunks.BUCKET).applyInArrow(whole, answer_type(given, known))


# ---- rows, with all that may be wrong with them


def readings(seed):
    """Readings in order of arrival, simultaneous ones and gaps among them; the last are invalid."""
    rng = np.random.default_rng(seed)
    event = np.cumsum(rng.integers(0, 9, ROWS))
    arrival = event + rng.exponential(20, ROWS).astype(np.int64)
    order = np.argsort(arrival, kind="stable")
    rows = [
        {
            "id": i,
            "device": [None, "a", "b", "c"][rng.integers(4)],
            "source": ["one", "two"][rng.integers(2)],
            "event": int(event[at]),
            "arrival": int(arrival[at]),
            "x": float(rng.integers(5)),
            "y": float(rng.integers(5)) if rng.random() < 0.7 else None,
            "alternatives": [
                {"prob": p, "v": float(rng.integers(6))} for p in (0.5, 0.3, 0.1)[: rng.integers(4)]
            ],
        }
        for i, at in enumerate(order)
    ]
    for i, (name, value) in enumerate(
        [("arrival", None), ("event", None), ("arrival", FARTHEST), ("event", FARTHEST),
         ("arrival", -FARTHEST), ("device", None)]
    ):  # fmt: skip
        rows[40 * i + 3][name] = value
    return rows


SCHEMA = """id long, device string, source string, event long, arrival long, x double, y double,
    alternatives array<struct<prob: double, v: double>>"""
TIMES = {"event_time": "event", "arrival": "arrival"}
EXTENTS = {"window": sf.Range("60 us", slide="20 us"), "order": "event"}
RESULTS = {"total": "sum(v)", "n": "count(*)"}
PAIRS = {"on": "v", "within": 0.5, "probability": 0.2, "window": sf.Rows(8)}


def extents(rows, **options):
    return sf.window_aggregate(rows, RESULTS, **EXTENTS, **options)


def each_extent(rows):
    """Extents of a frame that a controller has put in order, with late rows among them."""
    return extents(sf.reorder(rows, slack=4, **TIMES, key="device"), key="device")


def imputed(a, b):
    how = {"attributes": "y", "dependencies": "x -> y : 0 -> 1", "repository": a}
    sides = [df.drop("alternatives") for df in (a, b)]
    options = {"on": "y", "within": 0.5, "probability": 0.2, "window": sf.Rows(8)}
    return sf.similarity_join(*sides, **options, order="event", impute=how)


CASES = {
    "reorder": lambda a, _: sf.reorder(a, **TIMES, slack=4),
    "reorder, a controller each": lambda a, _: sf.reorder(
        a, **TIMES, drop_ratio=0.05, key="device", source="source", expected_sources=2
    ),
    "reorder that forgets": lambda a, _: sf.reorder(
        a, **TIMES, slack=4, key="device", forget_after=40
    ),
    "rows": lambda a, _: sf.window_aggregate(
        a, {"m": "avg(v)"}, window=sf.Rows(5), order=["event", "x"], key="device"
    ),
    "rows behind reorder": lambda a, _: sf.window_aggregate(
        sf.reorder(a, slack=4, **TIMES), {"m": "avg(v)"}, window=sf.Rows(5), order="event"
    ),
    "delta": lambda a, _: sf.window_aggregate(
        a, {"m": "max(v)"}, window=sf.Delta(2.0, "v"), order="event", key="device"
    ),
    "extents": lambda a, _: extents(a, key="device"),
    "extents behind reorder": lambda a, _: each_extent(a),
    "extents of keys that share a controller": lambda a, _: extents(
        sf.reorder(a, slack=4, source="source", **TIMES), key="device", with_rows=True
    ),
    "top-k": lambda a, _: sf.top_k(
        a, [sf.Top(2, every="30 us")], by="v", window=sf.Range("60 us"), order="event", key="device"
    ),
    "top-k behind reorder": lambda a, _: sf.top_k(
        sf.reorder(a, slack=4, **TIMES),
        [sf.Top(2, every="30 us"), sf.Top(3, every="50 us")],
        by="v", window=sf.Range("60 us"), order="event", key="device",
    ),
    "join": lambda a, b: sf.similarity_join(a, b, **PAIRS, order="arrival", key="device"),
    "join behind reorder": lambda a, b: sf.similarity_join(
        *(sf.reorder(df, slack=4, **TIMES) for df in (a, b)), **PAIRS, order="event",
        output="changes",
    ),
    "join of incomplete frames": imputed,
    "extents that are joined": lambda a, b: sf.extent_join(
        *(each_extent(df) for df in (a, b)), key="device"
    ),
    "earlier values": lambda a, _: sf.earlier_values(a, "y", order="event", key="device"),
}  # fmt: skip


def device_of(row):
    while "device" not in row:
        row = row["left"]
    return row["device"]


def by_device(frame):
    """The rows of each device in their order, as text: equal bit for bit."""
    found = {}
    for row in frame.toArrow().to_pylist():
        found.setdefault(device_of(row), []).append(repr(row))
    return found


@pytest.fixture
def metrics(spark, monkeypatch):
    """What frames observe, by the names of their metrics."""
    kind, seen = type(spark.range(1)), {}
    observe = kind.observe

    def seeing(self, name, *columns):
        seen[name] = Observation(name)
        return observe(self, seen[name], *columns)

    monkeypatch.setattr(kind, "observe", seeing)
    return seen


def counted(metrics):
    """The metrics, without the numbers in operators' names; then nothing is seen any more.

    An operator that runs in one step with the last one is observed as part of it; the frame that it
    gave itself is never run, and asking for its metrics would wait for ever.
    """
    last = re.sub("_(input|left|right|answers)$", "", [*metrics][-1]).removeprefix("sfumato_")
    together = {name for name in metrics if f"__in_{last}" in name}
    parts = {name.partition("__in_")[0] for name in together}
    found = [
        (re.sub(r"_\d+", "", name), {n: v for n, v in of.get.items() if n not in UNEQUAL})
        for name, of in metrics.items()
        if name in together
        or re.sub("(__in_.*|_input|_left|_right|_answers)$", "", name) not in parts
    ]
    metrics.clear()
    return found


@contextmanager
def in_batches_of_seven(spark):
    spark.conf.set(whole_frames.ROWS_SETTING, "7")
    try:
        yield
    finally:
        spark.conf.unset(whole_frames.ROWS_SETTING)


@pytest.mark.spark
@pytest.mark.parametrize("name", CASES)
def test_the_answers_are_those_of_one_call(spark, monkeypatch, metrics, name):
    frames = [spark.createDataFrame(readings(seed), SCHEMA).repartition(3) for seed in (1, 2)]
    with monkeypatch.context() as before:
        before.setattr(run, "run_whole", in_one_call)
        expected, counts = by_device(CASES[name](*frames)), counted(metrics)
    assert sum(map(len, expected.values())) > 30
    with in_batches_of_seven(spark):
        assert by_device(CASES[name](*frames)) == expected
    assert counted(metrics) == counts
    assert any(of.get("invalid") for _, of in counts)


KINDS = {
    "timestamp": "timestamp_micros(event)",
    "timestamp without zone": "cast(timestamp_micros(event) as timestamp_ntz)",
    "date": "date_from_unix_date(cast(event / 3 as int))",
    "decimal": "cast(event / 7 as decimal(20, 10))",
    "float": "case id % 9 when 0 then double('NaN') when 1 then -0.0D when 2 then 0.0D else y end",
    "boolean": "event % 2 = 0",
}


@pytest.mark.spark
@pytest.mark.parametrize("kind", KINDS)
def test_spark_sorts_as_the_operator_does(spark, monkeypatch, kind):
    """Whatever the type of the order, with ties, NULL and NaN."""
    rows = spark.createDataFrame(readings(3), SCHEMA).where(f"event < {FARTHEST} or event is null")
    rows = rows.withColumn("at", F.expr(KINDS[kind])).repartition(3)

    def answers():
        asked = [sf.window_aggregate(rows, {"m": "avg(v)"}, window=sf.Rows(5), order="at")]
        if kind in ("decimal", "float"):
            asked.append(sf.earlier_values(rows, "y", order="at", key="device"))
        if kind.startswith("timestamp"):
            times = rows.withColumn("then", F.expr(KINDS[kind].replace("event", "arrival")))
            times = times.where(f"arrival is null or abs(arrival) < {FARTHEST}")
            asked.append(sf.reorder(times, event_time="at", arrival="then", slack=4))
        return [by_device(frame) for frame in asked]

    with monkeypatch.context() as before:
        before.setattr(run, "run_whole", in_one_call)
        expected = answers()
    with in_batches_of_seven(spark):
        assert answers() == expected


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
        spark.conf.set(whole_frames.ROWS_SETTING, wrong)
        try:
            with pytest.raises(ValueError, match="must be a whole number of at least 1; got"):
                sf.earlier_values(spark.range(3), "id", order="id")
        finally:
            spark.conf.unset(whole_frames.ROWS_SETTING)


# ---- what an operator is fed


@dataclass(frozen=True, kw_only=True)
class FedConfig(TableConfig):
    """An operator that gives the number of rows it got, and at the end the number of its calls."""

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
    """Rows of these buckets, cut into batches."""
    for part in np.split(np.asarray(buckets, np.int32), cuts):
        yield pa.record_batch({ROW: np.arange(len(part)), chunks.BUCKET: part})


def given(found):
    return [table["fed"][0].as_py() for tables, _ in found for table in tables]


def figures(found, name):
    numbers = [of.get(name) for _, of in found if of is not None]
    return [number for number in numbers if number is not None]


def test_an_operator_never_gets_more_than_a_batch_at_once_and_the_next_bucket_follows_its_end():
    buckets = [3] * 20 + [7] * 2 + [9] * 14
    for cuts in ([], [1, 2, 21], [5, 10, 15, 20, 25], np.arange(36)):
        found = list(feed(batches(buckets, cuts), FedConfig(), [[ROW]], 7))
        assert given(found) == [7, 7, 6, -3, 2, -1, 7, 7, -2]
        assert sum(figures(found, "rows")) == 36
        assert sum(figures(found, "calls")) == 6
        assert figures(found, "most") == [20, 2, 14]


def test_large_rows_make_small_batches(monkeypatch):
    monkeypatch.setattr(whole_frames, "BYTES", 100)
    found = list(feed(batches([1] * 40, np.arange(5, 40, 5)), FedConfig(), [[ROW]], 1000))
    assert given(found) == [15, 15, 10, -3]


def test_no_rows_no_answers():
    assert list(feed(iter([]), FedConfig(), [[ROW]], 7)) == []
    assert list(feed(batches([], []), FedConfig(), [[ROW]], 7)) == []


# ---- how answers go out, and batches come in


def test_figures_wait_for_the_first_answer_whose_type_is_that_of_all():
    schema, kinds = (
        StructType().add("fed", LongType()),
        OperatorFigures({"rows": "long", "most": "long"}),
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


def test_figures_without_any_answer_go_out_at_the_end():
    schema = StructType().add("at", TimestampType()).add("fed", LongType())
    found = [([], {"rows": 1}), ([], {"rows": 2})]
    got = pa.Table.from_batches(answer_batches(found, schema, OperatorFigures({"rows": "long"})))
    assert got.to_pylist() == [
        {ANSWERS_COLUMN: None, "numbers": [1]},
        {ANSWERS_COLUMN: None, "numbers": [2]},
    ]
    assert got.schema.field(ANSWERS_COLUMN).type.value_type.names == ["at", "fed"]
    assert list(answer_batches([], schema, OperatorFigures({"rows": "long"}))) == []


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
    for _ in range(4):  # the one given, two that wait, and one that finds no room
        assert wanted.acquire(timeout=60)
    found.close()
    assert read == [0, 1, 2, 3]
    assert not wanted.acquire(timeout=0.3)


def test_one_side_of_a_join_need_not_have_rows(spark):
    """Its controller has sources, whose names nobody knows before they speak."""
    named = {"ts": "id * 1000000", "arrival": "id * 1000000", "source": "id % 3", "x": "id / 2"}
    some = spark.range(20).selectExpr(*(f"{of} AS {name}" for name, of in named.items()))

    def extents(df):
        ordered = sf.reorder(df, event_time="ts", arrival="arrival", slack=2, source="source")
        return sf.window_aggregate(
            ordered, {"m": "sum(x)"}, window=sf.Range("5 seconds"), order="ts"
        )

    assert sf.extent_join(extents(some), extents(some.limit(0))).count() == 0
    assert sf.extent_join(extents(some), extents(some)).count() == 4
