"""Joins within the sum of both tuples' radii, against brute force."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from join_cases import arrivals_of, random_stream
from join_reference import assert_cells_lose_nothing, assert_every_strategy, brute_force
from seeds import examples
from sfumato.operators.joins.similarity_join import SimilarityJoin
from sfumato.operators.state.snapshot import SnapshotError
from sfumato.windows import JoinWindow

EARTH = 6_371_008.8


def with_radii(stream, radii):
    return replace(stream, radius=np.array(radii, float))


def drawn_radii(seed, n, kind):
    """Return radii of a kind: all 0, whole numbers, decimals, or decimals with a few far larger."""
    rng = np.random.default_rng(seed)
    radii = np.round(rng.uniform(0.0, 1.5, n), 1)
    if kind == "zero":
        return np.zeros(n)
    if kind == "whole":
        return np.floor(radii * 2)
    return np.where(rng.random(n) < 0.1, 30.0, radii) if kind == "tail" else radii


def join_by_radii(dimensions, probability, rows, **options):
    return SimilarityJoin(dimensions, None, probability, JoinWindow(rows, 0.9), **options)


cases = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10**6),
        "n": st.integers(1, 110),
        "dimensions": st.integers(1, 3),
        "keys": st.integers(1, 3),
        "kind": st.sampled_from(["zero", "whole", "decimals", "tail"]),
        "one_side": st.booleans(),
        "certain": st.booleans(),
    }
)


@examples(50)
@given(cases, st.sampled_from([0.03, 0.5, 0.9]), st.sampled_from(["append", "changes"]), st.data())
def test_every_strategy_equals_brute_force_in_any_split_and_across_snapshots(
    case, probability, output, data
):
    d, n, most = case["dimensions"], case["n"], 1 if case["certain"] else 5
    stream = random_stream(case["seed"], n, d, case["keys"], most=most)
    if case["certain"]:
        stream = replace(stream, prob=np.ones(stream.prob.size))
    if case["kind"] == "whole":
        stream = replace(stream, points=np.floor(stream.points))
    radii = drawn_radii(case["seed"], n, case["kind"])
    stream = with_radii(
        stream, np.where(stream.side == 0, 0.0, radii) if case["one_side"] else radii
    )
    rows = data.draw(st.integers(1, 25))
    expected = brute_force(stream, None, probability, rows, 0.9)
    make = partial(join_by_radii, d, probability, rows)
    assert_every_strategy(data, stream, expected, make, output)


@pytest.mark.parametrize("tail", [0.0, 0.02, 0.3])
@pytest.mark.parametrize(
    ("dimensions", "rows", "extent"), [(1, 150, 400.0), (2, 150, 40.0), (3, 120, 9.0)]
)
def test_cells_lose_no_answer_where_a_few_radii_are_large(dimensions, rows, extent, tail):
    stream = random_stream(7, 900, dimensions, 2, most=3, extent=extent)
    rng = np.random.default_rng(5)
    radii = np.where(rng.random(900) < tail, extent / 3, rng.choice([0.0, 0.5, 1.0], 900))
    stream = with_radii(stream, radii)
    assert_cells_lose_nothing(stream, partial(join_by_radii, dimensions, 0.3, rows))


def test_a_few_large_radii_do_not_make_every_search_a_scan():
    stream = random_stream(3, 3000, 2, most=1, extent=400.0)
    few = np.where(np.arange(3000) % 100 == 0, 200.0, 1.0)
    visited = []
    for radii in (np.ones(3000), few):
        join = join_by_radii(2, 0.1, 1000)
        join.process(with_radii(stream, radii))
        visited.append(join.counters["visited"] / join.counters["pairs"])
    assert visited[0] < 0.05
    assert visited[1] < 0.1


def test_arcs_of_a_sphere_add_up_before_they_become_chords():
    # Points along a meridian; one degree is 111,195 m.
    degrees = np.array([0.0, 60.0, 120.0, 180.0])
    angle = np.radians(degrees)
    points = EARTH * np.stack([np.cos(angle), np.sin(angle), np.zeros(4)], axis=1)
    tuples = [[(1.0, point)] for point in points]
    for radii, expected in [
        ([30.0, 30.1, 30.1, 30.1], {(0, 1), (1, 2), (2, 3)}),
        ([29.0, 30.9, 0.0, 0.0], set()),  # the sum of their chords would suffice
        ([120.1, 0.0, 0.0, 0.0], {(0, 1), (0, 2)}),
        ([90.1, 0.0, 0.0, 90.1], {(0, 1), (0, 3), (2, 3)}),
        ([400.0, 0.0, 0.0, 0.0], {(0, 1), (0, 2), (0, 3)}),
    ]:
        arcs = EARTH * np.radians(radii)
        stream = with_radii(arrivals_of([0] * 4, [0] * 4, tuples, 3), arcs)
        for strategy in ("nested", "index"):
            window = [JoinWindow(9)]
            join = SimilarityJoin(3, None, 0.5, window, strategy=strategy, sphere=EARTH)
            found = join.process(stream)
            pairs = {tuple(sorted(p)) for p in zip(found.left, found.right, strict=True)}
            assert pairs == expected


def test_sums_of_decimals_are_compared_as_written():
    tuples = [[(1.0, (0.0,))], [(1.0, (3.0,))]]
    for one in range(1, 30):  # some sums such as 1.1 + 1.9 are below 3 as floats
        radii = [one / 10, (30 - one) / 10]
        for strategy in ("nested", "index", "sort"):
            join = join_by_radii(1, 0.5, 3, strategy=strategy)
            assert len(join.process(with_radii(arrivals_of([0, 1], [0, 0], tuples, 1), radii))) == 1
            below = [radii[0], radii[1] - 1e-9]
            join = join_by_radii(1, 0.5, 3, strategy=strategy)
            assert not len(join.process(with_radii(arrivals_of([0, 1], [0, 0], tuples, 1), below)))


@pytest.mark.parametrize("radius", [[1.0, math.nan], [1.0, -1.0], [math.inf, 1.0]])
def test_wrong_radii_are_refused(radius):
    stream = arrivals_of([0, 1], [0, 0], [[(1.0, (0.0,))]] * 2, 1)
    join = join_by_radii(1, 0.5, 3)
    with pytest.raises(ValueError, match="radius"):
        join.process(with_radii(stream, radius))
    with pytest.raises(ValueError, match="radius"):
        join.process(stream)
    with pytest.raises(ValueError, match="radius"):
        SimilarityJoin(1, 1.0, 0.5, JoinWindow(3)).process(with_radii(stream, [1.0, 1.0]))
    assert join.counters["tuples"] == 0


def test_a_snapshot_without_a_radius_per_tuple_is_refused():
    stream = arrivals_of([0, 1], [0, 0], [[(1.0, (0.0,))]] * 2, 1)
    for radii, held in (
        ([1.0, 1.0], np.ones(1)),
        (None, np.ones(2)),
        ([1.0, 1.0], np.full(2, np.inf)),
    ):
        join = SimilarityJoin(1, None if radii else 1.0, 0.5, JoinWindow(3))
        join.process(with_radii(stream, radii) if radii else stream)
        kept = join.tuples._replace(radius=held)

        class Damaged(SimilarityJoin):
            tuples = kept

        join.__class__ = Damaged
        with pytest.raises(SnapshotError, match="radius"):
            SimilarityJoin.restore(join.snapshot())
