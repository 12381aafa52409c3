"""The newest revision of each window among early answers in memory."""

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from engine_cases import CASES, A, B

ANSWERS = CASES["early answers"](sf, A, B)  # an Arrow table
NEWEST = sf.ops.newest_revisions


def test_each_window_keeps_the_revision_with_the_largest_number():
    shuffled = ANSWERS.take(np.random.default_rng(1).permutation(len(ANSWERS)))
    for rows in (ANSWERS, shuffled, shuffled.slice(7)):
        largest = {}
        for row in rows.to_pylist():
            of = row["room"], row["window"]["end"]
            if of not in largest or row["revision"] > largest[of]["revision"]:
                largest[of] = row
        newest = NEWEST(rows, key="room")
        assert {(row["room"], row["window"]["end"]): row for row in newest.to_pylist()} == largest
        assert newest.num_rows == len(largest)
    assert all(NEWEST(ANSWERS, key="room")["final"].to_pylist())


def test_a_key_may_be_null_and_a_frame_empty():
    rows = pl.from_arrow(ANSWERS)
    found = NEWEST(rows, key=["room"])
    assert isinstance(found, pl.DataFrame)
    assert found["room"].null_count() > 0
    assert len(found) == len(NEWEST(ANSWERS, key="room"))
    assert NEWEST(rows.clear(), key="room").columns == rows.columns


def test_wrong_arguments():
    with pytest.raises(
        ValueError, match=r"no column `window`, `final`, `revision`; it has .*early"
    ):
        NEWEST(A)
    with pytest.raises(ValueError, match="`key` names a column `hall`"):
        NEWEST(ANSWERS, key="hall")
    with pytest.raises(ValueError, match=r"all columns of the `key` of .*; got None"):
        NEWEST(ANSWERS)
    unknown = pl.from_arrow(ANSWERS)  # Polars frames cannot record the key
    with pytest.raises(ValueError, match="same key, window and revision: write the same `key`"):
        NEWEST(unknown)
    texts = pl.from_arrow(ANSWERS).with_columns(revision=pl.lit("a"))
    with pytest.raises(TypeError, match="`revision` of `df` must contain integers"):
        NEWEST(texts, key="room")
    with pytest.raises(TypeError, match="`table` must be a table name"):
        sf.ops.upsert_revisions(None)
