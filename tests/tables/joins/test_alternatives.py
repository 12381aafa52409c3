"""The alternatives of pairs are those of their own rows, or there is an error."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sfumato.tables.joins.table_join import ALTERNATIVES, attributes_at

KIND = pa.list_(pa.struct([("prob", pa.float64()), ("x", pa.float64())]))
ROWS = pa.table(
    {
        ALTERNATIVES: pa.array(
            [[{"prob": 0.5, "x": 1.0}, {"prob": 0.5, "x": 2.0}], [{"prob": 1.0, "x": 3.0}]], KIND
        )
    }
)


def test_attributes_are_those_of_the_samples():
    found = attributes_at(ROWS, np.array([1, 0, 0], np.int32), np.array([2, 1]))
    assert found["x"].to_pylist() == [2.0, 1.0, 3.0]


@pytest.mark.parametrize("sample", [[2, 0], [-1, 0], [0, 1], [0, 7]])
def test_a_sample_of_another_row_is_an_error(sample):
    with pytest.raises(ValueError, match="a sample that its row does not have"):
        attributes_at(ROWS, np.array(sample, np.int32), np.array([1, 1]))
