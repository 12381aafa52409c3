"""Integer times are microseconds: seconds and milliseconds cause a warning."""

import warnings
from datetime import timedelta

import pandas as pd
import pyarrow as pa
import pytest

import sfumato as sf

NOW = 1_704_067_200


def table(per_second):
    ts = [(NOW + i) * per_second for i in range(5)]
    return pa.table({"ts": ts, "x": [1.0] * 5})


def windows(rows):
    return sf.window_aggregate(rows, {"n": "count(*)"}, window=sf.Range("1 minute"), order="ts")


@pytest.mark.parametrize(
    ("per_second", "unit", "factor"), [(1, "seconds", "1,000,000"), (1000, "milliseconds", "1,000")]
)
def test_times_that_look_like_another_unit_are_warned_of(per_second, unit, factor):
    said = f"read as microseconds since 1970, but its values look like {unit}.*by {factor}, or"
    rows = table(per_second)
    with pytest.warns(UserWarning, match=said):
        windows(rows)
    with pytest.warns(UserWarning, match=said):
        sf.reorder(rows, event_time="ts", arrival="ts", max_delay="1 second")
    with pytest.warns(UserWarning, match=said):
        sf.top_k(rows, 1, by="x", window=sf.Range("1 minute"), order="ts")
    with pytest.warns(UserWarning, match=said):
        sf.self_join(rows, on="x", within=1, probability=0.5, window=sf.Range("1 s"), order="ts")


@pytest.mark.parametrize("times", [[0, 1, 2], [NOW * 1_000_000], [5, NOW], []])
def test_microseconds_are_not_warned_of(times):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        windows(pd.DataFrame({"ts": pd.Series(times, dtype="int64"), "x": 1.0}))


def test_a_duration_may_be_given_for_a_window():
    seconds = [10 * i * 1_000_000 for i in range(6)]
    stamps = pa.array(seconds, pa.timestamp("us", "UTC"))
    rows = pa.table({"id": range(6), "ts": stamps, "v": [float(i) for i in range(6)]})
    for window in ("1 minute", timedelta(minutes=1), sf.Range("1 minute")):
        asked = {"window": window, "order": "ts"}
        assert sf.window_aggregate(rows, {"s": "sum(v)"}, **asked)["s"].to_pylist() == [15.0]
        assert sf.top_k(rows, 1, by="v", **asked)["row"].to_pylist()[0]["id"] == 5
        pairs = sf.similarity_join(rows, rows, on="v", within=0.1, probability=1, **asked)
        assert pairs.num_rows == 6


def test_an_event_time_with_a_zone_and_an_arrival_without_are_warned_of():
    times = pa.array([0, 10_000_000], pa.timestamp("us", "UTC"))
    rows = pa.table({"made": times, "got": times.cast(pa.timestamp("us")), "seen": times})
    with pytest.warns(UserWarning, match="`made` has a time zone and `got` has none"):
        sf.reorder(rows, event_time="made", arrival="got", slack=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sf.reorder(rows, event_time="made", arrival="seen", slack=1)
