"""Imputation of numbers whose squares underflow to 0."""

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf


def test_alternatives_are_finite_and_about_as_in_another_unit():
    rng = np.random.default_rng(0)
    x = rng.random(200)
    y = 2.0 * x + rng.normal(0.0, 0.01, x.size)

    def mean(unit):
        rows = pa.table({"x": [0.5 * unit], "y": pa.array([None], pa.float64())})
        past = pa.table({"x": x * unit, "y": y * unit})
        near = ["x -> y : 0.05 -> 0.1"]
        with np.errstate(divide="raise", invalid="raise"):
            known = sf.impute(rows, repository=past, attributes=["x", "y"], dependencies=near)
        (given,) = known.column("alternatives").to_pylist()
        return sum(one["prob"] * one["y"] / unit for one in given)

    assert mean(1e-200) == pytest.approx(mean(1.0), rel=0.05)
