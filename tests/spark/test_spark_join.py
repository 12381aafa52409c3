"""sf.similarity_join on real Spark, against brute force over all pairs."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from pyspark.errors import StreamingQueryException

import sfumato as sf
from sfumato.operators.windows.uncertain_window import UncertainWindow
from streams import observed, put_parts, run, stream_of

pytestmark = pytest.mark.spark

ATTRIBUTES = ["x", "y", "z"]


def tuples(count, dimensions, seed, keys=1, spread=1.0):
    """(id, key, order, alternatives) rows: clustered points, one to four samples, existence ≤ 1."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        centre = rng.normal(0, spread, dimensions)
        weights = rng.integers(1, 5, rng.integers(1, 5))
        absent = rng.choice([0, 0, 1, 3])
        alternatives = [
            (
                float(w / (weights.sum() + absent)),
                *map(float, centre + rng.normal(0, 0.2, dimensions)),
            )
            for w in weights
        ]
        rows.append((i, f"k{rng.integers(0, keys)}", 2 * i + seed % 2, alternatives))
    return rows


def schema(dimensions):
    fields = ", ".join(f"{a}: double" for a in ATTRIBUTES[:dimensions])
    return f"id long, site string, seen long, alternatives array<struct<prob: double, {fields}>>"


def brute_force(left, right, within, probability, window):
    """{(left id, right id): probability} of all pairs ever reported, by the definition."""
    pairs = {}
    past = ([], [])
    sides = [(row, 0) for row in left] + [(row, 1) for row in right]
    for row, side in sorted(sides, key=lambda entry: (entry[0][2], entry[1])):
        others = [o for o in past[1 - side] if o[1] == row[1]]
        held = starts(others, window, probability)
        for j, other in enumerate(others):
            if j < held:
                continue
            close = sum(
                a[0] * b[0] for a in row[3] for b in other[3] if math.dist(a[1:], b[1:]) <= within
            )
            newer = [min(1.0, sum(a[0] for a in o[3])) for o in others[j + 1 :]]
            chance = close * at_most(newer, window.rows - 1)
            if chance >= probability:
                pairs[(row[0], other[0]) if side == 0 else (other[0], row[0])] = chance
        past[side].append(row)
    return pairs


def starts(others, window, probability):
    """Which tuples are still held; the window itself has tests of its own."""
    if not others:
        return 0
    existence = np.array([min(1.0, sum(a[0] for a in o[3])) for o in others])
    return UncertainWindow(window.rows, window.confidence, probability).extend(existence)[-1]


def at_most(existence, k):
    """Pr(at most k of independent tuples exist)."""
    if len(existence) <= k:
        return 1.0
    law = [1.0]
    for p in existence:
        law = [
            (law[i] if i < len(law) else 0.0) * (1 - p) + (law[i - 1] * p if i else 0.0)
            for i in range(len(law) + 1)
        ]
    return sum(law[: k + 1])


def check(rows, expected):
    got = {}
    for row in rows:
        pair = (row.left.id, row.right.id)
        assert pair not in got, "a pair came out twice"
        got[pair] = row.probability
        assert sum(a.prob for a in row.alternatives) == pytest.approx(row.probability, abs=1e-12)
    assert got.keys() == expected.keys()
    for pair, chance in expected.items():
        assert got[pair] == pytest.approx(chance, abs=1e-9)


CASES = [(1, "sort", 3, 2), (2, "nested", 2, 5), (3, "auto", 1, None)]


