"""Integers and decimals over certain rows: exact sums, extremes, first and last values."""

import decimal
import warnings
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.tables.reading.exact import ExactNumber, exact_number

EXACT = decimal.Context(prec=60)
TYPES = {
    "small": (pa.int16(), pa.int64(), 0),
    "whole": (pa.int32(), pa.int64(), 0),
    "large": (pa.int64(), pa.int64(), 0),
    "price": (pa.decimal128(18, 2), pa.decimal128(28, 2), 2),
    "mass": (pa.decimal128(34, 8), pa.decimal128(38, 8), 8),
}
WINDOWS = [
    sf.Range("7 us", slide="3 us"), sf.Range("5 us", empty=True), sf.Session("4 us"), sf.Rows(3),
    sf.Delta(20_000.0, on="small"),
]  # fmt: skip


def unscaled(name):
    kind = TYPES[name][0]
    most = 2 ** (kind.bit_width - 1) if pa.types.is_integer(kind) else 10**kind.precision - 1
    far = most // 64  # sums of a few dozen values stay within the type
    near = st.integers(-5, 5)
    return st.none() | near | st.integers(-far, far) | near.map(lambda x: far - abs(x))


@st.composite
def readings(draw):
    n = draw(st.integers(1, 20))
    columns = {"t": pa.array(np.cumsum(draw(st.lists(st.integers(1, 4), min_size=n, max_size=n))))}
    columns["k"] = pa.array(draw(st.lists(st.sampled_from("ab"), min_size=n, max_size=n)))
    for name, (kind, _, scale) in TYPES.items():
        cells = draw(st.lists(unscaled(name), min_size=n, max_size=n))
        if scale:
            cells = [None if c is None else Decimal(c).scaleb(-scale, EXACT) for c in cells]
        columns[name] = pa.array(cells, kind)
    return pa.table(columns)


def of_rows(function, values, scale):
    """Return a result by its definition, with Python numbers."""
    if function == "sum":
        total = sum(int(v.scaleb(scale, EXACT)) if scale else v for v in values)
        return Decimal(total).scaleb(-scale, EXACT) if scale else total
    if not values:
        return None
    return {"min": min, "max": max, "first": lambda v: v[0], "last": lambda v: v[-1]}[function](
        values
    )


def members(rows, found, window):
    """Return the rows in one result's window."""
    mine = [row for row in rows if row["k"] == found["k"]]
    if "window" in found:
        start, end = found["window"]["start"], found["window"]["end"]
        return [row for row in mine if start <= row["t"] < end]
    arrived = [row for row in mine if row["t"] <= found["t"]]
    return arrived[len(arrived) - found["held"] :]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("functions", [("sum", "min", "max"), ("sum", "max", "first", "last")])
@settings(max_examples=25, deadline=None)
@given(table=readings())
def test_every_digit_is_that_of_python(window, functions, table):
    wanted = {
        f"{function} {name}": (function, name)
        for name in TYPES
        for function in functions
        if not (name == "mass" and function in ("min", "max"))
    }
    asked = {title: f"{function}({name})" for title, (function, name) in wanted.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing is rounded, so there is no warning
        found = sf.window_aggregate(table, asked, window=window, order="t", key="k")
    for title, (function, name) in wanted.items():
        assert found.schema.field(title).type == TYPES[name][function == "sum"], title
    rows = table.to_pylist()
    for result in found.to_pylist():
        mine = members(rows, result, window)
        for title, (function, name) in wanted.items():
            values = [row[name] for row in mine if row[name] is not None]
            assert result[title] == of_rows(function, values, TYPES[name][2]), title


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)))
def test_parts_of_a_value_are_the_value_again_and_halves_are_in_its_order(values):
    array = pa.array(values, pa.int64())
    for of, function in ((ExactNumber(64, False), "sum"), (ExactNumber(64, True), "max")):
        assert of.join(function, of.split(array)).equals(array)
    known = sorted({v for v in values if v is not None})
    low, high = ExactNumber(64, True).split(pa.array(known, pa.int64()))
    for half in (low, high):
        assert (np.diff(half[~np.isnan(half)]) > 0).all()


@pytest.mark.parametrize(
    ("kind", "value", "error"),
    [
        (
            pa.int64(),
            2**62,
            "a sum in `aggregates` must fit in bigint; got 9223372036854775808. Cast",
        ),
        (
            pa.decimal128(38, 2),
            Decimal(6 * 10**37).scaleb(-2, EXACT),
            r"fit in decimal\(38, 2\); got 12.*e-2. Cast the column to double f",
        ),
    ],
)
def test_a_sum_beyond_its_type_is_an_error_as_in_ansi_sql(kind, value, error):
    rows = pa.table({"t": [1, 2], "x": pa.array([value, value], kind)})
    with pytest.raises(ValueError, match=error):
        sf.window_aggregate(rows, {"s": "sum(x)"}, window=sf.Rows(2), order="t")
    alone = sf.window_aggregate(rows, {"s": "sum(x)"}, window=sf.Rows(1), order="t")
    assert alone["s"].to_pylist() == [value, value]


def test_a_sum_of_few_digits_has_ten_more_and_no_more():
    of = exact_number("sum", pa.decimal128(3, 1))
    assert (of.precision, of.scale) == (13, 1)
    most = of.split(pa.array([Decimal("99.9")], pa.decimal128(3, 1)))
    with pytest.raises(ValueError, match=r"fit in decimal\(13, 1\)"):
        of.join("sum", [part * 1.1e10 for part in most])


def test_expressions_and_other_aggregates_of_the_same_column():
    base = 2**53 + 1
    rows = pa.table({"t": [1, 2, 3], "x": pa.array([base, None, base + 2], pa.int64())})
    asked = {"s": "sum(x + 1)", "twice": "sum(2 * x)", "n": "count(x)", "mean": "avg(x - x)"}
    found = sf.window_aggregate(rows, asked, window=sf.Range("9 us"), order="t").to_pylist()[0]
    assert [found[name] for name in asked] == [2 * base + 4, 4 * base + 4, 2, 0.0]


def test_uncertain_rows_and_early_answers_have_doubles():
    rows = pa.table({"t": [1, 2], "x": [1, 2], "existence": [0.5, 1.0]})
    found = sf.window_aggregate(rows, {"s": "sum(x)"}, window=sf.Range("9 us"), order="t")
    assert found["s"].to_pylist()[0]["mean"] == 2.5
    rows = rows.drop_columns(["existence"])
    early = sf.window_aggregate(
        rows, {"s": "sum(x)"}, window=sf.Range("9 us"), order="t", early="3 us"
    )
    assert early.schema.field("s").type == pa.float64()
