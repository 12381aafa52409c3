"""The version matrix: how a step is summarised, and the page."""

import pytest

import matrix
from environments import ROOT, TESTS, Outcome


def word(code: int, *lines: str) -> str:
    return matrix.word(Outcome(code, "\n".join(lines), 1.0))


@pytest.mark.parametrize(
    ("code", "lines", "expected"),
    [
        (0, ["8 rows"], "yes"),
        (0, ["12 passed in 30.1s"], "12 passed"),
        (1, ["E   assert 3 == 4", "1 failed, 7 passed in 30.1s"], "1 failed, 7 passed"),
        (1, ["Traceback", "ValueError: no"], "fails: ValueError: no"),
    ],
)
def test_a_step_is_summarised_in_a_word(code, lines, expected):
    assert word(code, *lines) == expected


def test_the_page_has_one_line_per_combination_which_a_run_replaces():
    page = matrix.PAGE.read_text()
    for name in matrix.COMBINATIONS:
        replaced = matrix.with_line(page, name, ["yes", "never"])
        changed = [
            (old, new)
            for old, new in zip(page.splitlines(), replaced.splitlines(), strict=True)
            if old != new
        ]
        python, spark = name.split("/")
        assert [new for _, new in changed] == [f"| {python} | {spark} | yes | never |"]
        assert changed[0][0].count("|") == len(matrix.STEPS) + 5


def test_the_tests_of_a_combination_exist():
    for name in TESTS:
        file, _, test = name.partition("::")
        assert f"def {test}" in (ROOT / file).read_text()
