"""Intervals, censored values, angles, pruned and fused alternatives, against their definitions."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from memory_tables import tuples_of
from seeds import examples
from worlds import law_over, worlds

SIZES = [1, 2, 3, 7, 50]


def values_of(column, name="value"):
    return np.array([a[name] for a in column[0].as_py()])


def lists(*rows):
    return tuples_of(rows, x=pa.int64())


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(
    ("distribution", "variance"), [("uniform", 1 / 12), ("triangular", 1 / 24)]
)
def test_an_interval_has_the_mean_and_variance_of_its_distribution(n, distribution, variance):
    values = values_of(sf.between([-2.0], [5.0], n, distribution))
    assert values.mean() == pytest.approx(1.5)
    assert values.var() == pytest.approx(49 * variance if n > 1 else 0.0)
    assert -2.0 <= values.min() <= values.max() <= 5.0
    assert (np.diff(values) > 0).all()


@pytest.mark.parametrize("n", SIZES)
def test_a_censored_value_has_the_mean_and_sd_of_its_scale(n):
    below, above = (values_of(f([10.0], [3.0], n)) for f in (sf.below, sf.above))
    assert below.max() <= 10.0 <= above.min()
    assert below.mean() == pytest.approx(7.0)
    assert above.mean() == pytest.approx(13.0)
    for values in (below, above):
        assert values.std() == pytest.approx(3.0 if n > 1 else 0.0)


def test_rows_without_an_interval_are_invalid():
    low, high = pa.array([1.0, None, 1.0, 3.0]), pa.array([2.0, 2.0, None, 2.0])
    rows = pa.table({"id": range(4), "alternatives": sf.between(low, high, 4)})
    valid, invalid = sf.split_invalid(rows)
    assert valid["id"].to_pylist() == [0]
    assert invalid["reason"].to_pylist() == ["no alternatives"] * 3
    assert sf.below(low, -1.0, 2).null_count == 4
    assert values_of(sf.between([2.0], [2.0], 3)).tolist() == [2.0] * 3


@pytest.mark.parametrize(("period", "unit"), [(360.0, 1.0), (24.0, 1 / 15)])
def test_a_join_of_angles_finds_the_pairs_within_a_distance_on_the_circle(period, unit):
    angles = np.arange(0.0, 360.0, 24.0) * unit
    times = pa.array(range(len(angles)))
    rows = pa.table(
        {"at": times, "angle": angles, "alternatives": sf.circular(angles, 0, 1, period)}
    )
    within = 50 * unit
    pairs = sf.self_join(
        rows, on=["cos", "sin"], within=2 * math.sin(math.pi * within / period), probability=0.5,
        window=sf.Rows(100), order="at",
    )  # fmt: skip
    found = {frozenset((row["left"]["angle"], row["right"]["angle"])) for row in pairs.to_pylist()}
    apart = {
        frozenset((a, b))
        for a, b in product(angles.tolist(), repeat=2)
        if 0 < min(abs(a - b), period - abs(a - b)) <= within
    }
    assert found == apart


def test_the_mean_direction_is_right_across_the_wrap():
    noisy = sf.circular([359.0], 3.0, 9)
    cos, sin = (sf.expected(name, noisy)[0].as_py() for name in ("cos", "sin"))
    assert math.degrees(math.atan2(sin, cos)) == pytest.approx(-1.0)
    angles = np.degrees(np.arctan2(values_of(noisy, "sin"), values_of(noisy, "cos")))
    assert angles.std() == pytest.approx(3.0)


@st.composite
def tuples(draw):
    """Draw a list of (prob, value) with a total of at most 1; values may repeat."""
    weights = draw(st.lists(st.integers(1, 9), min_size=1, max_size=5))
    total = sum(weights) + draw(st.integers(0, 9))
    return [(w / total, draw(st.integers(0, 3))) for w in weights]


@examples(200)
@given(tuples(), st.sampled_from([0.0, 0.1, 0.3]), st.integers(1, 5), st.booleans())
def test_pruning_keeps_the_likeliest_and_states_the_rest(given_, least, top, normalize):
    rows = pa.table({"alternatives": lists(given_)})
    (row,) = sf.prune(rows, min_prob=least, top=top, normalize=normalize).to_pylist()
    likeliest = sorted(range(len(given_)), key=lambda i: -given_[i][0])[:top]
    kept = [i for i in range(len(given_)) if i in likeliest and given_[i][0] >= least]
    kept = kept or likeliest[:1]
    lost = sum(p for i, (p, _) in enumerate(given_) if i not in kept)
    assert row["pruned"] == pytest.approx(lost, abs=1e-15)
    assert [a["x"] for a in row["alternatives"]] == [given_[i][1] for i in kept]
    by = 1.0
    if normalize:
        by = sum(p for p, _ in given_) / sum(given_[i][0] for i in kept)
    for a, i in zip(row["alternatives"], kept, strict=True):
        assert a["prob"] == pytest.approx(given_[i][0] * by, abs=1e-15)


@examples(200)
@given(st.lists(st.none() | tuples(), min_size=1, max_size=3))
def test_fused_measurements_are_the_worlds_in_which_they_agree(measurements):
    names = list("abc"[: len(measurements)])
    table = pa.table(dict(zip(names, map(lists, measurements), strict=True)))
    (row,) = sf.fuse(table, names).to_pylist()
    known = [m for m in measurements if m is not None]
    if not known:
        assert row["alternatives"] is row["conflict"] is None
        return
    outcomes = [
        [*m, (max(0, 1 - sum(Fraction(p) for p, _ in m)), None)] for m in known
    ]  # absence is an outcome, too
    law = law_over(worlds(outcomes), lambda seen: seen[0] if len(set(seen)) == 1 else "conflict")
    agreed = 1 - law.pop("conflict", 0)
    assert row["conflict"] == pytest.approx(float(1 - agreed), abs=1e-12)
    expected = {
        x: pytest.approx(float(p / agreed)) for x, p in law_over(
            worlds(outcomes), lambda seen: seen[0] if len(set(seen)) == 1 else None
        ).items() if p
    }  # fmt: skip
    found = {a["x"]: a["prob"] for a in row["alternatives"] or []}
    assert len(found) == len(row["alternatives"] or [])
    assert found == expected


def test_measurements_in_total_conflict_are_invalid_rows():
    table = pa.table({"a": lists([(1, 1)], [(1, 1)]), "b": lists([(1, 2)], [(0.5, 1)])})
    fused = sf.fuse(table, ["a", "b"])
    assert fused["conflict"].to_pylist() == [1.0, 0.5]
    assert sf.split_invalid(fused)[1]["reason"].to_pylist() == ["no alternatives"]


def refusals():
    rows = pa.table({"alternatives": lists([(0.5, 1)]), "n": [1]})
    other = rows.append_column("b", sf.alternatives([[1.0]], [[1.0]], "y"))
    return [
        (lambda: sf.between([0.0], [1.0], 2, "normal"), ValueError, "`distribution` must be"),
        (lambda: sf.between([0.0], [1.0], 0), ValueError, "`n` must be an integer"),
        (lambda: sf.between([0.0], [1.0], 2, attribute=["x"]), TypeError, "`attribute` must be"),
        (lambda: sf.between(0.0, 1.0, 2), TypeError, "`low` or `high` must be a column"),
        (lambda: sf.below([0.0], 1.0, 10**9), ValueError, "`n` asks for up to"),
        (lambda: sf.above([0.0], 1.0, 2, "prob"), ValueError, "different names other than `prob`"),
        (lambda: sf.circular([0.0], 1.0, 2, 0.0), ValueError, "`period` must be a positive"),
        (lambda: sf.circular([0.0], 1.0, 2, attributes="x"), ValueError, "must be two names"),
        (lambda: sf.below([0.0], None, 4), TypeError,
         r"^`scale` must be a number or a column; got None$"),
        (lambda: sf.above(None, 1.0, 4), TypeError, r"^`limit` must be a column; got None$"),
        (lambda: sf.circular(None, 1.0, 4), TypeError, r"^`angle` must be a column; got None$"),
        (lambda: sf.between(None, [1.0], 4), TypeError, "`low` must be a number or a column; got"),
        (lambda: sf.below([0.0], [1.0, 2.0], 4), ValueError, "`limit` and `scale` must have the"),
        (lambda: sf.prune(rows), ValueError, "`min_prob` or `top` must be given"),
        (lambda: sf.prune(rows, top=0), ValueError, "`top` must be an integer"),
        (lambda: sf.prune(rows, min_prob=2), ValueError, r"`min_prob` must be a probability in"),
        (lambda: sf.prune(rows, top=1, normalize=1), TypeError, "must be True or False"),
        (lambda: sf.prune(rows.select(["n"]), top=1), ValueError, "must have the column"),
        (lambda: sf.prune(sf.prune(rows, top=1), top=1), ValueError, "a column `pruned`"),
        (lambda: sf.fuse(rows, []), ValueError, "at least one column"),
        (lambda: sf.fuse(rows, ["alternatives", "n"]), TypeError, "`n` has a different type"),
        (lambda: sf.fuse(rows, "m"), ValueError, "names a column `m`"),
        (lambda: sf.fuse(other, ["alternatives", "b"]), TypeError, "has x: int64 and `b` has y"),
        (lambda: sf.fuse(rows.append_column("c", rows["alternatives"]), "c"), ValueError,
         "already has a column `alternatives`"),
    ]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), refusals())
def test_wrong_calls_say_what_to_write(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_name_without_a_spark_session_is_refused(monkeypatch):
    def no_session(_):
        raise AssertionError

    monkeypatch.setattr("pyspark.sql.functions.lit", no_session)
    for call in (lambda: sf.alternatives("values"), lambda: sf.between("low", "high", 3)):
        with pytest.raises(ValueError, match="there is no Spark session: start one, or give"):
            call()
