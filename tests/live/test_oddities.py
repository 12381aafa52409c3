"""Sentences about what is out of the ordinary."""

from sfumato.live.oddities import oddities


def test_nothing_is_said_of_an_ordinary_query_or_of_a_few_rows():
    assert list(oddities({}, 0.01)) == []
    assert list(oddities({"sfumato_reorder_a": {"rows": 5_000, "late": 55}}, 0.01)) == []
    assert list(oddities({"sfumato_join_a_left": {"rows": 10, "invalid": 9}}, None)) == []


def test_shares_above_the_ordinary_are_told_with_their_operator():
    counters = {
        "sfumato_reorder_a": {"rows": 5_000, "late": 200},
        "sfumato_join_pairs": {"rows": 5_000, "unaligned": 5_000, "overflow": 20},
    }
    late, unaligned = oddities(counters, 0.01)
    assert late == "4.00% of the rows came late; wanted are 1.00%"
    assert unaligned.startswith("join_pairs: 5,000 of 5,000 rows (100.0%) were joined without")
