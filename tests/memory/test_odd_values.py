"""Odd values in memory: samples of several attributes, invalid rows, existence near 0 and 1."""

import math
import re
import warnings
from decimal import Decimal
from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats

import sfumato as sf
from memory_tables import at, tuples_of
from sfumato.operators.distributions.error_points import DISTRIBUTIONS, standard_points
from sfumato.operators.imputation.discovery import NothingDiscovered


def is_closed(points, signs):
    """Return whether points with changed signs are also points, equally often."""
    found = sorted(np.round(points, 9).tolist())
    mirrored = sorted((np.round(points * signs, 9) + 0.0).tolist())
    return np.allclose(found, mirrored, atol=1e-8)


@pytest.mark.parametrize("error", [stats.norm(), stats.uniform()], ids=["normal", "uniform"])
def test_samples_are_the_quantiles_of_the_error(request, error):
    quantiles = error.ppf((np.arange(5) + 0.5) / 5) - error.mean()
    name = request.node.callspec.id
    found = standard_points(5, 1, name)[:, 0]
    np.testing.assert_allclose(found, quantiles / quantiles.std())


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
    values, names = [pa.array([0.0])] * 3, ["a", "b", "c"]
    with pytest.warns(UserWarning, match="correlated.*`n` must be at least 4") as told:
        sf.samples(values, 1.0, 3, attributes=names)
    assert told[0].filename == __file__  # the call of the user
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sf.samples(values, 1.0, 1, attributes=names)
    assert standard_points(1, 3, "normal").tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize("n", [10, 12, 20])
