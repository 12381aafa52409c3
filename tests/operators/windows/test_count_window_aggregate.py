"""Aggregates over uncertain count windows, against the possible worlds of the held tuples."""

import math

import numpy as np
import pytest

from seeds import seeds
from sfumato.engine_free import UncertainWindow
from sfumato.operators.distributions.aggregate import Aggregate
from sfumato.operators.state.snapshot import SavedState, SnapshotError, pack, unpack
from sfumato.operators.windows.count.count_window_aggregate import CountWindowAggregate
from window_cases import arrays, check, column, random_tuples
from worlds import aggregate_laws

NULL = math.nan
MOMENTS = [
    Aggregate("count"),
    *(Aggregate(of, 0) for of in ("sum", "count", "avg", "boundary_sum")),
]
ALL = [
    *MOMENTS,
    *(Aggregate(of, 0) for of in ("min", "max", "stddev", "var", "first", "last")),
    Aggregate("count_distinct", 0),
    *(Aggregate("quantile", 0, share) for share in (0.25, 0.5, 1.0)),
]
SHARES = (0.013, 0.2501, 0.4999, 0.7503, 0.987)  # no distribution here reaches one exactly
KINDS = {
    "small whole numbers with ties": {"values": (1, 2, 3), "missing": 0.0},
    "values that are sometimes missing": {"values": (-1, 4), "missing": 0.3},
    "large values close together": {"values": (0.25, 0.5, -3), "missing": 0.0, "level": 1e6},
    "numbers of no special form": {"values": (0.1, -2.7, 13.3), "missing": 0.0},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(4))
def test_every_aggregate_equals_the_possible_worlds_of_the_held_tuples(kind, seed):
    rng = np.random.default_rng([seed, len(kind)])
    for _ in range(100):
        rows, n = int(rng.integers(1, 7)), int(rng.integers(1, 10))
        confidence = float(rng.choice([0.3, 0.75, 0.95, 1.0]))
        tuples = random_tuples(rng, n, rare=0.1, **KINDS[kind])
        asked = [ALL[i] for i in rng.choice(len(ALL), 3, replace=False)]
        asked.append(MOMENTS[rng.integers(len(MOMENTS))])
        window = CountWindowAggregate(rows, confidence, asked, quantiles=SHARES, distribution=999)
        answers = window.process(np.zeros(n, int), *arrays(tuples))
        existence = [float(sum(p for p, _ in t)) for t in tuples]
        starts = UncertainWindow(rows, confidence).extend(existence)
        assert answers.held.tolist() == [i + 1 - s for i, s in enumerate(starts)]
        for i in {n - 1, int(rng.integers(n))}:
            held = tuples[starts[i] : i + 1]
            if math.prod(len(t) + 1 for t in held) > 1_000:
                continue
            for aggregate, measured in zip(asked, answers.results, strict=True):
                request = [(aggregate.function, aggregate.argument)]
                (law,) = aggregate_laws(request, column(held, aggregate.attribute), rows)
                check(measured, i, law, SHARES, 999)


def test_a_window_of_13_with_two_uncertain_tuples_has_four_sums():
    # A, Figure 2: u(n-3) and u(n-6) may not exist. If one does not, an older tuple is inside.
    #   position from the newest:  0  1  2  [3]  4  5  [6]  7 ... 12 | 13  14
    #   value:                     1  2  4   8  16 32  64            8192 16384
    existence = [1.0] * 15
    existence[3], existence[6] = 0.5, 0.25
    tuples = [[(existence[i], [2.0**i])] for i in reversed(range(15))]
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


def test_no_rows_give_no_answers():
    window = CountWindowAggregate(5, 0.95, ALL, quantiles=(0.5,), distribution=2)
    answers = window.process([], [0], [], np.empty((0, 1)))
    assert answers.held.size == 0
    assert [m.quantiles.shape for m in answers.results] == [(0, 1)] * len(ALL)
    again = CountWindowAggregate.restore(window.snapshot())
    assert again.process([0], [0, 1], [1.0], [[2.0]]).results[1].mean.tolist() == [2.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"offsets": [0]}, "`offsets`"),
        ({"prob": [0.0]}, "`prob`"),
        ({"prob": [1.1]}, "`prob`"),
        ({"prob": [NULL]}, "`prob`"),
        ({"values": [[]]}, "`values`"),
        ({"values": [[math.inf]]}, "`values` must be within"),
        ({"values": [[-1e141]]}, "`values` must be within"),
    ],
)
def test_wrong_arrays_are_refused_and_change_nothing(arguments, message):
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


@pytest.mark.parametrize("name", ["integers", "triples"])
def test_a_damaged_cache_is_refused_before_a_kernel_reads_it(name):
    aggregates = [Aggregate(function, 0) for function in ("avg", "max", "boundary_sum")]
    window = CountWindowAggregate(5, 0.9, aggregates)
    rng = np.random.default_rng(2)
    window.process(np.zeros(40, int), np.arange(41), rng.uniform(0.3, 1, 40), rng.random((40, 1)))
    saved = unpack(window.snapshot(), window.kind, window.version)
    array = f"store.saved.{name}"
    refused = 0
    for place in range(saved.arrays[array].size):
        damaged = saved.arrays[array].copy()
        damaged.flat[place] = 2**62 if name == "integers" else np.nan
        arrays = {**saved.arrays, array: damaged}
        data = pack(window.kind, window.version, SavedState(saved.values, arrays))
        try:
            CountWindowAggregate.restore(data)
        except SnapshotError:
            refused += 1
    assert refused > 0
