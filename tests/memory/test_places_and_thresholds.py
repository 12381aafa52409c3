"""Joins of places refuse invalid places; thresholds of 1 keep what is certain."""

import math

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from memory_tables import at
from sfumato.tables.reading.user_warnings import InvalidRowsWarning


def rows_of(lon, lat):
    return pa.table({"id": range(len(lon)), "at": at(*range(len(lon))), "lon": lon, "lat": lat})


def uncertain(lon, lat):
    """Return the same rows with every place as one of two alternatives."""
    tuples = [
        [{"prob": 0.5, "lon": 0.0, "lat": 0.0}, {"prob": 0.5, "lon": x, "lat": y}]
        for x, y in zip(lon, lat, strict=True)
    ]
    kept = rows_of(lon, lat).select(["id", "at"])
    return kept.append_column("alternatives", pa.array(tuples))


PLACES = {"metric": "haversine", "within": 500.0, "probability": 0.2, "order": "at"}
WRONG = [
    ([181.0, 181.0], [91.0, 91.0], "lon is not a longitude from -180 to 180"),
    ([10.0, 10.0], [91.0, 91.0], "lat is not a latitude from -90 to 90"),
    ([-180.5, -180.5], [10.0, 10.0], "lon is not a longitude from -180 to 180"),
    ([21.31, 21.3105], [-157.86, -157.86], "lat is not a latitude from -90 to 90"),
]


@pytest.mark.parametrize(("lon", "lat", "reason"), WRONG)
@pytest.mark.parametrize("make", [rows_of, uncertain])
def test_a_row_whose_place_is_out_of_range_is_invalid_in_every_join(make, lon, lat, reason):
    table, how = make(lon, lat), {"on": ["lon", "lat"], **PLACES}
    with pytest.warns(InvalidRowsWarning, match=reason):
        alone = sf.self_join(table, window=sf.Rows(5), **how, name="one")
    with pytest.warns(InvalidRowsWarning, match=reason):
        both = sf.similarity_join(table, table, window=sf.Range("1 hour"), **how, name="two")
    assert alone.num_rows == both.num_rows == 0
    assert sf.ops.counters(alone)["sfumato_self_join_one_input"]["invalid"] == 2
    assert sf.ops.counters(both)["sfumato_join_two_right"]["invalid"] == 2
    refused = sf.split_invalid(table, ["lon", "lat"], metric="haversine")[1]
    assert refused["id"].to_pylist() == [0, 1]
    assert all(text.endswith(reason) for text in refused["reason"].to_pylist())
    assert sf.split_invalid(table, ["lon", "lat"], metric="haversine")[0].num_rows == 0
    assert sf.split_invalid(table, ["lon", "lat"])[1].num_rows == 0  # valid as numbers


def test_places_at_the_ends_of_the_range_are_valid():
    table = rows_of([180.0, -180.0, 0.0, 90.0], [10.0, 10.0, 90.0, 90.0])
    how = {"on": ["lon", "lat"], **PLACES, "window": sf.Rows(5)}
    found = sf.self_join(table, **how).to_pylist()
    pairs = {(pair["left"]["id"], pair["right"]["id"]) for pair in found}
    assert pairs == {(1, 0), (3, 2)}
    assert sf.split_invalid(table, ["lon", "lat"], metric="haversine")[1].num_rows == 0


def test_haversine_and_a_distance_for_each_attribute_equal_brute_force():
    rng = np.random.default_rng(4)
    sides = [rng.uniform((9.0, 48.0), (9.03, 48.02), (80, 2)) for _ in range(2)]
    tables = [rows_of(*side.T.tolist()) for side in sides]

    for within, metric, near in (
        (300.0, "haversine", lambda a, b: metres(a, b) <= 300.0),
        (
            {"lon": 0.004, "lat": 0.001},
            "euclidean",
            lambda a, b: math.hypot((a[0] - b[0]) / 0.004, (a[1] - b[1]) / 0.001) <= 1.0,
        ),
    ):
        windows = sf.Range("20 seconds"), sf.Rows(7)
        found = sf.similarity_join(
            *tables, on=["lon", "lat"], within=within, metric=metric, probability=1.0,
            window=windows, order="at",
        ).to_pylist()  # fmt: skip
        # The last 20 seconds on the left, the last 7 rows on the right; left comes first.
        expected = {
            (i, j)
            for i, a in enumerate(sides[0])
            for j, b in enumerate(sides[1])
            if near(a, b) and (0 <= j - i < 20 or 0 < i - j <= 7)
        }
        assert len(expected) > 20
        assert {(row["left"]["id"], row["right"]["id"]) for row in found} == expected


def metres(a, b):
    first, second = math.radians(a[1]), math.radians(b[1])
    across = math.sin(math.radians(a[0] - b[0]) / 2) ** 2
    half = math.sin((first - second) / 2) ** 2 + math.cos(first) * math.cos(second) * across
    return 2 * 6_371_008.8 * math.asin(math.sqrt(half))


