"""Rows from a controller in memory: sorted again, ordered by a different column, or late."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sfumato as sf


def readings(late, delay, n=30):
    """Return one row per second, received after a second, or after `delay` seconds if in `late`."""
    second = np.arange(n)
    arrival = second + np.where(np.isin(second, late), delay, 1)
    return pd.DataFrame({
        "id": second, "x": second * 1.0, "device": second % 2,
        "made": pd.to_datetime(second, unit="s"), "arrival": pd.to_datetime(arrival, unit="s"),
    })  # fmt: skip


def ordered(table, wait="5 seconds"):
    return sf.reorder(table, event_time="made", arrival="arrival", max_delay=wait)


def windows(table, **more):
    more = {"window": sf.Range("5 seconds"), "order": "made"} | more
    found = sf.window_aggregate(table, {"n": "count(*)"}, **more)
    return [(str(w["start"]), n) for w, n in zip(found["window"], found["n"], strict=True)]


PAIRS = {"on": "x", "within": 1.5, "probability": 0.5, "window": sf.Range("5 seconds")}
QUERIES = {
    "window": lambda t, order: sf.window_aggregate(
        t, {"s": "sum(x)"}, window=sf.Range("5 s"), order=order
    ),
    "window of rows": lambda t, order: sf.window_aggregate(
        t, {"s": "sum(x)"}, window=sf.Rows(3), order=order
    ),
    "delta window": lambda t, order: sf.window_aggregate(
        t, {"s": "sum(x)"}, window=sf.Delta(2.0, "x"), order=order
    ),
    "top-k": lambda t, order: sf.top_k(t, 2, by="x", window=sf.Range("5 s"), order=order),
    "earlier values": lambda t, order: sf.earlier_values(t, "x", order=order),
    "join": lambda t, order: sf.similarity_join(t, t, order=order, **PAIRS),
    "self join": lambda t, order: sf.self_join(t, order=order, **PAIRS),
}


@pytest.mark.parametrize("query", QUERIES)
def test_sorting_the_rows_changes_no_answer(query):
    table = ordered(readings([4, 5, 12, 13, 20], 11))
    assert table["late"].sum() == 5

    def answers(given):
        found = QUERIES[query](given, "made")
        return sorted(map(str, found.to_dict("records")))

    expected = answers(table)
    for by in ("id", "arrival", "made", "punctuation"):
        for ascending in (True, False):
            assert answers(table.sort_values(by, ascending=ascending)) == expected
    assert answers(table.sample(frac=1, random_state=1)) == expected


@pytest.mark.parametrize("query", QUERIES)
def test_an_order_that_is_not_the_event_time_of_the_controller_is_refused(query):
    table = ordered(readings([12], 15))
    table["local"] = table["made"] - pd.Timedelta("4h")
    for order in ("local", "arrival"):
        with pytest.raises(ValueError, match=r'must begin with `made`.*Write order="made"'):
            QUERIES[query](table, order)
    with pytest.raises(ValueError, match="this column has since been removed or changed"):
        QUERIES[query](table.drop(columns="made"), "local")
    plain = table.drop(columns=["late", "punctuation"])
    assert len(QUERIES[query](plain, "local")) > 0


def test_columns_after_the_event_time_may_tell_rows_apart():
    table = ordered(readings([12], 15))
    window = {"window": sf.Rows(2), "order": ["made", "id"]}
    found = sf.window_aggregate(table, {"s": "sum(x)"}, **window, name="w")
    assert sf.ops.counters(found)["sfumato_window_w"]["late"] == 1
    assert 12 not in found["id"].tolist()


def test_a_row_that_was_released_before_a_late_one_did_not_know_it():
    rows = readings([12, 13, 14], 15)
    rows.loc[15:, "x"] = np.nan  # so that late rows bring new values
    table = ordered(rows)

    def known(given):
        found = sf.earlier_values(given, "x", order="made").set_index("id")
        return {i: (v, a) for i, v, a in found[["earlier_x", "age_x"]].itertuples() if v == v}

    # The values known to a run, one row at a time, in order of release.
    live = {}
    for i in range(len(table)):
        live |= {k: v for k, v in known(table.iloc[: i + 1]).items() if k == table["id"].iloc[i]}
    assert known(table) == live
    assert live[15] == (11.0, 4.0)
    assert live[14][0] == 13.0  # late rows follow each other in order of arrival
    assert known(table.sample(frac=1, random_state=2)) == live


def test_earlier_values_need_the_arrival_of_late_rows():
    table = ordered(readings([12], 15)).drop(columns="arrival")
    with pytest.raises(ValueError, match="no longer has their arrival column"):
        sf.earlier_values(table, "x", order="made")


def test_earlier_values_of_groups_across_controllers_are_refused():
    table = sf.reorder(
        readings([12], 15), event_time="made", arrival="arrival", key="device", max_delay="5 s"
    )
    with pytest.raises(ValueError, match="reordered per device, so values cannot be known"):
        sf.earlier_values(table, "x", order="made")


def test_late_rows_of_one_side_are_left_out_of_a_join():
    left, right = ordered(readings([12], 15)), readings([], 1)
    pairs = sf.similarity_join(left, right, order="made", name="j", **PAIRS)
    assert 12 not in [row["id"] for row in pairs["left"]]
    assert sf.ops.counters(pairs)["sfumato_join_j"]["late"] == 1


def test_late_rows_that_a_window_missed_are_counted_and_say_which_they_missed():
    event, arrival = [0, 30, 60, 90, 120, 200, 5, 10], [0, 30, 60, 90, 120, 200, 201, 202]
    times = {"t": pd.to_datetime(event, unit="s"), "a": pd.to_datetime(arrival, unit="s")}
    table = sf.reorder(
        pd.DataFrame(times | {"x": 1.0}), event_time="t", arrival="a", max_delay="10 seconds"
    )
    found = sf.window_aggregate(
        table, {"n": "count(*)"}, window=sf.Range("1 minute"), order="t", name="w"
    )
    assert found["held"].tolist() == [2, 2, 1, 1]
    assert sf.ops.counters(found)["sfumato_window_w"]["late"] == 2
    late = table[table["late"]]
    end = late["t"].dt.floor("1min") + pd.Timedelta("1min")
    assert (late["punctuation"] >= end - pd.Timedelta("1us")).sum() == 2


def test_count_windows_order_equal_event_times_of_a_controller_by_arrival():
    rows = pa.table({"made": [10, 42, 42, 42], "came": [11, 43, 47, 48], "x": [1.0, 2.0, 4.0, 8.0]})
    for number in range(8):  # different hashes
        given = rows.append_column("id", pa.array([8 * number + i for i in range(4)]))
        ordered = sf.reorder(given, event_time="made", arrival="came", slack=0)
        sums = sf.window_aggregate(ordered, {"s": "sum(x)"}, window=sf.Rows(2), order="made")
        assert sums.column("s").to_pylist() == [1.0, 3.0, 6.0, 12.0]


def test_forget_after_needs_the_same_of_separate_controllers():
    rows = pa.table({"made": [1, 2], "came": [1, 2], "unit": ["a", "b"], "x": [1.0, 2.0]})
    times = {"event_time": "made", "arrival": "came", "max_delay": "1 second"}
    of = {"order": "made", "key": "unit", "forget_after": "3 s"}
    calls = (
        lambda df: sf.window_aggregate(df, {"n": "count(*)"}, window=sf.Rows(4), **of),
        lambda df: sf.earlier_values(df, "x", **of),
        lambda df: sf.resample(df, every="1 s", **of),
        lambda df: sf.top_k(df, 1, by="x", window=sf.Range("2 s", slide="1 s"), **of),
    )
    units = []
    for call in calls:
        with pytest.raises(ValueError, match="`forget_after` is also needed upstream"):
            call(sf.reorder(rows, key="unit", **times))
        forgetting = call(sf.reorder(rows, key="unit", forget_after="3 s", **times))
        shared = call(sf.reorder(rows, **times))
        assert forgetting.column_names == shared.column_names
        units.append({str(row.get("unit", row.get("row"))) for row in forgetting.to_pylist()})
    assert list(map(len, units)) == [2, 2, 0, 2]  # resample has no whole second
