"""Time extents: which rows, when and with which counts by a plain simulation; results by worlds."""

from __future__ import annotations

import numpy as np
import pytest

from seeds import seeds
from sfumato.operators.disorder.reorder import Reorder
from sfumato.operators.laws import finite_laws
from sfumato.operators.laws.aggregate import Aggregate
from sfumato.operators.state.snapshot import SnapshotError
from sfumato.operators.windows.extent_aggregate import ExtentAggregate
from window_cases import arrays, check, column, random_tuples
from worlds import aggregate_laws

ALL = [
    Aggregate("count"), Aggregate("count", 0), Aggregate("sum", 0), Aggregate("avg", 0),
    Aggregate("min", 0), Aggregate("max", 1), Aggregate("avg", 1), Aggregate("boundary_sum", 1),
    Aggregate("quantile", 0, 0.5),
]  # fmt: skip
MOMENTS = [a for a in ALL if a.function != "quantile"]
COUNT = [Aggregate("count")]
LENGTHS = [(10, 10), (12, 4), (7, 3), (3, 10), (1, 1), (30, 2), (4, 5), (11, 10)]


class Simulation:
    """One scope, the slow way: every extent is asked at every row whether it is complete."""

    def __init__(self, length, slide):
        self.length, self.slide = length, slide
        self.held, self.missed, self.seen, self.done = [], [], [], -(10**6)
        self.late, self.outside, self.absent = 0, 0, 0

    def extents_of(self, time):
        """Numbers of the extents, counted by their end / slide, that hold a time."""
        first = time // self.slide + 1
        return [
            j for j in range(first, first + self.length // self.slide + 2)
            if j * self.slide - self.length <= time < j * self.slide
        ]  # fmt: skip

    def row(self, group, time, punctuation, late, i, exists):
        found, after = [], self.done
        if late:  # it is in the extents that end after its own punctuation
            after = max(self.done, (punctuation + 1) // self.slide)
        else:
            before = max(self.seen, default=-(10**9))
            if punctuation > before:
                found += self.close(before + 1)
                self.seen.append(punctuation)
            found += self.close(min(time, max(punctuation, before) + 1))
            after = self.done
        of = self.extents_of(time)
        taking = [j for j in of if j > after]
        if not of:
            self.outside += 1
        elif not taking:
            self.late += 1
        elif not exists:
            self.absent += 1
        else:
            self.held.append((group, i, taking))
        if exists or not taking:
            self.missed += [(group, j) for j in of if self.done < j <= after]
        return found

    def close(self, bound):
        """Complete all extents that end at or before a bound."""
        found = []
        for j in sorted({j for _, _, taking in self.held for j in taking}):
            end = j * self.slide
            if not self.done < j or end > bound:
                continue
            punctuation = next(p for p in self.seen if p >= end - 1)
            for group in sorted({g for g, _, taking in self.held if j in taking}):
                rows = [i for g, i, taking in self.held if g == group and j in taking]
                late = self.missed.count((group, j))
                found.append((end, group, rows, punctuation, late))
        self.done = max(self.done, bound // self.slide)
        return found

    def end(self):
        """All extents that hold a row."""
        before = max(self.seen, default=-(10**9))
        found = self.close(before + 1)
        if self.held:
            last = max(j for _, _, taking in self.held for j in taking) * self.slide
            if last > self.done * self.slide:
                self.seen.append(max(before, last - 1))
                found += self.close(last)
        return found


def stream(rng, n, groups, ordered, spread=60, start=-40):
    """(group, scope, time, punctuation or None, late), as a controller a scope lets rows out."""
    group = rng.integers(0, groups, n)
    scope = group % 2 if not ordered else group
    time, punctuation, late = np.empty(n, int), np.empty(n, int), np.zeros(n, bool)
    for c in np.unique(scope):
        mine = np.flatnonzero(scope == c)
        times = np.sort(rng.integers(start, start + spread, mine.size))
        if ordered:  # a few rows are out of order
            for k in np.flatnonzero(rng.random(mine.size) < 0.1):
                times[k] -= rng.integers(0, 15)
            time[mine] = times
            continue
        force, k = -100, 0
        while k < mine.size:  # several rows come out with one punctuation
            together = min(int(rng.integers(1, 5)), mine.size - k)
            part = mine[k : k + together]
            time[part] = times[k : k + together]
            force = max(force, int(time[part[-1]]) + int(rng.integers(0, 3)))
            punctuation[part] = force
            k += together
        for k in np.flatnonzero(rng.random(mine.size - 1) < 0.2):  # late for its own source,
            i = mine[k + 1]  # which may be ahead of the others
            late[i], punctuation[i] = True, punctuation[mine[k]] + rng.choice([0, 0, 4, 20])
            time[i] = punctuation[i] - rng.integers(0, 25)
    return group, scope, time, None if ordered else punctuation, None if ordered else late


def simulated(length, slide, data, exists, finish=True):
    """Extents in order of completion, then, at the end, those still open by (end, group)."""
    group, scope, time, punctuation, late = data
    scopes = {int(c): Simulation(length, slide) for c in np.unique(scope)}
    newest = dict.fromkeys(scopes, -(10**9))
    found = []
    for i in range(len(time)):
        c = int(scope[i])
        newest[c] = max(newest[c], int(time[i]) - 1)
        p = newest[c] if punctuation is None else int(punctuation[i])
        flag = late is not None and bool(late[i])
        found += scopes[c].row(int(group[i]), int(time[i]), p, flag, i, bool(exists[i]))
    if finish:
        rest = [entry for c in scopes for entry in scopes[c].end()]
        found += sorted(rest, key=lambda entry: entry[:2])
    return found, scopes


def process(window, data, tuples, low, high, attributes=2):
    group, scope, time, punctuation, late = data
    cut = slice(low, high)
    return window.process(
        group[cut], time[cut], None if punctuation is None else punctuation[cut],
        None if late is None else late[cut], *arrays(tuples[cut], attributes),
        scope=scope[cut],
    )  # fmt: skip


def in_parts(window, rng, data, tuples, crash=True):
    """All extents, rows cut at random, saved and restored in between, flushed at the end."""
    parts, done = [], 0
    while done < len(tuples):
        end = min(done + int(rng.choice([0, 1, 2, 5, 40])), len(tuples))
        parts.append(process(window, data, tuples, done, end))
        done = end
        if crash and rng.random() < 0.3:
            window = ExtentAggregate.restore(window.snapshot())
    return window, [*parts, window.flush()]


def facts(parts):
    """(end, group, held, punctuation, late) of every extent."""
    names = ("end", "group", "held", "punctuation", "late")
    return [tuple(int(getattr(p, name)[k]) for name in names) for p in parts for k in range(len(p))]


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("seed", seeds(8, 4))
def test_each_extent_comes_once_complete_in_order_with_its_counts(seed, ordered):
    rng = np.random.default_rng(seed)
    for length, slide in LENGTHS:
        n = int(rng.integers(1, 90))
        data = stream(rng, n, int(rng.integers(1, 5)), ordered)
        tuples = random_tuples(rng, n, 2, most=1)
        for entry in tuples:
            if rng.random() < 0.05:
                entry.clear()
        exists = [bool(entry) for entry in tuples]
        expected, scopes = simulated(length, slide, data, exists)
        window = ExtentAggregate(length, slide, COUNT, members=True, attributes=2)
        window, parts = in_parts(window, rng, data, tuples)
        assert facts(parts) == [(e, g, len(rows), p, late) for e, g, rows, p, late in expected]
        assert all((p.start == p.end - length).all() for p in parts)
        members = [
            p.members.tolist()[p.offsets[k] : p.offsets[k + 1]]
            for p in parts
            for k in range(len(p))
        ]
        assert [sorted(m) for m in members] == [inside for _, _, inside, _, _ in expected]
        counters = window.counters
        assert counters["late"] == sum(s.late for s in scopes.values())
        assert counters["outside"] == sum(s.outside for s in scopes.values())
        assert counters["rows"] == n
        assert sum(s.late + s.outside + len(s.held) for s in scopes.values()) == (
            n - counters["absent"]
        )


@pytest.mark.parametrize("seed", seeds(6, 2))
def test_results_are_those_of_the_possible_worlds(seed):
    rng = np.random.default_rng(100 + seed)
    shares = (0.25, 0.5, 0.875)
    for length, slide in LENGTHS:
        n = int(rng.integers(5, 25))
        data = stream(rng, n, 2, bool(seed % 2), spread=100)
        certain = float(rng.choice([0.0, 0.5, 1.0]))
        level = float(rng.choice([0.0, 1e6]))
        tuples = random_tuples(rng, n, 2, most=2, certain=certain, level=level)
        expected, _ = simulated(length, slide, data, [True] * n)
        window = ExtentAggregate(length, slide, ALL, quantiles=shares, distribution=4)
        _, parts = in_parts(window, rng, data, tuples)
        places = [(p, k) for p in parts for k in range(len(p))]
        for (part, k), (_, _, rows, _, _) in zip(places, expected, strict=True):
            if len(rows) > 6:
                continue
            inside = [tuples[i] for i in rows]
            for attribute in (None, 0, 1):
                which = [r for r, a in enumerate(ALL) if a.attribute == attribute]
                requests = [(ALL[r].function, ALL[r].argument) for r in which]
                laws = aggregate_laws(requests, column(inside, attribute))
                for r, law in zip(which, laws, strict=True):
                    check(part.results[r], k, law, shares, 4)


@pytest.mark.parametrize("seed", seeds(8, 4))
def test_results_do_not_depend_on_calls_nor_on_a_crash(seed):
    rng = np.random.default_rng(200 + seed)
    n = 150
    data = stream(rng, n, 3, bool(seed % 2), spread=200)
    tuples = random_tuples(rng, n, 2, certain=[0.0, 1.0, 0.5][seed % 3])
    length, slide = LENGTHS[seed]
    wanted = ALL if seed % 3 == 0 else MOMENTS
    shares = (0.5,) if wanted is ALL else ()

    def fresh():
        return ExtentAggregate(
            length, slide, wanted, quantiles=shares, distribution=3 if shares else None,
            seed=seed, samples=40, empty=seed % 2 == 0,
        )  # fmt: skip

    whole = fresh()
    once = [process(whole, data, tuples, 0, n), whole.flush()]
    _, parts = in_parts(fresh(), rng, data, tuples)
    assert facts(once) == facts(parts)
    for r in range(len(wanted)):
        for name in ("mean", "stddev", "existence", "quantiles", "error", "value", "prob", "moved"):
            if getattr(once[0].results[r], name) is not None:
                one, other = (
                    np.concatenate([getattr(p.results[r], name) for p in run])
                    for run in (once, parts)
                )
                np.testing.assert_array_equal(one, other, err_msg=name)


def certain(times, values=None):
    """(offsets, prob, values) of certain tuples."""
    n = len(times)
    values = np.ones(n) if values is None else np.asarray(values, float)
    return np.arange(n + 1), np.ones(n), values[:, None]


def feed(window, times, punctuation=None, late=None, values=None, group=None):
    group = np.zeros(len(times), int) if group is None else np.asarray(group)
    return window.process(
        group,
        np.array(times),
        punctuation,
        late,
        *certain(times, values),
        scope=np.zeros_like(group),
    )


def test_an_extent_waits_for_all_rows_its_punctuation_let_out():
    #  punctuation 20 lets out 3, 8 and 12: [0, 10) is complete at 12, [10, 20) only at the next
    window = ExtentAggregate(10, 10, COUNT)
    assert len(feed(window, [3, 8], np.array([20, 20]))) == 0
    found = feed(window, [12], np.array([20]))
    assert (found.end.tolist(), found.held.tolist(), found.punctuation.tolist()) == (
        [10],
        [2],
        [20],
    )
    found = feed(window, [25], np.array([30]))
    assert (found.end.tolist(), found.held.tolist(), found.punctuation.tolist()) == (
        [20],
        [1],
        [20],
    )


def test_after_idle_a_row_joins_the_extents_that_have_not_come_out():
    window = ExtentAggregate(20, 10, COUNT)
    assert feed(window, [3, 12], np.array([2, 11])).end.tolist() == [10]
    assert window.idle([7]).end.size == 0  # no such scope
    found = window.idle()
    assert found.end.tolist() == [20, 30]
    assert found.held.tolist() == [2, 1]
    assert found.punctuation.tolist() == [29, 29]
    assert feed(window, [19, 29, 30], np.array([30, 30, 31])).end.size == 0
    assert window.counters["late"] == 1  # 19: [20, 40) is the first that is still open
    found = window.flush()
    assert (found.end.tolist(), found.held.tolist()) == ([40, 50], [2, 1])


def test_only_idle_scopes_complete_their_extents():
    window = ExtentAggregate(10, 10, COUNT)
    window.process(np.arange(2), np.array([1, 2]), None, None, *certain([1, 2]))
    assert window.idle([1]).group.tolist() == [1]
    assert window.flush().group.tolist() == [0]


def test_a_late_row_is_part_of_the_extents_that_are_still_open():
    # slack 1, arrivals 10, 20, 30, 5, 40: 5 comes out late, at punctuation 20
    window = ExtentAggregate(60, 60, [Aggregate("sum", 0)])
    feed(
        window, [10, 20, 5, 30], np.array([10, 20, 20, 30]),
        np.array([False, False, True, False]), values=[10, 20, 5, 30],
    )  # fmt: skip
    feed(window, [40], np.array([40]), values=[40])
    found = window.flush()
    assert found.results[0].mean.tolist() == [105.0]
    assert found.late.tolist() == [0]
    assert window.counters["late"] == 0


def test_an_extent_counts_its_own_late_rows_and_its_key_s():
    window = ExtentAggregate(10, 10, COUNT)
    # both keys share punctuations; the second source, at 18, is ahead of the frame's 5 and 6
    assert len(feed(window, [5, 6], np.array([5, 6]), group=[0, 1])) == 0
    late = np.array([True, True, True])
    assert len(feed(window, [1, 2, 12], np.array([18, 18, 18]), late, group=[0, 0, 1])) == 0
    found = feed(window, [15, 35], np.array([15, 40]), group=[0, 1])
    assert (found.end.tolist(), found.group.tolist()) == ([10, 10, 20, 20], [0, 1, 0, 1])
    assert (found.held.tolist(), found.late.tolist()) == ([1, 1, 1, 1], [2, 0, 0, 0])
    assert window.flush().late.tolist() == [0]
    assert window.counters["late"] == 2


def test_a_row_late_for_a_complete_extent_is_in_longer_ones_that_are_open():
    window = ExtentAggregate(20, 10, [Aggregate("sum", 0), Aggregate("max", 0)])
    feed(window, [8, 11, 9], values=[1, 2, 4])  # [-10, 10) was complete at 11; 9 is in [0, 20) too
    found = window.flush()
    assert found.results[0].mean.tolist() == [7.0, 2.0]
    assert found.results[1].mean.tolist() == [4.0, 2.0]
    assert window.counters["late"] == 0


def test_an_extent_of_late_rows_alone_comes_out():
    window = ExtentAggregate(10, 10, [*COUNT, Aggregate("min", 0)])
    late = np.array([True, True, False])
    found = feed(window, [4, 3, 25], np.array([5, 5, 25]), late, values=[7, 6, 1])
    assert (found.end.tolist(), found.held.tolist()) == ([10], [2])
    assert found.results[1].mean.tolist() == [6.0]


def test_rows_of_two_controllers_are_counted_as_out_of_order():
    # a union of two frames, each reordered: punctuations go back
    window = ExtentAggregate(10, 10, COUNT)
    feed(window, [5, 12, 2, 14], np.array([6, 13, 3, 14]))
    assert window.counters["out_of_order"] == 1
    restored = ExtentAggregate.restore(window.snapshot())
    feed(restored, [13], np.array([20]))  # above its own last punctuation, not above the frame's
    assert restored.counters["out_of_order"] == 2


def test_empty_extents_between_two_that_hold_a_tuple_come_out_on_request():
    window = ExtentAggregate(10, 5, [*COUNT, Aggregate("avg", 0)], empty=True)
    found = feed(window, [-7, 31], values=[2, 3])
    assert (found.end.tolist(), found.held.tolist()) == ([-5, 0], [1, 1])
    found = window.flush()
    assert found.end.tolist() == [5, 10, 15, 20, 25, 30, 35, 40]
    assert found.held.tolist() == [0, 0, 0, 0, 0, 0, 1, 1]
    assert found.results[0].mean.tolist() == found.held.tolist()
    assert found.results[1].existence.tolist() == found.held.tolist()
    assert np.isnan(found.results[1].mean[:6]).all()


def test_a_gap_too_long_for_empty_extents_leaves_none():
    window = ExtentAggregate(1, 1, COUNT, empty=True)
    feed(window, [0, 5, 10**15])
    found = window.flush()
    assert found.end.tolist() == [10**15 + 1]
    assert window.counters["held"] == 0


def test_rows_between_extents_are_outside_and_not_stored():
    window = ExtentAggregate(2, 10, COUNT)  # extents hold 8 and 9, -2 and -1, ...
    feed(window, np.arange(-3, 8))
    assert window.counters == {
        "rows": 11, "late": 0, "outside": 9, "absent": 0, "out_of_order": 0, "held": 0,
    }  # fmt: skip
    assert ExtentAggregate(2, 10, COUNT).flush().end.size == 0


def test_behind_a_controller_extents_are_the_batch_answer_but_for_rows_that_missed_them():
    rng = np.random.default_rng(11)
    n, length, slide = 4000, 900, 600
    arrival = np.sort(rng.integers(0, 200_000, n))
    time = arrival - rng.exponential(800.0, n).astype(int)
    key, x, e = rng.integers(0, 3, n), rng.normal(0, 1, n), rng.random(n)
    control = Reorder(drop_ratio=0.02)
    window = ExtentAggregate(length, slide, [Aggregate("sum", 0), Aggregate("max", 0)])
    parts, seen, after = [], [], []
    for low in [*range(0, n, 333), None]:
        if low is None:
            out = control.flush()
        else:
            cut = slice(low, low + 333)
            out = control.process(key[cut], time[cut], arrival[cut])
        i = out.number
        seen.append(i)
        # A late row is in the extents that end after its punctuation, others are in all.
        after.append(np.where(out.late, out.punctuation, -(2**60)))
        size = np.arange(len(i) + 1)
        data = (out.key, out.event_time, out.punctuation, out.late, size, e[i], x[i, None])
        parts.append(window.process(*data))
    parts.append(window.flush())
    kept, after = np.concatenate(seen), np.concatenate(after)
    last = (time[kept] + length) // slide * slide  # end of the last extent that contains it
    assert 0 < np.count_nonzero(last - 1 <= after) == window.counters["late"] < n / 10
    assert np.count_nonzero((last - 1 > after) & (after > -(2**60))) > 0  # late, but not too late
    numbers = np.arange(time.min() // slide, (time.max() + length) // slide + 1)
    expected = {}
    for k in range(3):
        for end in numbers * slide:
            inside = kept[(key[kept] == k) & (time[kept] >= end - length) & (time[kept] < end)
                          & (end - 1 > after)]  # fmt: skip
            if inside.size:
                expected[end, k] = (inside.size, e[inside] @ x[inside])
    found = [
        (p.end[r], p.group[r], p.held[r], p.results[0].mean[r])
        for p in parts
        for r in range(len(p))
    ]
    assert len(found) == len(expected)
    for end, k, held, total in found:
        assert expected[end, k][0] == held
        assert abs(expected[end, k][1] - total) < 1e-9
    for k in range(3):
        ends = [end for end, group, _, _ in found if group == k]
        assert ends == sorted(ends)


def test_what_was_passed_in_may_change_afterwards():
    times, prob, values = np.array([1, 2]), np.array([0.5, 1.0]), np.array([[3.0], [4.0]])
    window = ExtentAggregate(10, 10, [Aggregate("sum", 0)])
    window.process(np.zeros(2, int), times, None, None, np.arange(3), prob, values)
    for array in (times, prob, values):
        array[:] = 9
    assert window.flush().results[0].mean.tolist() == [5.5]


def test_a_high_level_does_not_cancel_the_spread():
    rng = np.random.default_rng(7)
    n = 400
    times, x, e = np.arange(n), 1e6 + rng.normal(0, 1, n), rng.uniform(0.5, 1, n)
    window = ExtentAggregate(100, 10, [Aggregate("avg", 0), Aggregate("max", 0)])
    found = window.process(np.zeros(n, int), times, None, None, np.arange(n + 1), e, x[:, None])
    assert len(found) > 30
    for k in range(len(found)):
        inside = (times >= found.start[k]) & (times < found.end[k])
        p, v = e[inside], x[inside]
        law = np.zeros((3, p.size + 1))
        law[0, 0] = 1.0
        centre = v.mean()
        for q, y in zip(p, v - centre, strict=True):
            m = np.concatenate([np.zeros((3, 1)), law[:, :-1]], axis=1)
            law = (1 - q) * law + q * np.stack(
                [m[0], m[1] + y * m[0], m[2] + 2 * y * m[1] + y * y * m[0]]
            )
        counts = np.arange(1, p.size + 1)
        mean = (law[1, 1:] / counts).sum() / (1 - law[0, 0])
        second = (law[2, 1:] / counts**2).sum() / (1 - law[0, 0])
        assert abs(found.results[0].mean[k] - centre - mean) < 1e-9
        assert abs(found.results[0].stddev[k] - np.sqrt(second - mean**2)) < 1e-9
        order = np.argsort(-v)
        first = p[order] * np.append(1.0, np.cumprod(1 - p[order])[:-1])
        high = first @ (v[order] - centre) / first.sum()
        spread = np.sqrt(first @ (v[order] - centre - high) ** 2 / first.sum())
        assert abs(found.results[1].mean[k] - centre - high) < 1e-9
        assert abs(found.results[1].stddev[k] - spread) < 1e-9


def test_of_certain_rows_results_are_those_of_numpy():
    rng = np.random.default_rng(8)
    n = 3000
    times = np.sort(rng.integers(0, 10**6, n))
    x = rng.normal(5, 2, n)
    wanted = [Aggregate(f, 0) for f in ("count", "sum", "avg", "min", "max")]
    window = ExtentAggregate(10**5, 10**4, wanted, quantiles=(0.5,))
    found = feed(window, times, values=x)
    assert len(found) > 80
    for k in range(len(found)):
        inside = x[(times >= found.start[k]) & (times < found.end[k])]
        expected = [inside.size, inside.sum(), inside.mean(), inside.min(), inside.max()]
        means = [result.mean[k] for result in found.results]
        np.testing.assert_allclose(means, expected, rtol=1e-12)
        for result in found.results:
            assert (result.stddev[k], result.existence[k]) == (0.0, 1.0)
            assert np.isnan(result.error[k])
            np.testing.assert_allclose(result.quantiles[k, 0], result.mean[k], rtol=1e-11)


def test_state_is_bounded_by_one_range_and_one_pane():
    rng = np.random.default_rng(9)
    n, length, slide = 30_000, 1000, 100
    times = np.sort(rng.integers(0, n, n))
    window = ExtentAggregate(length, slide, [Aggregate("avg", 0), Aggregate("max", 0)])
    largest = most = 0
    for low in range(0, n, 700):
        part = times[low : low + 700]
        e, x = rng.random(part.size), rng.normal(0, 1, (part.size, 1))
        window.process(np.zeros(part.size, int), part, None, None, np.arange(part.size + 1), e, x)
        largest = max(largest, len(window.snapshot()))
        most = max(most, window.counters["held"])
    assert most <= 1.15 * (length + slide)  # one tuple a microsecond, on average
    assert largest <= 56 * most + 4000  # 4 marks, an offset, a probability and a value each
    assert window.nbytes < 1_200_000


def test_far_and_early_rows_are_refused_and_others_do_not_allocate_the_span_between():
    window = ExtentAggregate(10, 10, COUNT)
    with pytest.raises(ValueError, match="`event_time` must lie within"):
        feed(window, [2**61])
    feed(window, [-(2**60), 2**60])
    assert window.flush().held.tolist() == [1]
    assert window.nbytes < 10_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 10, COUNT), "`length` must be a whole number of microseconds above 0"),
        ((10, 1.5, COUNT), "`slide` must be a whole number of microseconds above 0"),
        ((10, 10, []), "`aggregates` must name at least one"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ExtentAggregate(*arguments)


def test_arrays_that_do_not_fit_are_refused_and_nothing_is_taken():
    window = ExtentAggregate(10, 10, [Aggregate("sum", 0)], members=True)
    good = {
        "group": np.zeros(1, int), "event_time": np.array([3]), "punctuation": None, "late": None,
        "offsets": np.array([0, 1]), "prob": np.ones(1), "values": np.ones((1, 1)),
    }  # fmt: skip
    bad = [
        ({"group": np.array([-1])}, ValueError, "must be codes 0, 1, 2"),
        ({"group": np.zeros(1)}, TypeError, "`group` must be an array of int64"),
        ({"prob": np.array([1.5])}, ValueError, "`prob` must hold probabilities"),
        ({"prob": np.array([np.nan])}, ValueError, "`prob` must hold probabilities"),
        ({"values": np.ones((1, 0))}, ValueError, "`values` must be"),
        ({"offsets": np.array([0, 2])}, ValueError, "`prob` must have 2 entries"),
        ({"late": np.array([True])}, ValueError, "`late` rows need a `punctuation`"),
        ({"punctuation": np.zeros(2, int)}, ValueError, "`punctuation` must have 1 entries"),
    ]
    for change, error, message in bad:
        with pytest.raises(error, match=message):
            window.process(**{**good, **change})
    assert window.counters["rows"] == 0
    window.process(**good)
    with pytest.raises(ValueError, match="`scope` must be the same for all rows of a group"):
        window.process(**good, scope=np.array([1]))
    with pytest.raises(SnapshotError):
        ExtentAggregate.restore(b"nothing")


def test_a_group_that_holds_nothing_is_as_one_that_never_had_a_tuple(monkeypatch):
    monkeypatch.setattr(finite_laws, "MOST_WORK", 0.0)  # quantiles are sampled
    rng = np.random.default_rng(3)
    times, probs = np.sort(rng.integers(0, 20, 14)), rng.uniform(0.2, 0.9, (2, 14))
    values = rng.normal(0, 1, (2, 14))

    def found(parts):
        window = ExtentAggregate(20, 10, [Aggregate("quantile", 0, 0.5)], seed=5, samples=30)
        out = []
        for shift, which in parts:
            arrays = (np.arange(15), probs[which], values[which][:, None])
            out.append(window.process(np.zeros(14, int), times + shift, None, None, *arrays))
        out.append(window.flush())
        assert not np.isnan(out[-1].results[0].error).any()
        return [value for part in out for value in part.results[0].mean.tolist()]

    assert found([(0, 0), (1000, 1)])[-3:] == found([(1000, 1)])


@pytest.mark.parametrize("seed", seeds(6))
def test_extents_over_two_sources_are_the_same_at_any_pace(seed):
    """Rows 1:1, 1:4, 4:1, one source paused: the same sums of the same rows."""
    rng = np.random.default_rng(40 + seed)
    n = 300
    arrival = np.sort(rng.integers(0, 3_000, (2, n)), axis=1)
    time = arrival - np.where(rng.random((2, n)) < 0.2, rng.integers(0, 60, (2, n)), 0)
    values = rng.integers(1, 100, (2, n)).astype(float)

    def found(turns):
        control = Reorder(slack=3, by_source=True, expected_sources=2)
        window = ExtentAggregate(50, 20, [Aggregate("sum", 0)])
        at, rows, parts = [0, 0], [], []
        for source, count in turns:
            some = np.arange(at[source], min(at[source] + count, n))
            at[source] += some.size
            rows += [(source, i) for i in some.tolist()]
            zeros = np.zeros(some.size, int)
            parts.append(control.process(
                zeros, time[source, some], arrival[source, some], zeros + source
            ))  # fmt: skip
        parts.append(control.flush())
        extents = []
        for out in parts:
            x = np.array([values[rows[i]] for i in out.number.tolist()])
            data = (out.event_time, out.punctuation, out.late, *certain(x, x))
            extents.append(window.process(out.key, *data, scope=np.zeros_like(out.key)))
        extents.append(window.flush())
        assert window.counters["out_of_order"] == 0
        sums = {
            int(p.end[k]): (int(p.held[k]), float(p.results[0].mean[k]))
            for p in extents
            for k in range(len(p))
        }
        assert len(sums) == sum(len(p) for p in extents)
        return sums, sum(int(part.late.sum()) for part in parts)

    def pace(one, other):
        return [turn for _ in range(n) for turn in ((0, one), (1, other))]

    expected, late = found(pace(1, 1))
    assert late > 20
    for turns in (pace(1, 4), pace(4, 1), [(0, 40), (1, n), (0, n)], [(1, n), (0, n)]):
        assert found(turns) == (expected, late)
