"""An incomplete join gives the same answers as imputing everything and joining by nested loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seeds import examples
from sfumato.operators.imputation.imputer import IMPUTATION_REASONS, Imputer
from sfumato.operators.joins.incomplete_join import IncompleteArrivals, IncompleteJoin
from sfumato.operators.joins.similarity_join import ArrivalBatch, SimilarityJoin
from sfumato.operators.state.snapshot import SnapshotError
from sfumato.windows import JoinWindow

NAMES = "abcdefghij"


def incomplete_join(imputer, within, probability, rows, **options):
    """Return the join with one row window for both streams."""
    return IncompleteJoin(imputer, within, probability, JoinWindow(rows), **options)


def imputer_for(rng, d, **options):
    n = int(rng.integers(20, 300))
    rows = np.round((rng.random((n, 1)) + rng.random((n, d))) / 2, 2)
    dependencies = [
        f"a -> {NAMES[d - 1]} : 0.05 -> 0.1",
        f"b -> a : {rng.choice([0, 0.02, 0.3])} -> 0.1",
        "a -> b : 0.1 -> 0.1",
    ]
    if d > 2:
        dependencies.append(f"a, b -> {NAMES[d - 1]} : 0.1, 0.1 -> 0.1")
    options = {"max_alternatives": 40, "method": "plain", **options}
    return Imputer(rows, dependencies, names=NAMES[:d], **options), rows


def arrivals_for(rng, rows, n, keys=1, missing=None):
    """Return objects near repository rows, with `missing` gaps each or, if None, random gaps."""
    values = rows[rng.integers(0, len(rows), n)] + rng.integers(-1, 2, (n, rows.shape[1])) / 100
    if missing is None:
        values[rng.random(values.shape) < 0.25] = np.nan
    else:
        order = rng.random(values.shape).argsort(axis=1)
        values[order < min(missing, rows.shape[1])] = np.nan
    if n > 5:
        values[3] = np.nan
        values[5, 0] = np.inf
    return IncompleteArrivals(
        rng.integers(0, 2, n).astype(np.uint8), rng.integers(0, keys, n), values
    )


def imputed_then_joined(imputer, arrivals, within, probability, rows, output, units=1.0):
    """Impute every object and join by nested loops; return the answers and the imputation."""
    done = imputer.impute(arrivals.values)
    join = SimilarityJoin(
        done.values.shape[1],
        within,
        probability,
        JoinWindow(rows),
        strategy="nested",
        output=output,
    )
    given = ArrivalBatch(arrivals.side, arrivals.key, done.offsets, done.prob, done.values / units)
    return join.process(given), done


def same(one, other, alternatives=True):
    for name in ("arrival", "change", "left", "right"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_allclose(one.probability, other.probability, rtol=0, atol=1e-12)
    if alternatives:
        for name in ("offsets", "left_sample", "right_sample"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        np.testing.assert_allclose(one.prob, other.prob, rtol=0, atol=1e-12)


@given(st.data())
@examples(150)
def test_fused_equals_imputed_then_joined(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    d = data.draw(st.integers(2, 10))
    imputer, rows = imputer_for(
        rng,
        d,
        joint=data.draw(st.booleans()),
        fallback=data.draw(st.sampled_from(["marginal", "reject"])),
        method=data.draw(st.sampled_from(["plain", "plain", "calibrated"])),
    )
    within = data.draw(st.sampled_from([0.01, 0.05, 0.1, 0.3, 1.0]))
    probability = data.draw(st.sampled_from([0.001, 0.2, 0.5, 0.9, 1.0]))
    window = data.draw(st.integers(1, 12))
    output = data.draw(st.sampled_from(["append", "changes"]))
    alternatives = data.draw(st.booleans())
    missing = data.draw(st.sampled_from([None, 0, 1, 1, 2, 3]))
    arrivals = arrivals_for(rng, rows, 40, keys=data.draw(st.integers(1, 3)), missing=missing)
    units = rng.uniform(0.1, 0.6, d) if data.draw(st.booleans()) else None
    about = within, probability, window, output
    expected, done = imputed_then_joined(imputer, arrivals, *about, 1.0 if units is None else units)
    join = incomplete_join(
        imputer, within, probability, window, output=output, alternatives=alternatives,
        units=() if units is None else units.tolist(),
    )  # fmt: skip
    answers, reason = join.process(arrivals)
    same(answers, expected, alternatives)
    np.testing.assert_array_equal(reason, done.reason)
    counters = join.counters
    assert counters["objects"] == 40
    assert sum(counters[name] for name in IMPUTATION_REASONS) == 40
    assert counters["refined"] + counters["certain"] <= counters["candidates"] <= counters["pairs"]


@given(st.data())
@examples(12)
def test_objects_of_hundreds_of_alternatives_are_joined_as_by_nested_loops(data):
    """There are more samples than are compared singly or fit side by side, with any mix of gaps."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    d = data.draw(st.integers(2, 4))
    rows = rng.random((400, 1)) * 0.5 + rng.random((400, d)) * 0.5
    if data.draw(st.booleans()):
        rows = np.round(rows, 3)  # ties, and distances of exactly `within`
    dependencies = [f"{NAMES[(t + 1) % d]} -> {NAMES[t]} : {rng.choice([0.01, 0.3])} -> 1"
                    for t in range(d)]  # fmt: skip
    imputer = Imputer(rows, dependencies, names=NAMES[:d], max_alternatives=700, method="plain")
    given = arrivals_for(rng, rows, 24, missing=1)
    given.values[rng.random(24) < 0.2] = rows[:1]
    given.values[8, :2] = np.nan
    within, probability = float(rng.choice([0.05, 0.1, 0.3])), float(rng.choice([0.01, 0.3, 0.7]))
    expected, done = imputed_then_joined(imputer, given, within, probability, 9, "append")
    assert np.diff(done.offsets).max() > 128
    answers, _ = incomplete_join(imputer, within, probability, 9).process(given)
    same(answers, expected, False)


