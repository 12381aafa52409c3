"""The distribution of a count against possible worlds, scipy and the approximations' formulas."""

import math
from fractions import Fraction
from itertools import accumulate
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.operators.distributions.poisson_binomial import COUNT_METHODS, PoissonBinomial

PROBABILITIES = st.sampled_from([0.0, 1.0, 0.5, 0.1, 1e-12, 1e-200]) | st.floats(0.0, 1.0)
APPROXIMATE = [method for method in COUNT_METHODS if method != "exact"]


def exact_law(probabilities):
    """Return Pr(N = k) for all k in exact rationals, adding one tuple at a time."""
    law = [Fraction(1)]
    for p in map(Fraction, probabilities):
        law = [
            (1 - p) * (law[k] if k < len(law) else 0) + p * (law[k - 1] if k else 0)
            for k in range(len(law) + 1)
        ]
    return law


def close(got, exact, relative):
    # Below 1e-290, relative error is not guaranteed.
    return abs(Fraction(float(got)) - exact) <= relative * exact + Fraction(1, 10**290)


@given(st.lists(PROBABILITIES, max_size=12))
def test_pmf_cdf_and_sf_keep_their_digits_everywhere(p):
    law, exact = PoissonBinomial(p), exact_law(p)
    assert law.pmf().shape == (len(p) + 1,)
    for k in range(len(p) + 1):
        assert close(law.pmf()[k], exact[k], 1e-14)
        assert close(PoissonBinomial(p).cdf(k), sum(exact[: k + 1]), 1e-14)
        assert close(PoissonBinomial(p).sf(k), sum(exact[k + 1 :]), 1e-14)


@pytest.mark.parametrize("probability", [1 / 128, 0.5, 1023 / 1024])
def test_far_tails_of_a_long_sum_keep_their_digits(probability):
    n, p = 400, Fraction(probability)
    below = list(accumulate(comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)))
    single, together = PoissonBinomial([probability] * n), PoissonBinomial([probability] * n)
    many_above, many_below = together.sf(np.arange(n)), together.cdf(np.arange(n))
    for k in range(0, n, 7):
        for law_below, law_above in (
            (many_below[k], many_above[k]),
            (single.cdf(k), single.sf(k)),
        ):
            assert close(law_below, below[k], 1e-12)
            assert close(law_above, 1 - below[k], 1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 31, 32, 33, 100, 1000])
