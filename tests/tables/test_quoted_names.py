"""Column names in expressions that need backquotes: added where the meaning is clear, or hinted."""

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.memory.frame import frame_of

NAMES = (
    "flow rate",
    "value (mV)",
    "temp [°C]",
    "wind speed (m/s)",
    "abs(x)",
    "load (x)",
    "x",
    "a.b",
)
FRAME = frame_of(pa.table({name: [1.0] for name in NAMES}))


@pytest.mark.parametrize(
    "name", ["flow rate", "value (mV)", "temp [°C]", "wind speed (m/s)", "a.b"]
)
def test_a_name_that_cannot_be_an_expression_is_quoted(name):
    assert FRAME.quoted_name(name) == f"`{name}`"


@pytest.mark.parametrize("text", ["abs(x)", "load (x)", "x", "2 * value (mV)", "sum (x)", "`a.b`"])
def test_an_expression_stays_as_it_is(text):
    assert FRAME.quoted_name(text) == text


def test_the_hint_names_the_longest_name_without_backquotes():
    assert FRAME.quoting_hint("2 * wind speed (m/s)") == ". Write `wind speed (m/s)` in backquotes"
    assert FRAME.quoting_hint("2 * `value (mV)` + y") == FRAME.quoting_hint("x + y") == ""


def test_an_aggregate_of_a_name_with_a_unit():
    rows = pa.table({"at": [1, 2], "value (mV)": [1.0, 2.0]})
    how = {"window": sf.Rows(2), "order": "at"}
    found = sf.window_aggregate(rows, {"n": "sum(value (mV))"}, **how)
    assert found["n"].to_pylist() == [1.0, 3.0]
    hint = r"got '2 \* value \(mV\)'\. Write `value \(mV\)` in backquotes$"
    with pytest.raises(ValueError, match=hint):
        sf.window_aggregate(rows, {"n": "sum(2 * value (mV))"}, **how)
