"""Multi-top-k over tables: windows of several keys, for any batches, against possible worlds."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranked_tables import PLAIN, QUERIES, table
from seeds import examples
from sfumato.queries import Top
from sfumato.windows import Range, Rows
from table_runs import run
from worlds import worlds

CONTROLLED = replace(PLAIN, scope=())


def tuples(seed, n, keys=2):
    """Return dicts with id, key, time (ascending), score and prob (lists), and rule."""
    rng = np.random.default_rng(seed)
    made, now = [], 3
    for i in range(n):
        now += int(rng.choice([0, 1, 1, 2, 30], p=[0.2, 0.3, 0.2, 0.28, 0.02]))
        m = int(rng.integers(1, 3))
        prob = rng.dirichlet(np.ones(m + 1))[:m] / 4  # no rule exceeds 1
        rule = None if rng.random() < 0.5 else f"r{i // 4}"
        made.append(
            {
                "id": i,
                "key": f"s{rng.integers(0, keys)}",
                "time": now,
                "score": rng.random(m).round(2).tolist(),
                "prob": prob.tolist(),
                "rule": rule,
            }
        )
    return made


def answers(plan, rows, cuts=(), restart=False, flush=True):
    """Return all answers as dicts, and the counters, with the rows split into batches."""
    operator, found = run(plan, table(rows), cuts, restart, flush)
    return found, operator.counters()


def rules_of(window):
    """Return a group of (probability, (score, tuple)) per rule, or per tuple without a rule."""
    rules = {}
    for i, row in enumerate(window):
        members = zip(row["prob"], row["score"], strict=True)
        rules.setdefault(row["rule"] or i, []).extend((p, (s, row["id"])) for p, s in members)
    return list(rules.values())


def pr_k(window, k, ascending=False):
    total = dict.fromkeys((row["id"] for row in window), 0.0)
    for probability, there in worlds(rules_of(window)):
        first = sorted(there, key=lambda t: (t[0] if ascending else -t[0], t[1]))
        for _, i in first[:k]:  # equal scores rank by arrival
            total[i] += float(probability)
    return total


def by_instant(found):
    groups = {}
    for row in found:
        groups.setdefault((row["key0"], row["query"], row["time"]), []).append(row)
    return groups


def test_an_answer_is_given_at_the_first_row_that_shows_its_instant_to_be_past():
    rows = tuples(1, 40)
    found, counts = answers(PLAIN, rows)
    every = {name: every for name, _, every in QUERIES}
    latencies = {}
    for (sensor, query, time), got in by_instant(found).items():
        shown = [r["time"] for r in rows if r["key"] == sensor and r["time"] >= time]
        answered = shown[0] if shown else None  # the last answers come only at the end
        assert {row["answered"] for row in got} == {answered}
        latencies[sensor, query, time] = answered - time if shown else 0
    assert counts["answered"] == len(latencies)
    assert counts["latency"] == sum(latencies.values()) > 0
    late = [wait for (_, query, _), wait in latencies.items() if wait > every[query]]
    assert counts["late_answers"] == len(late) > 0


def test_after_a_controller_an_answer_is_given_when_the_row_of_any_key_shows_its_instant():
    rows = controlled(5, 40)
    found, _ = answers(CONTROLLED, rows)
    clock, newest, clocks = -100, None, []
    for row in rows:
        if newest is not None and row["punctuation"] > newest:
            clock = max(clock, newest + 1)
        newest = max(row["punctuation"], row["punctuation"] if newest is None else newest)
        clock = clock if row.get("late") else max(clock, row["time"])
        clocks.append(clock)
    assert len({row["key0"] for row in found}) == 3
    for row in found:
        reached = [clock for clock in clocks if clock >= row["time"]]
        assert row["answered"] == (reached[0] if reached else None)


def controlled(seed, n):
    """Return rows as a disorder controller releases them: by event time, late rows at once."""
    rng = np.random.default_rng(seed)
    out, low = [], -5
    rows = tuples(seed, n, keys=3)
    while rows:
        size = int(rng.integers(1, 6))
        part, rows = rows[:size], rows[size:]
        while rows and rows[0]["time"] == part[-1]["time"]:
            part.append(rows.pop(0))
        punctuation = part[-1]["time"]
        out += [{**row, "punctuation": punctuation} for row in part]
        if rng.random() < 0.5:
            old = {**part[0], "id": 1000 + len(out), "time": low, "late": True}
            out.append({**old, "punctuation": punctuation})
        low = punctuation
    return out


def test_rows_windows_hold_the_fewest_newest_tuples_that_reach_their_confidence():
    rows = [{**row, "rule": None} for row in tuples(6, 40, keys=1)]
    plan = replace(PLAIN, window=Rows(1, confidence=0.6), keys=0)
    found, counts = answers(plan, rows)
    sizes = set()
    for time in sorted({row["time"] for row in found}):
        arrived = [row for row in rows if row["time"] < time]
        size = next(
            (n for n in range(1, len(arrived)) if 1 - np.prod(
                [1 - sum(row["prob"]) for row in arrived[-n:]]
            ) >= 0.6), len(arrived),
        )  # fmt: skip
        sizes.add(size)
        if size > 10:
            continue
        best = sorted(pr_k(arrived[-size:], 1).values(), reverse=True)[:1]
        got = [r["probability"] for r in found if r["time"] == time and r["query"] == "quick"]
        assert got in ([], pytest.approx(best, abs=1e-12))
    assert len(sizes) >= 3
    assert counts["overflow"] == 0
    bounded, counts = answers(replace(plan, window=Rows(1, 0.6, max_tuples=2)), rows)
    assert counts["overflow"] > 0
    assert bounded


@pytest.mark.parametrize(
    "plan", [PLAIN, replace(PLAIN, ascending=True), CONTROLLED], ids=["first", "last", "controlled"]
)
@given(seed=st.integers(0, 50), cuts=st.lists(st.integers(0, 60), max_size=6))
@examples(8)
def test_answers_are_those_of_the_possible_worlds_of_their_windows(plan, seed, cuts):
    rows = tuples(seed, 40) if plan.scope is None else controlled(seed, 40)
    whole, counts = answers(plan, rows)
    parts, same = answers(plan, rows, cuts, restart=True)
    key = lambda row: (row["time"], row["key0"], row["query"], row["rank"])  # noqa: E731
    assert sorted(parts, key=key) == sorted(whole, key=key)
    assert same == counts
    kept = [row for row in rows if not row.get("late")]
    late = len(rows) - len(kept)
    assert [counts[name] for name in ("rows", "late", "answers")] == [len(rows), late, len(whole)]
    for (sensor, query, time), got in by_instant(whole).items():
        k = {name: k for name, k, _ in QUERIES}[query]
        window = [r for r in kept if r["key"] == sensor and time - 8 <= r["time"] < time]
        chances = pr_k(window, k, plan.ascending)
        best = sorted(chances.values(), reverse=True)[:k]
        assert [row["rank"] for row in got] == list(range(1, len(best) + 1))
        assert [row["probability"] for row in got] == pytest.approx(best, abs=1e-12)
        for row in got:
            assert chances[row["row"]["id"]] == pytest.approx(row["probability"], abs=1e-12)


def test_a_quiet_key_is_answered_when_its_scope_advances():
    one = {"score": [1.0], "prob": [0.5], "rule": None}
    rows = [
        {**one, "id": 0, "key": "quiet", "time": 1, "punctuation": 1},
        {**one, "id": 1, "key": "loud", "time": 5, "punctuation": 5},
    ]
    found, _ = answers(replace(CONTROLLED, queries=(("q", 1, 2),)), rows, flush=False)
    assert [(row["key0"], row["time"]) for row in found] == [("quiet", 2), ("quiet", 4)]
    alone, _ = answers(replace(PLAIN, queries=(("q", 1, 2),)), rows, flush=False)
    assert alone == []


def test_the_idle_timeout_gives_the_last_answers_once_and_what_comes_later_is_late():
    plan = replace(PLAIN, window=Range("8 us", idle_timeout="5 s"), queries=(("q", 2, 4),))
    operator = plan.make()
    rows = tuples(4, 12, keys=1)
    early = operator.process([(0, table(rows))], 1_000)
    assert operator.idle(5_999) == []
    out = operator.idle(6_000)[0].to_pylist()
    due = out[0]["time"]
    assert rows[-1]["time"] < due <= rows[-1]["time"] + 4
    assert {row["time"] for row in out} == {due}
    assert due not in {row["time"] for part in early for row in part.to_pylist()}
    operator = plan.restore(operator.snapshot())
    assert operator.idle(9_000) == []
    late = {**rows[-1], "id": 99, "time": due - 1}
    assert operator.process([(0, table([late]))], 10_000) == []
    assert operator.counters()["late"] == 1
    new = {**rows[-1], "id": 100, "time": due + 5}
    assert operator.process([(0, table([new]))], 11_000)


@pytest.mark.parametrize("plan", ["dp", "none"])
def test_after_a_restart_with_other_queries_no_bound_is_missed(plan):
    before = replace(PLAIN, plan=plan, keys=0, queries=(("stays", 1, 6), ("goes", 2, 9)))
    changed = (("stays", 1, 6), ("comes", 3, 5))
    after = replace(before, queries=changed)
    assert before.fingerprint() == after.fingerprint()
    rows = [
        {"id": i, "key": "s", "time": 5 + i, "score": [float(i % 7)], "prob": [0.5], "rule": None}
        for i in range(80)
    ]
    operator = before.make()
    first = operator.process([(0, table(rows[:40]))], 0)
    saved = operator.snapshot()
    operator = after.restore(saved)
    then = operator.process([(0, table(rows[40:]))], 0)
    old, new = ([row for part in parts for row in part.to_pylist()] for parts in (first, then))
    assert {row["query"] for row in old} == {"stays", "goes"}
    assert {row["query"] for row in new} == {"stays", "comes"}
    restart = rows[39]["time"]
    for name, since, every in (("stays", 0, 6), ("comes", restart, 5)):
        times = sorted({since, *(r["time"] for r in old + new if r["query"] == name)})
        assert all(later - one <= every for one, later in pairwise(times) if one >= 5)
        assert rows[-1]["time"] - times[-1] < every
    for row in new:
        window = [r for r in rows if row["time"] - 8 <= r["time"] < row["time"]]
        assert row["probability"] in [
            pytest.approx(chance) for chance in pr_k(window, row["k"]).values()
        ]
    again = after.restore(saved)  # restored again from the same state
    assert again.process([(0, table(rows[40:]))], 0) == then


def test_streams_are_ranked_by_the_sums_of_their_tuples():
    rows = tuples(5, 30, keys=4)
    plan = replace(PLAIN, keys=0, streams=True, queries=(("q", 2, 4),))
    whole, _ = answers(plan, rows)
    parts, _ = answers(plan, rows, [7, 13, 14, 25], restart=True)
    assert whole == parts
    for time in {row["time"] for row in whole}:
        window = [r for r in rows if time - 8 <= r["time"] < time]
        sums = {}
        for i, chance in pr_k(window, 2).items():
            key = next(r["key"] for r in window if r["id"] == i)
            sums[key] = sums.get(key, 0.0) + chance
        got = [row for row in whole if row["time"] == time]
        assert [row["probability"] for row in got] == pytest.approx(
            sorted(sums.values(), reverse=True)[:2], abs=1e-12
        )
        assert [sums[row["stream"]] for row in got] == pytest.approx(
            [row["probability"] for row in got], abs=1e-12
        )
        assert {row["row"] for row in got} == {None}


@pytest.mark.nightly
def test_state_stays_small_over_a_long_stream():
    plan = replace(PLAIN, keys=0)
    operator = plan.make()
    sizes = []
    for part in range(30):
        rows = tuples(part, 200, keys=1)
        shift = part * 5_000
        operator.process([(0, table([{**r, "time": r["time"] + shift, "rule": f"{part}{r['rule']}"}
                                     for r in rows]))], 0)  # fmt: skip
        sizes.append(len(operator.snapshot()))
    assert len(operator.rows.numbers) < 300
    assert len(operator.rules) < 2000
    assert max(sizes[15:]) < 2 * max(sizes[:5]) + 60_000


def test_rows_of_invalid_times_are_counted_and_change_no_answer():
    rows = tuples(7, 40)
    mixed = list(rows)
    for i, time in enumerate([2**60 + 1, -(2**62), None]):
        one = {**rows[3 * i], "id": 100 + i, "score": [1.0], "prob": [0.5], "time": time}
        mixed.insert(5 * i, one)
    found, counts = answers(PLAIN, mixed)
    fine, same = answers(PLAIN, rows)
    assert found == fine
    assert counts == {**same, "rows": same["rows"] + 3, "invalid": 3}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"k": 0}, ValueError, "`k` must be an integer of at least 1; got 0"),
        ({"k": 1.5}, TypeError, "`k`"),
        ({"k": 1, "every": "2 parsecs"}, ValueError, "`every` must be a duration"),
        ({"k": 1, "every": "0 s"}, ValueError, "`every`"),
        ({"k": 1, "every": 1.5}, TypeError, "`every`"),
        ({"k": 1, "name": ""}, TypeError, "`name`"),
    ],
)
def test_queries_say_what_is_wrong(arguments, error, message):
    with pytest.raises(error, match=message):
        Top(**arguments)


@pytest.mark.parametrize("cuts", [(), (1,), (2,), (1, 3)])
def test_the_punctuation_of_a_late_row_is_its_own_sources_and_shows_nothing(cuts):
    one = {"key": "s0", "score": [1.0], "prob": [1.0], "rule": None}
    ahead = {"late": True, **one}  # rows of a source that is far ahead
    rows = [
        {"id": 0, "time": 5, "punctuation": 3, **one},
        {"id": 1, "time": 2, "punctuation": 50, **ahead},
        {"id": 2, "time": 3, "punctuation": 60, **ahead},
        {"id": 3, "time": 10, "punctuation": 8, **one},
        {"id": 4, "time": 11, "punctuation": 9, **one},
    ]
    _, counts = answers(CONTROLLED, rows, cuts)
    assert (counts["rows"], counts["late"]) == (5, 2)


def test_keys_of_a_shared_controller_are_kept_for_a_window():
    with pytest.raises(ValueError, match="at least the length"):
        replace(PLAIN, scope=(), forget_after=7.0)
    with pytest.raises(ValueError, match=r"by sf\.Rows whose keys share"):
        replace(PLAIN, scope=(), window=Rows(2, 0.9), forget_after=7.0)


class Unpassed(list):
    """A list with items that can be read, but without iteration over all of them."""

    def __iter__(self):
        raise AssertionError("a batch passes over all keys")


def test_a_batch_reads_only_the_keys_of_its_rows():
    rows = table(tuples(0, 400, keys=100))
    operator = PLAIN.make()
    operator.process([(0, rows.slice(0, 300))], 0)
    operator.windows.schedules = Unpassed(operator.windows.schedules)
    for begin in range(300, 400, 10):
        operator.process([(0, rows.slice(begin, 10))], 0)
    assert operator.counters()["rows"] == 400
