"""Tuples without a partner against possible worlds."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from join_cases import arrivals_of
from join_reference import as_changes
from sfumato.operators.joins.outer_join import OuterJoin
from sfumato.operators.joins.similarity_join import SimilarityJoin
from sfumato.operators.state.snapshot import SnapshotError
from sfumato.windows import JoinWindow, Range, Rows
from worlds import near_worlds

RADII = st.sampled_from([0.0, 0.25, 0.5, 9.0])
SPANS = (4, 7)  # lengths of the left and right windows in microseconds
WINDOWS = [JoinWindow(span=f"{span} us") for span in SPANS]


def met(u, v):
    """Return whether tuples (side, key, time), u before v, meet in a window of u's side."""
    return u[0] != v[0] and u[1] == v[1] and v[2] - u[2] < SPANS[u[0]]


def alone_by_worlds(about, tuples, radii, u):
    """Return Pr(tuple u exists, and no existing tuple that met it is near)."""
    groups = [[(p, (x, r)) for p, x in of] for of, r in zip(tuples, radii, strict=True)]
    others = [
        groups[v]
        for v in range(len(tuples))
        if (v < u and met(about[v], about[u])) or (v > u and met(about[u], about[v]))
    ]
    found = near_worlds(groups[u], others, lambda a, b: math.dist(a[0], b[0]) <= a[1] + b[1])
    return sum(p for p, near in found if not near)


@st.composite
def streams(draw):
    """Draw few tuples of both sides and two keys in time order, with radii or None."""
    n, dimensions = draw(st.integers(1, 8)), draw(st.integers(1, 2))
    time, about, tuples = 0, [], []
    point = st.tuples(*[st.integers(0, 4).map(lambda x: x / 2)] * dimensions)
    for _ in range(n):
        time += draw(st.integers(0, 4))
        about.append((draw(st.integers(0, 1)), draw(st.integers(0, 1)), time))
        prob = draw(st.sampled_from([(1.0,), (0.5,), (0.25, 0.5), (0.5, 0.5), ()]))
        tuples.append([(p, draw(point)) for p in prob])
    radii = draw(st.none() | st.lists(RADII, min_size=n, max_size=n))
    return arrivals_at(about, tuples, dimensions, radii), about, tuples, radii


def arrivals_at(about, tuples, dimensions, radii=None):
    side, key, time = map(list, zip(*about, strict=True))
    arrivals = arrivals_of(side, key, tuples, dimensions)
    return replace(
        arrivals, time=np.array(time, np.int64), radius=None if radii is None else np.array(radii)
    )


def run(operator, arrivals, cuts):
    """Return (pairs, {(side, number): probability of a tuple without a partner})."""
    pairs, alone, n = [], {}, arrivals.side.size
    for begin, end in pairwise([0, *sorted(min(cut, n) for cut in cuts), n]):
        found = as_changes(operator.process(arrivals.part(begin, end)))
        pairs += [(a + begin, *rest) for a, *rest in found]
        operator = OuterJoin.restore(operator.snapshot())
        last = end == n
        for of, released in operator.release(None if last else arrivals.time[end], last):
            probs = np.add.reduceat(np.append(released.prob, 0.0), released.offsets[:-1])
            assert released.probability == pytest.approx(probs, abs=1e-15)
            alone |= {
                (of, n): p
                for n, p in zip(released.number.tolist(), released.probability, strict=True)
            }
    return pairs, alone


@pytest.mark.parametrize("how", ["left", "right", "full"])
@given(streams(), st.sampled_from([0.05, 0.5, 1.0]), st.lists(st.integers(0, 8), max_size=3))
def test_tuples_without_partner_are_those_over_possible_worlds(how, case, probability, cuts):
    arrivals, about, tuples, radii = case
    matching = arrivals.points.shape[1], 0.5 if radii is None else None, probability, WINDOWS
    operator = OuterJoin(*matching, how=how)
    pairs, alone = run(operator, arrivals, cuts)
    assert pairs == as_changes(SimilarityJoin(*matching).process(arrivals))
    numbers, expected = [0, 0], {}
    for u, (of, *_) in enumerate(about):
        if of in operator.kept_sides:
            total = alone_by_worlds(about, tuples, radii or [0.25] * len(about), u)
            if total >= probability:
                expected[of, numbers[of]] = total
        numbers[of] += 1
    assert alone == pytest.approx(expected, abs=1e-12)


def test_ten_tenths_near_are_certainly_a_partner():
    operator = OuterJoin(1, 1.0, 1e-9, WINDOWS, how="full")
    tuples = [[(1.0, (0.0,))], [(0.1, (x / 10,)) for x in range(10)]]
    pairs, alone = run(operator, arrivals_at([(0, 0, 0), (1, 0, 1)], tuples, 1), [])
    assert (len(pairs), alone) == (1, {})


def test_a_tuple_is_released_when_no_partner_can_arrive():
    operator = OuterJoin(1, 1.0, 0.5, WINDOWS)
    operator.process(arrivals_at([(0, 0, 10)], [[(1.0, (0.0,))]], 1))
    assert operator.release(13)[0][1].number.size == 0
    assert operator.release(14)[0][1].number.tolist() == [0]
    assert operator.release(14, True)[0][1].number.size == 0


@pytest.mark.parametrize(
    ("window", "options"),
    [
        (Rows(3), {}),
        (Rows(3, within="1 s"), {}),
        (Range("1 s"), {"output": "changes"}),
        (Range("1 s"), {"how": "outer"}),
    ],
)
def test_wrong_arguments_are_refused(window, options):
    with pytest.raises(ValueError, match="how"):
        OuterJoin(1, 1.0, 0.5, window, **options)


def test_another_number_of_samples_is_refused():
    operator = OuterJoin(1, 1.0, 0.1, WINDOWS)
    tuples = [[(0.5, (0.0,)), (0.5, (3.0,))], [(1.0, (9.0,))]]
    operator.process(arrivals_at([(0, 0, 0), (1, 0, 0)], tuples, 1))
    lone = operator.lone_left.tuples
    operator.lone_left.tuples = replace(
        lone, offsets=np.array([0, 1]), prob=lone.prob[:1], alone=lone.alone[:1]
    )
    with pytest.raises(SnapshotError, match="samples"):
        OuterJoin.restore(operator.snapshot())
