"""Configurations of windows: what they accept, what they say about the rest."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from datetime import timedelta

import pytest

import sfumato as sf


def test_durations_are_text_timedeltas_or_microseconds():
    window = sf.Range("5 minutes", slide=timedelta(seconds=30), idle_timeout=1_500_000)
    assert (window.span, window.every, window.timeout) == (300_000_000, 30_000_000, 1_500_000)
    assert (sf.Range("1 s").every, sf.Range("1 s").timeout) == (1_000_000, None)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: sf.Range(0), ValueError, "`length` must be longer than nothing; got 0"),
        (lambda: sf.Range("5 lightyears"), ValueError, "`length` must be a duration like"),
        (lambda: sf.Range(True), TypeError, "`length` must be text like '10 seconds', a timedelta"),
        (lambda: sf.Range(None), TypeError, "`length` must be text"),
        (lambda: sf.Range(5, slide=-1), ValueError, "`slide` must be longer than nothing; got -1"),
        (lambda: sf.Range(5, idle_timeout=2.5), TypeError, "`idle_timeout` must be text"),
        (lambda: sf.Range(2**60 + 1), ValueError, r"`length` must be at most 2\*\*60"),
        (lambda: sf.Range(5, empty=1), TypeError, "`empty` must be True or False; got 1"),
        (lambda: sf.Delta(-1, on="x"), ValueError, "`delta` must be a finite distance"),
        (lambda: sf.Delta(float("nan"), on="x"), ValueError, "`delta` must be a finite distance"),
        (lambda: sf.Delta(1, on=""), TypeError, "`on` must be the name of an attribute"),
        (lambda: sf.Delta(1, on="x", threshold=0), ValueError, r"`threshold` must lie in \(0, 1\]"),
        (lambda: sf.Delta(1, on="x", max_tuples=0), ValueError, "`max_tuples` must be None or at"),
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
