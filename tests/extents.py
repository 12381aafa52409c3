"""Extents over time by a slow simulation, and rows to feed them."""

from functools import partial

import numpy as np

from sfumato.operators.distributions.aggregate import Aggregate
from window_cases import ALL, arrays, check, column
from worlds import aggregate_laws

COUNT = [Aggregate("count")]


class Simulation:
    """One scope; at every row, every extent is checked for completion."""

    def __init__(self, length, slide, shared=False):
        self.length, self.slide, self.shared = length, slide, shared
        self.held, self.missed, self.seen, self.done = [], [], [], -(10**6)
        self.late, self.outside, self.absent = 0, 0, 0
        self.newest, self.first = None, {}  # first : the first extent of each row
        self.versions, self.corrected, self.outdated, self.unequal = {}, 0, 0, 0

    def extents_of(self, time):
        """Return the numbers (end / slide) of the extents that contain a time."""
        first = time // self.slide + 1
        return [
            j for j in range(first, first + self.length // self.slide + 2)
            if j * self.slide - self.length <= time < j * self.slide
        ]  # fmt: skip

    def row(self, group, time, punctuation, late, i, exists, own=None, version=0):
        found, after = [], self.done
        if late:  # it is in the extents that end after its own punctuation
            after = max(self.done, (punctuation + 1) // self.slide)
        else:
            before = max(self.seen, default=-(10**9))
            if punctuation > before:
                # Rows at exactly the previous punctuation come with a higher one.
                found += self.close(min(before, time - 1) + 1, before)
                self.seen.append(punctuation)
            found += self.close(min(time, max(punctuation, before) + 1), max(punctuation, before))
            after = self.done
        of = self.extents_of(time)
        if own is not None and not self.shared:
            newest, since, until = self.versions.get(own, (0, after, -(10**9)))
            if until > self.done:
                if version <= newest:
                    self.outdated += 1
                    return found
                after = max(after, since)
            else:
                until = -(10**9)
            if any(j > after for j in of):
                until = max(until, *of)
            self.versions[own] = version, after, until
            for k, (g, other, extents, whose) in enumerate(self.held):
                if whose == own and any(j > after for j in extents):
                    self.held[k] = g, other, [j for j in extents if j <= after], own
                    self.corrected += 1
        taking = [j for j in of if j > after]
        if not of:
            self.outside += 1
        elif not taking:
            self.late += 1
        elif not exists:
            self.absent += 1
        elif self.shared and not self.has_weights(own, version, of):
            self.unequal += 1
            return found
        else:
            self.held.append((group, i, taking, own))
            self.first[i] = min(taking)
            self.newest = time if self.newest is None else max(self.newest, time)
        if exists or not taking:
            self.missed += [(group, j) for j in of if self.done < j <= after]
        return found

    def has_weights(self, own, weights, of):
        """Return whether a row has its outcome's weights, which are kept while extents are open."""
        if own is None:
            return True
        known, until = self.versions.get(own, (weights, self.done))
        if until > self.done and known != weights:
            return False
        self.versions[own] = weights, max(until, *of)
        return True

    def close(self, bound, punctuation):
        """Complete all extents that end at or before a bound, at a punctuation."""
        found = []
        for j in sorted({j for _, _, taking, _ in self.held for j in taking}):
            end = j * self.slide
            if not self.done < j or end > bound:
                continue
            for group in sorted({g for g, _, taking, _ in self.held if j in taking}):
                rows = [i for g, i, taking, _ in self.held if g == group and j in taking]
                late = self.missed.count((group, j))
                found.append((end, group, rows, punctuation, late))
        self.done = max(self.done, bound // self.slide)
        return found

    def end(self):
        """Complete all extents that hold a row."""
        before = max(self.seen, default=-(10**9))
        found = self.close(before + 1, before)
        if self.newest is not None:
            last = (self.newest + self.length) // self.slide * self.slide
            if last > self.done * self.slide:
                found += self.close(last, max(before, last - 1))
        return found


def stream(rng, n, groups, ordered, spread=60, start=-40):
    """Return (group, scope, time, punctuation or None, late), as controllers per scope release."""
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
        while k < mine.size:  # several rows are released with one punctuation
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


def simulated(length, slide, data, exists, finish=True, versions=None, shared=False):
    """Return (extents in order of completion, scopes); extents open at the end by (end, group).

    versions : (id or -1, version) of each row    shared : versions are weights of shared outcomes
    """
    group, scope, time, punctuation, late = data
    scopes = {int(c): Simulation(length, slide, shared) for c in np.unique(scope)}
    newest = dict.fromkeys(scopes, -(10**9))
    found = []
    for i in range(len(time)):
        c = int(scope[i])
        newest[c] = max(newest[c], int(time[i]) - 1)
        p = newest[c] if punctuation is None else int(punctuation[i])
        flag = late is not None and bool(late[i])
        own, version = (-1, 0) if versions is None else (of[i] for of in versions)
        own = None if own < 0 else own
        found += scopes[c].row(
            int(group[i]), int(time[i]), p, flag, i, bool(exists[i]), own, version
        )
    if finish:
        rest = [entry for c in scopes for entry in scopes[c].end()]
        found += sorted(rest, key=lambda entry: entry[:2])
    return found, scopes


def process(window, data, tuples, low, high, attributes=2, versions=None, shared=None):
    group, scope, time, punctuation, late = data
    cut = slice(low, high)
    if versions is not None:
        process_rows = partial(window.process_versions, *(of[cut] for of in versions))
    elif shared is not None:
        process_rows = partial(window.process_shared, shared[cut])
    else:
        process_rows = window.process
    return process_rows(
        group[cut], time[cut], None if punctuation is None else punctuation[cut],
        None if late is None else late[cut], *arrays(tuples[cut], attributes),
        scope=scope[cut],
    )  # fmt: skip


def in_parts(window, rng, data, tuples, crash=True, **ids):
    """Return the window and its outputs; rows are cut at random, with restarts, and flushed."""
    parts, done = [], 0
    while done < len(tuples):
        end = min(done + int(rng.choice([0, 1, 2, 5, 40])), len(tuples))
        parts.append(process(window, data, tuples, done, end, **ids))
        done = end
        if crash and rng.random() < 0.3:
            window = type(window).restore(window.snapshot())
    return window, [*parts, window.flush()]


def facts(parts):
    """Return (end, group, held, punctuation, late) of every extent."""
    names = ("end", "group", "held", "punctuation", "late")
    return [tuple(int(getattr(p, name)[k]) for name in names) for p in parts for k in range(len(p))]


def check_equal(found, usual, atol):
    """Compare the extents and results of two windows."""
    assert facts(found) == facts(usual)
    for r in range(len(usual[0].results)):
        for name in ("mean", "stddev", "existence", "quantiles"):
            one, other = (
                np.concatenate([getattr(p.results[r], name) for p in parts])
                for parts in (found, usual)
            )
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=atol)


def check_against_worlds(parts, expected, times, tuples, shares, shared=None):
    """Compare the results of `ALL` with possible worlds, for extents of few rows."""
    places = [(p, k) for p in parts for k in range(len(p))]
    for (part, k), (_, _, members, _, _) in zip(places, expected, strict=True):
        if len(members) > 6:
            continue
        rows = sorted(members, key=lambda i: (times[i], i))
        inside = [tuples[i] for i in rows]
        outcomes = None if shared is None else [None if shared[i] < 0 else shared[i] for i in rows]
        for attribute in (None, 0, 1):
            which = [r for r, a in enumerate(ALL) if a.attribute == attribute]
            requests = [(ALL[r].function, ALL[r].argument) for r in which]
            laws = aggregate_laws(requests, column(inside, attribute), shared=outcomes)
            for r, law in zip(which, laws, strict=True):
                check(part.results[r], k, law, shares, 4)


def certain(times, values=None):
    """Return (offsets, prob, values) of certain tuples."""
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
