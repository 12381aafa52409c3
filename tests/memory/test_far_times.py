"""Times at the ends of the calendar, and long gaps: counted and reported, without a crash."""

import datetime as dt
import warnings

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sfumato as sf

GOOD = dt.datetime(2024, 1, 1)
SENTINELS = [dt.datetime(9999, 12, 31, 23, 59, 59), dt.datetime(9999, 12, 31), dt.datetime(1, 1, 1)]
KINDS = {
    "pandas": lambda ts: pd.DataFrame(
        {"ts": pd.Series(ts, dtype="datetime64[us]"), "x": [1.0] * len(ts)}
    ),
    "polars": lambda ts: pl.DataFrame({"ts": ts, "x": [1.0] * len(ts)}),
    "arrow": lambda ts: pa.table({"ts": ts, "x": [1.0] * len(ts)}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("window", ["1 minute", "365 days"])
def test_a_row_with_a_sentinel_time_is_counted_and_in_no_window(kind, window):
    rows = KINDS[kind]([GOOD, *SENTINELS])
    with pytest.warns(sf.errors.InvalidRowsWarning, match="3 of 4 rows .* out of range"):
        found = sf.window_aggregate(rows, {"n": "count(*)"}, window=sf.Range(window), order="ts")
    assert len(found) == 1
    counts = next(of for name, of in sf.ops.counters(found).items() if not name.endswith("_input"))
    assert counts["invalid"] == 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("every", [None, "1 minute"])
def test_a_row_with_a_sentinel_time_is_in_no_ranking(kind, every):
    rows, top = KINDS[kind]([GOOD, *SENTINELS]), sf.Top(1, every=every)
    with pytest.warns(sf.errors.InvalidRowsWarning, match="3 of 4 rows .* out of range"):
        found = sf.top_k(rows, top, by="x", window=sf.Range("1 hour"), order="ts")
    times = pa.table(found)["time"].to_pylist()
    assert times
    assert all(GOOD <= time <= GOOD + dt.timedelta(hours=2) for time in times)


def gap(days, window):
    ts = [GOOD, GOOD + dt.timedelta(days=days)]
    rows = pa.table({"ts": ts, "x": [1.0, 1.0]})
    found = sf.window_aggregate(rows, {"n": "count(*)"}, window=window, order="ts", name="gap")
    return found.num_rows, sf.ops.counters(found)["sfumato_window_gap"]["skipped"]


def test_a_gap_of_a_year_of_minutes_is_filled():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gap(70, sf.Range("1 minute", empty=True)) == (70 * 1440 + 1, 0)
        assert gap(364, sf.Range("1 minute", empty=True)) == (364 * 1440 + 1, 0)
        assert gap(91_000, sf.Range("1 minute")) == (2, 0)


def test_a_gap_of_two_centuries_is_counted_and_said():
    with pytest.warns(UserWarning, match="131039999 extents without rows are not in the answers"):
        assert gap(91_000, sf.Range("1 minute", empty=True)) == (2, 91_000 * 1440 - 1)


def test_a_number_of_empty_windows_comes_out_before_between_and_after_those_with_rows():
    time = [25, 75, *range(5, 150, 10)]
    rows = pa.table({"t": time, "k": ["a", "a"] + ["b"] * 15}).sort_by("t")
    ordered = sf.reorder(rows, event_time="t", arrival="t", slack=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no warning for windows left out as requested
        found = sf.window_aggregate(
            ordered, {"n": "count(*)"}, window=sf.Range("10 us", empty=2), order="t", key="k",
            name="few",
        )  # fmt: skip
    windows = [(row["k"], row["window"]["start"], row["n"]) for row in found.to_pylist()]
    of_a = {start: n for key, start, n in windows if key == "a"}
    assert of_a == {0: 0, 10: 0, 20: 1, 30: 0, 40: 0, 70: 1, 80: 0, 90: 0}
    assert sorted(start for key, start, _ in windows if key == "b") == [*range(-20, 150, 10)]
    assert sf.ops.counters(found)["sfumato_window_few"]["skipped"] == 2  # of a, at 50 and 60


def test_empty_windows_before_the_first_row_begin_in_the_calendar():
    rows = pa.table({"t": [dt.datetime(3, 6, 1, tzinfo=dt.UTC)]})
    for length, held in (("1 year", [0, 1]), ("365 days", [0, 0, 1])):
        window = sf.Range(length, empty=9)
        found = sf.window_aggregate(rows, {"n": "count(*)"}, window=window, order="t")
        assert found["n"].to_pylist() == held
