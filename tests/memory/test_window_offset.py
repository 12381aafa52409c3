"""`offset` of a Range: extents that begin later than multiples of the slide."""

import datetime as dt
import zoneinfo

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.operators.windows.calendar import Calendar

HOUR = 3_600_000_000


def readings(seed=1, n=200, days=20):
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(-days * 24 * HOUR, days * 24 * HOUR, n))
    return pl.DataFrame(
        {
            "at": pl.Series(times).cast(pl.Datetime("us", "UTC")),
            "arrival": pl.Series(times + rng.integers(0, 5 * HOUR, n)).cast(
                pl.Datetime("us", "UTC")
            ),
            "key": rng.integers(0, 3, n),
            "x": rng.normal(20, 5, n).round(1),
            "prob": rng.random(n),
        }
    )


def shifted(table, hours, *names):
    return table.with_columns(pl.col(name).dt.offset_by(f"{hours}h") for name in names)


def with_windows_shifted(answers, hours):
    ends = [pl.col("window").struct.field(n).dt.offset_by(f"{hours}h") for n in ("start", "end")]
    return answers.with_columns(
        pl.struct(ends).alias("window"), pl.col("punctuation").dt.offset_by(f"{hours}h")
    )


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({"n": "count(*)", "s": "sum(x)", "q": "max(x)"}, {}),
        ({"s": "avg(x)"}, {"key": "key"}),
        ({"m": "time_avg(x)"}, {}),
        ({"n": "count(*)"}, {"early": "2 hours"}),
        ({"n": "count(*)"}, {"empty": 2}),
        ({"n": "count(*)"}, {"zone": "Asia/Kolkata"}),  # days of 24 hours
    ],
)
@pytest.mark.parametrize("controlled", [False, True])
def test_an_offset_moves_extents_as_earlier_times_would(given, options, controlled):
    rows, hours = readings(), 5
    rows = rows if "m" not in given else rows.drop("prob")
    options = dict(options)
    extent = {name: options.pop(name) for name in ("empty", "zone") if name in options}
    length, slide = ("2 days", "1 day") if "zone" in extent else ("12 hours", "6 hours")

    def answers(table, offset):
        if controlled:
            early = {"early": True} if "early" in options else {}
            table = sf.reorder(table, event_time="at", arrival="arrival", max_delay="2 h", **early)
        window = sf.Range(length, slide=slide, offset=offset, **extent)
        return sf.window_aggregate(table, given, window=window, order="at", **options)

    expected = answers(shifted(rows, -hours, "at", "arrival"), None)
    assert answers(rows, f"{hours} hours").equals(with_windows_shifted(expected, hours))


def test_uncertain_times_are_placed_in_moved_extents():
    times = np.random.default_rng(3).integers(0, 60, (40, 2)).astype("datetime64[h]")
    tuples = [
        [
            {"prob": 0.5, "at": time.astype(dt.datetime).replace(tzinfo=dt.UTC), "x": float(i % 5)}
            for time in pair
        ]
        for i, pair in enumerate(times)
    ]
    rows = pl.DataFrame({"alternatives": tuples})
    moved = pl.element().struct.with_fields(pl.field("at").dt.offset_by("-5h"))
    earlier = rows.with_columns(pl.col("alternatives").list.eval(moved))

    def answers(table, offset):
        window = sf.Range("12 hours", slide="6 hours", offset=offset)
        return sf.window_aggregate(table, {"s": "sum(x)"}, window=window, order="at")

    assert answers(rows, "5 hours").equals(with_windows_shifted(answers(earlier, None), 5))


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata", "Pacific/Apia"])
@pytest.mark.parametrize(("unit", "offset"), [("day", 6 * HOUR), ("month", 14 * 24 * HOUR)])
def test_calendar_units_begin_at_the_local_offset(zone, unit, offset):
    rng = np.random.default_rng(4)
    seconds = rng.integers(-20 * 31_556_952, 60 * 31_556_952, 400)
    calendar = Calendar(unit, zone, offset=offset)
    times = seconds * 1_000_000
    expected = []
    for second in seconds.tolist():
        at = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=second)
        shown = at.astimezone(zoneinfo.ZoneInfo(zone)).replace(tzinfo=None)
        shown -= dt.timedelta(microseconds=offset)
        days = (shown.date() - dt.date(1970, 1, 1)).days
        expected.append(days if unit == "day" else (shown.year - 1970) * 12 + shown.month - 1)
    positions = calendar.positions(times)
    assert (positions // calendar.span).tolist() == expected
    assert (calendar.times(positions) == times).all()


def test_the_earliest_times_are_invalid_and_end_no_query():
    rows = pa.table({"at": pa.array([-(2**60), -(2**60) + 5, 0, 2**60], pa.int64())})
    window = sf.Range("9 us", offset="2 us")
    with pytest.warns(sf.errors.InvalidRowsWarning, match="1 of 4 rows"):
        found = sf.window_aggregate(rows, {"n": "count(*)"}, window=window, order="at")
    assert found.column("n").to_pylist() == [1, 1, 1]
