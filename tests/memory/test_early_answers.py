"""Early answers of windows: against a loop over arrivals, and coverage of their intervals."""

import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.tables.disorder.released import release_order
from sfumato.tables.windows.table_early import EarlyTableConfig, EarlyTableExtents
from table_runs import run, table_of
from worlds import aggregate_laws, moments_of

ASKED = {"n": "count(*)", "k": "count(x)", "s": "sum(x)", "a": "avg(x)", "lo": "min(x)",
         "hi": "max(x)"}  # fmt: skip
ADDED = ["final", "revision", "completeness", "interval"]


def early(rows, length, slide, every, delay, key="key", asked=ASKED, **more):
    ordered = sf.reorder(
        rows, event_time="made", arrival="arrival", max_delay=f"{delay} us", early=True
    )
    window = sf.Range(f"{length} us", slide=f"{slide} us")
    return sf.window_aggregate(
        ordered, asked, window=window, order="made", key=key, early=f"{every} us", **more
    )


def final(rows, length, slide, delay, asked=ASKED):
    ordered = sf.reorder(rows, event_time="made", arrival="arrival", max_delay=f"{delay} us")
    window = sf.Range(f"{length} us", slide=f"{slide} us")
    return sf.window_aggregate(ordered, asked, window=window, order="made", key="key")


