"""The lemma by which the Grid of Lian and Chen prunes by samples."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from experiments.uncertain_joins.wop_and_grid import sample_level_prunes
from seeds import examples
from sfumato.kernels.tolerances import SIFT_SLACK


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
@given(st.integers(0, 10**6), st.integers(1, 3), st.floats(0.01, 1.0), st.sampled_from([0.5, 2.0]))
def test_the_sample_level_lemma_never_prunes_an_answer(seed, d, probability, within):
    lists = random_tuples(seed, d, 8)
    summaries = []
    for p, x in lists:
        centre = np.average(x, axis=0, weights=p)
        radius = np.sqrt(((x - centre) ** 2).sum(axis=1))
        order = np.argsort(radius, kind="stable")
        summaries.append((centre, radius[order], np.cumsum(p[order])))
    for x in range(6):
        for y in range(6, 12):
            (a, *ball), (b, *other) = summaries[x], summaries[y]
            distance = float(np.sqrt(((a - b) ** 2).sum()))
            least = probability * (1 - SIFT_SLACK)
            if sample_level_prunes(distance, *ball, *other, within, least):
                assert pr_match(lists[x], lists[y], within) < probability


def test_the_sample_level_lemma_needs_no_more_than_one_far_sample_left_out():
    # X has 9/10 at its centre and 1/10 at distance 10; Y is the same, 12 away; the limit is 3.
    # Full balls touch. Without the tenths they are 12 apart, and at most 1 - 0.81 = 0.19 is left.
    radius, mass = np.array([0.0, 10.0]), np.array([0.9, 1.0])
    assert sample_level_prunes(12.0, radius, mass, radius, mass, 3.0, 0.2)
    assert not sample_level_prunes(12.0, radius, mass, radius, mass, 3.0, 0.18)
    assert not sample_level_prunes(2.0, radius, mass, radius, mass, 3.0, 0.99)
