"""FILTER and count_if: aggregates of the rows, or alternatives, that satisfy a condition."""

from decimal import Context, Decimal, Inexact, localcontext
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from worlds import aggregate_laws, moments_of, quantile_of

MINUTE = sf.Range("1 minute")
FUNCTIONS = ("count", "sum", "avg", "min", "max", "first", "last", "count_distinct", "var")
READINGS = pd.DataFrame(
    {
        "t": pd.to_datetime([0, 1, 2, 3, 4], unit="s"),
        "x": [1.0, 5.0, 3.0, None, 2.0],
        "k": ["a", "b", "a", "a", None],
        "up": pd.array([True, True, False, None, True], "boolean"),
        "value (mV)": [1, 2, 3, 4, 5],
    }
)


def aggregates(asked, rows=READINGS, window=MINUTE, **how):
    (found,) = sf.window_aggregate(rows, asked, window=window, order="t", **how).to_dict("records")
    return found


def test_only_rows_that_satisfy_the_condition_are_aggregated():
    found = aggregates(
        {
            "n": "count_if(x > 1.5e0)",
            "of_a": "count_if(x > 1.5e0) FILTER (WHERE k = 'a')",
            "m": "avg(x) filter(where up)",
            "last": "last(k) FILTER (WHERE x < 4)",
            "median": "quantile(x, 50%) FILTER (WHERE NOT k = 'b')",
            "distinct": "count(DISTINCT k) FILTER (WHERE x IS NOT NULL)",
            "none": "sum(x) FILTER (WHERE x > 9)",
            "least": "min(x) FILTER (WHERE x > 9)",
            "odd": "sum(value (mV)) FILTER (WHERE `value (mV)` <> 2)",
            "parenthesis": "count(*) FILTER (WHERE k <> ')')",
        }
    )
    assert np.isnan(found.pop("least"))
    assert {name: found[name] for name in [*found][-9:]} == {
        "n": 3, "of_a": 1, "m": pytest.approx(8 / 3), "last": "a", "median": 1.0, "distinct": 2,
        "none": 0.0, "odd": 13, "parenthesis": 4,
    }  # fmt: skip
    assert found["held"] == 5


def test_other_rows_remain_in_the_window():
    how = {"order": "t", "window": sf.Rows(2)}
    found = sf.window_aggregate(READINGS, {"n": "count_if(k = 'a')"}, **how)
    assert found["n"].tolist() == [1, 1, 1, 2, 1]
    found = sf.window_aggregate(
        READINGS, {"n": "count_if(k = 'a')"}, order="t", window=MINUTE, with_rows=True
    )
    assert found["n"].tolist() == [3] * 5


