"""Punctuations in rows: which rows are late, and when rows leave, by a plain definition."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from seeds import examples
from sfumato.operators.disorder.reorder import Reorder

TIMES = {"event_time": "made", "arrival": "came", "punctuation": "promise"}


@st.composite
def streams(draw):
    """Draw rows of two devices in arrival order, with event times and often a punctuation."""
    n = draw(st.integers(0, 25))
    times = st.integers(0, 12)
    return pd.DataFrame(
        {
            "id": range(n),
            "device": [draw(st.sampled_from("ab")) for _ in range(n)],
            "made": pd.array([draw(times) for _ in range(n)], "Int64"),
            "came": range(n),
            "promise": pd.array([draw(st.none() | times) for _ in range(n)], "Int64"),
        }
    )


def definition(rows: pd.DataFrame) -> tuple[set[int], list[int]]:
    """Return (ids of late rows, ids of other rows in the order of their release) of one device."""
    promised, late, held, out = float("-inf"), set(), [], []
    for row in rows.itertuples():
        if row.made < promised:
            late.add(row.id)
        else:  # a row at the promised time follows the released rows of that time
            held.append((row.made + (row.made == promised), row.made, row.id))
        if not pd.isna(row.promise):
            promised = max(promised, row.promise)
        gone = sorted(each for each in held if each[0] <= promised)
        held = [each for each in held if each not in gone]
        out += [number for _, _, number in sorted(gone, key=lambda each: each[1:])]
    return late, out + [number for _, _, number in sorted(held, key=lambda each: each[1:])]


@given(streams())
@examples(60)
def test_rows_are_released_by_the_sent_punctuations(rows):
    answer = sf.reorder(rows, key="device", **TIMES)
    for device in "ab":
        own = answer[answer["device"] == device]
        late, out = definition(rows[rows["device"] == device])
        assert set(own["id"][own["late"]]) == late
        assert list(own["id"][~own["late"]]) == out


def test_the_slowest_source_holds_back_the_others():
    rows = pd.DataFrame(
        [(0, "a", 10, 0, 30), (1, "b", 20, 1, 15), (2, "a", 40, 2, 50), (3, "b", 25, 3, 45)],
        columns=["id", "device", "made", "came", "promise"],
    )
    answer = sf.reorder(rows, source="device", expected_sources=2, **TIMES)
    assert list(answer["id"]) == [0, 1, 3, 2]
    assert list(answer["punctuation"][:3]) == [15, 30, 30]
    assert not answer["late"].any()


def test_a_broken_promise_is_late_and_the_end_of_time_is_a_promise():
    promises = pd.array([9, 25, None, 2**63 - 1], "Int64")
    rows = pd.DataFrame({"made": [10, 30, 20, 40], "came": range(4), "promise": promises})
    answer = sf.reorder(rows, **TIMES)
    assert list(answer["made"]) == [10, 20, 30, 40]
    assert list(answer["late"]) == [False, True, False, False]


def test_a_batch_with_too_few_punctuations_is_refused_whole():
    reorder = Reorder(estimator="sent", by_source=True)
    two = np.array([1, 2])
    reorder.process(two * 0, two, two, two, sent=two)
    before = reorder.snapshot()
    with pytest.raises(ValueError, match="`sent` must have 2 punctuations"):
        reorder.process(two * 0, two, two, two + 2, sent=two[:1])
    assert reorder.snapshot() == before


@pytest.mark.parametrize("kind", ["s", "ms", "us", "ns", "us, UTC", None])
def test_punctuations_of_every_kind_of_time(kind):
    seconds = pd.DataFrame({"made": [10, 30, 20, 40], "promise": [9, 25, 0, 40]})
    rows = seconds * 1_000_000
    if kind is not None:
        zone = "UTC" if "UTC" in kind else None
        for name in rows:
            times = pd.to_datetime(rows[name], unit="us").dt.tz_localize(zone)
            rows[name] = times.astype(f"datetime64[{kind}]")
    answer = sf.reorder(rows.assign(id=range(4), came=range(4)), **TIMES)
    assert list(answer["id"]) == [0, 2, 1, 3]
    assert list(answer["late"]) == [False, True, False, False]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"slack": 3}, "`punctuation` and `slack` cannot be combined"),
        ({"estimator": "max"}, "`punctuation` and `estimator` cannot be combined"),
        ({"punctuation": "device"}, "`punctuation` must be a timestamp or whole microseconds"),
        ({"punctuation": "promised"}, "did you mean `promise`"),
        ({"punctuation": None, "estimator": "sent"}, "needs `punctuation`"),
    ],
)
def test_wrong_arguments(given, message):
    rows = pd.DataFrame({"device": ["a"], "made": [1], "came": [1], "promise": [1]})
    with pytest.raises((ValueError, TypeError), match=message):
        sf.reorder(rows, **{**TIMES, **given})
