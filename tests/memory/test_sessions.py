"""Sessions, rows of a key without a gap, against loops over the rows."""

import math

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from seeds import seeds
from sfumato.operators.distributions.aggregate import Aggregate
from sfumato.operators.windows.session_aggregate import SessionAggregate

NEVER = -(2**61)


def by_loop(times, gap, most=math.inf):
    """Return the places of each session's rows, for rows in time order."""
    found = []
    for i, time in enumerate(times):
        rows = found[-1] if found else []
        if rows and time - times[rows[-1]] < gap and time - times[rows[0]] < most:
            rows.append(i)
        else:
            found.append([i])
    return found


@pytest.mark.parametrize("most", [None, 40])
def test_sessions_of_certain_rows_are_those_of_a_loop(most):
    rng, n = np.random.default_rng(1), 400
    rows = pd.DataFrame({"at": np.sort(rng.permutation(4000)[:n]), "x": rng.integers(0, 99, n)})
    rows["key"] = rng.choice(["a", "b", "c"], n)
    window = sf.Session("15 us", max_length=None if most is None else f"{most} us")
    asked = {"n": "count(*)", "s": "sum(x)", "least": "min(x)", "last": "last(x)"}
    found = sf.window_aggregate(rows, asked, window=window, order="at", key="key")
    expected = []
    for key, own in rows.groupby("key"):
        times = own["at"].tolist()
        for places in by_loop(times, 15, most or math.inf):
            x = own["x"].iloc[places]
            start, last = times[places[0]], times[places[-1]]
            end = last + 15 if most is None else min(last + 15, start + most)
            expected.append((key, start, end, len(x), x.sum(), x.min(), x.iloc[-1]))
    got = [
        (row.key, row.window["start"], row.window["end"], row.n, row.s, row.least, row.last)
        for row in found.itertuples()
    ]
    assert sorted(got) == sorted(expected)
    assert found["held"].sum() == n


class Loop:
    """Sessions of one scope, one row at a time; a session is [rows, late]."""

    def __init__(self, gap, most):
        self.gap, self.most = gap, most
        self.punctuation = self.reached = NEVER
        self.open, self.emitted, self.late = {}, [], 0

    def end(self, rows):
        times = [time for time, _ in rows]
        return min(max(times) + self.gap, min(times) + self.most)

    def emit(self):
        for key, sessions in self.open.items():
            done = [one for one in sessions if self.end(one[0]) - 1 <= self.reached]
            self.open[key] = [one for one in sessions if one not in done]
            self.emitted += [(key, sorted(i for _, i in rows), late) for rows, late in done]

    def row(self, i, key, time, late, punctuation):
        bound = punctuation
        if not late:
            self.punctuation = max(self.punctuation, punctuation)
            self.reached = bound = max(self.reached, min(self.punctuation, time - 1))
        self.emit()
        sessions = self.open.setdefault(key, [])
        if time + min(self.gap, self.most) - 1 <= bound:
            self.late += 1
            for one in sessions:
                one[1] += min(one[0])[0] <= time < self.end(one[0])
            return
        candidates = sorted(
            (one for one in sessions if self.end(one[0]) - 1 > bound),
            key=lambda one: -min(one[0])[0],
        )
        own = [[(time, i)], 0]
        for one in candidates:
            times = [t for t, _ in own[0] + one[0]]
            near = any(abs(t - time) < self.gap for t, _ in one[0])
            near |= min(one[0])[0] < time < max(one[0])[0]
            if near and max(times) - min(times) < self.most:
                own = [own[0] + one[0], own[1] + one[1]]
                sessions.remove(one)
        sessions.append(own)


