"""Experiments of Dallachiesa et al.: parts against oracles, verdicts on made-up numbers."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.catalogue import experiments
from experiments.continuation import continued
from experiments.experiment import Setting
from experiments.repeats import interval, seconds
from experiments.uncertain_windows import (
    count_laws,
    join_accuracy,
    join_speed,
    plain_count_laws,
    tuples_held,
)
from experiments.uncertain_windows.approximate_laws import window_starts
from experiments.uncertain_windows.perturbed_streams import (
    distance_of_selectivity,
    subsequences,
    uncertain_pair,
)
from experiments.uncertain_windows.plain_joins import IndexMatchJoin, PlainNestedJoin
from sfumato.operators.distributions.poisson_binomial import PoissonBinomial
from sfumato.operators.joins.similarity_join import ArrivalBatch, SimilarityJoin
from sfumato.windows import Rows

probabilities = st.lists(st.floats(0.01, 1.0), min_size=1, max_size=12).map(np.array)


def pair(seed: int, n: int = 60, samples: int = 4):
    rng = np.random.default_rng(seed)
    return uncertain_pair(rng, np.cumsum(rng.normal(0, 0.3, (5, 50)), axis=1), samples, n)


# --- parts ---------------------------------------------------------------------------------------


@given(probabilities, st.integers(0, 12))
def test_the_plain_recursion_is_the_law_of_the_count(p, k):
    assert plain_count_laws.rf1(p, k) == pytest.approx(PoissonBinomial(p).cdf(k), abs=1e-12)


@given(st.integers(0, 60), st.floats(0.5, 40))
def test_poisson_in_doubles_is_poisson_until_it_overflows(k, mu):
    law, term = 0.0, np.exp(-mu)
    for i in range(k + 1):
        law += term
        term *= mu / (i + 1)
    assert plain_count_laws.poisson_in_doubles(k, mu) == pytest.approx(law, rel=1e-9)
    assert np.isnan(plain_count_laws.poisson_in_doubles(400, 300.0))


@given(probabilities, st.integers(1, 5))
def test_windows_decided_by_poisson_in_doubles_are_those_of_the_library(p, w):
    starts = plain_count_laws.starts_in_doubles(p, w, 0.6)
    expected = window_starts(p, w, 0.6, None, "poisson")
    np.testing.assert_array_equal(starts, expected)


def test_subsequences_keep_neighbours_together():
    series = np.arange(400.0).reshape(4, 100)
    stream = subsequences(np.random.default_rng(1), series, 1_000)
    assert stream.size == 1_000
    assert (np.diff(stream) == 1).mean() > 0.97
    assert set(stream // 100) == {0, 1, 2, 3}


def test_within_the_distance_of_a_selectivity_that_share_of_pairs_match():
    arrivals = pair(1, n=300)
    rng = np.random.default_rng(2)
    within = distance_of_selectivity(rng, arrivals, 0.5, selectivity=0.02, pairs=50_000)
    values = arrivals.points.reshape(600, 4)
    weight = arrivals.prob.reshape(600, 4)[:, 0]
    near = np.abs(values[0::2, None, :, None] - values[None, 1::2, None, :]) <= within
    match = near.sum(axis=(2, 3)) * weight[0::2, None] * weight[None, 1::2]
    assert (match >= 0.5).mean() == pytest.approx(0.02, abs=0.004)


@pytest.mark.parametrize("kind", [PlainNestedJoin, IndexMatchJoin])
@pytest.mark.parametrize(("samples", "rows", "within"), [(4, 20, 0.6), (30, 60, 0.3)])
def test_the_papers_joins_give_the_answers_of_the_library(kind, samples, rows, within):
    arrivals = pair(3, n=200 if rows > 20 else 60, samples=samples)
    options = {"within": within, "probability": 0.3, "windows": Rows(rows, 0.9)}
    ours, theirs = SimilarityJoin(1, **options), kind(1, **options)
    expected, got = ours.process(arrivals), theirs.process(arrivals)
    assert len(expected) > 20
    for name in ("arrival", "left", "right"):
        np.testing.assert_array_equal(getattr(got, name), getattr(expected, name))
    np.testing.assert_allclose(got.probability, expected.probability, rtol=1e-12)
    if kind is IndexMatchJoin:
        assert theirs.counters["candidates"] < theirs.counters["pairs"]


def test_index_match_rules_out_tuples_whose_regions_overlap():
    # Each tuple's nine equal samples are far from the other's; its tenth is close to them.
    values = np.array([[0.0] * 9 + [10.0], [10.0] * 9 + [0.0]])
    arrivals = ArrivalBatch(
        side=np.array([0, 1], np.uint8),
        key=np.zeros(2, np.int64),
        offsets=np.array([0, 10, 20]),
        prob=np.full(20, 0.1),
        points=values.reshape(-1, 1),
    )
    options = {"within": 1.0, "windows": Rows(5, 0.9)}
    candidates = []
    for probability in (0.1, 0.5):
        join = IndexMatchJoin(1, probability=probability, **options)
        join.process(arrivals)
        candidates.append(join.counters["candidates"])
    assert candidates == [1, 0]  # Pr(match) is 2 * 0.9 * 0.1 = 0.18, at most 1 - 0.8 * 0.8


def test_a_join_continued_by_another_strategy_goes_on_where_the_first_stood():
    arrivals = pair(4)
    whole = SimilarityJoin(1, 0.6, 0.3, Rows(20, 0.9))
    expected = whole.process(arrivals)
    first = SimilarityJoin(1, 0.6, 0.3, Rows(20, 0.9))
    before = first.process(arrivals.part(0, 70))
    for kind, strategy in join_speed.WAYS.values():
        after = continued(first, kind, strategy=strategy).process(arrivals.part(70, 120))
        np.testing.assert_array_equal(np.append(before.left, after.left), expected.left)
        np.testing.assert_array_equal(np.append(before.right, after.right), expected.right)


def test_the_exact_answers_of_the_accuracy_experiment_are_those_of_the_join():
    arrivals = pair(5, n=80)
    existence = np.add.reduceat(arrivals.prob, arrivals.offsets[:-1])
    pairs = join_accuracy.candidates(arrivals, 0.6)
    exact = join_accuracy.answers(
        pairs, [existence[0::2].copy(), existence[1::2].copy()], 10, "exact"
    )
    join = SimilarityJoin(1, 0.6, join_accuracy.PROBABILITY, Rows(10, join_accuracy.CONFIDENCE))
    expected = join.process(arrivals)
    found = exact >= join_accuracy.PROBABILITY
    assert len(expected) > 5
    np.testing.assert_array_equal(pairs.arrival[found], expected.arrival)
    np.testing.assert_allclose(exact[found], expected.probability, rtol=1e-9)


def test_quality_weighs_answers_by_their_distance_and_counts_false_ones():
    arrival = np.array([0, 0, 1, 2])
    pairs = join_accuracy.Candidates(arrival, arrival, arrival, arrival, np.ones(4))
    exact = np.array([0.9, 0.6, 0.8, 0.1])
    approximate = np.array([0.8, np.nan, 0.8, 0.7])
    got = join_accuracy.quality(pairs, exact, approximate)
    assert got.precision == pytest.approx((0.9 + 1.0 + 0.0) / 3)  # arrivals 0, 1 and 2
    assert got.recall == pytest.approx((0.45 + 1.0) / 2)  # arrivals 0 and 1
    nothing = join_accuracy.quality(pairs, exact, np.full(4, np.nan))
    assert np.isnan(nothing.precision)
    assert (nothing.recall, nothing.f1) == (0.0, 0.0)


def test_an_interval_is_named_like_what_it_is_of():
    assert interval([1.0, 3.0, float("nan")]) == {
        "mean": 2.0,
        "low": pytest.approx(0.04),
        "high": pytest.approx(3.96),
    }
    assert list(interval([1.0], "cdf_seconds")) == ["cdf_seconds", "low_seconds", "high_seconds"]
    assert seconds(lambda: None, tries=3) >= 0


# --- whole experiments ---------------------------------------------------------------------------


def test_windows_of_the_paper_are_as_long_as_it_says():
    verdict = experiments()["A12"].judge(tuples_held.held_by_policy(Setting(quick=True)))
    assert verdict.status == "reproduced", verdict.because


def test_overlap_counts_near_samples_and_near_regions():
    points = np.array([[0.0, 1.0], [3.0, 4.0], [10.0, 11.0], [1.5, 20.0]]).reshape(-1, 1)
    arrivals = ArrivalBatch(
        side=np.array([0, 1, 0, 1], np.uint8),
        key=np.zeros(4, np.int64),
        offsets=np.arange(5) * 2,
        prob=np.full(8, 0.5),
        points=points,
    )
    near, overlapping = join_speed.overlap(arrivals, 1.0)
    assert near == 1 / 16  # 1.0 and 1.5; four pairs of tuples with four pairs of samples each
    assert overlapping == 2 / 4  # both left tuples' regions reach 1.5 to 20


# --- verdicts ------------------------------------------------------------------------------------


def errors(refined: float, normal: float) -> pd.DataFrame:
    rows = []
    for n in (50, 100, 1_000):
        for law, rmse in (("refined normal", refined), ("normal", normal), ("Poisson", 0.1)):
            rows.append({"n": n, "law": law, "rmse": rmse * (2 if n < 100 else 1)})
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("refined", "normal", "status"),
    [(0.001, 0.004, "reproduced"), (0.004, 0.01, "refuted"), (0.0015, 0.001, "differs")],
)
def test_a_claim_on_errors_is_judged_by_its_bound(refined, normal, status):
    assert count_laws.judge_errors(errors(refined, normal)).status == status


@pytest.mark.parametrize(
    ("little", "much", "status"),
    [(6.1, 83.0, "reproduced"), (12.0, 83.0, "differs"), (83.0, 6.0, "refuted")],
)
def test_a_claim_on_overheads_is_judged_by_both_numbers(little, much, status):
    rows = [
        {"sd": sd, "rows": w, "held": w * (1 + overhead / 100)}
        for sd, overhead in ((0.025, little), (0.25, much))
        for w in (100, 1_000)
    ]
    assert tuples_held.judge_held(pd.DataFrame(rows)).status == status


def joins(nested: float, index: float, sort: float) -> pd.DataFrame:
    spent = {
        join_speed.NESTED: nested,
        join_speed.INDEX: index,
        join_speed.SORT: sort,
        join_speed.WIDE: 1e-6,
        join_speed.OURS: 1e-6,
    }
    return pd.DataFrame(
        [
            {"rows": w, "way": way, "tuple_seconds": s, "near": 0.2, "overlapping": 0.9}
            for w in (100, 200)
            for way, s in spent.items()
        ]
    )


@pytest.mark.parametrize(
    ("times", "status"),
    [
        ((5e-5, 4e-5, 3e-5), "reproduced"),
        ((5e-5, 3e-5, 4e-5), "refuted"),
        ((3e-5, 5e-5, 4e-5), "differs"),
    ],
)
def test_a_claim_on_an_order_is_judged_by_the_order(times, status):
    assert join_speed.judge_windows(joins(*times)).status == status
