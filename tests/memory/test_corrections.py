"""Rows that newer versions correct, in windows over tables, against a plain pandas reference."""

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from seeds import seeds

ASKED = {"n": "count(*)", "k": "count(x)", "s": "sum(x)", "lo": "min(x)", "hi": "max(x)",
         "mid": "quantile(x, 0.5)", "last": "last(x)"}  # fmt: skip


def readings(rng, n=80):
    """Return rows whose later versions may move forward in time; some rows come twice or late."""
    number = rng.integers(0, 20, n)
    version = np.zeros(n, int)
    for of in range(20):
        version[number == of] = np.arange((number == of).sum())
    made = number * 10 + version * rng.choice([0, 0, 7]) + 2
    rows = pd.DataFrame(
        {
            "id": number,
            "key": np.where(number % 2, "a", "b"),
            "version": version,
            "made": made,
            "arrival": made * 100 + rng.integers(0, 5000, n),
            "x": np.where(rng.random(n) < 0.1, np.nan, rng.integers(-9, 9, n) / 4),
        }
    )
    rows = pd.concat(
        [rows, rows.sample(n // 8, random_state=1).assign(arrival=lambda r: r.arrival + 9)]
    )
    return rows.sort_values("arrival", kind="stable").assign(arrival=np.arange(len(rows)))


def expected(ordered, length, slide):
    """Return (key, start) -> newest versions in the extent, among rows that came before its end.

    On-time rows come in order of their times; a late row comes right after its punctuation.
    """
    found = {}
    for end in range(slide, int(ordered.made.max()) + length + 1, slide):
        came = np.where(ordered.late, ordered.punctuation < end - 1, ordered.made < end)
        newest = (
            ordered[came].sort_values("version", kind="stable").drop_duplicates("id", keep="last")
        )
        inside = newest[(newest.made >= end - length) & (newest.made < end)]
        for key, rows in inside.groupby("key"):
            found[key, end - length] = rows
    return found


def answers(frame):
    return {(row.key, row.window["start"]): row for row in frame.itertuples()}


@pytest.mark.parametrize("seed", seeds(10, 4))
@pytest.mark.parametrize(("length", "slide"), [(20, 20), (30, 10), (17, 6)])
def test_windows_have_the_newest_versions_that_pandas_selects(seed, length, slide):
    rows = readings(np.random.default_rng(seed))
    ordered = sf.reorder(rows, event_time="made", arrival="arrival", slack=6)
    window = sf.Range(f"{length} us", slide=f"{slide} us")
    found = sf.window_aggregate(
        ordered, ASKED, window=window, order="made", key="key", unique="id", version="version"
    )
    known, windows = answers(found), expected(ordered, length, slide)
    assert known.keys() == windows.keys()
    for place, inside in windows.items():
        x, got = inside.x.dropna(), known[place]
        assert (got.held, got.n, got.k) == (len(inside), len(inside), len(x))
        if not len(x):
            assert got.s == 0
            assert np.isnan([got.lo, got.hi, got.mid, got.last]).all()
            continue
        assert got.s == x.sum()
        assert (got.lo, got.hi) == (x.min(), x.max())
        assert got.mid == np.quantile(x, 0.5, method="inverted_cdf")
        newest = inside.dropna(subset="x")
        assert got.last in set(newest.x[newest.made == newest.made.max()])
    counts = sf.ops.counters(found)["sfumato_window_1"]
    assert counts["corrections"] > 0
    assert counts["outdated"] > 0
    assert counts["rows"] == len(rows)


def corrected(**more):
    """Return windows over a timely correction, an older version, a late one, rows without id."""
    rows = pd.DataFrame(
        {
            "id": [1, None, 1, 1, None, 2, 1],
            "version": [1, 1, 3, 2, 1, 1, 4],
            "made": [1, 2, 3, 3, 3, 30, 5],
            "arrival": [1, 2, 3, 4, 5, 30, 31],
            "x": [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0],
        }
    )
    ordered = sf.reorder(rows, event_time="made", arrival="arrival", slack=0)
    return sf.window_aggregate(
        ordered, {"s": "sum(x)"}, window=sf.Range("10 us"), order="made", unique=["id"],
        version="version", **more,
    )  # fmt: skip


def test_corrections_and_outdated_rows_are_counted_and_emitted_on_request():
    found = corrected(missed=True)
    results, missed = sf.split_missed(found)
    assert results.s.tolist() == [22.0, 32.0]
    rows = missed.sort_values("version")[["version", "reason"]].to_numpy().tolist()
    assert rows == [[2, "outdated"], [4, "late"]]
    counts = sf.ops.counters(found)["sfumato_window_1"]
    names = ("rows", "corrections", "outdated", "late")
    assert [counts[name] for name in names] == [7, 1, 1, 1]


def test_rows_of_extents_are_the_newest_versions():
    found = corrected(with_rows=True)
    assert sorted(found.x) == [2.0, 4.0, 16.0, 32.0]
    assert found.s.tolist() == [22.0] * 3 + [32.0]


def test_days_of_a_zone_follow_corrections():
    hours = pd.to_datetime(["2024-03-30 12:00", "2024-03-31 12:00", "2024-03-31 13:00"], utc=True)
    rows = pd.DataFrame({"id": [1, 2, 2], "v": [1, 1, 2], "at": hours, "x": [1.0, 2.0, 5.0]})
    window = sf.Range("1 day", zone="Europe/Berlin")
    found = sf.window_aggregate(
        rows, {"s": "sum(x)"}, window=window, order="at", unique="id", version="v"
    )
    assert found.s.tolist() == [1.0, 5.0]


def test_a_version_that_is_missing_makes_its_row_invalid():
    rows = pd.DataFrame({"id": [1, 1], "v": pd.array([1, None], "Int64"), "at": [1, 2]})
    with pytest.warns(sf.errors.InvalidRowsWarning, match="version is NULL"):
        found = sf.window_aggregate(
            rows, {"n": "count(*)"}, window=sf.Range("10 us"), order="at", unique="id", version="v"
        )
    assert found.n.tolist() == [1]