@pytest.mark.parametrize("most", [None, 50])
@pytest.mark.parametrize("seed", seeds(6, 2))
def test_late_rows_join_and_merge_the_sessions_that_are_open(seed, most):
    rng, n = np.random.default_rng(seed), 300
    order = np.cumsum(rng.integers(1, 7, n))
    late = rng.random(n) < 0.3
    time = np.where(late, order - rng.integers(1, 60, n), order)
    punctuation = order - np.where(late, 0, rng.integers(0, 2, n))
    punctuation = np.maximum.accumulate(punctuation)
    key = rng.integers(0, 3, n)
    loop, gap = Loop(20, most or 2**61), 20
    operator = SessionAggregate(gap, most, [Aggregate("count")], members=True)
    found = []
    for part in np.array_split(np.arange(n), rng.integers(1, 40)):
        size, zeros = part.size, np.zeros(part.size, int)
        found.append(
            operator.process(
                key[part], time[part], punctuation[part], late[part], np.arange(size + 1),
                np.ones(size), np.empty((size, 0)), scope=zeros,
            )
        )  # fmt: skip
        operator = SessionAggregate.restore(operator.snapshot())
    found.append(operator.flush())
    for i in range(n):
        loop.row(i, int(key[i]), int(time[i]), bool(late[i]), int(punctuation[i]))
    loop.reached = 2**62
    loop.emit()
    got = []
    for part in found:
        for e in range(len(part)):
            members = sorted(part.members[part.offsets[e] : part.offsets[e + 1]].tolist())
            assert part.start[e] == time[members].min()
            got.append((int(part.group[e]), members, int(part.late[e])))
    assert sorted(got) == sorted(loop.emitted)
    assert operator.counters["late"] == loop.late > 0
    assert sum(len(members) for _, members, _ in got) + loop.late == n


def test_results_over_uncertain_tuples_are_those_over_possible_worlds():
    rows = pd.DataFrame(
        {"at": [0, 5, 30, 33], "x": [1.0, 2.0, 4.0, 8.0], "existence": [0.5, 0.5, 0.25, 1.0]}
    )
    found = sf.window_aggregate(
        rows, {"s": "sum(x)", "most": "max(x)"}, window=sf.Session("10 us"), order="at",
        quantiles=[0.5],
    )  # fmt: skip
    # Worlds of the first session: {}, {1}, {2}, {1, 2}, each with probability 1/4.
    first, second = found.to_dict("records")
    assert (first["s"]["mean"], first["s"]["existence"]) == (1.5, 1.0)
    assert (first["most"]["mean"], first["most"]["existence"]) == (5 / 3, 0.75)
    assert (second["s"]["mean"], second["most"]["mean"]) == (9.0, 8.0)
    assert found["window"].tolist() == [{"start": 0, "end": 15}, {"start": 30, "end": 43}]


def test_a_late_row_between_two_open_sessions_merges_them():
    #       10        22      30   Gap 10: the row at 17, which arrives last, is near both.
    rows = pd.DataFrame({"at": [10, 22, 17, 90], "arrival": [10, 22, 24, 90]})
    ordered = sf.reorder(rows, event_time="at", arrival="arrival", slack=0)
    found, missed = sf.split_missed(
        sf.window_aggregate(
            ordered, {"n": "count(*)"}, window=sf.Session("10 us"), order="at", missed=True
        )
    )
    # The first session ends at 20, which the punctuation of the late row, 22, has passed.
    assert found["window"].tolist()[:2] == [{"start": 10, "end": 20}, {"start": 17, "end": 32}]
    assert (found["n"].tolist(), len(missed)) == ([1, 2, 1], 0)
    ordered = sf.reorder(rows, event_time="at", arrival="arrival", max_delay="4 us")
    found = sf.window_aggregate(ordered, {"n": "count(*)"}, window=sf.Session("10 us"), order="at")
    assert found["window"].tolist()[0] == {"start": 10, "end": 32}
    assert found["n"].tolist() == [3, 1]


def test_sessions_are_for_certain_times_in_aggregates():
    times = [{"prob": 0.5, "t": 3}, {"prob": 0.5, "t": 9}]
    rows = pd.DataFrame({"id": [1, 2], "alternatives": [times, times]})
    window = sf.Session("10 us")
    with pytest.raises(ValueError, match=r"`order` must be a certain event time for sf.Session"):
        sf.window_aggregate(rows, {"n": "count(*)"}, window=window, order="t")
