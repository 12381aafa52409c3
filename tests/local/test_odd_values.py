"""Odd values in memory: samples of several attributes, invalid rows, existence near 0 and 1."""

from __future__ import annotations

import math
import warnings
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
import sfumato.local as sl
from sfumato.error_points import DISTRIBUTIONS, standard_points


def at(*seconds):
    return pa.array([s * 1_000_000 for s in seconds], pa.timestamp("us"))


def is_closed(points, signs):
    """Whether every point with its signs changed is a point too, as often."""
    found = sorted(np.round(points, 9).tolist())
    mirrored = sorted((np.round(points * signs, 9) + 0.0).tolist())
    return np.allclose(found, mirrored, atol=1e-8)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("dimensions", [1, 2, 3, 4, 5, 6])
def test_samples_have_the_mean_and_sd_of_each_attribute_and_no_correlation(
    dimensions, distribution
):
    for n in (*range(dimensions + 1, 25), 50, 100):
        points = standard_points(n, dimensions, distribution)
        assert points.shape == (n, dimensions)
        assert np.abs(points.mean(axis=0)).max() < 1e-12
        assert np.abs(points.std(axis=0) - 1.0).max() < 1e-12
        if dimensions > 1:
            off = np.corrcoef(points.T) - np.eye(dimensions)
            assert np.abs(off).max() <= 0.05, n


@pytest.mark.parametrize("distribution", ["normal", "uniform"])
@pytest.mark.parametrize(("dimensions", "least"), [(1, 1), (2, 4), (3, 8), (4, 64), (5, 128)])
def test_the_mirror_image_of_a_sample_is_a_sample(dimensions, least, distribution):
    for n in (least, least + 1, least + 2, least + 3, 2 * least + 5, 10 * least):
        points = standard_points(n, dimensions, distribution)
        for signs in product((1.0, -1.0), repeat=dimensions):
            assert is_closed(points, np.array(signs)), (n, signs)


@pytest.mark.parametrize("dimensions", [4, 5, 6])
def test_few_samples_of_many_attributes_are_closed_under_the_change_of_all_signs(dimensions):
    for n in range(2 * dimensions, 30):
        assert is_closed(standard_points(n, dimensions, "normal"), -np.ones(dimensions))


def test_the_attribute_of_a_sample_takes_many_values():
    for dimensions, n in ((2, 50), (3, 100), (6, 12), (6, 100)):
        points = standard_points(n, dimensions, "normal")
        for column in points.T:
            assert np.mean(column > 0.5) == pytest.approx(0.31, abs=0.12)


def test_too_few_samples_of_several_attributes_are_warned_of():
    with pytest.warns(UserWarning, match="`n` of at least 4"):
        standard_points(3, 3, "normal")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert standard_points(1, 3, "normal").tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize("n", [10, 12, 20])
def test_mirrored_positions_are_near_with_equal_probabilities(n):
    degree = math.degrees(1 / 6371008.8)

    def probability(x, y):
        seen = sl.samples(
            [pa.array([7.0]), pa.array([0.0])], 8 * degree, n, attributes=["lon", "lat"]
        )
        van = pa.table({"at": at(0), "alternatives": seen})
        spot = pa.table({"at": at(1), "lon": [7.0 + x * degree], "lat": [y * degree]})
        found = sl.similarity_join(
            van, spot, on=["lon", "lat"], metric="haversine", within=8.1, probability=1e-9,
            window=sf.Rows(5), order="at",
        )  # fmt: skip
        return sum(row["probability"] for row in found.to_pylist())

    for x, y in ((10, 0), (0, 10), (7, 4), (3, 9)):
        four = {round(probability(sx * x, sy * y), 9) for sx, sy in product((1, -1), repeat=2)}
        assert len(four) == 1


@pytest.mark.parametrize("sd", [-1.0, pa.array([-1.0]), [pa.array([1.0]), -0.5]])
def test_a_negative_sd_makes_an_invalid_row(sd):
    several = isinstance(sd, list)
    mean = [pa.array([1.0])] * 2 if several else pa.array([1.0])
    found = sl.samples(mean, sd, 4, attributes=["x", "y"] if several else "x")
    assert found.to_pylist() == [None]
    table = pa.table({"at": at(0), "alternatives": found})
    assert sl.rejected(table).column("reason").to_pylist() == ["no alternatives"]
    with pytest.warns(sl.InvalidRowsWarning):
        sums = sl.window_aggregate(table, {"s": "sum(x)"}, window=sf.Range("1 hour"), order="at")
    assert sl.counters(sums)["sfumato_window_1_input"]["invalid"] == 1


