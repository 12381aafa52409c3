"""The matrix of versions: what is not there is not told as a failure, nor the other way round."""

from __future__ import annotations

import json

import pytest

import matrix
from environments import Outcome

NOT_THERE = "E       ImportError: sf.ops.run_to_end needs PySpark 4.2 or later, whose"


def word(code: int, *lines: str) -> str:
    return matrix.word(Outcome(code, "\n".join(lines), 1.0))


@pytest.mark.parametrize(
    ("code", "lines", "expected"),
    [
        (0, ["8 rows"], "yes"),
        (0, ["12 passed in 30.1s"], "12 passed"),
        (1, ["Error: sf.ops.ReplaySource needs PySpark 4.2 or later"], "no replay source"),
        (
            1,
            [NOT_THERE, NOT_THERE, "2 failed, 6 passed in 30.1s"],
            "6 passed (2 others: no `run_to_end`)",
        ),
        (
            1,
            [NOT_THERE, "E   assert 3 == 4", "2 failed, 6 passed in 30.1s"],
            "2 failed, 6 passed (no `run_to_end`: 1)",
        ),
        (1, ["E   assert 3 == 4", "1 failed, 7 passed in 30.1s"], "1 failed, 7 passed"),
        (1, ["Traceback", "ValueError: no"], "fails: ValueError: no"),
    ],
)
def test_a_step_is_told_in_a_word(code, lines, expected):
    assert word(code, *lines) == expected


def lines(page: str) -> list[str]:
    return [line for line in page.splitlines() if line.startswith("| 3.")]


def test_the_page_is_that_of_the_rows_that_were_measured():
    rows = json.loads(matrix.KEPT.read_text())
    table = [line for line in matrix.PAGE.read_text().splitlines() if line.startswith("| 3.")]
    assert table == [
        line for line in matrix.page(rows, "1").splitlines() if line.startswith("| 3.")
    ]
