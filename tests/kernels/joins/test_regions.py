"""Pruning by regions never loses an answer at any threshold, and it prunes some pairs."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from seeds import examples
from sfumato.kernels.distributions.tuples import existences
from sfumato.kernels.joins.regions import cannot_match, summarise, summary_columns
from sfumato.kernels.joins.tuple_store import tuples_without_windows
from sfumato.kernels.tolerances import SIFT_SLACK


def tuples_of(lists, d):
    """Return tuples in slots 0, 1, ... from lists of (probabilities, points)."""
    offsets = np.concatenate([[0], np.cumsum([len(p) for p, _ in lists])]).astype(np.int64)
    prob = np.concatenate([p for p, _ in lists])
    points = np.concatenate([x for _, x in lists]).reshape(-1, d)
    return tuples_without_windows(
        offsets, prob, points, existences(offsets, prob), summary_columns(d)
    )


def pr_match(one, other, within):
    return sum(
        p * q
        for p, x in zip(*one, strict=True)
        for q, y in zip(*other, strict=True)
        if math.dist(x, y) <= within
    )


def random_tuples(seed, d, most):
    rng = np.random.default_rng(seed)
    lists = []
    for _ in range(12):
        count = int(rng.integers(1, most + 1))
        weight = rng.dirichlet(np.full(count, rng.choice([0.2, 5.0]))) + 1e-9
        centre = rng.uniform(0, 6, d)
        points = np.round(centre + rng.normal(0, rng.uniform(0.1, 2), (count, d)), 1)
        lists.append((weight / weight.sum() * rng.uniform(0.3, 1), points))
    return lists


@examples(60)
@given(
    st.integers(0, 10**6),
    st.integers(1, 3),
    st.sampled_from([4, 32, 60]),
    st.floats(0.01, 1.0),
    st.sampled_from([0.5, 1.5, 4.0]),
)
def test_a_pruned_pair_is_below_the_threshold(seed, d, most, probability, within):
    lists = random_tuples(seed, d, most)
    tuples = tuples_of(lists, d)
    summarise(tuples, np.arange(len(lists)), d, probability * (1 - SIFT_SLACK))
    for x in range(6):
        for y in range(6, 12):
            cut = cannot_match(tuples.summary, x, y, d, within)
            assert cut == cannot_match(tuples.summary, y, x, d, within)
            if cut:
                assert pr_match(lists[x], lists[y], within) < probability


def test_far_samples_of_little_mass_do_not_keep_a_pair():
    # One sample in ten is 50 off, towards the other tuple: regions with all the mass would overlap.
    near = np.array([[0.0]] * 9 + [[50.0]])
    far = np.array([[60.0]] * 9 + [[10.0]])
    share = np.full(10, 0.1)
    for probability, cut in ((0.5, True), (0.05, False)):
        tuples = tuples_of([(share, near), (share, far)], 1)
        summarise(tuples, np.arange(2), 1, probability * (1 - SIFT_SLACK))
        assert cannot_match(tuples.summary, 0, 1, 1, 15.0) == cut


def test_three_thirds_are_a_certain_tuple():
    offsets = np.array([0, 3, 4, 6, 6])
    prob = np.array([1 / 3, 1 / 3, 1 / 3, 1 - 2**-53, 0.5, 0.5 - 1e-12])
    assert existences(offsets, prob).tolist() == [1.0, 1 - 2**-53, 1 - 1e-12, 0.0]
