"""Extents of days, weeks, months and years in a time zone, against local dates."""

import datetime as dt
import warnings
import zoneinfo
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.operators.windows.calendar import FIRST_US, LAST_US, Calendar

ZONES = [
    "UTC", "America/New_York", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe",
    "America/Sao_Paulo",  # clocks went forward at midnight
    "America/Toronto",  # clocks once went forward across midnight
    "Pacific/Apia",  # one day was left out
    "Pacific/Kwajalein",
]  # fmt: skip
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def moments(rng, n=300, years=60):
    seconds = rng.integers(-years * 31_556_952, years * 31_556_952, n)
    return seconds * 1_000_000 + rng.integers(0, 1_000_000, n)


def local(time, zone):
    return (EPOCH + dt.timedelta(microseconds=int(time))).astimezone(zoneinfo.ZoneInfo(zone))


def unit_of(time, unit, zone):
    shown = local(time, zone)
    days = (shown.date() - EPOCH.date()).days
    return days if unit == "day" else (shown.year - 1970) * 12 + shown.month - 1


@pytest.mark.parametrize("unit", ["day", "month"])
@pytest.mark.parametrize("zone", ZONES)
def test_positions_count_the_units_that_clocks_show(zone, unit):
    rng, calendar = np.random.default_rng(1), Calendar(unit, zone)
    times = np.append(moments(rng), [FIRST_US, LAST_US])
    positions = calendar.positions(times)
    units = (positions // calendar.span).tolist()
    assert units[:-2] == [unit_of(time, unit, zone) for time in times[:-2]]
    assert (calendar.times(positions) == times).all()
    assert (np.diff(positions[np.argsort(times)]) >= 0).all()


@pytest.mark.parametrize("unit", ["day", "month"])
@pytest.mark.parametrize("zone", ZONES)
def test_a_unit_ends_with_the_last_microsecond_of_its_span(zone, unit):
    calendar, units = Calendar(unit, zone), np.arange(-1500, 20_000 if unit == "day" else 900)
    starts = calendar.starts(units)
    assert 0 <= np.diff(starts).min() <= np.diff(starts).max() < calendar.span
    present = np.diff(starts) > 0
    last = calendar.positions(starts[1:][present] - 1)
    assert (last == (units[:-1][present] + 1) * calendar.span - 1).all()
    assert (calendar.positions(starts[:-1][present]) == units[:-1][present] * calendar.span).all()


def expected(times, zone, unit, length, slide, origin=0):
    """Return {(start, end): rows} for extents of units, as local unit numbers."""
    found = Counter()
    for time in times:
        of = unit_of(time, unit, zone) - origin
        for j in range(of // slide + 1, (of + length) // slide + 1):
            found[j * slide - length + origin, j * slide + origin] += 1
    return found


@pytest.mark.parametrize(
    ("length", "slide", "unit", "units", "origin"),
    [
        ("1 day", None, "day", (1, 1), 0),
        ("7 days", "1 day", "day", (7, 1), 0),
        ("1 week", None, "day", (7, 7), 4),
        ("1 day", "1 week", "day", (1, 7), 4),
        ("1 month", None, "month", (1, 1), 0),
        ("3 months", "1 month", "month", (3, 1), 0),
        ("1 year", None, "month", (12, 12), 0),
    ],
)
@pytest.mark.parametrize("zone", ["America/New_York", "Pacific/Apia", None])
def test_extents_hold_the_rows_of_their_dates(zone, length, slide, unit, units, origin):
    if zone is None and unit == "day":
        pytest.skip("without a zone, days have 24 hours")
    times = np.sort(moments(np.random.default_rng(2), years=45))
    table = pa.table({"at": pa.array(times).cast(pa.timestamp("us", "UTC")), "x": times % 7.0})
    window = sf.Range(length, slide, zone=zone)
    found = sf.window_aggregate(table, {"n": "count(*)"}, window=window, order="at").to_pylist()
    got = {
        tuple(unit_of(row["window"][end].timestamp() * 1e6, unit, zone or "UTC")
              for end in ("start", "end")): row["n"]
        for row in found
    }  # fmt: skip
    assert got == dict(expected(times, zone or "UTC", unit, *units, origin))
    for row in found:
        shown = local(row["window"]["start"].timestamp() * 1e6, zone or "UTC")
        assert (shown.hour, shown.minute) == (0, 0) or zone == "Pacific/Apia"
        if origin:
            ends = "start" if slide is None else "end"
            assert local(row["window"][ends].timestamp() * 1e6, zone).weekday() == 0


def test_a_day_of_a_zone_has_23_or_25_hours_and_completes_at_its_end():
    hours = pd.date_range("2024-03-09", "2024-03-12", freq="h", tz="America/New_York")
    hours = hours.append(pd.date_range("2024-11-02", "2024-11-05", freq="h", tz="America/New_York"))
    readings = pd.DataFrame({"at": hours, "arrival": hours})
    ordered = sf.reorder(readings, event_time="at", arrival="arrival", slack=0)
    days = sf.window_aggregate(
        ordered, {"n": "count(*)"}, window=sf.Range("1 day", zone="America/New_York"), order="at"
    )
    assert days["n"].tolist() == [24, 23, 24, 1, 24, 25, 24, 1]
    spans = [(w["end"].timestamp() - w["start"].timestamp()) / 3600 for w in days["window"]]
    assert spans == [24.0, 23.0, 24.0, 24.0, 24.0, 25.0, 24.0, 24.0]
    completed_by = [at.tz_convert("America/New_York") for at in days["punctuation"]]
    assert [(at.day, at.hour) for at in completed_by[:3]] == [(10, 0), (11, 0), (12, 0)]


def test_calendars_of_whole_numbers_and_times_without_a_zone():
    plain = pa.table({"at": pa.array([0, 86_400_000_000 * 40], pa.int64())})
    months = sf.window_aggregate(plain, {"n": "count(*)"}, window="1 month", order="at")
    assert [row["window"]["start"] for row in months.to_pylist()] == [0, 31 * 86_400_000_000]
    naive = plain.set_column(0, "at", plain.column("at").cast(pa.timestamp("us")))
    found = sf.window_aggregate(naive, {"n": "count(*)"}, window="1 year", order="at").to_pylist()
    assert found[0]["window"]["end"] == dt.datetime(1971, 1, 1)
    window = sf.Range("1 day", zone="Asia/Tokyo")
    with pytest.raises(ValueError, match="`order` must be a timestamp with a time zone"):
        sf.window_aggregate(naive, {"n": "count(*)"}, window=window, order="at")


def test_a_time_that_no_calendar_reaches_is_invalid():
    times = [0, FIRST_US - 1, LAST_US + 1, FIRST_US, LAST_US, 2**61]
    rows = pa.table({"at": pa.array(times, pa.int64())})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = sf.window_aggregate(
            rows, {"n": "count(*)"}, window=sf.Range("1 day", zone="Asia/Tokyo"), order="at",
            missed=True,
        )  # fmt: skip
    results, missed = sf.split_missed(found)
    assert (results.num_rows, missed.column("reason").to_pylist()) == (1, ["invalid"] * 5)
