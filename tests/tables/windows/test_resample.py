"""Resampling over tables: a plain reference, cuts, restarts, silent keys, late rows, gaps."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sfumato as sf
from seeds import seeds
from sfumato.tables.windows import table_resample
from sfumato.tables.windows.table_resample import FILLS, ResampleTableConfig
from table_runs import run, table_of

EVERY, LIMIT, LONGEST = 10, 25, 12
NO_COUNTS = dict.fromkeys(ResampleTableConfig.counters, 0)


def rows_of(time, key, x):
    x = pa.array(x, pa.float64())
    return table_of({"c0": key, "c1": x}, key0=key, value0=x, order0=pa.array(time, pa.int64()))


def points_of(config, rows, cuts):
    """Return the points and counters for rows cut at `cuts`, with a restart at each of them."""
    operator, found = run(config, rows, cuts)
    column = "value0" if config.columns else "c1"
    points = [(row["c0"], row["order"], row[column], row["age"]) for row in found]
    return sorted(points, key=lambda point: point[:2]), operator.counters()


def expected(rows, fill, limit, after):
    """Return the points and the number of skipped points, by key and one point at a time."""
    points, skipped = [], 0
    table = rows.select(["key0", "order0", "value0"]).to_pydict()
    for key in sorted(set(table["key0"])):
        steps = [
            (t, x)
            for k, t, x in zip(table["key0"], table["order0"], table["value0"], strict=True)
            if k == key
        ]
        held: list = []  # the key's known values
        for t, x in steps:
            if held and t > held[-1][0] + after:
                held = []
            begin = held[-1][0] if held else t - 1
            grid = [g for g in range(begin + 1, t + 1) if g % EVERY == 0]
            if len(grid) > table_resample.MAX_GAP:
                skipped, held, grid = skipped + len(grid), [], grid[-1:] if grid[-1] == t else []
                skipped -= len(grid)
            for g in grid:
                points.append(
                    (key, g, value(held, t, x, g, fill, limit), 0 if g == t else g - begin)
                )
            held.append((t, x))
    return points, skipped


def value(held, t, x, g, fill, limit):
    if fill == "mean":
        covered = total = 0
        ends = [time for time, _ in held[1:]] + [g]
        for (begin, known), end in zip(held, ends, strict=False):
            inside = max(0, min(end, g, begin + limit) - max(begin, g - EVERY))
            if known is not None:
                covered, total = covered + inside, total + inside * known
        return total / covered if covered else None
    if g == t:
        return x
    (before, known) = held[-1]
    if fill == "linear":
        unknown = known is None or x is None or t - before > limit
        return None if unknown else known + (x - known) * (g - before) / (t - before)
    return known if g - before <= (EVERY - 1 if fill is None else limit) else None


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("after", [40, 10**9])
@pytest.mark.parametrize("seed", seeds(4, 2))
def test_points_are_those_of_a_plain_reference_whatever_the_cuts(seed, after, fill, monkeypatch):
    monkeypatch.setattr(table_resample, "MAX_GAP", LONGEST)
    rng, n = np.random.default_rng(seed), 120
    time = np.cumsum(rng.choice([0, 1, 5, 13, 90], n, p=[0.2, 0.3, 0.3, 0.15, 0.05])).tolist()
    key = rng.choice(list("abc"), n, p=[0.6, 0.3, 0.1]).tolist()
    x = [None if rng.random() < 0.15 else float(v) for v in rng.integers(0, 100, n)]
    rows, limit = rows_of(time, key, x), [LIMIT, None][seed % 2]
    config = ResampleTableConfig(
        every=EVERY, limit=None if fill is None else limit, fill=fill, keys=1,
        columns=int(fill in ("linear", "mean")), forget_after=float(after),
    )  # fmt: skip
    points, skipped = expected(rows, fill, limit or 10**9, after)
    first = None
    for _ in range(4):
        found, counts = points_of(config, rows, rng.choice(n, 4, replace=False).tolist())
        assert [(k, g, age) for k, g, _, age in found] == [(k, g, age) for k, g, _, age in points]
        for (*_, got, _), (*_, wanted, _) in zip(found, points, strict=True):
            assert (got is None) == (wanted is None)
            assert got is None or got == pytest.approx(wanted, rel=1e-12)
        assert counts == NO_COUNTS | {"rows": n, "skipped": skipped}
        first = first or found
        assert found == first  # bit for bit


def readings():
    return pd.DataFrame(
        {
            "ts": pd.to_datetime([0, 45, 100, 290, 310], unit="s", utc=True),
            "sensor": "a",
            "x": [1.0, 2.0, 4.0, None, 6.0],
            "word": list("pqrst"),
        }
    )


def test_the_last_values_are_those_of_pandas():
    df = readings()
    found = sf.resample(df, every="1 minute", order="ts", key="sensor")
    grid = pd.date_range("1970", periods=6, freq="1min", tz="UTC")
    known = df.set_index("ts").reindex(grid, method="ffill")
    assert found["word"].tolist() == known["word"].tolist()
    assert found["ts"].tolist() == list(grid)
    assert found["age"].tolist() == [0, 15, 20, 80, 140, 10]
    short = sf.resample(df, every="1 minute", order="ts", key="sensor", limit="80 s")
    assert short["word"].isna().tolist() == [False] * 4 + [True, False]


def test_points_that_nothing_fills_are_imputed():
    grid = sf.resample(readings(), every="1 minute", order="ts", key="sensor", fill=None)
    assert grid["x"].isna().tolist() == [False, False, False, True, True, True]
    past = pd.DataFrame({"x": [float(i) for i in range(40)], "age": [2.0 * i for i in range(40)]})
    filled = sf.impute(grid, repository=past, attributes="x", dependencies="age -> x : 0.05 -> 0.1")
    assert len(filled) == len(grid)
    assert [len(choice) > 1 for choice in filled["alternatives"]] == grid["x"].isna().tolist()


def test_late_rows_are_left_out_and_counted():
    rows = readings().assign(arrival=pd.to_datetime([0, 1, 2, 3, 4], unit="s", utc=True))
    late = rows.iloc[:1].assign(ts=rows.ts[1], word="late", arrival=rows.arrival[4])
    given = pd.concat([rows.iloc[:4], late, rows.iloc[4:]], ignore_index=True)
    ordered = sf.reorder(given, event_time="ts", arrival="arrival", slack=1)
    assert ordered["late"].sum() == 1
    by = {"every": "1 minute", "order": "ts", "key": "sensor", "columns": ["x", "word"]}
    pd.testing.assert_frame_equal(sf.resample(ordered, **by), sf.resample(rows, **by))


def test_alternatives_are_carried_and_said_to_be_shared():
    point = [{"prob": 0.5, "x": 1.0}, {"prob": 0.25, "x": 2.0}]
    kind = pa.list_(pa.struct([("prob", pa.float64()), ("x", pa.float64())]))
    rows = pa.table(
        {"at": [5, 25], "name": ["p", "q"], "alternatives": pa.array([point] * 2, kind)}
    )
    grid = sf.resample(rows, every="10 us", order="at", columns="name")
    assert grid.to_pydict() == {
        "at": [10, 20], "name": ["p", "p"], "alternatives": [point, point], "age": [5.0, 15.0],
    }  # fmt: skip
    with pytest.raises(ValueError, match="points of a resampling may share"):
        sf.window_aggregate(grid, {"s": "sum(x)"}, window=sf.Rows(2), order="at")
    once = sf.resample(rows, every="10 us", order="at", columns="name", fill=None)
    assert once["alternatives"].to_pylist() == [point, None]  # a row is at one point
    few = sf.where(once.slice(0, 1), "x > 0")
    assert sf.window_aggregate(few, {"n": "count(x)"}, window=sf.Rows(2), order="at").num_rows == 1
    assumed = sf.assume_independent(grid)
    again = sf.resample(assumed, every="10 us", order="at", columns="name", fill=None)
    assert sf.window_aggregate(again, {"s": "sum(x)"}, window=sf.Rows(2), order="at").num_rows == 2
    shared = sf.resample(grid, every="10 us", order="at", columns="name", fill=None)
    with pytest.raises(ValueError, match="points of a resampling may share"):
        sf.window_aggregate(shared, {"s": "sum(x)"}, window=sf.Rows(2), order="at")
    with pytest.raises(ValueError, match='`fill` must be "last" or None for uncertain rows'):
        sf.resample(rows, every="10 us", order="at", fill="linear")
