"""sf.similarity_join on real Spark, against brute force over all pairs."""

from __future__ import annotations

import math
import os
import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest
from pyspark.errors import StreamingQueryException

import sfumato as sf
from sfumato.operators.windows.uncertain_window import UncertainWindow

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


CASES = [
    (1, "nested", 1, 1),
    (1, "sort", 3, 2),
    (1, "index", 1, None),
    (2, "auto", 2, 1),
    (2, "nested", 2, 5),
    (3, "index", 1, 3),
    (3, "auto", 1, 1),
]


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


def stream_of(spark, rows, cuts, folder, dimensions):
    folder.mkdir(parents=True, exist_ok=True)
    add_files(spark, rows, cuts, folder, dimensions)
    return (
        spark.readStream.schema(schema(dimensions))
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder))
    )


def add_files(spark, rows, cuts, folder, dimensions):
    import pyarrow.parquet as pq

    for low, high in pairwise(cuts):
        path = folder / f"{low:05d}.parquet"
        pq.write_table(spark.createDataFrame(rows[low:high], schema(dimensions)).toArrow(), path)
        os.utime(path, (1_000_000 + low, 1_000_000 + low))


def run_join(spark, frames, folder, **arguments):
    collected = []
    out = sf.similarity_join(*frames, order="seen", **arguments)
    query = (
        out.writeStream.foreachBatch(lambda df, _: collected.extend(df.collect()))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return collected, query


@pytest.mark.parametrize("tasks", [1, 3])
def test_streams_give_the_same_pairs_in_any_micro_batches_and_after_a_restart(
    spark, tmp_path, tasks
):
    left, right = tuples(300, 1, 6, keys=3), tuples(300, 1, 7, keys=3)
    window, cuts = sf.Rows(15, confidence=0.95), [0, 1, 60, 61, 150]
    # No pair has a probability of just 0.41 (some have 0.4), so that rounding decides nothing.
    settings = {"on": "x", "within": 0.1, "probability": 0.41, "window": window, "key": "site"}
    settings["tasks"] = tasks
    frames = [
        stream_of(spark, rows, cuts, tmp_path / name, 1)
        for rows, name in ((left, "left"), (right, "right"))
    ]
    first, query = run_join(spark, frames, tmp_path, **settings)
    for rows, name in ((left, "left"), (right, "right")):
        add_files(spark, rows, [150, 200, 300], tmp_path / name, 1)
    second, _ = run_join(spark, frames, tmp_path, **settings)
    expected = brute_force(left, right, 0.1, 0.41, window)
    assert len(expected) > 5
    check(first + second, expected)
    observed = [p.observedMetrics for p in query.recentProgress]
    joined = [row for metrics in observed for name, row in metrics.items() if "left" not in name]
    assert sum(getattr(row, "pairs", 0) for row in joined) == len(first)
    assert sum(getattr(row, "unaligned", 0) for row in joined) == 300  # counted once, not by tasks
    settings["tasks"] = 2
    add_files(spark, left, [299, 300], tmp_path / "left", 1)
    with pytest.raises(StreamingQueryException, match=f"`tasks` was {tasks} and is 2"):
        run_join(spark, frames, tmp_path, **settings)


def test_changes_keep_the_current_answer_set(spark, tmp_path):
    left, right = tuples(120, 2, 8), tuples(120, 2, 9)
    window = sf.Rows(10, confidence=0.9)
    settings = {"on": ["x", "y"], "within": 0.5, "probability": 0.3, "window": window}
    settings["tasks"] = 2
    frames = [
        stream_of(spark, rows, [0, 50, 120], tmp_path / name, 2)
        for rows, name in ((left, "left"), (right, "right"))
    ]
    rows, _ = run_join(spark, frames, tmp_path, output="changes", **settings)
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


def test_plain_columns_join_as_certain_rows_or_by_their_confidence(spark):
    left = spark.createDataFrame(
        [(0, 1.0, 0.5), (1, 5.0, 0.9)], "t long, x double, existence double"
    )
    right = spark.createDataFrame([(2, 1.05), (3, 5.05), (4, None)], "t long, x double")
    out = sf.similarity_join(
        left, right, on="x", within=0.1, probability=0.2, window=sf.Rows(10), order="t"
    )
    got = {(row.left.t, row.right.t): row.probability for row in out.collect()}
    assert got == pytest.approx({(0, 2): 0.5, (1, 3): 0.9})


def test_invalid_rows_take_no_part_and_are_counted(spark, tmp_path):
    good, bad = (0.5, 1.0), (1.5, 1.0)
    rows = [(0, "a", 0, [good]), (1, "a", 1, [bad]), (2, None, 2, [good]), (3, "a", None, [good])]
    frame = stream_of(spark, rows, [0, 4], tmp_path / "left", 1)
    other = stream_of(spark, [(9, "a", 9, [good])], [0, 1], tmp_path / "right", 1)
    settings = {"on": "x", "within": 1.0, "probability": 0.2, "window": sf.Rows(5)}
    got, query = run_join(spark, [frame, other], tmp_path, key="site", **settings)
    assert [(row.left.id, row.right.id) for row in got] == [(0, 9)]
    counted = {}
    for progress in query.recentProgress:
        for name, row in progress.observedMetrics.items():
            counted[name.rpartition("_")[2]] = row
    assert (counted["left"].rows, counted["left"].invalid) == (4, 3)
    assert (counted["right"].rows, counted["right"].invalid) == (1, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"on": ["x", "y"], "strategy": "sort"}, "index"),
        ({"within": 0}, "within"),
        ({"within": "far"}, "`within` must be a finite number"),
        ({"probability": 0.0}, "probability"),
        ({"on": "w"}, "which the alternatives of the left frame lack"),
        ({"order": "sen"}, "did you mean `seen`"),
        ({"window": 500}, "`window` must be sf.Rows"),
        ({"strategy": "fast"}, "strategy"),
        ({"output": "update"}, "output"),
        ({"tasks": 0}, "`tasks` must be a whole number of at least 1; got 0"),
        ({"tasks": 5000}, "`tasks` must be at most 1024"),
        ({"order": "site"}, "numbers, times or dates"),
    ],
)
def test_wrong_arguments_are_named_before_anything_runs(spark, arguments, message):
    df = spark.createDataFrame([], schema(2))
    given = {"on": "x", "within": 1.0, "probability": 0.5, "window": sf.Rows(5), "order": "seen"}
    with pytest.raises((ValueError, TypeError), match=message):
        sf.similarity_join(df, df, **{**given, **arguments})