def by_loop(rows, length, slide, every, delay):
    """Return all revisions: {(key, end): [(punctuation, x of the rows so far), ...]}."""
    punctuation = reached = -(10**9)
    held, open_, changed, found = [], {}, set(), {}

    def reach(time):
        nonlocal reached
        ticks = time // every > reached // every
        reached = time
        if not ticks:
            return
        for key, end in sorted(changed):
            if end - 1 > time:
                found.setdefault((key, end), []).append((time, [*open_[key, end]]))
        changed.clear()

    for row in rows.itertuples():
        for end in range(row.made // slide * slide + slide, row.made + length + 1, slide):
            if end - length <= row.made < end and end - 1 > max(reached, punctuation):
                open_.setdefault((row.key, end), []).append(row.x)
                changed.add((row.key, end))
        if row.made >= punctuation:  # a row at the punctuation waits for a later one
            held.append((row.made + (row.made == punctuation), row.made))
        punctuation = max(punctuation, row.made - delay)
        if any(due <= punctuation for due, _ in held):
            held = [one for one in held if one[0] > punctuation]
            reach(punctuation)
    if held and max(made for _, made in held) > reached:
        reach(max(made for _, made in held))
    return found


def of_certain(held):
    """Return the values of ASKED over certain rows."""
    x = [v for v in held if v == v]
    some = (sum(x) / len(x), min(x), max(x)) if x else (None,) * 3
    return len(held), len(x), sum(x), *some


def of_worlds(held):
    """Return (mean, stddev, existence) of each of UNCERTAIN, over all possible worlds."""
    calls = tuple((name, None) for name in ("count", "sum", "avg", "min", "max"))
    counts = aggregate_laws(calls[:1], [[(p, 0) for p, _ in row] for row in held])
    laws = [*counts, *aggregate_laws(calls, held)]
    return [
        (mean, None if mean is None else math.sqrt(variance), existence)
        for mean, variance, existence in map(moments_of, laws)
    ]


EXTENTS = st.sampled_from([(10, 10), (12, 5), (5, 7)])


def arrivals(values, most):
    """Return a strategy for frames of up to `most` rows, with x from 0 to `values`."""
    step = st.tuples(st.integers(0, 9), st.integers(0, 12), st.integers(0, values), st.booleans())
    return st.lists(step, min_size=1, max_size=most).map(frame_of)


def frame_of(steps):
    made = np.cumsum([step for step, *_ in steps]) - np.array([back for _, back, *_ in steps])
    rows = pd.DataFrame({"made": made, "arrival": np.arange(len(steps))})
    return rows.assign(x=[x for *_, x, _ in steps], key=["ab"[one] for *_, one in steps])


def revised_in(answers, asked):
    """Return the revisions in the form of `by_loop`, with the values of these columns."""
    found: dict = {}
    for row in answers[~answers["final"]].to_dict("records"):
        of = found.setdefault((row["key"], row["window"]["end"]), [])
        assert row["revision"] == len(of) + 1
        of.append((row["punctuation"], row["held"], [row[name] for name in asked]))
    return found


@given(arrivals(5, 15), EXTENTS, st.integers(2, 5), st.integers(1, 9))
def test_revisions_are_those_of_a_loop_over_the_arrivals(rows, extent, every, delay):
    rows["x"] = rows["x"].astype(float).replace(5.0, np.nan)
    found = revised_in(early(rows, *extent, every, delay), ASKED)
    expected = by_loop(rows, *extent, every, delay)
    assert {
        of: [(at, held, *(None if v != v else v for v in values)) for at, held, values in turns]
        for of, turns in found.items()
    } == {
        of: [(at, len(held), *of_certain(held)) for at, held in turns]
        for of, turns in expected.items()
    }


TUPLES = [
    [(1.0, 3)], [(0.5, 1), (0.25, 4)], [(0.25, None)], [(0.5, None), (0.5, 2)], [(0.75, -2)],
    [(1.0, None)],
]  # fmt: skip


@given(arrivals(len(TUPLES) - 1, 8), EXTENTS, st.integers(2, 5), st.integers(1, 9))
def test_revisions_of_uncertain_rows_are_those_of_all_possible_worlds(rows, extent, every, delay):
    expected = by_loop(rows.assign(x=rows["x"].map(TUPLES.__getitem__)), *extent, every, delay)
    alternatives = [[{"prob": p, "x": v} for p, v in TUPLES[x]] for x in rows["x"]]
    rows = rows.drop(columns="x").assign(alternatives=alternatives)
    found = revised_in(early(rows, *extent, every, delay), ASKED)
    assert found.keys() == expected.keys()
    for of, turns in expected.items():
        assert [turn[:2] for turn in found[of]] == [(at, len(held)) for at, held in turns]
        for (*_, results), (_, held) in zip(found[of], turns, strict=True):
            for result, (mean, stddev, existence) in zip(results, of_worlds(held), strict=True):
                assert result["existence"] == pytest.approx(float(existence))
                assert result["mean"] == (None if mean is None else pytest.approx(float(mean)))
                deviation = None if stddev is None else pytest.approx(stddev, abs=1e-7)
                assert result["stddev"] == deviation


def trace(seed, n, keys=2):
    rng = np.random.default_rng(seed)
    made = np.sort(rng.integers(0, 100 * n, n))
    arrival = made + rng.exponential(1500, n).astype(int)
    rows = pd.DataFrame({"made": made, "arrival": arrival, "x": rng.normal(5, 2, n)})
    rows["key"] = rng.choice([*"abcdef"[:keys]], n)
    return rows.sort_values("arrival", kind="stable").reset_index(drop=True)


@pytest.mark.parametrize("uncertain", [False, True])
def test_final_answers_are_those_without_early_answers(uncertain):
    rows = trace(1, 3000)
    if uncertain:
        rows["existence"] = 0.3 + 0.01 * (np.arange(len(rows)) % 71)
    answers = early(rows, 4000, 2000, 1000, 3000)
    of = ["key", "held"]
    finals = answers[answers["final"]].drop(columns=ADDED)
    expected = final(rows, 4000, 2000, 3000)
    at = [finals["window"].map(lambda w: w["end"]), expected["window"].map(lambda w: w["end"])]
    finals, expected = (
        frame.assign(end=end).sort_values(["end", *of]).reset_index(drop=True)
        for frame, end in zip((finals, expected), at, strict=True)
    )
    pd.testing.assert_frame_equal(finals, expected, check_dtype=False)


def test_an_invalid_row_is_counted_once_although_it_comes_twice():
    at = pd.to_datetime([0, 10, 20, 90], unit="s")
    rows = pd.DataFrame({"made": at, "arrival": at, "x": [1.0, math.inf, 3.0, 4.0]})
    times = {"event_time": "made", "arrival": "arrival", "max_delay": "5 seconds"}
    shown = sf.reorder(rows, early=True, **times)
    found = sf.window_aggregate(
        shown, {"n": "avg(x)"}, window="1 minute", order="made", early="20 seconds", name="w"
    )
    counted = sf.ops.counters(found)["sfumato_window_w_input"]
    assert (counted["rows"], counted["invalid"]) == (4, 1)
    assert found[found["final"]]["n"].tolist() == [2.0, 4.0]


def test_the_final_answer_is_last_and_is_its_own_interval():
    answers = early(trace(2, 3000), 4000, 4000, 1000, 3000)
    answers["end"] = answers["window"].map(lambda w: w["end"])
    for _, of in answers.sort_values("revision").groupby(["key", "end"]):
        assert of["revision"].tolist() == [*range(1, len(of) + 1)]
        assert of["final"].tolist() == [False] * (len(of) - 1) + [True]
        last = of.iloc[-1]
        assert last["completeness"] == {"share": 1.0, "low": 1.0, "high": 1.0}
        assert last["interval"]["a"] == {"low": last["a"], "high": last["a"]}
        assert (of["held"].diff().dropna() >= 0).all()


@pytest.fixture(scope="module")
def revisions():
    """Return revisions of 1,000 extents, with their final answers."""
    return with_finals(early(trace(3, 60_000), 6000, 6000, 1000, 6000))


def with_finals(answers, asked=ASKED):
    """Return revisions, each with the final values of its extent."""
    answers["end"] = answers["window"].map(lambda w: w["end"])
    finals = answers[answers["final"]].set_index(["key", "end"])[[*asked]]
    return answers[~answers["final"]].join(finals, on=["key", "end"], rsuffix=" in the end")


def ends_of(revisions, name):
    low, high = (revisions["interval"].map(lambda of, e=e: of[name][e]) for e in ("low", "high"))
    known = low.notna()
    return low[known].astype(float), high[known].astype(float), revisions[known]


def assert_covered(revisions, name, rows=5000):
    """Check that 90% of the intervals of a result contain its final value."""
    low, high, of = ends_of(revisions, name)
    last = of[f"{name} in the end"]
    assert len(of) > rows
    assert 0.88 <= ((last >= low - 1e-9) & (last <= high + 1e-9)).mean() <= 0.92


@pytest.mark.parametrize("name", ["n", "s", "a"])
def test_intervals_contain_the_final_answer_as_often_as_their_level_says(revisions, name):
    assert_covered(revisions, name)


def test_intervals_of_uncertain_rows_contain_the_final_mean_as_often():
    rows = trace(3, 60_000).assign(existence=lambda of: 0.2 + 0.01 * (np.arange(len(of)) % 79))
    answers = early(rows, 6000, 6000, 1000, 6000)
    for name in ASKED:
        answers[name] = answers[name].map(lambda of: of["mean"])
    for name in ("n", "s", "a", "lo", "hi"):
        assert_covered(with_finals(answers), name)


@pytest.mark.parametrize("name", ["lo", "hi"])
def test_intervals_of_extremes_contain_the_final_one_at_least_as_often(revisions, name):
    low, high, of = ends_of(revisions, name)
    last = of[f"{name} in the end"]
    assert ((last >= low) & (last <= high)).mean() >= 0.88
    assert ((low if name == "hi" else high) == of[name]).all()


@pytest.mark.parametrize("name", [*ASKED])
def test_intervals_narrow_as_extents_fill(revisions, name):
    low, high, of = ends_of(revisions, name)
    share = of["completeness"].map(lambda c: c["share"])
    widths = [(high - low)[(share > a) & (share <= a + 0.25)].mean() for a in (0, 0.25, 0.5, 0.75)]
    assert widths == sorted(widths, reverse=True)


def piles(rng, n):
    """Return times and arrivals of a link that stalls and then delivers its backlog at once."""
    made = np.sort(rng.integers(0, 100 * n, n))
    turn = np.repeat(rng.choice([500, 8000], n // 1000 + 1), 1000)[:n]
    return made, np.ceil((made + rng.exponential(300, n)) / turn) * turn


def less_and_less(rng, n):
    made = np.sort(rng.integers(0, 100 * n, n))
    return made, made + rng.exponential(6000, n) * 20 ** -np.linspace(0, 1, n)


@pytest.mark.parametrize("delays", [piles, less_and_less])
@pytest.mark.parametrize("keys", [1, 4])
def test_intervals_contain_the_final_answer_as_often_where_delays_change(delays, keys):
    rng = np.random.default_rng(9)
    made, arrival = delays(rng, 30_000)
    rows = pd.DataFrame({"made": made, "arrival": arrival.astype(int)})
    rows["x"], rows["key"] = rng.normal(5, 2, len(rows)), rng.integers(0, keys, len(rows))
    rows = rows.sort_values("arrival", kind="stable")
    asked = {"n": "count(*)", "s": "sum(x)"}
    revisions = with_finals(early(rows, 5000, 5000, 1000, 8000, asked=asked), asked)
    for name in asked:
        assert_covered(revisions, name, 1500)


def test_intervals_are_unknown_until_enough_windows_are_complete():
    n = 4000
    made = np.arange(n) * 100
    rows = pd.DataFrame({"made": made, "arrival": made, "x": np.ones(n), "key": "a"})
    answers = early(rows, 1000, 1000, 1000, 100_000)  # 100 windows are open
    revised = answers[~answers["final"]]
    known = revised["interval"].map(lambda of: of["n"]["low"]).notna()
    complete = (revised["punctuation"] + 1) // 1000
    assert known.any()
    assert complete[known].min() >= 200  # differences are known 100 windows later


def test_completeness_is_the_share_of_rows_that_have_come(revisions):
    share = revisions["held"] / revisions["n in the end"]
    known = revisions["completeness"].map(lambda c: c["low"]).notna()
    of = revisions["completeness"][known]
    said, low, high = (of.map(lambda c, e=e: c[e]).astype(float) for e in ("share", "low", "high"))
    assert abs(said - share[known]).mean() < 0.1
    assert 0.88 <= ((share[known] >= low - 1e-9) & (share[known] <= high + 1e-9)).mean() <= 0.92
    assert (high <= 1).all()
    assert (low <= high).all()


def test_rows_in_order_need_no_controller():
    rows = trace(4, 2000).sort_values("made", kind="stable")
    window = sf.Range("5000 us")
    answers = sf.window_aggregate(
        rows, {"n": "count(*)"}, window=window, order="made", key="key", early="1000 us"
    )
    assert (~answers["final"]).sum() > 2 * answers["final"].sum()
    finals = answers[answers["final"]]
    assert finals["n"].sum() == len(rows)


def test_rows_of_sources_are_counted_once_all_sources_have_come_so_far():
    rows = trace(5, 4000)
    rows["source"] = np.where(np.arange(len(rows)) % 3 == 0, "slow", "quick")
    rows.loc[rows["source"] == "slow", "arrival"] += 20_000
    rows = rows.sort_values("arrival", kind="stable")
    given = {"event_time": "made", "arrival": "arrival", "max_delay": "4 ms", "source": "source"}
    window = sf.Range("5 ms")
    asked = {"window": window, "order": "made", "key": "key"}
    answers = sf.window_aggregate(
        sf.reorder(rows, **given, early=True), ASKED, early="1 ms", **asked
    )
    expected = sf.window_aggregate(sf.reorder(rows, **given), ASKED, **asked)
    finals = answers[answers["final"]]
    assert sorted(finals["s"].round(6)) == sorted(expected["s"].round(6))
    assert (~answers["final"]).sum() > finals.shape[0]


ROWS = trace(6, 50)
ORDERED = {"event_time": "made", "arrival": "arrival", "max_delay": "9 us"}
AT = {"window": sf.Range("9 us"), "order": "made"}
COUNT = {"n": "count(*)"}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sf.window_aggregate(sf.reorder(ROWS, **ORDERED), COUNT, **AT, early="3 us"),
         "early=True"),
        (lambda: sf.window_aggregate(sf.reorder(ROWS, **ORDERED, early=True), COUNT, **AT),
         "each row twice"),
        (lambda: sf.resample(sf.reorder(ROWS, **ORDERED, early=True), order="made", every="2 us"),
         "leave `early` out of the sf.reorder upstream"),
        (lambda: sf.split_late(sf.reorder(ROWS, **ORDERED, early=True)), "each row twice"),
        (lambda: sf.reorder(ROWS, **ORDERED, early=True, key="key", forget_after=5),
         "cannot be combined"),
    ],
)  # fmt: skip
def test_rows_on_arrival_and_early_answers_need_each_other(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_forgetting_silent_keys_changes_no_answer(monkeypatch):
    config = EarlyTableConfig(
        window=sf.Range("10 us"), keys=1, time="long", early=2, level=0.5,
        results=(("n", "count", None, None), ("s", "sum", 0, None)), attributes=1,
        kinds=("whole", "number"), scope=(),
    )  # fmt: skip
    rng, n = np.random.default_rng(8), 12_000
    time = np.arange(n)
    key = np.where(rng.random(n) < 0.5, time // 4, rng.integers(0, 5, n) - 5)
    first, twice = np.tile([True, False], n), np.repeat(time, 2)  # on arrival, then in order
    columns = {"key0": np.repeat(key, 2), "order0": twice, "__tie": np.arange(2 * n)}
    columns |= {"arrival": twice, "late": first, "early": first, "punctuation": twice - 1 - first}
    columns |= {"value0": as_lists(np.repeat(rng.integers(0, 9, n), 2))}
    shown = pa.table(columns | {"prob": as_lists(np.ones(2 * n))})

    def answers():
        operator = config.make()
        parts = [shown.slice(at, 500) for at in range(0, 2 * n, 500)]
        found = [table for part in parts for table in operator.process([(0, part)], 0)]
        return pa.concat_tables([*found, *operator.flush()]).to_pylist(), len(operator.index)

    forgotten, few = answers()
    monkeypatch.setattr(EarlyTableExtents, "forget_expired", lambda self: None)
    kept, all_keys = answers()
    assert few < all_keys - 500

    def in_order(rows):
        return sorted(rows, key=lambda row: (row["window"]["end"], row["key0"], row["revision"]))

    assert in_order(forgotten) == in_order(kept)


def as_lists(values):
    offsets = pa.array(np.arange(len(values) + 1), pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array(values.astype(float)))


def test_estimates_do_not_depend_on_a_call_that_ends_as_windows_are_complete():
    """A row shown more than 64 windows ahead makes its key new, but not before the answers that
    were complete at its punctuation have corrected the estimates."""
    sources, made = "abdbacbbcda", [-29, -27, -26, -25, -24, -20, 25, 31, 29, 55, 58]
    came = [-27.2, -27, -25.8, -25, -24, -19.8, 25.8, 31.6, 31.8, 55.2, 62.4]
    given = {"source": list(sources), "made": [500 * t for t in made]}
    given["came"] = [int(500 * t) for t in came]
    shown = sf.reorder(
        pa.table(given), event_time="made", arrival="came", punctuation="made", source="source",
        expected_sources=4, early=True,
    )  # fmt: skip
    n = shown.num_rows
    times = shown.rename_columns({"made": "order0", "came": "arrival"}).select(
        ["order0", "arrival", "late", "punctuation", "early"]
    )
    columns = dict(zip(times.column_names, times.columns, strict=True))
    rows = table_of({"c0": [0] * n}, prob=[[1.0]] * n, value0=[[1.0]] * n, **columns)
    rows = rows.take(pa.array(release_order(rows)))
    config = EarlyTableConfig(
        window=sf.Range("1 ms", "500 us"), time="long", early=1000, level=0.5,
        attributes=1, results=(("n", "count", None, None),), kinds=("whole",), scope=(),
        by_source=True,
    )  # fmt: skip
    _, whole = run(config, rows)
    assert any(row["completeness"]["share"] not in (None, 1.0) for row in whole)
    for cut in range(1, n):
        _, parts = run(config, rows, [cut])
        assert sorted(map(str, parts)) == sorted(map(str, whole)), cut
