"""Numbers of neighbours and aggregates over them, against possible worlds."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from seeds import examples
from worlds import near_worlds

HOW = {"on": "x", "within": 0.75, "order": "t"}
FUNCTIONS = {
    "n": ("count(*)", len),
    "values": ("count(w)", lambda of: len(known(of))),
    "total": ("sum(w)", lambda of: sum(known(of))),
    "best": ("max(w)", lambda of: max(known(of), default=None)),
    "least": ("min(w * 2)", lambda of: min((2 * w for w in known(of)), default=None)),
    "middle": ("avg(w)", lambda of: np.mean(known(of)) if known(of) else None),
    "median": ("quantile(w, 0.5)", lambda of: median(known(of))),
    "newest": ("last(w)", lambda of: known(of)[-1] if known(of) else None),
    "kinds": ("count_distinct(w)", lambda of: len({*known(of)})),
    "spread": ("var(w)", lambda of: np.var(known(of), ddof=1) if len(known(of)) > 1 else None),
}
ASKED = {name: text for name, (text, _) in FUNCTIONS.items()}


def known(values):
    return [w for w in values if w is not None]


def median(values):
    return sorted(values)[math.ceil(len(values) / 2) - 1] if values else None


def frame(rng, n, first):
    """Return rows at every second time from `first`, which may not exist or have no value."""
    rows = []
    for i in range(n):
        total = float(rng.choice([0.4, 0.8, 1.0]))
        size = int(rng.integers(1, 3))
        alternatives = [
            {
                "prob": total / size,
                "x": round(rng.normal(), 1),
                "w": None if rng.random() < 0.2 else float(rng.integers(-2, 4)),
            }
            for _ in range(size)
        ]
        room = str(rng.choice(["hall", "attic"]))
        rows.append({"t": first + 2 * i, "room": room, "alternatives": alternatives})
    kind = pl.List(pl.Struct({"prob": pl.Float64, "x": pl.Float64, "w": pl.Float64}))
    return pl.DataFrame(rows, schema_overrides={"alternatives": kind})


def by_worlds(own, others, function, newest=None):
    """Return {result: Pr(result over near existing tuples | own tuple exists)}; None: no result.

    newest : how many of the newest existing tuples are in the window
    """
    found, total = {}, math.fsum(a["prob"] for a in own)
    own, *groups = [[(a["prob"], a) for a in of] for of in (own, *others)]
    for chance, near in near_worlds(own, groups, lambda a, b: abs(a["x"] - b["x"]) <= 0.75, newest):
        result = function([a["w"] for a in near])
        result = None if result is None else round(float(result), 9)
        found[result] = found.get(result, 0.0) + chance / total
    return {result: chance for result, chance in found.items() if chance > 1e-12}


def check(row, met):
    for name, (_, function) in FUNCTIONS.items():
        expected, got = by_worlds(row["alternatives"], met, function), row[name]
        expected.pop(None, None)
        listed = {round(of["value"], 9): of["prob"] for of in got["distribution"]}
        assert listed == pytest.approx(expected, abs=1e-9), name
        defined = math.fsum(expected.values())
        assert got["existence"] == pytest.approx(defined, abs=1e-9), name
        if defined < 1e-9:
            assert got["mean"] is None, name
            continue
        mean = math.fsum(v * p for v, p in expected.items()) / defined
        spread = math.fsum((v - mean) ** 2 * p for v, p in expected.items()) / defined
        assert got["mean"] == pytest.approx(mean, abs=1e-9), name
        assert got["stddev"] == pytest.approx(math.sqrt(max(spread, 0.0)), abs=1e-6), name
        assert got["error"] is None, name


@examples(30)
@given(st.integers(0, 2**20), st.sampled_from(["rows", "time"]))
def test_numbers_of_neighbours_in_another_frame(seed, kind):
    rng = np.random.default_rng(seed)
    left, right = frame(rng, 6, 0), frame(rng, 7, -1)
    window, newest = (sf.Rows(2), 2) if kind == "rows" else (sf.Range("8 us"), None)
    found = sf.neighbours(left, other=right, window=window, fewer_than=1, key="room", **HOW)
    assert found.drop("neighbours", "probability").equals(left)
    for row in found.to_dicts():
        met = [
            of["alternatives"]
            for of in right.to_dicts()
            if of["room"] == row["room"]
            and of["t"] < row["t"]
            and (kind == "rows" or of["t"] > row["t"] - 8)
        ]
        law = by_worlds(row["alternatives"], met, len, newest)
        got = {pair["value"]: pair["prob"] for pair in row["neighbours"]["distribution"]}
        assert got == pytest.approx(law, abs=1e-9)
        assert row["probability"] == pytest.approx(law.get(0, 0.0), abs=1e-9)


@examples(25)
@given(st.integers(0, 2**20))
def test_neighbours_in_another_frame(seed):
    rng = np.random.default_rng(seed)
    left, right = frame(rng, 5, 0), frame(rng, 6, -1)
    window = sf.Range("8 us")
    found = sf.neighbours(
        left, other=right, window=window, aggregates=ASKED, distribution=99, **HOW
    )
    for row in found.to_dicts():
        met = [of["alternatives"] for of in right.to_dicts() if row["t"] - 8 < of["t"] < row["t"]]
        check(row, met)


@examples(25)
@given(st.integers(0, 2**20))
def test_neighbours_in_the_own_stream(seed):
    df = frame(np.random.default_rng(seed), 7, 0)
    window = sf.Range("10 us")
    found = sf.neighbours(df, window=window, aggregates=ASKED, distribution=99, **HOW)
    rows = df.to_dicts()
    for i, row in enumerate(found.to_dicts()):
        check(row, [of["alternatives"] for of in rows[:i] if of["t"] > row["t"] - 10])


def test_the_moments_are_the_same_without_distributions():
    df = frame(np.random.default_rng(3), 60, 0)
    window = sf.Range("30 us")
    few = sf.neighbours(df, window=window, aggregates=ASKED, **HOW)
    full = sf.neighbours(df, window=window, aggregates=ASKED, quantiles=[0.1], **HOW)
    for name in ASKED:
        assert few[name].struct.fields == ["mean", "stddev", "existence"]
        for part in few[name].struct.fields:
            one, other = (table[name].struct.field(part).to_list() for table in (few, full))
            assert one == pytest.approx(other, nan_ok=True), (name, part)


def test_certain_rows_have_plain_results_also_in_windows_by_count():
    plain = pd.DataFrame({"t": range(5), "x": [0.0, 0.1, 5.0, 0.2, 0.3], "w": [1, 2, 3, None, 9]})
    asked = {"total": "sum(w)", "best": "max(w)", "n": "count(*)"}
    found = sf.neighbours(plain, window=sf.Rows(2), aggregates=asked, **HOW)
    assert found["n"].tolist() == [0, 1, 0, 1, 1]
    assert found["best"].fillna(-1).tolist() == [-1, 1, -1, 2, -1]
    assert found["total"].fillna(-1).tolist() == [0, 1, 0, 2, 0]
    whole = plain.assign(w=[2**53 + 1, 2**53 + 3, 0, 5, 2])
    found = sf.neighbours(whole, window=sf.Rows(4), aggregates=asked, **HOW)
    assert found["total"].tolist() == [0, 2**53 + 1, 0, 2**54 + 4, 2**54 + 9]


def test_large_sums_are_sampled_with_a_bound():
    rng = np.random.default_rng(4)
    pairs = [
        [{"prob": 0.5, "x": 0.0, "w": float(w)}, {"prob": 0.4, "x": 0.1, "w": float(2 * w)}]
        for w in rng.random(40)
    ]
    df = pl.DataFrame({"t": range(40), "alternatives": pairs})
    found = sf.neighbours(
        df, window=sf.Range("1 second"), aggregates={"total": "sum(w)"}, quantiles=[0.5], **HOW
    )
    last = found["total"].to_list()[-1]
    weights = [of[0]["w"] for of in pairs[:-1]]
    assert last["mean"] == pytest.approx(math.fsum(1.3 * w for w in weights))
    assert 0.0 < last["error"] < 0.1
    worlds = sum(w * rng.choice([1.0, 2.0, 0.0], 100_000, p=[0.5, 0.4, 0.1]) for w in weights)
    assert abs(np.mean(worlds <= last["q50"]) - 0.5) < last["error"] + 0.01


@pytest.mark.parametrize("other", [None, frame(np.random.default_rng(1), 3, 1)])
def test_answers_are_refused_as_independent_rows(other):
    df, window = frame(np.random.default_rng(0), 4, 0), sf.Range("9 us")
    found = sf.neighbours(df, other=other, window=window, aggregates={"n": "count(*)"}, **HOW)
    with pytest.raises(ValueError, match="may share readings"):
        sf.window_aggregate(found, {"n": "count(*)"}, window=window, order="t")


def test_strings_are_counted_only():
    df = pl.DataFrame({"t": [0, 1], "x": [0.0, 0.0], "word": ["a", "b"]})
    window = sf.Range("9 us")
    with pytest.raises(TypeError, match=r"only count and count\(distinct ...\) take strings"):
        sf.neighbours(df, window=window, aggregates={"last": "last(word)"}, **HOW)
    found = sf.neighbours(df, window=window, aggregates={"n": "count_distinct(word)"}, **HOW)
    assert found["n"].to_list() == [0, 1]


def test_values_beyond_the_bounds_are_invalid():
    df = pl.DataFrame({"t": [0, 1], "x": [0.0, 0.0], "w": [1e200, 1.0]})
    with pytest.warns(sf.InvalidRowsWarning, match="invalid: a value is beyond 1e140$"):
        found = sf.neighbours(df, window=sf.Rows(3), aggregates={"total": "sum(w)"}, **HOW)
    assert found["t"].to_list() == [1]