@given(
    st.lists(
        st.tuples(st.booleans(), st.lists(st.sampled_from([0, 1, 2, None]), max_size=2)),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(["x > 0", "up", "up OR x = 2", "x IS NULL"]),
)
def test_uncertain_conditions_agree_with_possible_worlds(rows, condition):
    holds = {
        "x > 0": lambda up, x: x is not None and x > 0,
        "up": lambda up, x: up,
        "up OR x = 2": lambda up, x: up or x == 2,
        "x IS NULL": lambda up, x: x is None,
    }[condition]
    tuples, counted, lists = [], [], []
    for up, values in rows:
        prob = Fraction(3, 4 * max(1, len(values)))
        kept = [(x, holds(up, x)) for x in values]
        tuples.append([(prob, x if kept_ else None) for x, kept_ in kept])
        counted.append([(prob, 1 if kept_ else None) for _, kept_ in kept])
        lists.append([{"prob": float(prob), "x": x} for x in values])
    kind = pa.list_(pa.struct([("prob", pa.float64()), ("x", pa.float64())]))
    table = pa.table(
        {
            "t": pa.array(range(len(rows)), pa.int64()),
            "up": [up for up, _ in rows],
            "alternatives": pa.array(lists, kind),
        }
    ).filter(pa.array([bool(values) for values in lists]))
    if not table.num_rows:
        return
    asked = {f: f"{f}(x) FILTER (WHERE {condition})" for f in FUNCTIONS}
    asked["rows"] = f"count_if({condition})"
    (found,) = sf.window_aggregate(
        table, asked, window=MINUTE, order="t", quantiles=[0.5], distribution=50
    ).to_pylist()
    laws = aggregate_laws([(f, None) for f in FUNCTIONS], tuples)
    laws += aggregate_laws([("count", None)], counted)
    for name, law in zip(asked, laws, strict=True):
        mean, variance, existence = moments_of(law)
        assert found[name]["existence"] == pytest.approx(float(existence), abs=1e-12)
        if not existence:
            assert found[name]["mean"] is None
            continue
        assert found[name]["mean"] == pytest.approx(float(mean), abs=1e-12)
        assert found[name]["stddev"] ** 2 == pytest.approx(float(variance), abs=1e-12)
        assert found[name]["q50"] == pytest.approx(float(quantile_of(law, Fraction(1, 2))))
        given_values = {of["value"]: of["prob"] for of in found[name]["distribution"]}
        likely = {float(v): pytest.approx(float(p), abs=1e-12) for v, p in law.items() if p}
        assert {v: p for v, p in given_values.items() if p > 1e-12} == likely


@pytest.mark.parametrize("window", [sf.Rows(3), MINUTE, sf.Session("1 minute"), sf.Delta(9, "x")])
def test_a_filter_equals_an_expression_that_is_null_elsewhere(window):
    rows = READINGS.dropna(subset="x")
    how = {"window": window, "order": "t"}
    filtered = {f: f"{f}(x) FILTER (WHERE k = 'a')" for f in (*FUNCTIONS, "stddev")}
    found = sf.window_aggregate(rows, filtered, **how)
    written = {f: f"{f}(CASE WHEN k = 'a' THEN x END)" for f in filtered}
    pd.testing.assert_frame_equal(found, sf.window_aggregate(rows, written, **how))


def test_the_same_text_may_be_hashed_picked_and_computed():
    rows = READINGS.assign(id=[2**60, 2**60 + 1, 2**60, 2**60 + 1, 2**60])
    found = aggregates(
        {
            "texts": "count(DISTINCT(k))", "first": "min(k)", "last": "max((k))",
            "ids": "count(DISTINCT id)", "total": "sum((id))", "mean": "avg(((id)))",
            "some": "count(DISTINCT id) FILTER (WHERE up)",
            "other": "max(CASE WHEN (up) THEN (id) END)",
        },
        rows,
    )  # fmt: skip
    assert [found["texts"], found["first"], found["last"]] == [2, "a", "b"]
    assert [found["ids"], found["some"], found["other"]] == [2, 2, 2**60 + 1]
    assert found["total"] == 5 * 2**60 + 2
    assert found["mean"] == pytest.approx(2.0**60)


def test_distinct_decimals_of_any_size_are_counted_in_any_context():
    rows = READINGS.assign(d=[Decimal(10**30 + i) for i in (0, 1, 1, 2, 3)])
    with localcontext(Context(prec=6, traps=[Inexact])):
        assert aggregates({"n": "count(DISTINCT d)"}, rows)["n"] == 4


def test_a_condition_that_is_also_the_name_of_a_column_is_a_condition():
    rows = READINGS.assign(**{"not up": True}).dropna(subset="up")
    found = aggregates({"n": "count_if(not up)", "all": "count_if(`not up`)"}, rows)
    assert (found["n"], found["all"]) == (1, 4)


def test_early_answers_count_the_rows_that_satisfy_the_condition():
    rows = READINGS.assign(arrival=READINGS.t + pd.Timedelta("1 second"))
    rows = sf.reorder(rows, event_time="t", arrival="arrival", max_delay="2 seconds", early=True)
    found = sf.window_aggregate(
        rows, {"n": "count_if(x > 1.5e0)"}, window="5 seconds", order="t", early="1 second"
    )
    assert found["n"].tolist()[-1] == 3
    assert np.isin(found["n"], [0, 1, 2, 3]).all()


@pytest.mark.parametrize(
    ("text", "error", "match"),
    [
        ("sum(x) FILTER (WHERE )", ValueError, "needs a condition, such as x > 0"),
        ("count_if()", ValueError, "needs a condition, such as x > 0"),
        ("count_if", ValueError, r"Write count_if\(x > 0\)"),
        ("cuont_if(x > 0)", ValueError, "did you mean `count_if`"),
        ("sum(x) FILTER (x > 0)", ValueError, r"sum\(x\) FILTER \(WHERE y > 0\); got"),
        ("sum(x) FILTER (WHERE x > 0) + 1", ValueError, "must be one of count, sum"),
        ("sum(x) FILTER (WHERE up) FILTER (WHERE up)", ValueError, "must be one function"),
        ("sum(x) FILTER (WHERE x)", TypeError, "`x` must be a condition over booleans"),
        ("sum(x) FILTER (WHERE y > 0)", ValueError, "no column or attribute `y`"),
        ("sum(x) FILTER (WHERE max(x) > 0)", ValueError, "without Spark, `aggregates"),
        ("sum(k) FILTER (WHERE up)", TypeError, "is string"),
        ("count_if(x < 9999999999999999999)", TypeError, "is a decimal number in Spark"),
    ],
)
def test_wrong_filters_are_refused(text, error, match):
    with pytest.raises(error, match=match):
        aggregates({"n": text})
