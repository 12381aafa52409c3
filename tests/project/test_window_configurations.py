"""Window configurations: accepted arguments, and errors for the others."""

from dataclasses import FrozenInstanceError
from datetime import timedelta

import pytest

import sfumato as sf
from sfumato.operators.joins.arrivals import window_pair
from sfumato.operators.state.config import as_json, from_json
from sfumato.windows import JoinWindow


def test_durations_are_text_or_timedeltas():
    window = sf.Range("5 minutes", slide=timedelta(seconds=30), idle_timeout="1.5 s")
    assert (window.length_us, window.slide_us, window.idle_timeout_us) == (
        300_000_000,
        30_000_000,
        1_500_000,
    )
    assert (sf.Range("1 s").slide_us, sf.Range("1 s").idle_timeout_us) == (1_000_000, None)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: sf.Range("0 s"), ValueError, "`length` must be positive; got '0 s'"),
        (lambda: sf.Range(5), TypeError, '`length` must have a unit: length="5 seconds"'),
        (lambda: sf.Range(2.5), TypeError, '`length` must have a unit: length="2.5 seconds"'),
        (lambda: sf.Range("1 s", slide=5), TypeError, '`slide` must have a unit: slide="5 seco'),
        (lambda: sf.Rows(9, within=5), TypeError, '`within` must have a unit: within="5 seconds"'),
        (lambda: sf.Rows(9, within="0 s"), ValueError, "`within` must be positive; got '0 s'"),
        (lambda: sf.Top(3, every=5), TypeError, '`every` must have a unit: every="5 seconds"'),
        (lambda: sf.Delta(5), TypeError, "sf.Delta needs `on`. For example"),
        (sf.Rows, TypeError, "sf.Rows needs `rows`"),
        (lambda: sf.Range(lenght="5 s"), TypeError, "no argument `lenght`; did you mean `length`"),
        (lambda: sf.Top(3, "5 s", "a", 1), TypeError, "sf.Top accepts k, every, name by position"),
        (lambda: sf.Range("5 lightyears"), ValueError, "`length` must be a duration like"),
        (
            lambda: sf.Range(True),
            TypeError,
            "`length` must be a string like '10 seconds' or a timedelta",
        ),
        (lambda: sf.Range(None), TypeError, "`length` must be a string"),
        (lambda: sf.Range("5 s", slide=timedelta(-1)), ValueError, "`slide` must be positive"),
        (lambda: sf.Range("5 s", idle_timeout=2.5), TypeError, "`idle_timeout` must have a unit"),
        (
            lambda: sf.Range(timedelta(microseconds=2**60 + 1)),
            ValueError,
            r"`length` must be at most 2\*\*60",
        ),
        (
            lambda: sf.Range("5 s", empty="1 s"),
            TypeError,
            "`empty` must be True, False or a number",
        ),
        (
            lambda: sf.Range("5 s", empty=0),
            ValueError,
            "`empty` must be a number of extents from 1",
        ),
        (lambda: sf.Delta(-1, on="x"), ValueError, "`delta` must be a finite distance"),
        (lambda: sf.Delta(float("nan"), on="x"), ValueError, "`delta` must be a finite distance"),
        (lambda: sf.Delta(1, on=""), TypeError, "`on` must be the name of an attribute"),
        (lambda: sf.Delta(1, on="x", threshold=0), ValueError, r"`threshold` must lie in \(0, 1\]"),
        (lambda: sf.Rows(5, slide=0), ValueError, "`slide` must be None or an integer"),
        (lambda: sf.Rows(5, slide=2.0), ValueError, "Write slide=5"),
        (
            lambda: sf.Delta(1, on="x", max_tuples=0),
            ValueError,
            "`max_tuples` must be None or an integer",
        ),
    ],
)
def test_other_arguments_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_windows_cannot_change():
    with pytest.raises(FrozenInstanceError):
        sf.Range("1 s").length = "2 s"
    with pytest.raises(FrozenInstanceError):
        sf.Delta(5.0, on="temperature").delta = 6.0


def test_rows_of_a_join_bounded_by_time_too_are_saved():
    unbounded = {"rows": 4, "confidence": 0.95, "max_tuples": None, "within": None, "slide": None,
                 "lockstep": False}  # fmt: skip
    assert as_json(sf.Rows(4)) == unbounded
    bounded = sf.Rows(4, within="1 minute")
    assert from_json(sf.Rows, as_json(bounded)) == bounded
    assert window_pair(bounded) == (JoinWindow(4, span="1 minute"),) * 2
    assert window_pair(("1 minute", bounded))[0] == JoinWindow(span="1 minute")
