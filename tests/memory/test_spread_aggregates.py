"""stddev and var of windows: the sample standard deviation and variance."""

import numpy as np
import pandas as pd
import pytest

import sfumato as sf

MINUTE = sf.Range("1 minute")


def readings(x, seconds=None):
    seconds = range(len(x)) if seconds is None else seconds
    return pd.DataFrame({"t": pd.to_datetime(seconds, unit="s"), "x": np.asarray(x, float)})


@pytest.mark.parametrize("level", [0.0, 1e9, -1e13])
def test_values_far_from_zero_lose_nothing(level):
    rows = readings(level + np.array([0.25, 0.5, 0.0, 1.0]))
    for window in (sf.Rows(4), MINUTE, sf.Delta(1e300, "x")):
        found = sf.window_aggregate(rows, {"v": "var(x)"}, window=window, order="t")
        assert found["v"].iloc[-1] == pytest.approx(np.var([0.25, 0.5, 0, 1], ddof=1))


def test_fewer_than_two_values_have_no_deviation():
    rows = readings([5.0, 6.0, 7.0]).assign(x=pd.Series([5.0, None, 7.0], dtype="Float64"))
    found = sf.window_aggregate(rows, {"s": "stddev(x)"}, window=sf.Rows(2), order="t")
    assert found["s"].isna().all()
    found = sf.window_aggregate(
        rows.assign(existence=1.0), {"s": "stddev(x)"}, window=sf.Rows(2), order="t"
    )
    assert [(row["mean"], row["existence"]) for row in found["s"]] == [(None, 0.0)] * 3


@pytest.mark.parametrize(
    ("names", "of_pandas"),
    [(("avg", "mean"), "mean"), (("stddev", "std", "stddev_samp"), "std"),
     (("var", "variance"), "var")],
)  # fmt: skip
def test_aliases_compute_the_sample_deviation_and_variance(names, of_pandas):
    rows = readings([1.0, 10.0, 100.0])
    asked = {name: f"{name}(x)" for name in names}
    (found,) = sf.window_aggregate(rows, asked, window=MINUTE, order="t").to_dict("records")
    expected = pytest.approx(getattr(rows.x, of_pandas)(), rel=1e-15)
    assert [found[name] for name in names] == [expected] * len(names)
