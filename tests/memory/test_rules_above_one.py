"""Rules whose probabilities sum to more than 1: later rows are rejected, or all are scaled."""

import warnings

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from memory_tables import at
from sfumato.operators.ranking.top_k_windows import TopKWindows
from sfumato.tables.reading.user_warnings import InvalidRowsWarning

HOUR = {"by": "days", "window": sf.Range("1 hour"), "order": "at"}


@pytest.fixture
def bergs():
    return pa.table({
        "berg": ["a", "a", "b", "a", None, None],
        "days": [3.0, 9.0, 5.0, 4.0, 1.0, 1.5],
        "existence": [0.9, 0.9, 0.5, 0.1, 1.0, 1.0],
        "at": at(0, 1, 2, 3, 4, 5),
    })  # fmt: skip


def shown(answers):
    return [(row["row"]["berg"], row["score"], row["probability"]) for row in answers.to_pylist()]


def test_the_rows_that_overfill_a_rule_are_warned_of_and_rejected_with_the_reason(bergs):
    with pytest.warns(InvalidRowsWarning, match=r"1 of 6 rows .* rule sum to more than 1"):
        found = sf.top_k(bergs, 6, exclusive="berg", **HOUR, name="x")
    assert sf.ops.counters(found)["sfumato_top_k_x"]["rejected"] == 1
    assert ("a", 9.0) not in [row[:2] for row in shown(found)]
    rejected = sf.split_invalid(bergs, exclusive="berg", order="at")[1]
    assert rejected["days"].to_pylist() == [9.0]
    reason = "with this row, the probabilities of its rule sum to 1.8"
    assert rejected["reason"].to_pylist() == [reason]
    assert sf.split_invalid(bergs, exclusive="berg", order="at")[0].num_rows == 5
    # The remaining rows fit, without a warning.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = sf.top_k(
            sf.split_invalid(bergs, exclusive="berg", order="at")[0], 6, exclusive="berg", **HOUR
        )
    assert shown(again) == shown(found)


def test_a_rule_is_rejected_by_key_and_in_order(bergs):
    swapped = bergs.take(pa.array([3, 1, 0, 2, 4, 5]))
    assert sf.split_invalid(swapped, exclusive="berg", order="at")[1]["days"].to_pylist() == [9.0]
    backwards = bergs.set_column(3, "at", at(5, 4, 3, 2, 1, 0))
    assert sf.split_invalid(backwards, exclusive="berg", order="at")[1]["days"].to_pylist() == [3.0]
    keyed = bergs.append_column("ship", pa.array(["s", "t", "s", "s", "s", "s"]))
    assert not sf.split_invalid(keyed, exclusive="berg", order="at", key="ship")[1].num_rows
    unnamed = bergs.append_column("", pa.array(range(6)))
    assert sf.split_invalid(unnamed, exclusive="berg", order="at")[1][""].to_pylist() == [1]
    with pytest.raises(ValueError, match="`exclusive` needs `order`"):
        sf.split_invalid(bergs, exclusive="berg")


def test_alternatives_of_tuples_count_in_all_for_their_rule():
    rows = [[{"prob": 0.4, "days": 1.0}, {"prob": 0.4, "days": 2.0}]] * 2
    table = pa.table({"berg": ["a", "a"], "at": at(0, 1), "alternatives": pa.array(rows)})
    assert sf.split_invalid(table, exclusive="berg", order="at")[1]["reason"].to_pylist() == [
        "with this row, the probabilities of its rule sum to 1.6"
    ]
    found = sf.top_k(table, 2, exclusive="berg", rescale=True, **HOUR)
    assert [row["probability"] for row in found.to_pylist()] == pytest.approx([0.5, 0.5])


def test_rescale_divides_the_members_of_a_rule_by_their_sum(bergs):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = sf.top_k(bergs, 6, exclusive="berg", rescale=True, **HOUR, name="x")
    assert sf.ops.counters(found)["sfumato_top_k_x"]["rejected"] == 0
    exact = {9.0: 0.9 / 1.9, 3.0: 0.9 / 1.9, 4.0: 0.1 / 1.9, 5.0: 0.5, 1.0: 1.0, 1.5: 1.0}
    assert {score: p for _, score, p in shown(found)} == pytest.approx(exact)
    first = sf.top_k(
        bergs, 1, exclusive="berg", rescale=True, semantics="pt_k", probability=0.01, **HOUR
    )
    exact = {9.0: 0.9 / 1.9, 5.0: 0.5 * (1 - 0.9 / 1.9), 4.0: 0.5 * 0.1 / 1.9, 3.0: 0.5 * 0.9 / 1.9}
    assert {score: p for _, score, p in shown(first)} == pytest.approx(exact)


def test_each_window_scales_what_it_holds_and_rules_that_fit_stay():
    window = TopKWindows({"q": (3, 10)}, length=10, start=0, rescale=True)
    given = {"scores": [1.0, 2.0, 3.0], "prob": [0.8, 0.8, 0.5], "exclusive": [4, 4, 4]}
    both, alone = window.extend([0, 1, 12], **given), window.advance(20)
    assert both.rejected.size == alone.rejected.size == 0
    assert (both.probability.tolist(), alone.probability.tolist()) == ([0.5, 0.5], [0.5])
    answers = TopKWindows({"q": (3, 10)}, length=10, start=0, rescale=True)
    answers.extend([0, 1], scores=[1.0, 2.0], prob=[0.3, 0.6], exclusive=[4, 4])
    np.testing.assert_allclose(answers.advance(10).probability, [0.6, 0.3])
