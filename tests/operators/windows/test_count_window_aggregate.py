"""Aggregates over uncertain count windows, against the possible worlds of the held tuples."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from seeds import seeds
from sfumato.engine_free import UncertainWindow
from sfumato.operators.distributions.aggregate import Aggregate
from sfumato.operators.state.snapshot import Saved, SnapshotError, pack, unpack
from sfumato.operators.windows.count.count_window_aggregate import CountWindowAggregate
from worlds import aggregate_laws, moments_of, quantile_of

NULL = math.nan
MOMENTS = [
    Aggregate("sum", 0),
    Aggregate("count"),
    Aggregate("count", 0),
    Aggregate("avg", 0),
    Aggregate("boundary_sum", 0),
]
ALL = [
    *MOMENTS,
    Aggregate("min", 0),
    Aggregate("max", 0),
    Aggregate("quantile", 0, 0.5),
    Aggregate("quantile", 0, 0.25),
    Aggregate("quantile", 0, 1.0),
    Aggregate("stddev", 0),
    Aggregate("var", 0),
    Aggregate("first", 0),
    Aggregate("last", 0),
    Aggregate("count_distinct", 0),
]
SHARES = (0.013, 0.2501, 0.4999, 0.7503, 0.987)  # no distribution here reaches one exactly


def law(aggregate, tuples, rows):
    """Return {result: probability} over the `rows` newest existing tuples, if defined."""
    missing = [[(p, None if math.isnan(v) else Fraction(v)) for p, v in t] for t in tuples]
    if aggregate == Aggregate("count"):
        missing = [[(p, Fraction(1)) for p, _ in t] for t in tuples]
    share = {"min": 0, "max": 1}.get(aggregate.function, aggregate.argument)
    function = "quantile" if aggregate.function in ("min", "max") else aggregate.function
    (found,) = aggregate_laws([(function, share)], missing, rows)
    return dict(sorted(found.items()))


def arrays(tuples, columns=1):
    """Return (offsets, prob, values) of tuples."""
    offsets = np.cumsum([0, *(len(t) for t in tuples)])
    prob = np.array([p for t in tuples for p, _ in t])
    values = np.array([v for t in tuples for _, v in t]).reshape(prob.size, columns)
    return offsets, prob, values


def check(measured, i, expected):
    """Check everything about result i, with an exact distribution, to 1e-9."""
    mean, variance, exists = moments_of(expected)
    assert measured.existence[i] == pytest.approx(float(exists), abs=1e-12)
    assert math.isnan(measured.error[i])
    if not exists:
        assert math.isnan(measured.mean[i])
        assert math.isnan(measured.stddev[i])
        assert np.isnan(measured.quantiles[i]).all()
        return
    assert measured.mean[i] == pytest.approx(float(mean), rel=1e-9, abs=1e-9)
    # A variance is exact to 1e-17 of the squared values, and its root to the root of this error.
    assert measured.stddev[i] == pytest.approx(math.sqrt(variance), rel=1e-9, abs=1e-8)
    assert measured.quantiles[i] == pytest.approx(
        [float(quantile_of(expected, share)) for share in SHARES], rel=1e-9, abs=1e-9
    )
    span = slice(measured.offsets[i], measured.offsets[i + 1])
    got = dict(zip(measured.value[span], measured.prob[span], strict=True))
    likely = {v: p for v, p in expected.items() if p > 1e-15}
    assert len(likely) <= len(got) <= len(expected)
    assert list(got) == sorted(got)
    for v, p in likely.items():
        nearest = min(got, key=lambda x, v=v: abs(x - v))
        assert nearest == pytest.approx(float(v), rel=1e-9, abs=1e-9)
        assert got[nearest] == pytest.approx(float(p), abs=1e-12)


def random_tuple(rng, values):
    """Return up to three alternatives with probabilities in multiples of 1/64, or tiny ones."""
    kind = rng.random()
    if kind < 0.25:
        return [(1.0, rng.choice(values))]
    if kind < 0.35:
        return [(2.0**-30, rng.choice(values))]
    sixteenths = rng.randint(1, 64)
    cuts = sorted({rng.randint(1, sixteenths) for _ in range(rng.randint(1, 3))} | {sixteenths})
    shares = [(b - a) / 64 for a, b in zip([0, *cuts], cuts, strict=False)]
    return [(p, rng.choice(values)) for p in shares[:3]]


KINDS = {
    "small whole numbers with ties": [1.0, 2.0, 3.0],
    "values that are sometimes missing": [-1.0, 4.0, NULL],
    "large values close together": [1e6 + 0.25, 1e6 + 0.5, 1e6 - 3.0],
    "numbers of no special form": [0.1, -2.7, 13.3],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("quarter", seeds(4))
def test_every_aggregate_equals_the_possible_worlds_of_the_held_tuples(kind, quarter):
    rng = random.Random(kind)
    for case in range(400):
        rows, n = rng.randint(1, 6), rng.randint(1, 9)
        confidence = rng.choice([0.3, 0.75, 0.95, 1.0])
        tuples = [random_tuple(rng, KINDS[kind]) for _ in range(n)]
        asked = [*rng.sample(ALL, 3), rng.choice(MOMENTS)]
        looked_at = {n - 1, rng.randrange(n)}
        if case // 100 != quarter:
            continue
        window = CountWindowAggregate(rows, confidence, asked, quantiles=SHARES, distribution=999)
        answers = window.process(np.zeros(n, int), *arrays(tuples))
        existence = [sum(p for p, _ in t) for t in tuples]
        starts = UncertainWindow(rows, confidence).extend(existence)
        assert answers.held.tolist() == [i + 1 - s for i, s in enumerate(starts)]
        for i in looked_at:
            held = tuples[starts[i] : i + 1]
            if math.prod(len(t) + 1 for t in held) > 1_000:
                continue
            for aggregate, measured in zip(asked, answers.results, strict=True):
                check(measured, i, law(aggregate, held, rows))


def test_a_window_of_13_with_two_uncertain_tuples_has_four_sums():
    # A, Figure 2: u(n-3) and u(n-6) may not exist. If one does not, an older tuple is inside.
    #   position from the newest:  0  1  2  [3]  4  5  [6]  7 ... 12 | 13  14
    #   value:                     1  2  4   8  16 32  64            8192 16384
    existence = [1.0] * 15
    existence[3], existence[6] = 0.5, 0.25
    tuples = [[(existence[i], 2.0**i)] for i in reversed(range(15))]
    window = CountWindowAggregate(13, 1.0, [Aggregate("sum", 0)], distribution=10)
    answers = window.process(np.zeros(15, int), *arrays(tuples))
    total = answers.results[0]
    assert answers.held[-1] == 15
    newest_13 = 2.0**13 - 1
    expected = {
        newest_13: 0.5 * 0.25,
        newest_13 - 8 + 2.0**13: 0.5 * 0.25,
        newest_13 - 64 + 2.0**13: 0.5 * 0.75,
        newest_13 - 8 - 64 + 2.0**13 + 2.0**14: 0.5 * 0.75,
    }
    last = slice(total.offsets[-2], total.offsets[-1])
    assert dict(zip(total.value[last], total.prob[last], strict=True)) == dict(
        sorted(expected.items())
    )
    assert total.moved[-1] == 0.0
    assert math.isnan(total.error[-1])


def moments_by_recursion(tuples, rows, number):
    """Return mean and variance of sum and count by (count; Pr, two moments), in type `number`."""
    state = [[number(1), number(0), number(0)]] + [[number(0)] * 3 for _ in range(rows)]
    for alternatives in reversed(tuples):
        p = sum(number(q) for q, _ in alternatives)
        m = sum(number(q) * number(v) for q, v in alternatives)
        s = sum(number(q) * number(v) ** 2 for q, v in alternatives)
        for n in range(rows, -1, -1):
            a, b, c = state[n] if n == rows else [(1 - p) * x for x in state[n]]
            if n:
                x, y, z = state[n - 1]
                a, b, c = a + p * x, b + p * y + m * x, c + p * z + 2 * m * y + s * x
            state[n] = [a, b, c]
    mean, count = sum(b for _, b, _ in state), sum(n * a for n, (a, _, _) in enumerate(state))
    square = sum(n * n * a for n, (a, _, _) in enumerate(state))
    return mean, sum(c for _, _, c in state) - mean**2, count, square - count**2


@pytest.mark.parametrize("confidence", [0.5, 0.95, 1 - 1e-9, 1.0])
@pytest.mark.parametrize("level", [0.0, 1e6])
def test_variances_keep_their_digits_however_large_the_values(confidence, level):
    rng, rows = np.random.default_rng(7), 8
    tuples = []
    for i in range(60):
        p = 1.0 if i % 3 == 0 else float(rng.integers(1, 1024)) / 1024
        values = level + rng.normal(0.0, 1.0, 2)
        tuples.append([(p / 2, float(values[0])), (p / 2, float(values[1]))])
    asked = [Aggregate("sum", 0), Aggregate("count"), Aggregate("avg", 0)]
    window = CountWindowAggregate(rows, confidence, asked)
    answers = window.process(np.zeros(60, int), *arrays(tuples))
    total, count, average = answers.results
    for i in (3, 20, 37, 59):
        held = tuples[i + 1 - answers.held[i] : i + 1]
        mean, variance, number, spread = moments_by_recursion(held, rows, Fraction)
        assert total.mean[i] == pytest.approx(float(mean), rel=1e-12)
        assert total.stddev[i] == pytest.approx(math.sqrt(variance), rel=1e-9)
        assert count.mean[i] == pytest.approx(float(number), rel=1e-12)
        assert count.stddev[i] == pytest.approx(math.sqrt(spread), rel=1e-9, abs=1e-10)
    assert average.mean == pytest.approx(np.full(60, level), abs=3.0)
    assert (average.stddev < 2.0).all()


def test_certain_tuples_have_no_deviation_at_all():
    values = np.cumsum(np.random.default_rng(3).normal(0.0, 1e3, 400)) + 1e7
    window = CountWindowAggregate(50, 0.95, [Aggregate("sum", 0), Aggregate("avg", 0), *MOMENTS])
    one = np.ones(400)
    answers = window.process(np.zeros(400, int), np.arange(401), one, values[:, None])
    regular = [math.fsum(values[max(0, i - 49) : i + 1]) for i in range(400)]
    assert answers.held.tolist() == [min(50, i + 1) for i in range(400)]
    for measured in answers.results:
        assert (measured.stddev == 0.0).all()
    assert answers.results[0].mean == pytest.approx(regular, rel=1e-14)
    assert answers.results[6].mean == pytest.approx(regular, rel=1e-13)


def test_too_many_outcomes_are_sampled_and_the_error_is_stated():
    rng = np.random.default_rng(2)
    n, rows = 80, 40
    existence, values = rng.integers(32, 65, n) / 64, rng.normal(10.0, 2.0, n)
    asked = [Aggregate("sum", 0), Aggregate("avg", 0), Aggregate("quantile", 0, 0.5)]
    shares = (0.1, 0.5, 0.9)

    def answers(seed, samples):
        window = CountWindowAggregate(
            rows, 0.95, asked, quantiles=shares, distribution=8, seed=seed, samples=samples
        )
        codes = np.zeros(n, int)
        return window.process(codes, np.arange(n + 1), existence, values[:, None]).results

    for few, same, many in zip(answers(1, 500), answers(1, 500), answers(2, 1_500), strict=True):
        np.testing.assert_array_equal(few.quantiles, same.quantiles)
        assert math.isnan(few.error[0])  # one tuple has two outcomes
        assert few.error[-1] == pytest.approx(math.sqrt(math.log(200.0) / 1_000.0))
        below = distribution_at(many, few.quantiles[-1])
        slack = few.error[-1] + many.error[-1] + 0.05  # plus the effect of merging to 8 entries
        assert (below >= np.array(shares) - slack).all()
        assert np.diff(few.offsets).max() <= 8
        assert few.moved[-1] > 0.0
        span = slice(few.offsets[-2], few.offsets[-1])
        assert few.prob[span].sum() == pytest.approx(few.existence[-1])
    total = answers(3, 1_500)[0]
    span = slice(total.offsets[-2], total.offsets[-1])
    sampled = total.prob[span] @ total.value[span]  # merging preserves the mean
    assert abs(sampled - total.mean[-1]) < 5.0 * total.stddev[-1] / math.sqrt(1_500)


def distribution_at(measured, at):
    span = slice(measured.offsets[-2], measured.offsets[-1])
    prob, value = measured.prob[span], measured.value[span]
    return np.array([prob[value <= x + measured.moved[-1]].sum() for x in at])


def test_no_rows_give_no_answers():
    window = CountWindowAggregate(5, 0.95, ALL, quantiles=(0.5,), distribution=2)
    answers = window.process([], [0], [], np.empty((0, 1)))
    assert answers.held.size == 0
    assert [m.quantiles.shape for m in answers.results] == [(0, 1)] * len(ALL)
    again = CountWindowAggregate.restore(window.snapshot())
    assert again.process([0], [0, 1], [1.0], [[2.0]]).results[0].mean.tolist() == [2.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"codes": [-1]}, "`codes`"),
        ({"offsets": [0]}, "`offsets`"),
        ({"offsets": [0, 0]}, "`offsets`"),
        ({"prob": [0.0]}, "`prob`"),
        ({"prob": [1.1]}, "`prob`"),
        ({"prob": [NULL]}, "`prob`"),
        ({"values": [[]]}, "`values`"),
        ({"values": [[math.inf]]}, "`values` must be within"),
        ({"values": [[-1e141]]}, "`values` must be within"),
        ({"offsets": [0, 2], "prob": [0.6, 0.6], "values": [[1.0], [2.0]]}, "`prob`"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_and_nothing_is_taken(arguments, message):
    window = CountWindowAggregate(5, 0.95, [Aggregate("sum", 0)])
    good = {"codes": [0], "offsets": [0, 1], "prob": [1.0], "values": [[1.0]]}
    with pytest.raises(ValueError, match=message):
        window.process(**{**good, **arguments})
    assert window.process(**good).held.tolist() == [1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rows": 0}, "`rows`"),
        ({"confidence": 0.0}, "`confidence`"),
        ({"aggregates": []}, "`aggregates`"),
        ({"aggregates": ["sum"]}, "`aggregates`"),
        ({"max_tuples": 0}, "`max_tuples`"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, message):
    good = {"rows": 5, "confidence": 0.95, "aggregates": [Aggregate("sum", 0)]}
    with pytest.raises((ValueError, TypeError), match=message):
        CountWindowAggregate(**{**good, **arguments})


@pytest.mark.parametrize("name", ["memo", "numbers"])
def test_a_memo_that_cannot_be_is_refused_before_any_kernel_reads_by_it(name):
    aggregates = [Aggregate(function, 0) for function in ("avg", "max", "boundary_sum")]
    window = CountWindowAggregate(5, 0.9, aggregates)
    rng = np.random.default_rng(2)
    window.process(np.zeros(40, int), np.arange(41), rng.uniform(0.3, 1, 40), rng.random((40, 1)))
    saved = unpack(window.snapshot(), window.kind, window.version)
    array = f"store.saved.{name}"
    refused = 0
    for place in range(saved.arrays[array].size):
        damaged = saved.arrays[array].copy()
        damaged.flat[place] = 2**62 if name == "memo" else np.nan
        arrays = {**saved.arrays, array: damaged}
        data = pack(window.kind, window.version, Saved(saved.values, arrays))
        try:
            CountWindowAggregate.restore(data)
        except SnapshotError:
            refused += 1
    assert refused > 0
