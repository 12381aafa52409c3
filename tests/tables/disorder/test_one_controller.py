"""On-time rows of one disorder controller are in order; rows of several controllers may not be."""

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.memory.frame import frame_of
from sfumato.tables.joins.two_sides import count_behind
from sfumato.tables.windows.window_query import AggregateSpec, WindowQuery

NEVER = -(2**62)
SHORT = sf.Range("5 us")


def test_a_row_behind_is_one_at_an_earlier_punctuation_or_with_a_lower_one():
    time, punctuation = np.array([5, 7, 9, 8]), np.array([10, 12, 12, 6])
    scope = np.zeros(4, np.int64)
    # 5 at 10, then 7 and 9 at 12, which were due at 10. 8 is above its own punctuation, 6.
    assert count_behind(time, punctuation, scope, np.array([NEVER])) == 3
    assert count_behind(time[:1], punctuation[:1], scope[:1], np.array([10])) == 0
    assert count_behind(time[:1], punctuation[:1], scope[:1], np.array([5])) == 0  # it ties
    assert count_behind(time[:1], punctuation[:1], scope[:1], np.array([6])) == 1
    assert count_behind(time[:1], punctuation[:1], scope[:1], np.array([11])) == 1
    apart = np.array([0, 1, 2, 3])
    assert count_behind(time, punctuation, apart, np.full(4, NEVER)) == 0


def two_controllers(**more):
    """Return two concatenated reordered tables, the second of which starts 7 later."""

    def one(start):
        made = np.arange(start, start + 40, 2)
        rows = pa.table({"device": ["a"] * 20, "t": made, "arrival": made, "x": made * 1.0})
        return sf.reorder(rows, event_time="t", arrival="arrival", slack=2, **more)

    return pa.concat_tables([one(0), one(7)])


@pytest.mark.parametrize("operator", ["extents", "ranking", "join"])
def test_tables_of_two_controllers_are_refused_and_of_one_that_forgets_counted(operator):
    def ask(table):
        asked = {"order": "t", "key": "device"}
        if operator == "extents":
            return sf.window_aggregate(table, {"n": "count(*)"}, window=SHORT, **asked)
        if operator == "ranking":
            return sf.top_k(table, sf.Top(1, every="5 us"), by="x", window=SHORT, **asked)
        join = {"on": "x", "within": 0.5, "probability": 0.5, "window": sf.Rows(3)}
        return sf.similarity_join(table, table, **join, **asked)

    with pytest.raises(ValueError, match=r"sf\.reorder\(a\.union\(b\), \.\.\., source="):
        ask(two_controllers())
    # A key that starts again may bring older rows, which is not an error of the query.
    counted = sf.ops.counters(ask(two_controllers(key="device", forget_after=10**6)))
    assert sum(counts.get("out_of_order", 0) for counts in counted.values()) > 0


def test_a_window_with_an_idle_timeout_only_counts_rows_behind():
    rows = pa.table({"t": [10, 20], "arrival": [1, 2]})
    frame = frame_of(sf.reorder(rows, event_time="t", arrival="arrival", slack=3))
    count = [AggregateSpec("n", "count", None)]

    def of_one_controller(window):
        return WindowQuery(frame, count, window, "t", None, None, None).one_controller

    assert of_one_controller(sf.Range("5 us"))
    assert not of_one_controller(sf.Range("5 us", idle_timeout="1 second"))


def test_a_ranking_of_the_newest_rows_leaves_late_rows_out():
    rows = pa.table(
        {"id": [1, 2, 3, 4, 5], "t": [10, 20, 30, 5, 40], "arrival": [1, 2, 3, 4, 5],
         "x": [1.0, 2.0, 3.0, 9.0, 4.0]}
    )  # fmt: skip
    ordered = sf.reorder(rows, event_time="t", arrival="arrival", slack=1)
    assert sf.split_late(ordered)[1].column("id").to_pylist() == [4]
    asked = {"by": "x", "window": sf.Rows(2, 1.0), "order": "t"}
    best = sf.top_k(ordered, sf.Top(1, every="10 us"), **asked)
    assert 4 not in {row["id"] for row in best.column("row").to_pylist()}
    assert sf.ops.counters(best)["sfumato_top_k_1"]["late"] == 1
