"""Numbers of distinct strings and dates, certain and uncertain."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from seeds import examples
from sfumato.operators.arguments import MAX_ABS_VALUE
from sfumato.tables.reading.ties import hash_numbers
from worlds import aggregate_laws, moments_of

WORDS = ("a", "A", "", "ü", "u\u0308", "long " * 9, None)


@examples(30)
@given(words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=25), size=st.integers(1, 6))
def test_counts_of_certain_strings_are_those_of_sets(words, size):
    frame = pd.DataFrame({"at": range(len(words)), "word": pd.Series(words, dtype=object)})
    asked = {"many": "count(distinct word)", "all": "count(word)"}
    rows = sf.window_aggregate(frame, asked, window=sf.Rows(size), order="at")
    newest = [words[max(0, i + 1 - size) : i + 1] for i in range(len(words))]
    assert rows["many"].tolist() == [len({*of} - {None}) for of in newest]
    assert rows["all"].tolist() == [sum(word is not None for word in of) for of in newest]
    coded = frame.astype({"word": "category"})
    same = sf.window_aggregate(coded, asked, window=sf.Rows(size), order="at")
    assert same["many"].tolist() == rows["many"].tolist()
    if any(word is not None for word in words):
        extent = sf.window_aggregate(frame, asked, window="1 s", order="at", key=None)
        assert extent["many"].tolist() == [len({*words} - {None})]


@examples(25)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 5))
def test_counts_of_uncertain_strings_are_those_of_possible_worlds(seed, n):
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        count = int(rng.integers(1, 4))
        prob = rng.dirichlet(np.ones(count + 1))[:count]
        tags = rng.choice(["x", "y", "z"], count).tolist()
        rows.append([{"prob": float(p), "tag": tag} for p, tag in zip(prob, tags, strict=True)])
    frame = pd.DataFrame({"at": range(n), "alternatives": rows})
    found = sf.window_aggregate(
        frame, {"many": "count_distinct(tag)"}, window="1 s", order="at", distribution=16
    )["many"][0]
    groups = [[(a["prob"], a["tag"]) for a in row] for row in rows]
    (expected,) = aggregate_laws([("count_distinct", None)], groups)
    distribution = {a["value"]: a["prob"] for a in found["distribution"]}
    assert found["mean"] == pytest.approx(float(moments_of(expected)[0]), abs=1e-12)
    for value in range(4):
        prob = float(expected.get(value, 0))
        assert distribution.get(value, 0.0) == pytest.approx(prob, abs=1e-12)


def test_dates_are_counted_too():
    days = [dt.date(2024, 1, 1), dt.date(2024, 1, 2), dt.date(2024, 1, 1), None]
    table = pa.table({"at": [0, 1, 2, 3], "day": days})
    rows = sf.window_aggregate(table, {"n": "count(distinct day)"}, window="1 s", order="at")
    assert rows["n"].to_pylist() == [2]


def test_large_whole_numbers_and_decimals_are_told_apart():
    large = 2**60
    numbers = [large, large + 1, large, 7]
    cents = [Decimal(number) / 100 for number in numbers]
    table = pa.table(
        {
            "at": range(4),
            "n": pa.array(numbers, pa.int64()),
            "u": pa.array(numbers, pa.uint64()),
            "d": pa.array(cents, pa.decimal128(38, 2)),
        }
    )
    asked = {"n": "count(distinct n)", "s": "sum(n)", "u": "count_distinct(u)"}
    asked |= {"d": "count_distinct(d)", "few": "count_distinct(n - n)"}
    (row,) = sf.window_aggregate(table, asked, window="1 s", order="at").to_pylist()
    assert (row["n"], row["u"], row["d"], row["few"]) == (3, 3, 3, 1)
    assert row["s"] == sum(numbers)


def test_numbers_that_stand_for_strings_are_different_and_within_the_bounds_of_values():
    words = pa.array([f"device {i}" for i in range(200_000)] + [None, ""])
    numbers = hash_numbers(words)
    known = numbers.drop_null().to_numpy()
    assert numbers.null_count == 1
    assert len(np.unique(known)) == len(known)
    assert np.isfinite(known).all()
    assert np.abs(known).max() < MAX_ABS_VALUE
    assert np.abs(known).min() > 0
