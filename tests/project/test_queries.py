"""What is a valid top-k query, and which end of a score ranks first."""

import pytest

import sfumato as sf
from sfumato.queries import intervals_by_name, split_direction

SECOND = 1_000_000


def test_a_number_stands_for_a_query_wherever_one_is_meant():
    assert (
        intervals_by_name(3, SECOND)
        == intervals_by_name(sf.Top(3), SECOND)
        == {"top_3": (3, SECOND)}
    )
    assert intervals_by_name([2, sf.Top(3, every="5 us")], SECOND) == {
        "top_2": (2, SECOND),
        "top_3": (3, 5),
    }


@pytest.mark.parametrize("given", [True, "3", 3.0, [], [True], [sf.Top(3), "4"], None, {"k": 3}])
def test_anything_else_is_refused_with_a_sentence(given):
    with pytest.raises(
        TypeError, match=r"`queries` must be one sf.Top, a number k, or a non-empty"
    ):
        intervals_by_name(given, SECOND)


def test_a_number_is_checked_as_a_query_is():
    with pytest.raises(ValueError, match="`k` must be an integer of at least 1; got 0"):
        intervals_by_name(0, SECOND)


@pytest.mark.parametrize(
    ("by", "expression", "ascending"),
    [
        ("v", "v", False),
        ("v asc", "v", True),
        ("v  ASC ", "v", True),
        ("a + b desc", "a + b", False),
        ("abs(v) DESC", "abs(v)", False),
        ("`a column` asc", "`a column`", True),
        ("asc", "asc", False),
        ("desc + 1", "desc + 1", False),
        ("descent", "descent", False),
        ("x.asc", "x.asc", False),
    ],
)
def test_a_direction_behind_the_score_is_understood(by, expression, ascending):
    assert split_direction(by, None) == (expression, ascending)


def test_ascending_says_it_too_and_must_not_contradict():
    assert split_direction("v", True) == ("v", True)
    assert split_direction("v asc", True) == ("v", True)
    assert split_direction("v desc", False) == ("v", False)
    for by, ascending in (("v asc", False), ("v desc", True)):
        with pytest.raises(ValueError, match="Give the direction once"):
            split_direction(by, ascending)


def test_an_order_of_nulls_and_what_is_no_text_are_refused():
    with pytest.raises(ValueError, match="must not contain NULLS FIRST or NULLS LAST"):
        split_direction("v desc nulls last", None)
    for by in ("v asc, w desc", "v desc, w"):
        with pytest.raises(ValueError, match="must be one expression, the score"):
            split_direction(by, None)
    for by in (3, None, "", "  ", ["v"]):
        with pytest.raises(TypeError, match="`by` must be a string with a Spark SQL expression"):
            split_direction(by, None)