METRICS = {"haversine": (metres, 100.0), "euclidean": (math.dist, 0.001)}


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("make", [rows_of, uncertain])
@pytest.mark.parametrize("radii", ["both", "left", "right", "alone"])
def test_a_radius_per_row_equals_brute_force(metric, make, radii):
    distance, unit = METRICS[metric]
    rng = np.random.default_rng(4)
    places = [rng.uniform((9.0, 48.0), (9.03, 48.02), (80, 2)) for _ in range(2)]
    reach = [
        rng.choice([0.0, 0.5, 1.0, 2.0, 30.0], 80, p=[0.2, 0.3, 0.3, 0.18, 0.02]) for _ in "ab"
    ]
    tables = []
    for side, (place, of) in enumerate(zip(places, reach, strict=True)):
        table = make(*place.T.tolist())
        if radii in ("both", "alone") or radii == ("left", "right")[side]:
            table = table.append_column("acc", pa.array(of * unit))
        else:
            of[:] = 0.0
        tables.append(table)
    how = {"on": ["lon", "lat"], "metric": metric, "probability": 0.2, "order": "at"}
    how |= {"within": "acc", "window": sf.Rows(7, 1.0)}
    if radii == "alone":
        found = sf.self_join(tables[0], **how)
        met = {(i, j) for i in range(80) for j in range(80) if 0 < i - j <= 7}
        places[1], reach[1] = places[0], reach[0]
    else:
        found = sf.similarity_join(*tables, **how)
        met = {(i, j) for i in range(80) for j in range(80) if 0 <= j - i < 7 or 0 < i - j <= 7}

    def near(i, j, a, b):
        return float(distance(a, b) <= (reach[0][i] + reach[1][j]) * unit)

    expected = {}
    for i, j in met:
        one, other = places[0][i], places[1][j]
        if make is rows_of:
            chance = near(i, j, one, other)
        else:  # each is at (0, 0) in half of the worlds
            chance = (near(i, j, one, other) + near(i, j, (0.0, 0.0), (0.0, 0.0))) / 4
        if chance >= 0.2:
            expected[i, j] = chance
    got = {(row["left"]["id"], row["right"]["id"]): row["probability"] for row in found.to_pylist()}
    assert len(expected) > 10
    assert got == expected


def test_rows_without_a_valid_radius_are_invalid_and_those_of_radius_0_are_not():
    table = rows_of([9.0] * 6, [48.0] * 6).append_column(
        "acc", pa.array([0.0, -1.0, math.nan, None, math.inf, 0.0])
    )
    how = {"on": ["lon", "lat"], **PLACES, "within": "acc", "window": sf.Rows(5)}
    reason = "acc is not a finite number of at least 0"
    with pytest.warns(InvalidRowsWarning, match=reason):
        pairs = sf.similarity_join(table, table.drop(["acc"]), **how, name="radii")
    assert {row["left"]["id"] for row in pairs.to_pylist()} == {0, 5}
    counted = sf.ops.counters(pairs)
    assert counted["sfumato_join_radii_left"]["invalid"] == 4
    assert counted["sfumato_join_radii_right"]["invalid"] == 0
    valid, refused = sf.split_invalid(table, ["lon", "lat"], within="acc")
    assert valid["id"].to_pylist() == [0, 5]
    assert refused["reason"].to_pylist() == [reason] * 4
    assert sf.split_invalid(table, ["lon", "lat"])[1].num_rows == 0
    with pytest.raises(TypeError, match="must name numeric columns"):
        sf.split_invalid(table, within="at")


def test_the_metric_of_rejected_needs_longitude_and_latitude():
    with pytest.raises(ValueError, match=r"needs `on`=\[longitude, latitude\]"):
        sf.split_invalid(rows_of([1.0], [1.0]), "lon", metric="haversine")
    with pytest.raises(ValueError, match="`metric` must be one of euclidean, haversine"):
        sf.split_invalid(rows_of([1.0], [1.0]), "lon", metric="manhattan")


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("n", [3, 7, 10, 49])
def test_pt_k_of_probability_one_keeps_the_tuples_in_the_top_k_of_every_world(n, k):
    tuples = [[{"prob": 1 / n, "x": float(j + 100 * i)} for j in range(n)] for i in range(4)]
    table = pa.table({"id": range(4), "at": at(0, 1, 2, 3), "alternatives": pa.array(tuples)})
    how = {"by": "x", "window": sf.Range("1 hour"), "order": "at", "semantics": "pt_k"}
    found = sf.top_k(table, k, probability=1.0, **how).to_pylist()
    assert [row["row"]["id"] for row in found] == [3, 2, 1][:k]
    low = pa.table(
        {"id": [9], "at": at(0), "alternatives": pa.array([[{"prob": 1 - 1e-9, "x": 1e9}]])}
    )
    assert not sf.top_k(low, k, probability=1.0, **how).num_rows
