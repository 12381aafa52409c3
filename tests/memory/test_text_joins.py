"""Joins on strings, which match if they are equal, for any codes that represent them."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from memory_tables import tuples_of
from seeds import examples
from sfumato.tables.joins.metric import JoinMetric
from sfumato.tables.joins.table_similarity_join import SimilarityJoinTableConfig
from sfumato.tables.keys import MIN_FORGOTTEN
from sfumato.windows import JoinWindow
from table_runs import table_of

PLATES = ("AB1", "A81", "ab1", "", "ü", "\u0075\u0308")


def sightings(seed, n, plates=PLATES):
    """Return a frame of uncertain plates and places."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        count = int(rng.integers(1, 4))
        prob = rng.dirichlet(np.ones(count + 1))[:count]
        cells = zip(prob, rng.choice(plates, count), rng.integers(0, 4, count), strict=True)
        found = [{"prob": float(p), "plate": str(t), "x": float(x)} for p, t, x in cells]
        rows.append({"id": i, "at": int(rng.integers(0, 3)) + 2 * i, "alternatives": found})
    return pd.DataFrame(rows, columns=["id", "at", "alternatives"]).sort_values("at")


def near(u, v):
    return u["plate"] == v["plate"] and abs(u["x"] - v["x"]) <= 1.0


def found(pairs):
    return {
        (row["left"]["id"], row["right"]["id"]): (
            round(row["probability"], 10),
            sorted((a["left_plate"], a["right_plate"]) for a in row["alternatives"]),
        )
        for row in pairs.to_dict("records")
    }


@pytest.mark.parametrize("strategy", ["nested", "index"])
@pytest.mark.parametrize("within", [1.0, {"x": 1.0}, {"x": 1.0, "plate": 7.0}], ids=str)
@examples(25)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 12))
def test_pairs_have_equal_texts_and_near_numbers(strategy, within, seed, n):
    left, right = sightings(seed, n), sightings(seed + 1, n)
    pairs = sf.similarity_join(
        left, right, on=["x", "plate"], within=within, probability=0.05, strategy=strategy,
        window=sf.Range("1 hour"), order="at",
    )  # fmt: skip
    expected = {}
    for u in left.to_dict("records"):
        for v in right.to_dict("records"):
            both = [(a, b) for a in u["alternatives"] for b in v["alternatives"] if near(a, b)]
            probability = sum(a["prob"] * b["prob"] for a, b in both)
            if probability >= 0.05:
                plates = sorted((a["plate"], b["plate"]) for a, b in both)
                expected[u["id"], v["id"]] = (round(probability, 10), plates)
    assert found(pairs) == expected


@examples(15)
@given(seed=st.integers(0, 2**32 - 1))
def test_one_text_needs_no_number(seed):
    frames = [sightings(seed + i, 9).assign(at=range(9)) for i in (0, 1)]  # ties are hashed
    settings = {"probability": 0.1, "window": sf.Rows(4), "order": "at", "within": 0.25}
    pairs = sf.similarity_join(*frames, on="plate", strategy="sort", **settings)
    numbers = {text: 1_000.0 * i for i, text in enumerate(PLATES)}
    for frame in frames:
        frame["alternatives"] = [
            [{**a, "number": numbers[a["plate"]]} for a in row] for row in frame["alternatives"]
        ]
    same = sf.similarity_join(*frames, on="number", **settings)
    assert found(pairs) == found(same)


def test_columns_of_text_and_categories_are_joined():
    left = pd.DataFrame({"at": [1, 2, 3], "id": [1, 2, 3], "name": ["ann", "bob", None]})
    right = pd.DataFrame({"at": [1, 2, 3], "id": [4, 5, 6], "name": ["bob", "ann", "ann"]})
    given = {"on": "name", "within": 1, "probability": 1, "window": sf.Rows(5), "order": "at"}
    expected = {(1, 5), (1, 6), (2, 4)}
    for other in (right, right.astype({"name": "category"})):
        with pytest.warns(UserWarning, match="1 of 3 rows"):
            pairs = sf.similarity_join(left, other, **given)
        assert {(a["id"], b["id"]) for a, b in zip(pairs["left"], pairs["right"], strict=True)} == (
            expected
        )
    del given["probability"]
    counted = sf.neighbours(right, **given)
    assert [row["mean"] for row in counted["neighbours"]] == [0.0, 0.0, 1.0]


def table(rows, side):
    numbers = pa.array([number for number, *_ in rows], pa.int64())
    texts = tuples_of([[(0.5, text) for text in each] for _, _, each in rows], on0=pa.string())
    return side, table_of({"id": numbers}, numbers, order0=numbers, alternatives=texts)


@pytest.mark.parametrize("restart", [False, True])
def test_cuts_restarts_and_forgotten_texts_change_no_answer(restart):
    rng, n = np.random.default_rng(5), 6_000
    rows = [
        (i, int(rng.integers(0, 2)), [f"t{i // 9 + int(j)}" for j in rng.choice(3, 2, False)])
        for i in range(n)
    ]
    config = SimilarityJoinTableConfig(
        within=1.0, probability=0.2, windows=(JoinWindow(5),) * 2, on=("on0",),
        metric=JoinMetric(texts=(0,)),
    )  # fmt: skip

    def run(cuts):
        operator, out, most = config.make(), [], 0
        for begin, end in pairwise([0, *cuts, n]):
            part = rows[begin:end]
            sides = [[row for row in part if row[1] == side] for side in (0, 1)]
            out += operator.process([table(of, side) for side, of in enumerate(sides) if of], 0)
            most = max(most, len(operator.texts))
            if restart:
                operator = config.restore(operator.snapshot())
        return [row for part in out for row in part.to_pylist()], most

    whole, _ = run([])
    split, most = run(list(range(500, n, 500)))
    assert len(whole) > 1_000
    assert split == whole
    assert most < MIN_FORGOTTEN + 500


def test_text_on_one_side_only_is_refused():
    text = pd.DataFrame({"at": [1], "name": ["a"]})
    given = {"on": "name", "within": 1, "probability": 1, "window": sf.Rows(5), "order": "at"}
    with pytest.raises(
        TypeError, match="`name`, which is text on the left and numeric on the right"
    ):
        sf.similarity_join(text, text.assign(name=1.0), **given)
