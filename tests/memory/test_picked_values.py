"""Minima, maxima, first and last values of strings and dates in time windows."""

import datetime as dt

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from seeds import examples

PICKS = {"min": min, "max": max, "first": lambda of: of[0], "last": lambda of: of[-1]}
ASKED = {f"{name}_{of}": f"{name}({of})" for of in ("word", "day") for name in PICKS}


def frame(rng, n):
    """Rows in disorder, with words and days, some of them NULL."""
    start = dt.date(2026, 1, 1)
    days = [start + dt.timedelta(int(d)) for d in rng.integers(0, 9, n)]
    return pl.DataFrame(
        {
            "arrival": range(n),
            "at": 3 * np.argsort(np.arange(n) + rng.uniform(0, 4, n)),
            "key": rng.choice(["a", "b"], n).tolist(),
            "word": rng.choice(["", "B", "a", "ab", "ü", None], n).tolist(),
            "day": [None if rng.random() < 0.2 else day for day in days],
        }
    )


@examples(40)
@given(st.integers(0, 2**20), st.sampled_from([10, 15]), st.booleans())
def test_results_are_the_values_of_the_rows_of_each_window(seed, slide, ordered):
    df = frame(np.random.default_rng(seed), 30)
    window = sf.Range("15 us", slide=f"{slide} us")
    given_rows = df.sort("at", maintain_order=True)
    if ordered:
        given_rows = sf.reorder(df, event_time="at", arrival="arrival", slack=6)
    found = sf.window_aggregate(
        given_rows, {**ASKED, "n": "count(*)"}, window=window, order="at", key="key"
    )
    for row in found.to_dicts():
        bounds = row["window"]
        inside = df.filter(
            (pl.col("key") == row["key"])
            & (pl.col("at") >= bounds["start"])
            & (pl.col("at") < bounds["end"])
        ).sort("at", maintain_order=True)
        assert inside.height == row["n"]
        for name, text in ASKED.items():
            function, column = text.rstrip(")").split("(")
            values = inside[column].drop_nulls().to_list()
            assert row[name] == (PICKS[function](values) if values else None), (name, row)


def test_types_and_other_results_are_kept():
    df = frame(np.random.default_rng(1), 20).sort("at")
    window = {"window": sf.Session("1 second"), "order": "at", "key": "key"}
    asked = {
        "last": "last(word)",
        "newest": "max(day)",
        "kinds": "count_distinct(word)",
        "n": "count(word)",
    }
    found = sf.window_aggregate(df, asked, with_rows=True, **window)
    assert found.schema["last"] == pl.String
    assert found.schema["newest"] == pl.Date
    assert found.columns[:5] == df.columns
    for (key,), rows in df.group_by("key"):
        row = found.filter(pl.col("key") == key).row(0, named=True)
        words = rows["word"].drop_nulls()
        assert (row["last"], row["kinds"], row["n"]) == (words[-1], words.n_unique(), len(words))


@examples(20)
@given(st.integers(0, 2**20), st.booleans())
def test_strings_are_picked_like_numbers_among_ties_and_late_rows(seed, reordered):
    rng, n = np.random.default_rng(seed), 50
    numbers = [None if rng.random() < 0.2 else int(x) for x in rng.permutation(n)]
    df = pl.DataFrame(
        {
            "arrival": range(n),
            "at": np.maximum(0, np.arange(n) - rng.integers(0, 9, n)),
            "number": numbers,
            "word": [None if x is None else f"{x:03d}" for x in numbers],
        }
    )
    rows = df.sort("at")
    if reordered:
        rows = sf.reorder(df, event_time="at", arrival="arrival", slack=3)
    asked = {f"{f} {of}": f"{f}({of})" for f in PICKS for of in ("number", "word")}
    for window in (sf.Range("10 us", slide="4 us"), sf.Session("2 us")):
        found = sf.window_aggregate(rows, asked, window=window, order="at")
        for function in PICKS:
            words = found[f"{function} word"].cast(pl.Int64)
            assert words.to_list() == found[f"{function} number"].to_list()
