"""Numbers of neighbours against possible worlds."""

import math

import numpy as np
import pytest

from sfumato.operators.joins.arrivals import ArrivalBatch
from sfumato.operators.joins.neighbours import NeighbourCount
from sfumato.windows import JoinWindow
from worlds import near_worlds

NEGLIGIBLE = 1e-9
WINDOWS = {
    "by time": JoinWindow(span="20 us"),
    "by count": JoinWindow(2, 1 - NEGLIGIBLE),
    "by both": JoinWindow(3, 1 - NEGLIGIBLE, span="20 us"),
    "wide": JoinWindow(100, 1 - NEGLIGIBLE),
}


def by_worlds(tuples, u, window):
    """Return {count: Pr} of u's neighbours, for tuples (time, [(prob, (point, radius))])."""
    now, own = tuples[u]
    earlier = [t for time, t in tuples[:u] if time > now - (window.span_us or 10**9)]
    found = near_worlds(own, earlier, is_near, window.rows)
    law, existence = {}, sum(p for p, _ in own)
    for p, near in found:
        law[len(near)] = law.get(len(near), 0.0) + p / existence
    return law


def is_near(one, other):
    return math.dist(one[0], other[0]) <= one[1] + other[1] + 1e-9


@pytest.mark.parametrize("radii", [[0.5], [0.0, 0.3, 0.8, 9.0]])
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS.keys())
@pytest.mark.parametrize("dimensions", [1, 2])
def test_the_numbers_are_those_over_possible_worlds(window, dimensions, radii):
    rng = np.random.default_rng(dimensions)
    n, time, tuples = 8, 0, []
    radius = rng.choice(radii, n)
    for r in radius:
        time += int(rng.integers(0, 9))
        size, total = int(rng.integers(1, 3)), rng.choice([0.3, 0.75, 1.0])
        points = np.round(rng.normal(0, 1, (size, dimensions)), 1)
        tuples.append((time, [(total / size, (tuple(x), r)) for x in points.tolist()]))
    within, radius = (1.0, None) if len(radii) == 1 else (None, radius)
    operator = NeighbourCount(dimensions, within, NEGLIGIBLE, [window], strategy="index")
    samples = [sample for _, of in tuples for sample in of]
    found = operator.count(
        ArrivalBatch(
            np.zeros(n, np.uint8), np.zeros(n, np.int64),
            np.cumsum([0, *(len(of) for _, of in tuples)]), np.array([p for p, _ in samples]),
            np.array([x for _, (x, _) in samples]), np.array([time for time, _ in tuples]), radius,
        )
    )  # fmt: skip
    for u in range(n):
        law = by_worlds(tuples, u, window)
        part = slice(found.offsets[u], found.offsets[u + 1])
        got = dict(zip(found.value[part].tolist(), found.prob[part].tolist(), strict=True))
        assert got == pytest.approx({m: p for m, p in law.items() if p >= 1e-15}, abs=1e-8)
        mean = sum(m * p for m, p in law.items())
        deviation = sum((m - mean) ** 2 * p for m, p in law.items()) ** 0.5
        assert found.moments()[u] == pytest.approx([mean, deviation], abs=1e-7)
        fewer = sum(p for m, p in law.items() if m < 2)
        assert found.probability_below(2)[u] == pytest.approx(fewer, abs=1e-8)


def test_a_tuple_without_samples_has_no_counts_and_is_no_neighbour():
    operator = NeighbourCount(1, 1.0, NEGLIGIBLE, [JoinWindow(5)], strategy="index")
    offsets, sides, keys = np.array([0, 1, 1, 2]), np.zeros(3, np.uint8), np.zeros(3, np.int64)
    found = operator.count(
        ArrivalBatch(sides, keys, offsets, np.array([1.0, 0.5]), np.array([[0.0], [1.0]]))
    )
    assert found.offsets.tolist() == [0, 1, 1, 2]
    assert found.value.tolist() == [0.0, 1.0]
    assert np.isnan(found.probability_below(1)[1])
