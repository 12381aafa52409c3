"""Duplicates in a reorder change no other row, for any cuts, restarts and sources."""

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.operators.disorder.control import DisorderControl
from sfumato.tables.disorder.table_reorder import ReorderTableConfig
from table_subjects import rows, with_column

TIMES = {"event_time": "made", "arrival": "came"}
WAITS = {"slack": 9}, {"drop_ratio": 0.05}, {"max_delay": "1 millisecond"}, {"max_buffer": 20}


def stream(seed: int, n: int = 600) -> pd.DataFrame:
    """Return n rows and n // 3 copies of random rows, up to 400 milliseconds later."""
    random = np.random.default_rng(seed)
    made = np.cumsum(random.integers(1, 9, n))
    first = made + random.integers(0, 60, n)
    frame = pd.DataFrame({"id": np.arange(n), "made": made, "came": first, "copy": 0})
    frame["device"] = random.choice(["a", "b", "c"], n)
    copies = frame.sample(n // 3, replace=True, random_state=seed).assign(copy=1)
    copies["came"] += random.integers(1, 400, len(copies))
    frame = pd.concat([frame, copies]).sort_values(["came", "id", "copy"], ignore_index=True)
    return frame.assign(
        came=frame["came"] * 1000 + np.arange(len(frame)), made=frame["made"] * 1000
    )


def once(frame: pd.DataFrame, first: list[str]) -> pd.DataFrame:
    return frame[~frame.duplicated(first)]


@pytest.mark.parametrize("scope", ["key", "source"])
@pytest.mark.parametrize("wait", WAITS, ids=str)
def test_rows_that_are_no_duplicates_are_those_of_the_stream_without_copies(wait, scope):
    given = stream(1)
    settings = {**TIMES, **wait, scope: "device"}
    # Ids are remembered for longer than copies are delayed, so each copy is recognised.
    long = {"forget_after": "1 hour"} if scope == "key" else {}
    out = sf.reorder(given, **settings, **long, unique="id")
    again = out["duplicate"]
    assert out.loc[again, "late"].all()
    assert len(out) == len(given)
    if scope == "key":
        assert again.sum() == len(given) - 600
        want = sf.reorder(once(given, ["id"]), **settings, **long)
        pd.testing.assert_frame_equal(
            out[~again].drop(columns="duplicate").reset_index(drop=True), want, check_dtype=False
        )
    else:  # copies that come after their id is forgotten are late
        assert not out[~out["late"]].duplicated("id").any()


@pytest.mark.parametrize("seed", range(5))
def test_no_copy_of_a_row_is_on_time_and_copies_in_time_are_flagged(seed):
    given = stream(seed)
    for wait in WAITS:
        out = sf.reorder(given, **TIMES, **wait, unique=["device", "id"])
        assert not out[~out["late"]].duplicated("id").any()
        first = out.groupby("id")["came"].transform("min")
        copy = out["came"] > first
        assert (out.loc[out["duplicate"], "came"] > first[out["duplicate"]]).all()
        unflagged = out[copy & ~out["duplicate"]]  # the punctuation has passed them: forgotten
        assert (unflagged["made"] < unflagged["punctuation"]).all()
        assert (out.loc[out["duplicate"], "punctuation"] <= out.loc[out["duplicate"], "made"]).all()


def test_null_ids_are_no_duplicates_and_null_times_are_no_first_rows():
    given = pd.DataFrame(
        {"id": [1, None, None, 2, 2, 1], "made": [1, 1, 1, None, 5, 1], "came": range(6)}
    ).astype("Int64")
    out = sf.reorder(given, **TIMES, slack=9, unique="id").sort_values("came")
    assert out["duplicate"].tolist() == [False] * 5 + [True]
    assert out["late"].tolist() == [False, False, False, True, False, True]


def test_a_second_reorder_is_refused():
    ordered = sf.reorder(stream(2), **TIMES, slack=2, unique="id")
    with pytest.raises(ValueError, match="is already in order"):
        sf.reorder(ordered, **TIMES, slack=2)
    with pytest.raises(ValueError, match="filter out the duplicates"):
        sf.reorder(ordered.drop(columns=["late", "punctuation"]), **TIMES, slack=2)


def of_originals(answers, names):
    kept = answers[~answers["duplicate"]] if "duplicate" in answers else answers
    return kept.sort_values("id")[["id", *names]].astype(str).values.tolist()


@pytest.mark.parametrize("seed", range(8))
def test_copies_change_no_earlier_or_imputed_value(seed):
    rng = np.random.default_rng(seed)
    made = np.cumsum(rng.integers(1, 9, 60))
    x = np.where(rng.random(60) < 0.3, np.nan, np.cumsum(rng.normal(size=60)))
    rows = pd.DataFrame({"id": range(60), "made": made, "came": made + 1, "x": x})
    copies = rows.assign(came=rows["came"] + rng.integers(1, 6, 60)).sample(40, random_state=1)
    both = pd.concat([rows, copies], ignore_index=True)
    past = pd.DataFrame({"made": range(200), "x": np.cumsum(rng.normal(size=200))})

    def answers(given, unique):
        ordered = sf.reorder(given, **TIMES, slack=3, unique=unique)
        earlier = sf.earlier_values(ordered, "x", order="made")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            imputed = sf.impute(ordered, repository=past, attributes="x", order="made")
        names = ["earlier_x", "age_x"]
        return of_originals(earlier, names), of_originals(imputed, ["alternatives", "imputed_by"])

    assert answers(both, "id") == answers(rows, None)


@pytest.mark.parametrize("sources", [0, 1])
def test_counters_add_up_and_the_memory_is_bounded_by_the_punctuation(sources):
    given = rows(np.random.default_rng(3), 20_000)["table"]
    config = ReorderTableConfig(
        control=DisorderControl(0.1, max_ahead=0, max_behind=25), keys=1, sources=sources, unique=1
    )
    operator, flags, kept = config.make(), [], []
    for begin in range(0, 20_000, 500):
        tables = operator.process([(0, given.slice(begin, 500))], 0)
        flags += [t.select(["late", "duplicate"]).to_pandas() for t in tables]
        kept.append(len(operator.ids.seen.number))
        operator = config.restore(operator.snapshot())
    counts, found = operator.counters(), pd.concat(flags)
    assert counts["rows"] == len(found) + counts["held"]
    assert counts["late"] == found["late"].sum()
    assert counts["duplicates"] == found["duplicate"].sum() > 0
    assert counts["stale"] > 0
    assert max(kept) < 1200  # 500 new rows, and old rows that are dropped lazily


def test_rows_far_from_their_arrival_are_late_and_move_no_punctuation():
    good = pd.DataFrame({"made": np.arange(100) * 1000, "came": np.arange(100) * 1000 + 5})
    bad = pd.DataFrame({"made": [90_000, 1_000], "came": [20_010, 50_010]})
    bounds = {"max_ahead": "1 millisecond", "max_behind": "2 milliseconds"}
    given = pd.concat([good, bad]).sort_values("came")
    out = sf.reorder(given, **TIMES, slack=3, **bounds)
    late = out["late"]
    assert sorted(out.loc[late, "made"]) == [1_000, 90_000]
    want = sf.reorder(good, **TIMES, slack=3)
    pd.testing.assert_frame_equal(out[~late].reset_index(drop=True), want, check_dtype=False)


@pytest.mark.parametrize(
    ("window", "remembered", "warned"),
    [
        (sf.Range("100 us"), {}, True),
        (sf.Range("100 us"), {"forget_after": 50.0}, True),
        (sf.Range("100 us"), {"forget_after": 200.0}, False),
        (sf.Range("100 us"), {"remember": "50 us"}, True),
        (sf.Range("100 us"), {"remember": "200 us"}, False),
        (sf.Session("100 us"), {"remember": "200 us"}, True),  # may last longer
        (sf.Session("10 us", max_length="200 us"), {"remember": "200 us"}, False),
        (sf.Range("1 day", zone="Asia/Kolkata"), {"forget_after": 200.0}, True),
        (sf.Rows(3), {}, False),
    ],
)
def test_a_window_warns_where_ids_may_be_forgotten_while_it_is_open(window, remembered, warned):
    given = pa.table({"k": [1, 1], "made": [1, 2], "came": [1, 2], "id": [1, 2]})
    ordered = sf.reorder(given, **TIMES, slack=1, key="k", unique="id", **remembered)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        sf.window_aggregate(ordered, {"n": "count(*)"}, window=window, order="made", key="k")
    assert any("is counted again while" in str(each.message) for each in found) == warned


@pytest.mark.parametrize("late", [False, True])
def test_no_copy_counts_after_a_long_silence(late):
    hours = pd.Timestamp("2026-03-01", tz="UTC") + pd.to_timedelta([0.2, 0.5, 0.9, 7], unit="h")
    given = pd.DataFrame({"id": [1, 2, 3, 4], "made": hours, "came": hours})
    if late:  # the first row with the id 1 is itself late
        given.loc[0, "came"] += pd.Timedelta("45 minutes")
    copies = given[:2].assign(came=hours[2] + pd.Timedelta("5 hours"))
    copies = pd.concat([copies, copies[:1].assign(came=hours[3] + pd.Timedelta("1 day"))])
    sent = pd.concat([given, copies]).sort_values("came", kind="stable")
    how = {"max_delay": "1 minute", "unique": "id", "remember": "1 hour"}
    ordered = sf.reorder(sent, **TIMES, **how)
    counts = {"n": "count(*)", "ids": "count(distinct id)"}
    found = sf.window_aggregate(ordered, counts, window="1 hour", order="made")
    assert found["n"].tolist() == found["ids"].tolist() == [3, 1]


def test_an_id_cannot_be_remembered_longer_than_its_key():
    how = {**TIMES, "slack": 1, "unique": "id", "key": "device", "forget_after": "1 hour"}
    with pytest.raises(ValueError, match="`remember` must be at most `forget_after`"):
        sf.reorder(stream(0), **how, remember="2 hours")
    assert len(sf.reorder(stream(0), **how, remember="1 hour")) == len(stream(0))


def test_a_late_id_with_a_time_far_in_the_future_is_forgotten():
    given = rows(np.random.default_rng(3), 20_000)["table"]
    times = np.asarray(given["order0"]) + np.arange(20_000) % 2 * 10**12
    given = with_column(given, "order0", times)
    config = ReorderTableConfig(
        control=DisorderControl(0.1, max_ahead=1000), keys=1, unique=1, remember=1
    )
    operator, kept = config.make(), []
    for begin in range(0, 20_000, 500):
        operator.process([(0, given.slice(begin, 500))], 0)
        kept.append(len(operator.ids.seen.number))
    assert operator.counters()["future"] > 100
    assert max(kept) < 5_000  # of 10,000 late rows; old rows are dropped lazily


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_no_copy_counts_if_ids_are_remembered_longer_than_the_window(seed, early):
    random = np.random.default_rng(seed)
    made = np.sort(random.integers(0, 4_000, 400))
    given = pd.DataFrame(
        {"id": range(400), "made": made, "came": made + random.integers(0, 60, 400)}
    )
    copies = given.sample(frac=0.3, random_state=seed)
    copies["came"] += random.integers(0, 500, len(copies))
    sent = pd.concat([given, copies]).sort_values("came", kind="stable")
    window = {"window": sf.Range("700 us"), "order": "made"}
    if early:
        window["early"] = "100 us"

    def counted(given, **unique):
        ordered = sf.reorder(given, **TIMES, max_delay="100 us", early=early, **unique)
        found = sf.window_aggregate(ordered, {"n": "count(*)"}, **window)
        return found[found["final"] if early else found["n"] > 0]["n"].tolist()

    sent = sent.reset_index(drop=True)
    once = counted(given.sort_values("came"))
    assert sum(once) == 400
    assert counted(sent, unique="id", remember="1 ms") == once
    assert sum(counted(sent, unique="id")) > 400


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"remember": "1 s"}, "`remember` needs `unique`"),
        ({"remember": "soon", "unique": "id"}, "`remember`"),
        ({"remember": -1, "unique": "id"}, "`remember`"),
    ],
)
def test_arguments_of_remembering_that_cannot_be_used_are_refused(arguments, said):
    given = pd.DataFrame({"id": [1], "made": [1], "came": [1]})
    with pytest.raises((ValueError, TypeError), match=said):
        sf.reorder(given, **TIMES, slack=1, **arguments)


def test_points_of_a_grid_are_no_duplicates():
    given = pa.table({"made": [1, 9], "came": [1, 9], "id": [1, 2]})
    ordered = sf.reorder(given, **TIMES, slack=1, unique="id")
    grid = sf.resample(ordered, every="4 us", order="made")
    assert grid.column_names == ["made", "came", "id", "age"]