def test_the_law_agrees_with_scipy(n):
    stats = pytest.importorskip("scipy.stats")
    if not hasattr(stats, "poisson_binom"):
        pytest.skip("scipy.stats.poisson_binom came with scipy 1.15")
    p, k = np.random.default_rng(n).random(n), np.arange(-2, n + 3)
    law = PoissonBinomial(p)
    np.testing.assert_allclose(law.cdf(k), stats.poisson_binom.cdf(k, p), rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        law.pmf(), stats.poisson_binom.pmf(np.arange(n + 1), p), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("method", COUNT_METHODS)
@given(p=st.lists(PROBABILITIES, max_size=20))
def test_a_count_never_leaves_what_is_possible(method, p):
    law = PoissonBinomial(p, method)
    least, most = (0, len(p)) if method != "exact" else (p.count(1.0), sum(x > 0 for x in p))
    for k in (-math.inf, -7, -0.5, least - 1):
        assert (law.cdf(k), law.sf(k)) == (0.0, 1.0)
    for k in (most, most + 0.5, len(p), len(p) + 9, math.inf):
        assert (law.cdf(k), law.sf(k)) == (1.0, 0.0)
    pmf = law.pmf()
    assert pmf.shape == (len(p) + 1,)
    assert abs(pmf.sum() - 1) < 1e-13
    assert not pmf[:least].any()
    assert not pmf[most + 1 :].any()


def test_k_takes_any_shape_and_fractions_round_down():
    law = PoissonBinomial([0.5, 0.5])
    assert law.cdf([[0, 1], [2, -1]]).tolist() == [[0.25, 0.75], [1.0, 0.0]]
    assert law.sf(np.array([0.9, 1.0], dtype=np.float32)).tolist() == [0.75, 0.25]
    assert law.cdf(np.uint8(1)) == 0.75
    assert isinstance(law.cdf(np.int64(1)), float)
    assert law.cdf([]).shape == (0,)
    assert PoissonBinomial([]).pmf().tolist() == [1.0]


def test_answers_do_not_depend_on_earlier_questions():
    p = np.random.default_rng(1).random(300)
    law = PoissonBinomial(p)
    narrow = law.cdf(150)
    assert law.sf(295) < 1e-50
    assert law.cdf(150) == pytest.approx(narrow, rel=1e-14, abs=0)
    law.pmf()[:] = 7.0
    assert law.pmf().sum() == pytest.approx(1.0)


def test_the_input_is_neither_changed_nor_kept():
    p = np.array([0.5, 0.5, 1.0 + 1e-10])
    law, copy = PoissonBinomial(p), p.copy()
    np.testing.assert_array_equal(p, copy)
    p[:] = 0.0
    assert law.pmf().tolist() == [0.0, 0.25, 0.5, 0.25]
    kept = np.array([0.5])
    law = PoissonBinomial(kept)
    kept[0] = 0.0
    assert law.cdf(0) == 0.5


def poisson_cdf(k, p):
    mu = sum(map(Fraction, p))
    series = sum(mu**i / math.factorial(i) for i in range(k + 1))  # starts at i = 0, not 1
    return math.exp(-float(mu)) * float(series)


def normal_cdf(k, p, refined):
    mu, variance = math.fsum(p), math.fsum(x * (1 - x) for x in p)
    gamma = math.fsum(x * (1 - x) * (1 - 2 * x) for x in p) / variance**1.5
    x = (k + 0.5 - mu) / math.sqrt(variance)
    value = 0.5 * (1 + math.erf(x / math.sqrt(2)))
    if refined:
        density = math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        value += gamma * (1 - x * x) * density / 6
    return min(max(value, 0.0), 1.0)


@pytest.mark.parametrize("n", [3, 30, 90])
def test_approximations_follow_the_papers_formulas(n):
    p = np.random.default_rng(n).uniform(0.01, 0.99, n).tolist()
    expected = {
        "poisson": lambda k: poisson_cdf(k, p),
        "normal": lambda k: normal_cdf(k, p, refined=False),
        "refined_normal": lambda k: normal_cdf(k, p, refined=True),
    }
    for method in APPROXIMATE:
        law = PoissonBinomial(p, method)
        for k in range(n):  # the cdf is 1 for k >= n
            assert law.cdf(k) == pytest.approx(expected[method](k), rel=1e-9, abs=1e-13)
            assert law.sf(k) == pytest.approx(1 - expected[method](k), rel=1e-9, abs=1e-13)
        np.testing.assert_array_equal(law.pmf(), np.diff(law.cdf(np.arange(n + 1)), prepend=0.0))


@pytest.mark.parametrize("method", ["normal", "refined_normal"])
def test_certain_tuples_alone_cause_no_division_by_zero(method):
    law = PoissonBinomial([1.0, 0.0, 1.0], method)
    assert law.pmf().tolist() == [0.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize("method", COUNT_METHODS)
@pytest.mark.parametrize("tiny", [1e-12, 1e-150, 1e-300, 5e-324])
def test_tiny_existences_leave_no_nan(method, tiny):
    law = PoissonBinomial([tiny, 1.0, tiny], method)
    assert np.isfinite(law.pmf()).all()
    assert np.isfinite(law.sf(np.arange(4))).all()


@pytest.mark.parametrize(
    ("p", "words"),
    [
        ([0.5, math.nan], r"`p`.*nan at index 1"),
        ([-0.1], r"`p`.*-0.1 at index 0"),
        ([0.2, 1.1], r"`p`.*1.1 at index 1"),
        ([math.inf], r"`p`.*inf"),
        ([[0.5]], "one dimension; got 2"),
        (0.5, "one dimension; got 0"),
        (["much"], "array of numbers"),
    ],
)
def test_values_that_are_not_probabilities_are_refused(p, words):
    with pytest.raises(ValueError, match=words):
        PoissonBinomial(p)


def test_other_bad_arguments_are_refused():
    with pytest.raises(ValueError, match=r"`method`.*rf2"):
        PoissonBinomial([0.5], "rf2")
    with pytest.raises(ValueError, match=r"`k`.*NaN"):
        PoissonBinomial([0.5]).cdf([0.0, math.nan])
