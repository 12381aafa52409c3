"""The neighbours of one frame's rows in another frame, against possible worlds."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from seeds import examples

HOW = {"on": "x", "within": 0.75, "order": "t", "key": "room"}


def frame(rng, n, first):
    """Return rows at every second time from `first`, with 1 or 2 values; some may not exist."""
    rows = []
    for i in range(n):
        total = float(rng.choice([0.4, 0.8, 1.0]))
        values = rng.normal(0, 1, rng.integers(1, 3)).round(1).tolist()
        alternatives = [{"prob": total / len(values), "x": x} for x in values]
        room = str(rng.choice(["hall", "attic"]))
        rows.append({"t": first + 2 * i, "room": room, "alternatives": alternatives})
    return pl.DataFrame(rows)


def by_worlds(own, others, newest):
    """Return {n: Pr(n near tuples among the newest existing tuples | the own tuple exists)}."""
    law, total = {}, math.fsum(a["prob"] for a in own)
    absent = [[*of, {"prob": 1 - math.fsum(a["prob"] for a in of), "x": math.inf}] for of in others]
    for mine, *theirs in product(own, *absent):
        chance = mine["prob"] / total * math.prod(a["prob"] for a in theirs)
        there = [a["x"] for a in theirs if a["x"] < math.inf][-newest:]
        near = sum(abs(x - mine["x"]) <= 0.75 for x in there)
        law[near] = law.get(near, 0.0) + chance
    return {count: chance for count, chance in law.items() if chance > 1e-12}


@examples(30)
@given(st.integers(0, 2**20), st.sampled_from(["rows", "time"]))
def test_the_numbers_are_those_over_possible_worlds(seed, kind):
    rng = np.random.default_rng(seed)
    left, right = frame(rng, 6, 0), frame(rng, 7, -1)
    window, newest = (sf.Rows(2), 2) if kind == "rows" else (sf.Range("8 us"), 10)
    found = sf.neighbours(left, other=right, window=window, fewer_than=1, **HOW)
    assert found.drop("neighbours", "probability").equals(left)
    for row in found.to_dicts():
        met = [
            of["alternatives"]
            for of in right.to_dicts()
            if of["room"] == row["room"]
            and of["t"] < row["t"]
            and (kind == "rows" or of["t"] > row["t"] - 8)
        ]
        law = by_worlds(row["alternatives"], met, newest)
        got = {pair["value"]: pair["prob"] for pair in row["neighbours"]["distribution"]}
        assert got == pytest.approx(law, abs=1e-9)
        assert row["probability"] == pytest.approx(law.get(0, 0.0), abs=1e-9)


def test_wrong_arguments():
    rng = np.random.default_rng(0)
    left, right = frame(rng, 3, 0), frame(rng, 3, 1)
    how = {"window": sf.Rows(2), **HOW}
    with pytest.raises(ValueError, match="`idle_timeout` needs two frames: give `other`"):
        sf.neighbours(left, idle_timeout="1 minute", **how)
    with pytest.raises(TypeError, match="`other` must be a Spark DataFrame, or a pandas"):
        sf.neighbours(left, other=5, **how)
    with pytest.raises(ValueError, match=r"`key` names a column `room` .* the right table"):
        sf.neighbours(left, other=right.drop("room"), **how)
    answers = sf.neighbours(left, other=right, **how)
    with pytest.raises(ValueError, match="may share tuples"):
        sf.window_aggregate(answers, {"n": "count(*)"}, window=sf.Rows(2), order="t")
