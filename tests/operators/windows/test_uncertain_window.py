"""Uncertain count windows against Algorithms 1 and 2 by the plain recursion.

Three oracles share no code with the window: its *definition* over all possible worlds in rationals
(tiny streams, exact ties); the *algorithms* by the float64 recursion in arrival order (thousands of
streams, several turns of the queue); single tests of windows of 5,000.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seeds import examples, seeds
from sfumato.operators.distributions.poisson_binomial import PoissonBinomial
from sfumato.operators.windows.uncertain_window import UncertainWindow
from worlds import at_least

CONFIDENCES = [0.5, 0.75, 0.8, 0.9, 0.95, 0.999, 1.0]
BETAS = [None, None, 0.05, 0.5, 0.9, 1.0]


def starts_by_definition(existence, rows, target):
    """Return the latest starts with Pr(N >= rows) >= target (and > 0), or the first tuple."""
    starts = []
    for i in range(len(existence)):
        entered = [j for j in range(i + 1) if existence[j] > 0]
        start = entered[0] if entered else i + 1
        for j in entered:
            tail = at_least([existence[k] for k in entered if k >= j], rows)
            if tail >= target and tail > 0:
                start = j
        starts.append(start)
    return starts


def starts_by_recursion(existence, rows, target, max_tuples=None):
    """Run Algorithm 1 with every suffix's distribution by RF1 in arrival order, in float64.

    Return (starts, overflow). laws[s, k] = Pr(exactly k < rows tuples after the s-th held one
    exist), tails[s] = Pr(rows or more exist).
    """
    held, at = np.zeros(0), []
    laws, tails = np.zeros((0, rows)), np.zeros(0)
    starts, overflow = [], 0
    for i, p in enumerate(existence):
        if p > 0:
            tails = tails + p * laws[:, -1]
            moved = np.zeros_like(laws)
            moved[:, 1:] = laws[:, :-1]
            laws = np.vstack([laws * (1 - p) + moved * p, np.eye(1, rows)])
            tails, held = np.append(tails, 0.0), np.append(held, p)
            at.append(i)
        if target == 1.0:
            newer = np.append(np.cumsum((held == 1.0)[::-1])[::-1][1:], 0)
            may_go = newer >= rows
        elif target == 0.0:
            may_go = np.arange(len(at))[::-1] >= rows
        elif target < 0.5:
            may_go = tails >= target
        else:
            may_go = 1.0 - np.add.accumulate(laws, axis=1)[:, -1] >= target
        gone = 0
        while gone < len(at) and may_go[gone]:
            gone += 1
        if max_tuples is not None and len(at) - gone > max_tuples:
            overflow += len(at) - gone - max_tuples
            gone = len(at) - max_tuples
        held, laws, tails, at = held[gone:], laws[gone:], tails[gone:], at[gone:]
        starts.append(at[0] if at else i + 1)
    return starts, overflow


def target_of(confidence, beta):
    return confidence if beta is None else min(confidence, 1 - beta)


def random_existence(rng, n):
    kinds = [
        lambda: rng.random(n),
        lambda: 1 - np.minimum(np.abs(rng.normal(0, 0.1, n)), 1),
        lambda: rng.choice([0.0, 1.0, 1e-12, 0.3, 0.7], n),
        lambda: rng.choice([0.0, 0.25, 0.5, 0.75, 1.0], n),
        lambda: np.where(rng.random(n) < 0.8, 1.0, rng.random(n)),
        lambda: np.full(n, rng.choice([0.5, 0.25, 0.9, 1.0, 1e-12])),
        lambda: rng.choice([0.0, 1e-300, 5e-324, 1 - 2**-53, 1.0, 0.5], n),
    ]
    return kinds[rng.integers(len(kinds))]()


@examples(150)
@given(
    existence=st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0, 0.125]), max_size=8),
    rows=st.integers(1, 4),
    confidence=st.sampled_from([0.5, 0.75, 0.875, 0.25, 0.984375, 1.0]),
    beta=st.sampled_from([None, 0.25, 0.5, 0.75, 1.0]),
)
def test_the_window_is_its_definition_over_possible_worlds(existence, rows, confidence, beta):
    window = UncertainWindow(rows, confidence, beta)
    expected = starts_by_definition(existence, rows, target_of(confidence, beta))
    assert window.extend(existence).tolist() == expected


@pytest.mark.parametrize("seed", seeds(20, 5))
def test_the_window_is_the_plain_recursion(seed):
    rng = np.random.default_rng(seed)
    for _ in range(120):
        rows = int(rng.choice([1, 2, 3, rng.integers(1, 12), rng.integers(1, 61)]))
        confidence, beta = float(rng.choice(CONFIDENCES)), BETAS[rng.integers(len(BETAS))]
        existence = random_existence(rng, int(rng.integers(1, 5 * rows + 20)))
        expected, _ = starts_by_recursion(existence, rows, target_of(confidence, beta))
        window = UncertainWindow(rows, confidence, beta)
        assert window.extend(existence).tolist() == expected, (rows, confidence, beta)
        assert (window.start, window.arrived) == (expected[-1], len(existence))


@pytest.mark.parametrize("confidence", [1 - 1e-9, 1 - 1e-13, np.nextafter(1.0, 0.0), 1e-3, 1e-12])
def test_thresholds_next_to_0_and_1_are_decided_as_the_recursion_does(confidence):
    rng = np.random.default_rng(12)
    for rows in (1, 2, 7, 30):
        for existence in (rng.random(200), rng.uniform(0.9, 1.0, 200), rng.random(200) ** 20):
            expected, _ = starts_by_recursion(existence, rows, confidence)
            assert UncertainWindow(rows, confidence).extend(existence).tolist() == expected


@pytest.mark.parametrize("beta", [None, 0.5, 0.999])
def test_the_queue_turns_many_times_at_a_few_hundred_rows(beta):
    rng = np.random.default_rng(8)
    existence = 1 - np.minimum(np.abs(rng.normal(0, 0.25, 1500)), 1)
    window = UncertainWindow(200, 0.95, beta)
    expected, _ = starts_by_recursion(existence, 200, target_of(0.95, beta))
    assert window.extend(existence).tolist() == expected
    assert window.recursions == 0  # only the fast path decided


@pytest.mark.parametrize(("rows", "kind"), [(5000, "near 1"), (5000, "uniform"), (20_000, "half")])
def test_large_windows_are_minimal_wherever_one_looks(rows, kind):
    rng = np.random.default_rng(rows)
    n = 4 * rows
    existence = {
        "near 1": 1 - np.minimum(np.abs(rng.normal(0, 0.1, n)), 1),
        "uniform": rng.random(n),
        "half": rng.uniform(0.4, 0.6, n),
    }[kind]
    window = UncertainWindow(rows, 0.95)
    starts = window.extend(existence)
    assert (np.diff(starts) >= 0).all()
    for i in np.append(rng.integers(int(2.7 * rows), n, 4), n - 1):
        longer = PoissonBinomial(existence[starts[i] : i + 1]).sf(rows - 1)
        shorter = PoissonBinomial(existence[starts[i] + 1 : i + 1]).sf(rows - 1)
        assert shorter < 0.95 <= longer
    assert window.nbytes <= 5_000_000 or rows > 5000


def test_structural_ties_are_decided_by_the_plain_recursion():
    # Pr(N >= 3 of 5 fair coins) is exactly 1/2: the sixth tuple evicts the first.
    window = UncertainWindow(3, 0.5)
    assert window.extend(np.full(8, 0.5)).tolist() == [0, 0, 0, 0, 0, 1, 2, 3]
    assert window.recursions > 0


@pytest.mark.parametrize("max_tuples", [1, 3, 20, 60])
def test_more_than_max_tuples_are_never_held_and_the_rest_is_counted(max_tuples):
    rng = np.random.default_rng(max_tuples)
    existence = rng.uniform(0.2, 1.0, 400)
    window = UncertainWindow(20, 0.95, max_tuples=max_tuples)
    starts = window.extend(existence).tolist()
    assert window.held <= max_tuples
    expected = starts_by_recursion(existence, 20, 0.95, max_tuples)
    assert (starts, window.overflow) == expected
    # 20 existing tuples need about 45 held tuples: 60 are enough, fewer bounds are not.
    assert window.guaranteed == (max_tuples == 60)
    assert (window.overflow == 0) == (max_tuples == 60)


def test_the_guarantee_returns_when_better_tuples_follow():
    window = UncertainWindow(2, 0.9, max_tuples=3)
    window.extend([0.1] * 5)
    assert (window.guaranteed, window.overflow) == (False, 2)
    window.extend([1.0, 1.0])
    assert window.guaranteed
    assert window.start == 5


@given(
    existence=st.lists(
        st.sampled_from([0.0, 1.0, 0.5, 0.25, 1e-12]) | st.floats(0, 1), min_size=1, max_size=9
    ),
    rows=st.integers(1, 4),
    confidence=st.sampled_from([0.5, 0.9, 1.0]),
)
def test_in_window_is_the_sum_over_possible_worlds(existence, rows, confidence):
    window = UncertainWindow(rows, confidence)
    window.extend(existence)
    for j in window.indices.tolist():
        newer = existence[j + 1 :]
        exact = 1 - at_least(newer, rows)
        assert abs(Fraction(window.in_window(j)) - exact) < 1e-15
        if sum(p > 0 for p in newer) < rows:
            assert window.in_window(j) == 1.0
    together = window.in_window(window.indices)
    assert together.tolist() == [window.in_window(int(j)) for j in window.indices]


def test_in_window_says_why_a_tuple_has_no_position():
    window = UncertainWindow(1, 0.5)
    window.extend([1.0, 1.0, 0.0])
    for j, words in [
        (0, "begins at 1"),
        (2, "existence was 0"),
        (3, "number of arrived tuples is 3"),
        (-1, "got -1"),
    ]:
        with pytest.raises(ValueError, match=words):
            window.in_window(j)
        with pytest.raises(ValueError, match=words):
            window.in_window([1, j])
    with pytest.raises(ValueError, match="stream index"):
        window.in_window(1.5)


def test_a_snapshot_costs_16_bytes_a_held_tuple_and_nothing_else_grows():
    window = UncertainWindow(1000, 0.95)
    sizes = set()
    for seed in range(20):
        window.extend(1 - np.random.default_rng(seed).random(1000) * 0.4)
        sizes.add(window.nbytes)
        assert len(window.snapshot()) <= 16 * window.held + 1024
    assert max(sizes) < 700_000
    assert UncertainWindow(1_000_000, 0.95).nbytes < 1024  # memory is allocated only when needed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"rows": 0}, "`rows`.*at least 1; got 0"),
        ({"rows": 2.5}, "`rows`.*2.5"),
        ({"rows": True}, "`rows`"),
        ({"confidence": 0.0}, r"`confidence`.*\(0, 1\]; got 0.0"),
        ({"confidence": 1.5}, "`confidence`"),
        ({"confidence": math.nan}, "`confidence`"),
        ({"confidence": "high"}, "`confidence`"),
        ({"probability": 0}, "`probability`"),
        ({"probability": 1.01}, "`probability`"),
        ({"max_tuples": 0}, "`max_tuples`"),
    ],
)
def test_bad_settings_are_refused_by_name(arguments, words):
    settings_ = {"rows": 3, "confidence": 0.9, **arguments}
    with pytest.raises(ValueError, match=words):
        UncertainWindow(**settings_)


@pytest.mark.parametrize("bad", [[0.5, math.nan], [-0.1], [1.1], [[0.5]], 0.5, ["x"]])
def test_a_wrong_call_changes_nothing(bad):
    window = UncertainWindow(2, 0.9)
    window.extend([0.5] * 7)
    before = window.snapshot()
    with pytest.raises(ValueError, match="`existence`"):
        window.extend(bad)
    assert window.snapshot() == before


def test_read_only_strided_and_narrow_arrays_are_accepted():
    existence = np.random.default_rng(9).random(60).astype(np.float32).astype(np.float64)
    expected = UncertainWindow(5, 0.9).extend(existence).tolist()
    fixed = existence.copy()
    fixed.flags.writeable = False
    strided = np.repeat(existence, 2)[::2]
    for same in (fixed, strided, existence.astype(np.float32), existence.tolist()):
        assert UncertainWindow(5, 0.9).extend(same).tolist() == expected


def test_rounded_sums_above_one_are_clipped_in_a_copy():
    existence = np.array([1.0 + 2e-16, 1.0 + 1e-10])
    kept = existence.copy()
    window = UncertainWindow(1, 1.0)
    assert window.extend(existence).tolist() == [0, 1]
    np.testing.assert_array_equal(existence, kept)
