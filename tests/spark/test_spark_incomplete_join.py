"""Joins of incomplete streams on Spark: of three streams, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sfumato as sf
from sfumato.operators.joins.incomplete_join import IncompleteArrivals, IncompleteJoin

pytestmark = pytest.mark.spark

NAMES = ["a", "b", "c"]
SCHEMA = "id long, site string, a double, b double, c double"
REPOSITORY = np.random.default_rng(1).random((80, 1)) * [1.0, 2.0, -1.0]
REPOSITORY = np.round(REPOSITORY + np.random.default_rng(2).normal(0, 0.05, (80, 3)), 2)


def incomplete(n, seed, keys=1):
    """[(id, site, a, b, c)] with gaps, some of them everywhere."""
    rng = np.random.default_rng(seed)
    values = np.round(rng.random((n, 1)) * [1.0, 2.0, -1.0] + rng.normal(0, 0.05, (n, 3)), 2)
    values[rng.random((n, 3)) < 0.25] = np.nan
    return [
        (i, f"k{rng.integers(0, keys)}", *(None if math.isnan(x) else float(x) for x in row))
        for i, row in enumerate(values)
    ]


SETTINGS = {
    "dependencies": ["a -> b : 0.1 -> 0.3", "a -> c : 0.1 -> 0.3", "b -> c : 0.05 -> 0.3"],
    "attributes": ["c", "b"],
    "max_alternatives": 16,
    "fallback": "reject",
}


def imputation(spark, **changed):
    columns = ", ".join(f"{name} double" for name in NAMES)
    repository = spark.createDataFrame(REPOSITORY.tolist(), columns)
    return {"repository": repository, **SETTINGS, **changed}


JOIN = {"on": ["b", "c"], "within": 0.3, "probability": 0.3, "order": "id", "window": sf.Rows(15)}


def test_of_three_streams_each_pair_is_joined_as_by_one_operator(spark):
    rows = {name: incomplete(40, seed) for seed, name in enumerate("xyz", 20)}
    imputing = imputation(spark)
    frames = {name: spark.createDataFrame(own, SCHEMA) for name, own in rows.items()}
    out = sf.join_streams(frames, **JOIN, impute=imputing)
    got = {
        (r.left_stream, r.left.id, r.right_stream, r.right.id): r.probability for r in out.collect()
    }
    imputer = sf.engine_free.Imputer(REPOSITORY, names=NAMES, **SETTINGS)
    join = IncompleteJoin(imputer, JOIN["within"], JOIN["probability"], [sf.Rows(15)] * 3)
    arriving = [rows[name][i][2:] for i in range(40) for name in "xyz"]  # simultaneous: by stream
    answers, _ = join.process(
        IncompleteArrivals(
            np.tile(np.arange(3, dtype=np.uint8), 40), np.zeros(120, np.int64),
            np.array(arriving, float),
        )
    )  # fmt: skip
    expected = {
        ("xyz"[u % 3], u // 3, "xyz"[v % 3], v // 3): p
        for u, v, p in zip(
            answers.left.tolist(), answers.right.tolist(), answers.probability.tolist(), strict=True
        )
    }
    assert got == pytest.approx(expected, abs=1e-12)
    assert {(one, other) for one, _, other, _ in got} == {("x", "y"), ("x", "z"), ("y", "z")}
    with pytest.raises(ValueError, match="same columns"):
        sf.join_streams({**frames, "w": frames["x"].drop("a")}, **JOIN)
    with pytest.raises(TypeError, match="at least two"):
        sf.join_streams({"x": frames["x"]}, **JOIN)


def test_frames_that_are_uncertain_already_are_told_to_impute_first(spark):
    df = spark.createDataFrame([], SCHEMA)
    for column in ("existence", "alternatives"):
        with pytest.raises(ValueError, match=f"right frame has a column `{column}`"):
            sf.similarity_join(df, df.withColumn(column, df.a), **JOIN, impute=imputation(spark))
    with pytest.raises(ValueError, match="impute, for the left frame"):
        sf.similarity_join(df.drop("a"), df, **JOIN, impute=imputation(spark))
