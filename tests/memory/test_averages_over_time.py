"""Averages and integrals over time: plain references, and arguments that are refused."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from seeds import examples

ASKED = {"mean": "time_avg(x)", "area": "integral(x)", "n": "count(*)"}
AT = {"order": "ts", "key": "sensor"}
SECONDS = st.integers(0, 100)
READING = st.tuples(SECONDS, st.sampled_from("ab"), st.sampled_from([None, -2.0, 0.5, 3.0, 7.25]))


def frame(readings):
    seconds, sensors, values = zip(*sorted(readings, key=lambda r: r[0]), strict=True)
    ts = pd.to_datetime(list(seconds), unit="s", utc=True)
    return pd.DataFrame({"ts": ts, "sensor": sensors, "x": pd.array(values, "Float64")})


def in_order(found):
    starts = [window["start"] for window in found["window"]]
    return found.assign(start=starts).sort_values(["sensor", "start"], ignore_index=True)


def reference(rows, window, start, end):
    """Return (mean, integral) of a sensor's window by seconds; a value holds from its second."""
    known = rows.dropna(subset="x").groupby("ts")["x"].last()
    bounds = pd.to_datetime([start, end], utc=True)  # naive in a process of `sfumato run`
    seconds = pd.date_range(*bounds, freq="s", inclusive="left")
    held = known.reindex(known.index.union(seconds)).ffill().reindex(seconds).dropna()
    return (float(held.mean()), float(held.sum())) if len(held) else (None, None)


@examples(60)
@given(
    st.lists(READING, min_size=1, max_size=25, unique_by=lambda reading: reading[:2]),
    st.sampled_from([(10, 10), (10, 5), (25, 10), (60, 60)]),
    st.booleans(),
)
def test_every_window_is_that_of_pandas_second_by_second(readings, lengths, empty):
    rows, (length, slide) = frame(readings), lengths
    window = sf.Range(f"{length} seconds", slide=f"{slide} seconds", empty=empty)
    found = sf.window_aggregate(rows, ASKED, window=window, **AT)
    assert len(found)
    for answer in found.itertuples():
        of = rows[rows["sensor"] == answer.sensor]
        mean, area = reference(of, window, answer.window["start"], answer.window["end"])
        for got, want in ((answer.mean, mean), (answer.area, area)):
            assert pd.isna(got) if want is None else got == pytest.approx(want, abs=1e-9)
    certain = rows.assign(existence=1.0)
    structs = in_order(sf.window_aggregate(certain, ASKED, window=window, **AT))
    found = in_order(found)
    for name in ("mean", "area"):
        means = pd.Series([one["mean"] for one in structs[name]], dtype=float)
        pd.testing.assert_series_equal(means, found[name].astype(float), check_names=False)
        assert all(one["stddev"] in (0.0, None) or np.isnan(one["stddev"]) for one in structs[name])


@examples(20)
@given(st.lists(st.sampled_from([-2.0, 0.5, 3.0, 7.25]), min_size=1, max_size=5))
def test_the_last_of_several_rows_with_one_time_holds(values):
    rows = frame([(0, "a", x) for x in values])
    found = sf.window_aggregate(rows, ASKED | {"newest": "last(x)"}, window="20 seconds", **AT)
    assert found["mean"].tolist() == found["newest"].tolist()


def test_a_constant_value_is_its_own_mean_and_days_have_their_hours():
    ts = pd.to_datetime(["2024-03-29T12:00Z", "2024-03-30T12:00Z", "2024-03-31T12:00Z"])
    rows = pd.DataFrame({"ts": ts, "sensor": "a", "x": 20.1})
    day = sf.Range("1 day", zone="Europe/Berlin")
    found = sf.window_aggregate(rows, ASKED, window=day, **AT)
    np.testing.assert_allclose(found["mean"], 20.1, rtol=1e-15)
    hours = found["area"] / 20.1 / 3600
    np.testing.assert_allclose(hours, [11, 24, 23])  # clocks went forward on the 31st


def test_uncertain_times_and_shared_punctuations_are_refused():
    alternatives = [[{"prob": 0.5, "t": 0, "x": 1.0}, {"prob": 0.5, "t": 5, "x": 2.0}]]
    rows = pd.DataFrame({"alternatives": alternatives})
    for function in ("integral", "first", "last"):
        with pytest.raises(ValueError, match=f"{function} in .* needs certain event times.*draw"):
            sf.window_aggregate(rows, {"m": f"{function}(x)"}, window="10 us", order="t")
    ordered = sf.reorder(
        frame([(0, "a", 1.0)]).assign(seen=0), event_time="ts", arrival="seen", slack=1
    )
    with pytest.raises(ValueError, match="`forget_after` with time_avg or integral needs"):
        sf.window_aggregate(
            ordered, {"m": "integral(x)"}, window="1 minute", forget_after="1 day", **AT
        )
