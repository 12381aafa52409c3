"""Extents of tuples whose event time is uncertain, against enumeration of the possible worlds."""

from __future__ import annotations

import itertools
import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

import sfumato as sf

pytestmark = pytest.mark.spark
START = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
SCHEMA = """id int, room string, earliest timestamp, arrival timestamp,
    alternatives array<struct<prob: double, t: timestamp, x: double>>"""


def tuples(rng, n):
    """(id, room, earliest, arrival, [(prob, seconds, x), ...]) with times seconds apart."""
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


def frame(spark, rows):
    data = [
        (i, room, stamp(early), stamp(came), [(p, stamp(t), x) for p, t, x in pairs])
        for i, room, early, came, pairs in rows
    ]
    return spark.createDataFrame(data, SCHEMA)


def by_worlds(rows, length, slide):
    """{(room, end): (mean of n, sd of n, mean of sum, sd of sum)} by enumeration of worlds."""
    found = {}
    base = int(START.timestamp())
    for room in "ab":
        mine = [pairs for _, of, _, _, pairs in rows if of == room]
        choices = [[*pairs, (1 - sum(p for p, _, _ in pairs), None, 0.0)] for pairs in mine]
        ends = {
            (int(base + t) // slide + 1 + j) * slide
            for pairs in mine for _, t, _ in pairs for j in range(-(-length // slide))
        }  # fmt: skip
        for end in ends:
            moments = np.zeros(4)
            for world in itertools.product(*choices):
                p = math.prod(q for q, _, _ in world)
                inside = [
                    x for _, t, x in world if t is not None and end - length <= base + t < end
                ]
                n, total = len(inside), sum(inside)
                moments += p * np.array([n, n * n, total, total * total])
            n, nn, s, ss = moments
            sds = [math.sqrt(max(0.0, square - m * m)) for m, square in ((n, nn), (s, ss))]
            found[room, end] = (n, sds[0], s, sds[1])
    return {at: of for at, of in found.items() if of[0] > 0}


def answers(rows):
    return {
        (row.room, int(row.window.end.replace(tzinfo=UTC).timestamp())): (
            row.n.mean, row.n.stddev, row.s.mean, row.s.stddev,
        )
        for row in rows
    }  # fmt: skip


def aggregated(df, length, slide):
    return sf.window_aggregate(
        df, {"n": "count(*)", "s": "sum(x)"}, key="room", order="t",
        window=sf.Range(f"{length} s", f"{slide} s"),
    )  # fmt: skip


@pytest.mark.parametrize(("length", "slide"), [(10, 10), (20, 5), (7, 3)])
def test_extents_of_uncertain_times_equal_the_possible_worlds(spark, length, slide):
    rows = tuples(np.random.default_rng(length), 10)
    found = aggregated(frame(spark, rows), length, slide).collect()
    expected = by_worlds(rows, length, slide)
    got = answers(found)
    assert got.keys() == expected.keys()
    for at, moments in expected.items():
        assert got[at] == pytest.approx(moments, abs=1e-6)
    assert all((row.window.end - row.window.start).seconds == length for row in found)


def test_a_reordered_stream_gives_the_extents_of_the_static_frame(spark, tmp_path):
    rows = tuples(np.random.default_rng(3), 10)
    rows.sort(key=lambda row: row[3])
    frame(spark, rows).coalesce(1).write.parquet(str(tmp_path / "in"))
    came = []

    def start():
        stream = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in"))
        control = {"event_time": "earliest", "arrival": "arrival", "key": "room", "slack": 2}
        ordered = sf.reorder(stream, **control)
        writer = aggregated(ordered, 20, 5).writeStream.option(
            "checkpointLocation", str(tmp_path / "state")
        )
        writer = writer.foreachBatch(lambda df, _: came.extend(df.collect()))
        return writer.trigger(availableNow=True).start()

    sf.ops.run_to_end(spark, start)
    expected = by_worlds(rows, 20, 5)
    got = answers(came)
    assert len(came) == len(expected)
    assert got.keys() == expected.keys()
    for at, moments in expected.items():
        assert got[at] == pytest.approx(moments, abs=1e-6)


def test_a_number_beyond_the_range_of_times_ends_no_query(spark):
    schema = "alternatives array<struct<prob: double, t: bigint, x: double>>, T0 int"
    fine = [([(0.5, 3_000_000, 1.0), (0.5, 9_000_000, 2.0)], 0)]
    worse = [([(1.0, t, 1.0)], 0) for t in (-(2**63), 2**63 - 1, 2**60 + 1)]
    found = sf.window_aggregate(
        spark.createDataFrame(fine + worse, schema), {"n": "count(*)"}, order="t",
        window=sf.Range("5 s"),
    )  # fmt: skip
    rows = [(row.window.start, row.window.end, row.n.mean) for row in found.collect()]
    assert sorted(rows) == [(0, 5_000_000, 0.5), (5_000_000, 10_000_000, 0.5)]


def test_what_has_no_meaning_is_refused_and_invalid_tuples_take_no_part(spark, tmp_path):
    rows = tuples(np.random.default_rng(4), 4)
    df = frame(spark, rows)
    with pytest.raises(ValueError, match="`slide` of at most its `length`"):
        aggregated(df, 5, 10)
    with pytest.raises(TypeError, match="it must be a timestamp or whole microseconds; got double"):
        sf.window_aggregate(df, {"n": "count(*)"}, order="x", window=sf.Range("5 s"))
    (tmp_path / "in").mkdir()
    stream = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in"))
    with pytest.raises(ValueError, match=r"put sf\.reorder before"):
        aggregated(stream, 5, 5)
    with pytest.raises(ValueError, match="`with_rows` needs"):
        sf.window_aggregate(
            df, {"n": "count(*)"}, order="t", window=sf.Range("5 s"), with_rows=True
        )
    worse = [
        (8, "a", stamp(0), stamp(9), [(0.6, stamp(1), 1.0), (0.6, stamp(40), 1.0)]),
        (9, "a", stamp(0), stamp(9), [(0.5, None, 1.0)]),
        (10, "a", stamp(0), stamp(9), None),
    ]
    dirty = df.union(spark.createDataFrame(worse, SCHEMA))
    assert answers(aggregated(dirty, 20, 5).collect()) == answers(aggregated(df, 20, 5).collect())