def test_a_frame_can_be_joined_with_itself(spark):
    rows = tuples(40, 1, 10)
    df = spark.createDataFrame(rows, schema(1))
    window = sf.Rows(5, confidence=0.9)
    out = sf.similarity_join(
        df, df, on="x", within=0.2, probability=0.3, window=window, order="seen"
    )
    check(out.collect(), brute_force(rows, rows, 0.2, 0.3, window))


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


def paced(spark, rows, folder, size, files):
    """A stream of `files` files, `size` rows each, one a micro-batch."""
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    for number in range(files):
        part = rows[number * size : (number + 1) * size]
        path = folder / f"{number:05d}.parquet"
        pq.write_table(spark.createDataFrame(part, READING).toArrow(), path)
        os.utime(path, (1_000_000 + number,) * 2)
    reader = spark.readStream.schema(READING).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder))


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
        paced(spark, rows, tmp_path / name, size, 240 // size)
        for rows, name, size in zip(sides, ("left", "right"), paces, strict=True)
    ]
    collected = []
    query = (
        encounters(*frames)
        .writeStream.foreachBatch(lambda df, _: collected.extend(df.collect()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
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
    counted = [
        metrics[name]
        for progress in query.recentProgress
        for metrics in [progress.observedMetrics]
        for name in metrics
        if re.fullmatch(r"sfumato_join_\d+", name)
    ]
    assert sum(row.unaligned for row in counted) == 0


def test_haversine_and_a_distance_for_each_attribute_equal_brute_force(spark):
    rng = np.random.default_rng(4)
    rows = [
        [
            (i, datetime.fromtimestamp(START + i, UTC), None, float(x), float(y))
            for i, (x, y) in enumerate(rng.uniform((9.0, 48.0), (9.03, 48.02), (80, 2)))
        ]
        for _ in range(2)
    ]
    frames = [spark.createDataFrame(side, READING).drop("received") for side in rows]

    def metres(a, b):
        first, second = math.radians(a[4]), math.radians(b[4])
        across = math.sin(math.radians(a[3] - b[3]) / 2) ** 2
        half = math.sin((first - second) / 2) ** 2 + math.cos(first) * math.cos(second) * across
        return 2 * 6_371_008.8 * math.asin(math.sqrt(half))

    def scaled(a, b):
        return math.hypot((a[3] - b[3]) / 0.004, (a[4] - b[4]) / 0.001)

    for within, metric, near in (
        (300.0, "haversine", lambda a, b: metres(a, b) <= 300.0),
        ({"x": 0.004, "y": 0.001}, "euclidean", lambda a, b: scaled(a, b) <= 1.0),
    ):
        out = sf.similarity_join(
            *frames, on=["x", "y"], within=within, probability=1.0, order="seen", metric=metric,
            window=(sf.Range("20 seconds"), sf.Rows(7)),
        ).collect()  # fmt: skip
        # Of the left side the last 20 seconds, of the right side the last 7 rows; left comes first.
        expected = {
            (a[0], b[0])
            for a in rows[0]
            for b in rows[1]
            if near(a, b) and (0 <= b[0] - a[0] < 20 or 0 < a[0] - b[0] <= 7)
        }
        assert len(expected) > 20
        assert {(row.left.id, row.right.id) for row in out} == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"within": {"x": 1.0}}, "a distance for each of `on`"),
        ({"within": {"x": 1.0, "y": 0.0}}, "`within` must be a positive"),
        ({"metric": "manhattan"}, "`metric` must be one of euclidean, haversine"),
        ({"metric": "haversine", "on": "x"}, r"needs `on`=\[longitude, latitude\]"),
        ({"window": sf.Range("1 minute"), "order": "x"}, "`order` must be one timestamp"),
        ({"window": sf.Range("1 minute", slide="1 second")}, "by its length alone"),
        ({"window": (sf.Rows(3), 5)}, "or a pair of them"),
        ({"idle_timeout": "1 minute"}, "put sf.reorder before both"),
    ],
)
def test_wrong_windows_distances_and_timeouts_say_what_to_write(spark, arguments, message):
    df = spark.createDataFrame([], READING)
    given = {"on": ["x", "y"], "within": 1.0, "probability": 0.5, "window": sf.Rows(5)}
    with pytest.raises((ValueError, TypeError), match=message):
        sf.similarity_join(df, df, **{**given, "order": "seen", **arguments})