def test_mirrored_positions_are_near_with_equal_probabilities(n):
    degree = math.degrees(1 / 6371008.8)

    def probability(x, y):
        seen = sf.samples(
            [pa.array([7.0]), pa.array([0.0])], 8 * degree, n, attributes=["lon", "lat"]
        )
        van = pa.table({"at": at(0), "alternatives": seen})
        spot = pa.table({"at": at(1), "lon": [7.0 + x * degree], "lat": [y * degree]})
        found = sf.similarity_join(
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
    found = sf.samples(mean, sd, 4, attributes=["x", "y"] if several else "x")
    assert found.to_pylist() == [None]
    table = pa.table({"at": at(0), "alternatives": found})
    assert sf.split_invalid(table)[1].column("reason").to_pylist() == ["no alternatives"]
    with pytest.warns(sf.errors.InvalidRowsWarning):
        sums = sf.window_aggregate(table, {"s": "sum(x)"}, window=sf.Range("1 hour"), order="at")
    assert sf.ops.counters(sums)["sfumato_window_1_input"]["invalid"] == 1


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
    with pytest.warns(sf.errors.InvalidRowsWarning, match="where: 7 of 10"):
        found = sf.where(table, "cls = 0", name="w")
    half = [{"prob": 0.5, "cls": 0.0}]
    assert found.to_pylist() == [
        {"id": 1, "alternatives": half},
        {"id": 5, "alternatives": half},  # a comparison with NULL is not satisfied
    ]
    counts = sf.ops.counters(found)["sfumato_where_w_input"]
    assert (counts["rows"], counts["invalid"], sum(counts["reasons"].values())) == (10, 7, 7)


def test_the_existence_of_an_invalid_tuple_is_unknown():
    prob = [[0.5, 0.5], [math.nan], [math.nan, 0.3], [0.9, 0.8], [-0.1, 0.5], [1.0 + 1e-5], []]
    tuples = pa.array([[{"prob": p, "x": 1.0} for p in row] for row in prob])
    assert sf.existence(tuples).to_pylist() == [1.0, None, None, None, None, None, 0.0]
    assert sf.expected("x", tuples, conditional=True).to_pylist()[1:] == [None] * 6
    assert sf.quantile("x", 0.5, tuples).to_pylist() == [1.0] + [None] * 6
    assert sf.stddev("x", tuples).to_pylist() == [0.0, None, None, None, None, None, 0.0]


EXISTENCE = [1.0, float(np.float32(1.0) + np.float32(1.2e-7)), 1.0 + 5e-10, 0.0, 1.1, -0.1, None]


def with_existence():
    return pa.table({"id": range(7), "at": at(*range(7)), "x": [10.0] * 7, "existence": EXISTENCE})


def test_existence_is_rounded_to_one_and_zero_is_absent():
    table = with_existence()
    assert sf.split_invalid(table)[1].column("id").to_pylist() == [4, 5, 6]
    with pytest.warns(sf.errors.InvalidRowsWarning):
        rows = sf.window_aggregate(table, {"n": "count(*)"}, window=sf.Rows(3), order="at")
    assert rows.column("id").to_pylist() == [0, 1, 2]
    assert [r["n"]["mean"] for r in rows.to_pylist()] == [1.0, 2.0, 3.0]
    assert sf.ops.counters(rows)["sfumato_window_1_input"]["invalid"] == 3
    with pytest.warns(sf.errors.InvalidRowsWarning):
        best = sf.top_k(table, 5, by="x", window=sf.Range("1 hour"), order="at")
    assert sorted(r["row"]["id"] for r in best.to_pylist()) == [0, 1, 2]
    assert {r["probability"] for r in best.to_pylist()} == {1.0}
    with pytest.warns(sf.errors.InvalidRowsWarning):
        pairs = sf.self_join(
            table, on="x", within=1.0, probability=1.0, window=sf.Rows(9), order="at"
        )
    assert sorted((r["left"]["id"], r["right"]["id"]) for r in pairs.to_pylist()) == [
        (1, 0), (2, 0), (2, 1)
    ]  # fmt: skip


def test_tuples_of_invalid_scores_or_probabilities_are_not_ranked():
    pairs = [(0.0, 1.0), (-0.1, 1.0), (1.5, 1.0), (math.nan, 1.0), (0.5, math.nan), (0.5, math.inf)]
    tuples = [[{"prob": prob, "x": score}] for prob, score in pairs]
    tuples += [[{"prob": 0.7, "x": score} for score in (1.0, 2.0)], [{"prob": 0.5, "x": 1.0}]]
    table = pa.table({"at": at(*range(len(tuples))), "alternatives": pa.array(tuples)})
    with pytest.warns(sf.errors.InvalidRowsWarning, match="top_k: 7 of 8"):
        best = sf.top_k(table, 5, by="x", window=sf.Range("1 hour"), order="at")
    assert [row["probability"] for row in best.to_pylist()] == [0.5]


LABELS = pa.table(
    {
        "at": at(0, 1),
        "alternatives": pa.array(
            [
                [{"prob": 0.7, "label": "cat", "x": 1.0}, {"prob": 0.3, "label": None, "x": 2.0}],
                [{"prob": 0.5, "label": "dog", "x": 3.0}],
            ]
        ),
    }
)
NAMES = pa.table({"at": at(0, 1), "label": ["cat", None], "x": [1.0, 2.0]})


@pytest.mark.parametrize(("rows", "counts"), [(LABELS, [0.7, 1.2]), (NAMES, [1.0, 1.0])])
def test_texts_are_counted_and_no_number_is_made_of_them(rows, counts):
    window = {"window": sf.Rows(5), "order": "at"}
    found = sf.window_aggregate(rows, {"n": "count(label)"}, **window)
    numbers = [n if rows is NAMES else n["mean"] for n in found.column("n").to_pylist()]
    assert numbers == pytest.approx(counts)
    for function in ("first", "sum", "avg", "min", "max", "boundary_sum", "stddev"):
        said = f"needs a numeric expression for {function}; `label` is string"
        with pytest.raises(TypeError, match=said):
            sf.window_aggregate(rows, {"m": f"{function}(label)"}, **window)
    with pytest.raises(TypeError, match="for quantile; `label` is string"):
        sf.window_aggregate(rows, {"m": "quantile(label, 0.5)"}, **window)
    with pytest.raises(TypeError, match="`by` needs a numeric expression; `label` is string"):
        sf.top_k(rows, 1, by="label", window=sf.Range("1 minute"), order="at")


def test_a_column_of_nulls_is_a_column_of_numbers():
    h = np.linspace(30.0, 90.0, 200)
    how = {
        "repository": pa.table({"humidity": h, "celsius": 40.0 - 0.3 * h}),
        "dependencies": "humidity -> celsius : 0.05 -> 0.1",
        "attributes": "celsius",
    }
    known = pa.array([None], pa.float64())
    found = [
        sf.impute(pa.table({"humidity": [60.0], "celsius": celsius}), **how)
        for celsius in (pa.nulls(1), known)
    ]
    assert found[0].column("alternatives").equals(found[1].column("alternatives"))
    nothing = pa.table({"at": at(0, 1), "x": pa.nulls(2)})
    window = {"window": sf.Rows(5), "order": "at"}
    answers = sf.window_aggregate(nothing, {"n": "count(x)", "m": "avg(x)"}, **window)
    assert answers.column("n").to_pylist() == [0, 0]
    assert answers.column("m").to_pylist() == [None, None]
    ends = {of: f"{of}(x)" for of in ("min", "max", "first", "last", "sum")}
    for of in ({"window": sf.Range("1 minute")}, {"window": sf.Rows(5)}):
        answer = sf.window_aggregate(nothing, ends, **window | of).to_pylist()[-1]
        assert [answer[name] for name in ends] == [None, None, None, None, 0.0]
    assert sf.earlier_values(nothing, attributes="x", order="at").num_rows == 2
    with pytest.raises(TypeError, match="must be a timestamp or whole microseconds; `x` is null"):
        sf.reorder(nothing, event_time="x", arrival="at", slack=1)


def test_an_order_that_is_no_number_is_no_order():
    rows = pa.table({"id": ["x", "y", "z"], "at": [1.0, math.nan, 2.5], "a": [5.0, 6.0, None]})
    found = sf.earlier_values(rows, "a", order="at").to_pylist()
    known = {row["id"]: (row["earlier_a"], row["age_a"]) for row in found}
    assert known == {"x": (None, None), "y": (None, None), "z": (5.0, 1.5)}


def history(**more):
    x = np.random.default_rng(0).random(300)
    return {"x": x, "y": 2.0 * x, **more}


def discovered(columns, *arguments, **more):
    return [str(d) for d in sf.discover_dependencies(pa.table(columns), *arguments, **more)]


@pytest.mark.parametrize("empty", [np.full(300, np.nan), pa.nulls(300), np.full(300, np.inf)])
def test_a_column_without_a_value_is_left_out_of_the_discovery_with_a_warning(empty):
    expected = discovered(history())
    assert expected
    with pytest.warns(
        NothingDiscovered, match="without any finite number are left out: `gust`"
    ) as warned:
        assert discovered(history(gust=empty)) == expected
    assert warned[0].filename == __file__
    with pytest.warns(NothingDiscovered, match="are left out: `gust`"):
        found = discovered(history(gust=empty), ["x", "y", "gust"], dependents=["gust", "y"])
    assert found == [each for each in expected if each.startswith("x -> y")]
    with pytest.warns(NothingDiscovered, match="fewer than two columns have values"):
        assert discovered(history(gust=empty), ["x", "gust"]) == []


def test_a_discovery_without_a_result_warns_at_the_call():
    unrelated = {"x": np.arange(300.0), "y": np.random.default_rng(1).random(300)}
    with pytest.warns(NothingDiscovered, match="`y`: the closest candidate") as warned:
        assert discovered(unrelated) == []
    assert [each.filename for each in warned] == [__file__]


def test_discovery_says_when_few_rows_have_all_columns():
    columns = history()
    columns["gust"] = np.where(columns["x"] < 0.2, columns["x"], np.nan)
    few = np.count_nonzero(columns["x"] < 0.2)
    with pytest.warns(NothingDiscovered, match=rf"only {few} of 300 rows .*`gust` \(\d\d% miss"):
        assert discovered(columns)
    apart = {"x": np.where(columns["x"] < 0.5, 1.0, np.nan), "y": columns["y"]}
    apart["y"] = np.where(columns["x"] < 0.5, np.nan, columns["y"])
    with pytest.warns(NothingDiscovered, match="no dependency found: 0 of 300 rows"):
        assert discovered(apart) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "x -> c : 0.2 -> 0" in discovered(history(c=np.ones(300)))


def test_dependencies_discovered_for_other_attributes_are_left_out_of_an_imputation():
    table = pa.table(history())
    found = sf.discover_dependencies(table)
    assert {d.dependent for d in found} == {"x", "y"}
    how = {"repository": table, "attributes": "y"}
    rows = pa.table({"x": [0.5], "y": [None]})
    wanted = [d for d in found if d.dependent == "y"]
    expected = sf.impute(rows, dependencies=wanted, **how)
    assert sf.impute(rows, dependencies=found, **how).equals(expected)
    for wrong in ([*wanted, "y -> x : 0.1 -> 0.1"], [d for d in found if d.dependent == "x"]):
        with pytest.raises(ValueError, match=r"must infer only `attributes`.* infers `x`"):
            sf.impute(rows, dependencies=wrong, **how)


LONG = {
    "whole": pa.array([2**53 + 1, 5], pa.int64()),
    "negative": pa.array([-(2**60), 5], pa.int64()),
    "decimal": pa.array([Decimal("1234567890123456.78"), Decimal("0.01")], pa.decimal128(38, 2)),
}
SHORT = {
    "whole": pa.array([2**53, None], pa.int64()),
    "decimal": pa.array([Decimal("1234567890123.45"), None], pa.decimal128(38, 18)),
    "empty": pa.array([], pa.int64()),
}


@pytest.mark.parametrize("kind", LONG)
def test_numbers_that_a_double_rounds_are_warned_of(kind):
    rows, window = (
        pa.table({"at": at(0, 1), "x": LONG[kind]}),
        {"window": sf.Rows(5), "order": "at"},
    )
    said = (
        "in `x`, which are converted to doubles: numbers with more than 15 digits, integers above 2"
    )
    rounded = ("avg", "quantile") + (("min", "max") if kind == "decimal" else ())
    asked = {of: f"{of}(x, 0.5)" if of == "quantile" else f"{of}(x)" for of in rounded}
    for text in asked.values():
        with pytest.warns(UserWarning, match=said) as warned:
            sf.window_aggregate(rows, {"m": text}, **window)
        assert warned[0].filename == __file__
    with pytest.warns(UserWarning, match=said):
        sf.self_join(rows, on="x", within=1, probability=0.5, **window)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sf.window_aggregate(rows, {"n": "count(x)", "all": "count(*)", "s": "sum(x)"}, **window)


@pytest.mark.parametrize("kind", SHORT)
def test_numbers_that_a_double_holds_are_exact_and_not_warned_of(kind):
    n = len(SHORT[kind])
    rows = pa.table({"at": at(*range(n)), "x": SHORT[kind]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asked = {"m": "sum(x)", "least": "min(x)"}
        found = sf.window_aggregate(rows, asked, window=sf.Rows(5), order="at")
    expected = [SHORT[kind][0].as_py()] * n if n else []
    assert found.column("m").to_pylist() == found.column("least").to_pylist() == expected


def test_whole_numbers_as_times_and_orders_stay_exact():
    times = [2**53 + 3, 2**53 + 1, 2**53 + 2]
    rows = pa.table({"t": times, "a": [2**53 + 5 + i for i in range(3)], "v": [1.0, 2.0, 3.0]})
    found = sf.reorder(rows, event_time="t", arrival="a", slack=2)
    assert found.column("t").to_pylist() == sorted(times)
    found = sf.window_aggregate(rows, {"m": "sum(v)"}, window=sf.Rows(1), order="t")
    assert found.column("t").to_pylist() == sorted(times)


def test_values_near_the_largest_double_are_invalid():
    cells = [[(0.5, 1.0)], [(1.5, 1.0)], [(0.5, math.inf)], [], [(1.0, 1e308)],
             [(0.5, 2.0), (0.5, -1e308)], [(1.0, 1e140)]]  # fmt: skip
    lists = tuples_of(cells, x=pa.float64())
    table = pa.table({"id": range(7), "ts": at(*[0] * 7), "alternatives": lists})
    asked = {"t": "sum(x)", "a": "avg(x)", "m": "max(x)"}
    for window in (sf.Rows(2), sf.Delta(1e300, on="x"), sf.Range("1 minute")):
        in_extents = isinstance(window, sf.Range)
        rows, order = (table, "ts") if in_extents else (table.slice(0, 6), "id")
        with pytest.warns(sf.errors.InvalidRowsWarning):
            (row,) = sf.window_aggregate(rows, asked, window=window, order=order).to_pylist()
        assert all(math.isfinite(n) for name in asked for n in row[name].values() if n is not None)
        if not in_extents:
            assert (row["id"], row["t"]["mean"], row["a"]["mean"]) == (0, 0.5, 1.0)
    assert sf.split_invalid(table)[1]["id"].to_pylist() == [1, 2, 3]


REPLACED = {  # by column of the frame: new values, an aggregate, and its result
    "x": ([9, 10, 7], "max(x)", 10),
    "f": ([5, 0, 5], "sum(f)", 10),
    "i": ([0.5, 0.25, 0.25], "sum(i)", 1.0),
    "t": (pd.to_datetime([0, 1, 2], unit="us"), "count(*)", 3),
}


@pytest.mark.parametrize("name", REPLACED)
def test_a_replaced_column_of_pandas_has_its_new_type(name):
    given, asked, expected = REPLACED[name]
    rows = pd.DataFrame(
        {"t": [0, 1, 2], "x": ["9", "10", "7"], "f": [True, False, True], "i": [1, 2, 3]}
    )
    found = sf.reorder(rows.assign(a=rows["t"]), event_time="t", arrival="a", slack=0)
    found = found.drop(columns=["late", "punctuation"]).assign(**{name: given})
    answer = sf.window_aggregate(found, {"m": asked}, window=sf.Range("1 s"), order="t")
    assert answer["m"].tolist() == [expected]


def test_replaced_alternatives_of_pandas_have_their_own_attributes():
    rows = pd.DataFrame({"t": [0, 1], "a": [0, 1]})
    rows["alternatives"] = [[{"prob": 1.0, "x": 1.0}], [{"prob": 0.5, "x": 2.0}]]
    found = sf.reorder(rows, event_time="t", arrival="a", slack=0)
    window = {"window": sf.Range("1 s"), "order": "t"}
    more = found.assign(
        alternatives=[[{"prob": 1.0, "x": 1.0, "y": 4}], [{"prob": 0.5, "x": 2.0, "y": 5}]]
    )
    assert sf.window_aggregate(more, {"m": "sum(y)"}, **window)["m"][0]["mean"] == 6.5
    other = found.assign(alternatives=[[{"prob": 1.0, "y": 4.0}], [{"prob": 0.5, "y": 5.0}]])
    with pytest.raises(ValueError, match="no column or attribute `x`"):
        sf.window_aggregate(other, {"m": "sum(x)"}, **window)
    whole = found.assign(alternatives=[[{"prob": 1, "x": 3}], [{"prob": 1, "x": None}]])
    assert sf.window_aggregate(whole, {"m": "sum(x)"}, **window)["m"][0]["mean"] == 3.0


def test_an_as_of_join_keeps_candidates_that_reach_the_probability_up_to_rounding():
    readings = pa.table({"t": [1, 2], "existence": [1.0, 0.9]})  # 1 - 0.9 is just below 0.1
    found = sf.asof_join(pa.table({"t": [10]}), readings, order="t", probability=0.1)
    assert found.column("probability").to_pylist() == pytest.approx([0.9, 0.1])


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("d = 0.3", [3]),
        ("d <= 0.3", [0, 1, 2, 3]),
        ("d BETWEEN 0.2 AND 0.3", [2, 3]),
        ("d IN (0.3, 0.6, 0.7)", [3, 6, 7]),
        ("d > 0.6", [7, 8, 9]),
        ("d NOT IN (0.3)", [0, 1, 2, 4, 5, 6, 7, 8, 9]),
    ],
)
def test_decimals_are_compared_as_the_nearest_doubles(condition, kept):
    tenths = [Decimal(i) / 10 for i in range(10)]
    rows = pa.table({"t": range(10), "d": pa.array(tenths, pa.decimal128(10, 1))})
    assert sf.where(rows, condition).column("t").to_pylist() == kept


def test_decimals_that_a_condition_rounds_are_warned_of():
    rows = pa.table({"d": pa.array([Decimal("12345678901234567890.2")])})
    with pytest.warns(UserWarning, match="more than 15 digits are rounded"):
        sf.where(rows, "d > 1.5")
    with pytest.raises(ValueError, match=r"column `NULL`.* a condition tests for NULL with IS"):
        sf.where(rows, "d = NULL")
    with pytest.raises(ValueError, match="compares string with int32: cast one of them"):
        sf.where(pa.table({"s": ["a"]}), "s > 1")


def test_drawn_worlds_that_lost_their_metadata_warn_without_their_key():
    rows = pd.DataFrame({"t": range(4), "id": range(4), "existence": 0.5})
    drawn = sf.draw_worlds(rows, 9, source="s", id="id").merge(pd.DataFrame({"id": range(4)}))
    window = {"window": sf.Range("1 s"), "order": "t"}
    with pytest.warns(UserWarning, match="does not contain the column `world`.*key="):
        sf.window_aggregate(drawn, {"n": "count(*)"}, **window)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sf.window_aggregate(drawn, {"n": "count(*)"}, key="world", **window)
        sf.window_aggregate(rows.assign(world=1), {"n": "count(*)"}, **window)


def test_warnings_count_sums_above_one_as_one_reason():
    sums = [[(p, 1.0), (0.5, 2.0)] for p in (0.6, 0.7, 0.8)]
    cells = tuples_of([*sums, [(0.5, math.nan)], [(0.5, 1.0)]], x=pa.float64())
    rows = pa.table({"id": range(5), "alternatives": cells})
    with pytest.warns(sf.InvalidRowsWarning) as caught:
        sf.window_aggregate(rows, {"n": "avg(x)"}, window=sf.Rows(2), order="id")
    assert str(caught[0].message) == (
        "window_aggregate: 4 of 5 rows (80.0%) were left out as invalid: the probabilities sum to "
        "more than 1 (3 of them), an alternative's x is missing or not finite (1 of them). "
        "sf.alternatives(..., normalize=True) scales all sums to 1, also sums below 1"
    )


@pytest.mark.parametrize("uncertain", [True, False])
def test_a_warning_gives_the_reason_of_split_invalid(uncertain):
    values = [1.0, math.nan, math.inf, None]
    rows = pa.table({"id": [1, 2, 3, 4], "x": values})
    if uncertain:
        rows = rows.drop(["x"])
        rows = rows.append_column("alternatives", sf.alternatives(
            [[x] for x in values], [[1.0]] * 4, attributes="x"
        ))  # fmt: skip
    reasons = {*sf.split_invalid(rows, "x")[1]["reason"].to_pylist()}
    (reason,) = reasons
    how = {"window": sf.Range("2 us"), "order": "id"}
    ends = re.escape(f"invalid: {reason}") + "$"
    with pytest.warns(sf.InvalidRowsWarning, match=ends):
        sf.window_aggregate(rows, {"n": "sum(x)"}, **how)
    with pytest.warns(sf.InvalidRowsWarning, match=ends):
        sf.top_k(rows, 1, by="x", **how)


def test_probabilities_in_single_precision_are_scaled_where_they_are_read():
    rng, n = np.random.default_rng(3), 300
    shares = np.exp(rng.normal(0.0, 2.0, (n, 5))).astype(np.float32)
    shares /= shares.sum(axis=1, keepdims=True)
    rows = [[{"prob": p, "x": float(i)} for i, p in enumerate(row)] for row in shares]
    kind = pa.list_(pa.struct([("prob", pa.float32()), ("x", pa.float64())]))
    raw = pa.table({"t": range(n), "alternatives": pa.array(rows, kind)})
    assert (shares.astype(float).sum(axis=1) > 1.0 + 1e-9).sum() > 50
    scaled = raw.set_column(1, "alternatives", sf.alternatives(raw["alternatives"]))
    assert sf.existence(raw).to_pylist() == pytest.approx(sf.existence(scaled).to_pylist())
    window = {"window": sf.Range("1 s"), "order": "t"}
    near = {"on": "x", "within": 0.5, "probability": 0.3, "window": sf.Rows(9), "order": "t"}
    for call in (
        lambda rows: sf.window_aggregate(rows, {"n": "count(*)", "s": "sum(x)"}, **window),
        lambda rows: sf.top_k(rows, 3, by="x", **window).drop_columns(["row"]),
        lambda rows: sf.self_join(rows, **near).select(["probability"]),
    ):
        found, expected = (
            np.array([[*flatten(row)] for row in call(rows).to_pylist()]) for rows in (raw, scaled)
        )
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def flatten(row):
    """Yield the numbers in a row and in its structs."""
    for value in row.values():
        if isinstance(value, dict):
            yield from flatten(value)
        elif isinstance(value, float):
            yield value


def test_quantiles_of_improbable_tuples_are_relative_to_their_existence():
    cells = [[{"prob": 1e-13, "x": 1.0}, {"prob": 9e-13, "x": 2.0}]]
    assert sf.quantile("x", 0.5, pa.table({"alternatives": cells})).to_pylist() == [2.0]


def test_a_column_that_became_wider_in_pandas_keeps_its_digits():
    rows = pd.DataFrame({"at": [1, 2], "x": np.array([1, 2], np.float32)})
    ordered = sf.reorder(rows, event_time="at", arrival="at", slack=1)
    ordered["x"] = [16777217.0, 0.5]
    found = sf.window_aggregate(
        ordered, {"s": "sum(x)", "m": "max(x)"}, window=sf.Range("100 us"), order="at"
    )
    assert found[["s", "m"]].to_numpy().tolist() == [[16777217.5, 16777217.0]]


def test_a_column_without_values_or_without_a_name_is_named_in_errors():
    rows = pd.DataFrame({"at": [1], "alternatives": [[{"prob": 1.0, "x": 1.0}]]})
    with pytest.raises(TypeError, match="column `alternatives` has no value"):
        sf.window_aggregate(rows[rows["at"] > 1], {"n": "count(*)"}, window="1 s", order="at")
    missing = pd.DataFrame({"a": rows["alternatives"], "b": [None]})
    with pytest.raises(TypeError, match="names column `b`, which has no value"):
        sf.fuse(missing, ["a", "b"])
    unnamed = pa.table({"": [1, 2], "at": [1, 2], "x": [1.0, 2.0]})
    best = sf.top_k(unnamed, 1, by="x", window=sf.Range("9 us", slide="1 us"), order="at")
    assert best.column("row").to_pylist()[0] == {"": 1, "at": 1, "x": 1.0}
    with pytest.raises(TypeError, match="must name each result"):
        sf.window_aggregate(unnamed, {"": "count(*)"}, window="1 s", order="at")
