"""Extents of tuples with uncertain event times, against enumeration of the possible worlds."""

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from worlds import law_over, moments_of, worlds

START = datetime(2026, 1, 1, tzinfo=UTC)
STAMP = pa.timestamp("us", "UTC")
PAIR = pa.struct([("prob", pa.float64()), ("t", STAMP), ("x", pa.float64())])
SCHEMA = pa.schema(
    [("id", pa.int32()), ("room", pa.string()), ("earliest", STAMP), ("arrival", STAMP),
     ("alternatives", pa.list_(PAIR))]
)  # fmt: skip


def tuples(rng, n):
    """Return (id, room, earliest, arrival, [(prob, seconds, x), ...]) in seconds."""
    rows = []
    for i in range(n):
        base = 5 * i + int(rng.integers(0, 5))
        m = int(rng.integers(1, 4))
        times = base + rng.choice(12, m, replace=False) * 1.0
        prob = rng.choice([0.5, 1.0]) * rng.dirichlet(np.ones(m))
        chosen = zip(prob.tolist(), times.tolist(), strict=True)
        pairs = [(p, t, float(rng.integers(0, 4))) for p, t in chosen]
        rows.append((i, "ab"[i % 2], min(times), base + 20.0 + i % 3, pairs))
    return rows


def stamp(seconds):
    return START + timedelta(seconds=seconds)


def table_of(rows):
    found = []
    for i, room, early, came, pairs in rows:
        cells = pairs and [
            {"prob": p, "t": None if t is None else stamp(t), "x": x} for p, t, x in pairs
        ]
        cells = {"earliest": stamp(early), "arrival": stamp(came), "alternatives": cells}
        found.append({"id": i, "room": room, **cells})
    return pa.Table.from_pylist(found, SCHEMA)


def by_worlds(rows, length, slide):
    """Return {(room, end): (mean and sd of n, mean and sd of sum)} by enumeration of worlds."""
    found, base = {}, int(START.timestamp())
    for room in "ab":
        mine = [pairs for _, of, _, _, pairs in rows if of == room]
        possible = worlds([[(p, (base + t, x)) for p, t, x in pairs] for pairs in mine])
        ends = {
            (int(base + t) // slide + 1 + j) * slide
            for pairs in mine for _, t, _ in pairs for j in range(-(-length // slide))
        }  # fmt: skip
        for end in ends:
            inside = [
                (p, [x for t, x in there if end - length <= t < end]) for p, there in possible
            ]
            moments = []
            for function in (len, sum):
                mean, variance, _ = moments_of(law_over(inside, function))
                moments += [float(mean), math.sqrt(max(variance, 0))]
            if moments[0] > 0:
                found[room, end] = tuple(moments)
    return found


def answers(table):
    return {
        (row["room"], int(row["window"]["end"].timestamp())): (
            row["n"]["mean"], row["n"]["stddev"], row["s"]["mean"], row["s"]["stddev"],
        )
        for row in table.to_pylist()
    }  # fmt: skip


def aggregated(table, length, slide):
    return sf.window_aggregate(
        table, {"n": "count(*)", "s": "sum(x)"}, key="room", order="t",
        window=sf.Range(f"{length} s", f"{slide} s"),
    )  # fmt: skip


def check(table, rows, length, slide):
    expected, got = by_worlds(rows, length, slide), answers(table)
    assert table.num_rows == len(got)
    assert got.keys() == expected.keys()
    for at, moments in expected.items():
        assert got[at] == pytest.approx(moments, abs=1e-6)
    windows = table.column("window").to_pylist()
    assert all((window["end"] - window["start"]).seconds == length for window in windows)


@pytest.mark.parametrize(("length", "slide"), [(10, 10), (20, 5), (7, 3)])
def test_extents_of_uncertain_times_equal_the_possible_worlds(length, slide):
    rows = tuples(np.random.default_rng(length), 10)
    check(aggregated(table_of(rows), length, slide), rows, length, slide)


def test_reordered_rows_give_the_extents_of_the_possible_worlds():
    rows = sorted(tuples(np.random.default_rng(3), 10), key=lambda row: row[3])
    control = {"event_time": "earliest", "arrival": "arrival", "key": "room", "slack": 2}
    check(aggregated(sf.reorder(table_of(rows), **control), 20, 5), rows, 20, 5)


def test_a_number_beyond_the_range_of_times_ends_no_query():
    times = [[(0.5, 3_000_000, 1.0), (0.5, 9_000_000, 2.0)]]
    times += [[(1.0, t, 1.0)] for t in (-(2**63), 2**63 - 1, 2**60 + 1)]
    lists = [[{"prob": p, "t": t, "x": x} for p, t, x in pairs] for pairs in times]
    found = sf.window_aggregate(
        pa.table({"alternatives": lists, "T0": [0] * 4}), {"n": "count(*)"}, order="t",
        window=sf.Range("5 s"),
    )  # fmt: skip
    rows = [
        (row["window"]["start"], row["window"]["end"], row["n"]["mean"])
        for row in found.to_pylist()
    ]
    assert rows == [(0, 5_000_000, 0.5), (5_000_000, 10_000_000, 0.5)]


def test_wrong_arguments_are_refused_and_invalid_tuples_are_ignored():
    table = table_of(tuples(np.random.default_rng(4), 4))
    with pytest.raises(ValueError, match="`slide` of at most its `length`"):
        aggregated(table, 5, 10)
    with pytest.raises(TypeError, match=r"must be a timestamp with .*; got double"):
        sf.window_aggregate(table, {"n": "count(*)"}, order="x", window=sf.Range("5 s"))
    with pytest.raises(ValueError, match="`with_rows` needs"):
        sf.window_aggregate(
            table, {"n": "count(*)"}, order="t", window=sf.Range("5 s"), with_rows=True
        )
    worse = [
        (8, "a", 0, 9, [(0.6, 1, 1.0), (0.6, 40, 1.0)]),
        (9, "a", 0, 9, [(0.5, None, 1.0)]),
        (10, "a", 0, 9, None),
    ]
    dirty = pa.concat_tables([table, table_of(worse)])
    with pytest.warns(sf.errors.InvalidRowsWarning):
        found = aggregated(dirty, 20, 5)
    assert answers(found) == answers(aggregated(table, 20, 5))


def test_a_stream_of_spark_needs_a_controller(spark, tmp_path):
    lists = "alternatives array<struct<prob: double, t: timestamp, x: double>>"
    stream = spark.readStream.schema(f"room string, {lists}").parquet(str(tmp_path))
    with pytest.raises(ValueError, match=r"write sf\.reorder upstream"):
        aggregated(stream, 5, 5)
