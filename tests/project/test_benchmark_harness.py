"""The benchmark harness: alternating turns, fastest run, lower and upper goals."""

import pytest

from benchmarks.harness import fastest, in_turns, nanoseconds, row


def test_calls_take_turns_on_what_was_prepared_for_each_turn():
    seen, prepared = [], iter("abc")
    calls = {"ours": lambda of: seen.append(("ours", of)), "peer": lambda of: seen.append(of) or of}
    seconds, results = in_turns(calls, 3, prepare=lambda: next(prepared))
    assert seen == [("ours", "a"), "a", ("ours", "b"), "b", ("ours", "c"), "c"]
    assert results == {"ours": None, "peer": "c"}
    assert set(seconds) == {"ours", "peer"}


def test_the_fastest_run_counts():
    ticks = iter([0.0, 5.0, 5.0, 7.0, 7.0, 10.0])
    assert fastest(lambda: None, 3, clock=lambda: next(ticks)) == 2.0


@pytest.mark.parametrize(
    ("ratio", "goals", "goal", "met"),
    [
        (5.0, {"least": 4.0}, ">= 4", True),
        (3.9, {"least": 4.0}, ">= 4", False),
        (400_001, {"least": 400_000}, ">= 400,000", True),
        (1.5, {"most": 1.5}, "<= 1.5", True),
        (1.6, {"most": 1.5}, "<= 1.5", False),
        (9.0, {}, None, None),
        (9.0, {"least": None}, None, None),
    ],
)
def test_a_row_is_met_or_missed_by_its_ratio_and_neither_without_a_goal(ratio, goals, goal, met):
    found = row("name", "setting", nanoseconds(1.5e-6), "2 us", ratio, **goals, answers=3)
    assert (found["goal"], found["met"]) == (goal, met)
    assert (found["ours"], found["ratio"], found["answers"]) == ("1,500 ns", ratio, 3)