def test_objects_out_of_reach_and_sure_matches_are_decided_by_their_boxes():
    rng = np.random.default_rng(0)
    rows = rng.random((500, 3))
    imputer = Imputer(rows, ["a, b -> c : 0.2, 0.2 -> 1"], names="abc", method="plain")
    far = IncompleteArrivals(
        np.array([0, 1], np.uint8), np.zeros(2, np.int64),
        np.array([[0.1, 0.1, np.nan], [0.9, 0.9, np.nan]]),
    )  # fmt: skip
    join = incomplete_join(imputer, 0.5, 0.5, 10)
    answers, _ = join.process(far)
    assert len(answers) == 0
    assert (join.counters["candidates"], join.counters["refined"]) == (0, 0)
    join = incomplete_join(imputer, 5.0, 0.5, 10)
    answers, _ = join.process(far)
    assert answers.probability.tolist() == [1.0]
    assert (join.counters["refined"], join.counters["certain"]) == (0, 1)
    join = incomplete_join(imputer, 5.0, 0.5, 10, alternatives=True)
    answers, _ = join.process(far)
    assert join.counters["refined"] == 1
    assert answers.prob.sum() == pytest.approx(1.0)


def test_a_window_that_fills_and_turns_over_in_one_call_keeps_its_newest():
    rng = np.random.default_rng(3)
    imputer, rows = imputer_for(rng, 3)
    arrivals = arrivals_for(rng, rows, 600)
    expected, _ = imputed_then_joined(imputer, arrivals, 0.05, 0.2, 5, "changes")
    answers, _ = incomplete_join(imputer, 0.05, 0.2, 5, output="changes").process(arrivals)
    same(answers, expected, False)


def test_wrong_arguments_are_named():
    imputer = Imputer({"a": [0.0, 1.0], "b": [0.0, 1.0]}, [])
    for change, message in [
        ({"within": 0.0}, "`within` must be"),
        ({"probability": 0.0}, "`probability` must be"),
        ({"rows": 0}, "`rows` must be"),
        ({"output": "all"}, "`output` must be"),
    ]:
        with pytest.raises(ValueError, match=message):
            incomplete_join(
                **{"imputer": imputer, "within": 1.0, "probability": 0.5, "rows": 3, **change}
            )
    join = incomplete_join(imputer, 1.0, 0.5, 3)
    other = Imputer({"a": [0.0, 2.0], "b": [0.0, 1.0]}, [])
    with pytest.raises(SnapshotError, match="a different repository"):
        IncompleteJoin.restore(join.snapshot(), imputer=other)


def test_units_are_one_for_each_attribute():
    imputer, _ = imputer_for(np.random.default_rng(0), 3)
    with pytest.raises(ValueError, match="`units` must have"):
        incomplete_join(imputer, 1.0, 0.5, 3, units=[1.0])


def test_imputed_objects_that_are_surely_near_match_with_probability_one():
    rng = np.random.default_rng(5)
    for joint in (False, True):
        for method in ("plain", "calibrated"):
            imputer, rows = imputer_for(rng, 3, joint=joint, method=method, max_alternatives=None)
            arrivals = arrivals_for(rng, rows, 40, missing=1)
            for alternatives in (False, True):
                join = incomplete_join(imputer, 50.0, 1.0, 9, alternatives=alternatives)
                surely, _ = join.process(arrivals)
                almost, _ = incomplete_join(imputer, 50.0, 0.999, 9).process(arrivals)
                assert len(surely) == len(almost) > 50
                assert surely.probability.tolist() == [1.0] * len(surely)
