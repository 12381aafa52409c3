"""A repository per key: the answers come from the key's own rows, or from all rows."""

import numpy as np
import pandas as pd
from hypothesis import example, given
from hypothesis import strategies as st

import sfumato as sf
from tests.seeds import examples

HOW = {"dependencies": ["x -> y : 0.1 -> 0.1", "z -> y : 0.2 -> 0.2"], "attributes": "y"}


def readings(random, keys) -> pd.DataFrame:
    """Return rows whose y depends on x and on the key."""
    x, z = random.random((2, len(keys)))
    factor = pd.Series(keys).map({"a": 1.0, "b": 5.0}).fillna(-3.0).to_numpy()
    return pd.DataFrame({"sensor": keys, "x": x, "z": z, "y": factor * x + 0.1 * z})


def scaling_of(table) -> dict:
    low, high = table.min(), table.max()
    return {name: (low[name], high[name] - low[name]) for name in ("x", "z", "y")}


@examples(20)
@given(
    st.integers(0, 2**20),
    st.lists(st.sampled_from(["a", "b", "c"]), min_size=20, max_size=60),
    st.lists(st.sampled_from(["a", "b", "c", "d", None]), min_size=1, max_size=12),
    st.sampled_from([1, 8, 20]),
    st.sampled_from(["calibrated", "plain"]),
)
@example(0, ["a"] * 20, [None], 1, "calibrated")  # a pandas column without a type
def test_a_row_has_the_answer_of_its_own_keys_rows_or_of_all(seed, past, keys, least, method):
    random = np.random.default_rng(seed)
    repository, rows = readings(random, past), readings(random, keys)
    rows["y"] = np.where(random.random(len(rows)) < 0.8, np.nan, rows["y"])
    how = {**HOW, "method": method}
    found = sf.impute(rows, repository=repository, key="sensor", least_rows=least, **how)
    scaling, shared = scaling_of(repository[["x", "z", "y"]]), 0
    for place in range(len(rows)):
        key = rows["sensor"][place]
        own = repository[repository["sensor"] == key]
        if len(own) < least or not len(own):
            own = repository
            shared += int(np.isnan(rows["y"][place]))
        row = rows.iloc[[place]]
        expected = sf.impute(row, repository=own, scaling=scaling, **how)
        for column in ("alternatives", "imputed_by"):
            assert str(found[column][place]) == str(expected[column].iloc[0])
    assert sf.ops.counters(found)["sfumato_impute_1"]["shared"] == shared


def test_several_columns_make_a_key_and_whole_numbers_are_equal_in_any_width():
    random = np.random.default_rng(0)
    repository = readings(random, ["a", "b"] * 100)
    repository["floor"] = np.arange(200, dtype=np.int64) // 100
    rows = readings(random, ["a", "a", "b"]).assign(y=np.nan)
    rows["floor"] = np.array([1, 7, 0], np.int16)
    key = ["sensor", "floor"]
    found = sf.impute(rows, repository=repository, key=key, least_rows=50, **HOW)
    assert sf.ops.counters(found)["sfumato_impute_1"]["shared"] == 1
    own = repository[(repository["sensor"] == "a") & (repository["floor"] == 1)]
    scaling = scaling_of(repository[["x", "z", "y"]])
    expected = sf.impute(rows.iloc[[0]], repository=own, scaling=scaling, **HOW)
    assert str(found["alternatives"][0]) == str(expected["alternatives"][0])