ODD = [
    [{"prob": 0.9, "cls": 0.0}, {"prob": 0.8, "cls": 1.0}],
    [{"prob": 0.5, "cls": 0.0}, {"prob": 0.5, "cls": 1.0}],
    [{"prob": math.nan, "cls": 1.0}, {"prob": 0.9, "cls": 0.0}],
    [{"prob": -0.5, "cls": 1.0}, {"prob": 0.9, "cls": 0.0}],
    [{"prob": 0.5, "cls": math.nan}, {"prob": 0.5, "cls": 0.0}],
    [{"prob": 0.5, "cls": None}, {"prob": 0.5, "cls": 0.0}],
    [None, {"prob": 0.5, "cls": 0.0}],
    None,
    [{"prob": 1.2, "cls": 1.0}],
    [{"prob": 1.0, "cls": 1.0}],
]


def test_a_filter_leaves_out_and_counts_rows_that_are_invalid():
    table = pa.table({"id": range(len(ODD)), "alternatives": pa.array(ODD)})
    with pytest.warns(sl.InvalidRowsWarning, match="where: 7 of 10"):
        found = sl.where(table, "cls = 0", name="w")
    half = [{"prob": 0.5, "cls": 0.0}]
    assert found.to_pylist() == [
        {"id": 1, "alternatives": half},
        {"id": 5, "alternatives": half},  # a comparison with NULL is not satisfied
    ]
    counts = sl.counters(found)["sfumato_where_w_input"]
    assert (counts["rows"], counts["invalid"], sum(counts["reasons"].values())) == (10, 7, 7)


def test_the_existence_of_an_invalid_tuple_is_unknown():
    prob = [[0.5, 0.5], [math.nan], [math.nan, 0.3], [0.9, 0.8], [-0.1, 0.5], [1.0 + 1e-10], []]
    tuples = pa.array([[{"prob": p, "x": 1.0} for p in row] for row in prob])
    assert sl.existence(tuples).to_pylist() == [1.0, None, None, None, None, None, 0.0]
    assert sl.expected("x", tuples, conditional=True).to_pylist()[1:] == [None] * 6
    assert sl.quantile("x", 0.5, tuples).to_pylist() == [1.0] + [None] * 6
    assert sl.stddev("x", tuples).to_pylist() == [0.0, None, None, None, None, None, 0.0]


EXISTENCE = [1.0, float(np.float32(1.0) + np.float32(1.2e-7)), 1.0 + 5e-10, 0.0, 1.1, -0.1, None]


def with_existence():
    return pa.table({"id": range(7), "at": at(*range(7)), "x": [10.0] * 7, "existence": EXISTENCE})


def test_existence_is_rounded_to_one_and_zero_is_absent():
    table = with_existence()
    assert sl.rejected(table).column("id").to_pylist() == [4, 5, 6]
    with pytest.warns(sl.InvalidRowsWarning):
        rows = sl.window_aggregate(table, {"n": "count(*)"}, window=sf.Rows(3), order="at")
    assert rows.column("id").to_pylist() == [0, 1, 2]
    assert [r["n"]["mean"] for r in rows.to_pylist()] == [1.0, 2.0, 3.0]
    assert sl.counters(rows)["sfumato_window_1_input"]["invalid"] == 3
    with pytest.warns(sl.InvalidRowsWarning):
        best = sl.top_k(table, 5, by="x", window=sf.Range("1 hour"), order="at")
    assert sorted(r["row"]["id"] for r in best.to_pylist()) == [0, 1, 2]
    assert {r["probability"] for r in best.to_pylist()} == {1.0}
    with pytest.warns(sl.InvalidRowsWarning):
        pairs = sl.self_join(
            table, on="x", within=1.0, probability=1.0, window=sf.Rows(9), order="at"
        )
    assert sorted((r["left"]["id"], r["right"]["id"]) for r in pairs.to_pylist()) == [
        (1, 0), (2, 0), (2, 1)
    ]  # fmt: skip
