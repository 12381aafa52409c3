"""The arrival order of rows, from nearly sorted to unsorted input."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from seeds import examples
from sfumato.tables.arrival_order import arrival_order


@examples(300)
@given(st.integers(0, 10**6), st.integers(0, 40), st.booleans(), st.booleans())
def test_rows_are_sorted_by_all_columns_and_equal_ones_stay(seed, n, nearly, missing):
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, 4, n), rng.integers(0, 3, n), rng.choice([0.0, 0.5, 7.0], n)]
    if nearly:
        sorted_ = np.lexsort(columns[::-1])
        for i in rng.integers(0, n, 2) if n else ():
            sorted_[i : i + 2] = sorted_[i : i + 2][::-1]
        columns = [column[sorted_] for column in columns]
    if missing:
        columns[2][rng.random(n) < 0.2] = np.nan
    expected = np.lexsort(columns[::-1])
    assert arrival_order(columns[:2], columns[2:]).tolist() == expected.tolist()
    first = np.argsort(columns[0], kind="stable")
    assert arrival_order(columns[:1]).tolist() == first.tolist()
    whole = [*columns[:2], np.arange(n)]
    assert arrival_order(whole[:1], whole[1:]).tolist() == np.lexsort(whole[::-1]).tolist()