@pytest.mark.parametrize(("dimensions", "strategy", "keys", "tasks"), CASES)
def test_static_frames_give_all_pairs_of_the_definition(spark, dimensions, strategy, keys, tasks):
    left, right = tuples(150, dimensions, 4, keys), tuples(150, dimensions, 5, keys)
    window = sf.Rows(20, confidence=0.9)
    frames = [
        spark.createDataFrame(rows, schema(dimensions)).repartition(3) for rows in (left, right)
    ]
    out = sf.similarity_join(
        *frames,
        on=ATTRIBUTES[:dimensions],
        within=0.4,
        probability=0.3,
        window=window,
        order="seen",
        key="site",
        strategy=strategy,
        tasks=tasks,
    )
    expected = brute_force(left, right, 0.4, 0.3, window)
    assert len(expected) > 5
    check(out.collect(), expected)
    assert out.columns == ["left", "right", "probability", "alternatives"]
    assert out.schema["left"].dataType.names == ["id", "site", "seen"]


def add_files(spark, rows, cuts, folder, dimensions):
    table = spark.createDataFrame(rows, schema(dimensions)).toArrow()
    put_parts(folder, table, cuts)


def streamed(spark, sides, cuts, folder, dimensions):
    """Streams of two sides, of which the files between these cuts are there."""
    for name, rows in zip(("left", "right"), sides, strict=True):
        add_files(spark, rows, cuts, folder / name, dimensions)
    return [stream_of(spark, folder / name, schema(dimensions)) for name in ("left", "right")]


def run_join(frames, folder, **arguments):
    return run(sf.similarity_join(*frames, order="seen", **arguments), folder)


@pytest.mark.parametrize("tasks", [1, 3])
def test_streams_give_the_same_pairs_in_any_micro_batches_and_after_a_restart(
    spark, tmp_path, tasks
):
    left, right = tuples(300, 1, 6, keys=3), tuples(300, 1, 7, keys=3)
    window, cuts = sf.Rows(15, confidence=0.95), [0, 1, 60, 61, 150]
    # No pair has a probability of just 0.41 (some have 0.4), so that rounding decides nothing.
    settings = {"on": "x", "within": 0.1, "probability": 0.41, "window": window, "key": "site"}
    settings["tasks"] = tasks
    frames = streamed(spark, (left, right), cuts, tmp_path, 1)
    first, query = run_join(frames, tmp_path, **settings)
    frames = streamed(spark, (left, right), [150, 200, 300], tmp_path, 1)
    second, _ = run_join(frames, tmp_path, **settings)
    expected = brute_force(left, right, 0.1, 0.41, window)
    assert len(expected) > 5
    check(first + second, expected)
    joined = [row for name, row in observed(query) if "left" not in name]
    assert sum(getattr(row, "pairs", 0) for row in joined) == len(first)
    assert sum(getattr(row, "unaligned", 0) for row in joined) == 300  # counted once, not by tasks
    settings["tasks"] = 2
    add_files(spark, left, [299, 300], tmp_path / "left", 1)
    with pytest.raises(StreamingQueryException, match=f"`tasks` was {tasks} and is 2"):
        run_join(frames, tmp_path, **settings)


def test_changes_keep_the_current_answer_set(spark, tmp_path):
    left, right = tuples(120, 2, 8), tuples(120, 2, 9)
    window = sf.Rows(10, confidence=0.9)
    settings = {"on": ["x", "y"], "within": 0.5, "probability": 0.3, "window": window}
    settings["tasks"] = 2
    frames = streamed(spark, (left, right), [0, 50, 120], tmp_path, 2)
    rows, _ = run_join(frames, tmp_path, output="changes", **settings)
    check([row for row in rows if row.change == "+"], brute_force(left, right, 0.5, 0.3, window))
    current = {}
    for row in rows:
        pair = (row.left.id, row.right.id)
        if row.change == "+":
            current[pair] = row
        else:
            gone = current.pop(pair)  # a pair leaves once, with the contents it came with
            assert (gone.probability, gone.alternatives) == (row.probability, row.alternatives)
    held = [starts(rows_, window, 0.3) for rows_ in (left, right)]
    alive = {
        pair
        for pair in brute_force(left, right, 0.5, 0.3, window)
        if pair[0] >= held[0] and pair[1] >= held[1]
    }
    assert current.keys() == alive


