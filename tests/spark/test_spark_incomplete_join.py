"""The fused join on real Spark equals imputing both streams, then joining them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sfumato as sf
from sfumato.operators.joins.incomplete_join import IncompleteArrivals, IncompleteJoin
from sfumato.operators.joins.similarity_join import Arrivals, SimilarityJoin
from streams import counts_of, put_parts, run, stream_of

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


def pairs_of(rows):
    """{(left id, right id): (probability, its sorted alternatives)}; no pair comes twice."""
    got = {}
    for row in rows:
        pair = (row.left.id, row.right.id)
        assert pair not in got
        law = sorted((*(a[f"{s}_{n}"] for s in ("left", "right") for n in "bc"), a.prob)
                     for a in row.alternatives)  # fmt: skip
        got[pair] = row.probability, law
    return got


def check(rows, expected):
    got = pairs_of(rows)
    assert got.keys() == expected.keys()
    for pair, (probability, law) in expected.items():
        assert got[pair][0] == pytest.approx(probability, abs=1e-12)
        assert np.array(got[pair][1]) == pytest.approx(np.array(law), abs=1e-12)


def in_two_steps(spark, left, right, imputing, **changed):
    """The definition on Spark: both frames imputed whole, then joined."""
    frames = [sf.impute(spark.createDataFrame(rows, SCHEMA), **imputing) for rows in (left, right)]
    joined = sf.similarity_join(*(sf.split_invalid(f)[0] for f in frames), **{**JOIN, **changed})
    return pairs_of(joined.collect())


def by_operators(left, right, **changed):
    """The definition without Spark, as (what `pairs_of` gives, how many rows are unimputable)."""
    imputer = sf.engine_free.Imputer(REPOSITORY, names=NAMES, **{**SETTINGS, **changed})
    rows = [row for both in zip(left, right, strict=True) for row in both]
    done = imputer.impute(np.array([row[2:] for row in rows], float))
    side = np.tile(np.array([0, 1], np.uint8), len(left))
    codes = np.zeros(len(rows), np.int64)
    join = SimilarityJoin(2, JOIN["within"], JOIN["probability"], sf.Rows(15), strategy="nested")
    answers = join.process(Arrivals(side, codes, done.offsets, done.prob, done.values))
    values = done.values[:, [imputer.attributes.index(name) for name in "bc"]].tolist()
    expected = {}
    for i, pair in enumerate(zip(answers.left.tolist(), answers.right.tolist(), strict=True)):
        first, second = (int(done.offsets[2 * number + side]) for side, number in enumerate(pair))
        law = [
            (*values[first + k], *values[second + j], p)
            for k, j, p in zip(
                *(column[answers.offsets[i] : answers.offsets[i + 1]].tolist()
                  for column in (answers.left_sample, answers.right_sample, answers.prob)),
                strict=True,
            )
        ]  # fmt: skip
        expected[pair] = float(answers.probability[i]), sorted(law)
    return expected, int((done.reason > 1).sum())


def test_static_frames_give_the_pairs_of_imputing_first(spark):
    left, right = incomplete(90, 3, 2), incomplete(90, 4, 2)
    expected, _ = by_operators(left, right, joint=True)
    assert len(expected) > 20
    imputing = imputation(spark, joint=True)
    frames = [spark.createDataFrame(rows, SCHEMA).repartition(2) for rows in (left, right)]
    out = sf.similarity_join(*frames, **JOIN, impute=sf.Imputation(**imputing))
    assert out.columns == ["left", "right", "probability", "alternatives"]
    assert out.schema["left"].dataType.names == ["id", "site", *NAMES]
    pair = out.schema["alternatives"].dataType.elementType
    assert pair.names == ["prob", "left_b", "left_c", "right_b", "right_c"]
    rows = out.collect()
    check(rows, expected)
    check(rows, in_two_steps(spark, left, right, imputing))


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


def streams(spark, folder, sides, cuts):
    """Streams of two sides, of which the files between these cuts are there."""
    for name, rows in zip(("left", "right"), sides, strict=True):
        put_parts(folder / name, spark.createDataFrame(rows, SCHEMA).toArrow(), cuts)
    return [stream_of(spark, folder / name, SCHEMA) for name in ("left", "right")]


def run_join(frames, folder, **arguments):
    return run(sf.similarity_join(*frames, **JOIN, **arguments), folder)


def test_streams_give_the_same_pairs_after_a_restart_and_their_counts_add_up(spark, tmp_path):
    left, right = incomplete(120, 5), incomplete(120, 6)
    imputing = imputation(spark)
    expected, unimputable = by_operators(left, right)
    sides = (left, right)
    first, one = run_join(streams(spark, tmp_path, sides, [0, 1, 70]), tmp_path, impute=imputing)
    second, other = run_join(streams(spark, tmp_path, sides, [70, 120]), tmp_path, impute=imputing)
    check(first + second, expected)
    counts = counts_of(one, other, but=("left", "right"))
    assert counts["rows"] == 240 == counts["complete"] + counts["imputed"] + counts["unimputable"]
    assert counts["unimputable"] == unimputable > 0
    assert counts["pairs"] == len(expected)
    assert 0 < counts["fully_imputed"] <= counts["imputed"]
    fewer = spark.createDataFrame(REPOSITORY[1:].tolist(), "a double, b double, c double")
    again = streams(spark, tmp_path, sides, [118, 120])
    with pytest.raises(Exception, match="another query"):
        run_join(again, tmp_path, impute={**imputing, "repository": fewer})


def test_changes_keep_the_current_answer_set(spark, tmp_path):
    left, right = incomplete(60, 7), incomplete(60, 8)
    imputing = imputation(spark, fallback="marginal")
    expected, _ = by_operators(left, right, fallback="marginal")
    frames = streams(spark, tmp_path, (left, right), [0, 25, 60])
    rows, _ = run_join(frames, tmp_path, impute=imputing, output="changes")
    check([row for row in rows if row.change == "+"], expected)
    current = {}
    for row in rows:
        pair = (row.left.id, row.right.id)
        if row.change == "+":
            current[pair] = row
        else:  # a pair leaves once, with the contents it came with
            assert current.pop(pair).alternatives == row.alternatives
    held = JOIN["window"].rows
    assert current.keys() == {pair for pair in expected if min(pair) >= 60 - held}


def test_frames_that_are_uncertain_already_are_told_to_impute_first(spark):
    df = spark.createDataFrame([], SCHEMA)
    for column in ("existence", "alternatives"):
        with pytest.raises(ValueError, match=f"right frame has a column `{column}`"):
            sf.similarity_join(df, df.withColumn(column, df.a), **JOIN, impute=imputation(spark))
    with pytest.raises(ValueError, match="impute, for the left frame"):
        sf.similarity_join(df.drop("a"), df, **JOIN, impute=imputation(spark))
