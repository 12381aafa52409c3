"""A query of a schedule gets another name: when it is answered stays."""

from __future__ import annotations

from sfumato.operators.ranking.schedule import Schedule


def test_a_renamed_query_is_due_when_it_was_before():
    schedule = Schedule({"a": (3, 2), "b": (4, 3)}, start=100)
    expected = Schedule({"c": (3, 2), "b": (4, 3)}, start=100)
    schedule.take(102)
    expected.take(102)
    schedule.rename({"a": "c"})
    assert schedule.take(130) == expected.take(130)
    assert schedule.course == expected.course


def test_a_name_that_is_taken_is_not_given_twice():
    schedule = Schedule({"a": (3, 2), "b": (4, 3)}, start=100)
    schedule.rename({"a": "b"})
    assert schedule.queries == {"a": (3, 2), "b": (4, 3)}
