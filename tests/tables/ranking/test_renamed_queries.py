"""A restart with other names of queries: one that asks the same as before goes on as it was."""

from __future__ import annotations

from sfumato.tables.ranking.key_windows import _renamed


def test_a_query_that_asks_the_same_under_another_name_is_the_same():
    known = {"top_3": (3, 2), "top_2": (2, 5)}
    assert _renamed(known, {"best": (3, 2), "top_2": (2, 5)}) == {"top_3": "best"}
    assert _renamed(known, {"best": (3, 4), "top_2": (2, 5)}) == {}


def test_a_query_that_stays_keeps_its_name_when_another_asks_the_same():
    known = {"top_3": (3, 2)}
    assert _renamed(known, {"top_3": (3, 2), "best": (3, 2)}) == {}
    assert _renamed({"a": (3, 2), "b": (3, 2)}, {"c": (3, 2)}) == {"a": "c"}
