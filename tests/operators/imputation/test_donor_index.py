"""Box queries of the donor index equal the definition, bit for bit and at every edge."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.donor_index import DonorIndex
from seeds import examples
from sfumato.kernels.imputation.donor_tree import DONORS_PER_LEAF


def rows_by_definition(points, centre, reach):
    asked = np.isfinite(reach)
    near = np.abs(points[:, asked] - centre[asked]) <= reach[asked]
    return np.flatnonzero(near.all(axis=1))


def agree(points, centres, reach, usual=None):
    index = DonorIndex(points, usual)
    offsets, rows = index.query(centres, reach)
    wide = np.broadcast_to(reach, centres.shape)
    for i, (centre, own) in enumerate(zip(centres, wide, strict=True)):
        found = rows[offsets[i] : offsets[i + 1]]
        np.testing.assert_array_equal(np.sort(found), rows_by_definition(points, centre, own))
    np.testing.assert_array_equal(index.count(centres, reach), np.diff(offsets))


@given(st.data())
@examples(60)
def test_a_query_finds_exactly_the_rows_of_the_definition(data):
    seed = data.draw(st.integers(0, 2**32 - 1))
    n = data.draw(st.integers(1, 700))
    d = data.draw(st.integers(1, 10))
    levels = data.draw(st.sampled_from([0, 3, 10]))  # few distinct values have many ties
    rng = np.random.default_rng(seed)
    points = rng.random((n, d))
    if levels:
        points = np.round(points * levels) / 10
    centres = np.concatenate([points[rng.integers(0, n, 5)], rng.random((3, d))])
    reach = np.round(rng.random((8, d)), 1) * data.draw(st.sampled_from([0.2, 1.0]))
    reach[rng.random((8, d)) < 0.2] = np.inf
    agree(points, centres, reach)
    agree(points, centres, reach, usual=reach.min(axis=0))


def test_edges_are_judged_by_the_float_difference():
    """In float64, 0.3 - 0.1 > 0.2 and 0.7 - 0.5 < 0.2: a box [o - e, o + e] would be wrong."""
    points = np.array([[0.1], [0.5], [0.7], [0.3]])
    agree(points, points, 0.2)
    agree(np.repeat(points, 40, axis=0), points, 0.2)


@pytest.mark.parametrize(
    "n",
    [
        1,
        DONORS_PER_LEAF - 1,
        DONORS_PER_LEAF,
        DONORS_PER_LEAF + 1,
        2 * DONORS_PER_LEAF,
        2 * DONORS_PER_LEAF + 1,
        33 * DONORS_PER_LEAF,
    ],
)
def test_every_shape_of_tree_holds_all_rows(n):
    rng = np.random.default_rng(n)
    points = rng.normal(size=(n, 2))
    agree(points, points[:3], np.array([0.0, 0.5, np.inf])[: len(points[:3]), None])


def test_huge_values_do_not_overflow_into_answers():
    points = np.array([[-1.7e308], [1.7e308], [0.0]] * 50)
    with np.errstate(over="ignore"):
        agree(points, points[:3], 1.0)


def test_a_missing_coordinate_is_near_nothing_unless_nothing_is_asked_of_it():
    points = np.random.default_rng(0).random((200, 2))
    centres = np.array([[np.nan, 0.5]])
    index = DonorIndex(points)
    assert index.count(centres, [5.0, 5.0]).tolist() == [0]
    assert index.count(centres, [np.inf, 5.0]).tolist() == [200]
    assert np.isnan(centres[0, 0])


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match=r"rows of finite numbers; row 1, attribute 0 is nan"):
        DonorIndex([[0.0], [np.nan]])
    with pytest.raises(ValueError, match="`points` must have shape"):
        DonorIndex(np.empty((0, 2)))
    with pytest.raises(ValueError, match="1 to 62 attributes"):
        DonorIndex(np.zeros((1, 63)))
    index = DonorIndex([[0.0, 1.0]])
    with pytest.raises(ValueError, match="`centres` must have shape"):
        index.query([[0.0]], 1.0)
    with pytest.raises(ValueError, match="`reach` must be at least 0"):
        index.query([[0.0, 0.0]], -1.0)