def test_invalid_rows_take_no_part_and_are_counted(spark, tmp_path):
    good, bad = (0.5, 1.0), (1.5, 1.0)
    rows = [(0, "a", 0, [good]), (1, "a", 1, [bad]), (2, None, 2, [good]), (3, "a", None, [good])]
    frames = streamed(spark, (rows, [(9, "a", 9, [good])]), [0, 4], tmp_path, 1)
    settings = {"on": "x", "within": 1.0, "probability": 0.2, "window": sf.Rows(5)}
    got, query = run_join(frames, tmp_path, key="site", **settings)
    assert [(row.left.id, row.right.id) for row in got] == [(0, 9)]
    counted = {name.rpartition("_")[2]: row for name, row in observed(query)}
    assert (counted["left"].rows, counted["left"].invalid) == (4, 3)
    assert (counted["right"].rows, counted["right"].invalid) == (1, 0)


def test_empty_frames_give_an_empty_frame(spark):
    df = spark.createDataFrame([], schema(1))
    out = sf.similarity_join(
        df, df, on="x", within=0.2, probability=0.3, window=sf.Rows(5), order="seen"
    )
    assert out.collect() == []


READING = "id long, seen timestamp, received timestamp, x double, y double"
START = 1_750_000_000


def readings(n, seed, delay):
    """Rows (id, event time, arrival, x, y), one every second or so, in order of arrival."""
    rng = np.random.default_rng(seed)
    seen = START + np.cumsum(rng.exponential(1.0, n))
    received = seen + rng.exponential(delay, n)
    places = rng.normal(0, 3, (n, 2))
    rows = [
        (
            i,
            *(datetime.fromtimestamp(float(t), UTC) for t in (seen[i], received[i])),
            *map(float, p),
        )
        for i, p in enumerate(places)
    ]
    return sorted(rows, key=lambda row: row[2])


def paced(spark, rows, folder, size):
    """A stream of files of `size` rows each, one per micro-batch."""
    table = spark.createDataFrame(rows, READING).toArrow()
    put_parts(folder, table, range(0, len(rows) + 1, size))
    return stream_of(spark, folder, READING)


def encounters(left, right):
    """Two reordered frames joined over the last half minute."""
    sides = [
        sf.reorder(frame, event_time="seen", arrival="received", slack=8) for frame in (left, right)
    ]
    return sf.similarity_join(
        *sides, on=["x", "y"], within=1.0, probability=0.5, window=sf.Range("30 seconds"),
        order="seen",
    )  # fmt: skip


@pytest.mark.parametrize("paces", [(10, 40), (40, 10)])
def test_streams_read_at_different_paces_give_the_pairs_of_the_static_frames(
    spark, tmp_path, paces
):
    sides = [readings(240, 1, 2.0), readings(240, 2, 4.0)]
    static = encounters(*(spark.createDataFrame(rows, READING) for rows in sides)).collect()
    expected = {(row.left.id, row.right.id) for row in static}
    assert len(static) == len(expected) > 100
    frames = [
        paced(spark, rows, tmp_path / name, size)
        for rows, name, size in zip(sides, ("left", "right"), paces, strict=True)
    ]
    collected, query = run(encounters(*frames), tmp_path)
    got = {(row.left.id, row.right.id) for row in collected}
    # The last rows still wait, in the controllers and for each other.
    newest = sorted(max(row[1] for row in rows[:-40]) for rows in sides)[0]
    settled = {
        (row.left.id, row.right.id)
        for row in static
        if max(row.left.seen, row.right.seen) < newest.replace(tzinfo=None) - timedelta(seconds=20)
    }
    assert len(settled) > 60
    assert len(collected) == len(got)
    assert settled <= got <= expected
    joins = [row for name, row in observed(query) if re.fullmatch(r"sfumato_join_\d+", name)]
    assert joins
    assert sum(row.unaligned for row in joins) == 0
