"""Laws of SUM, AVG and quantiles over independent tuples: exact over few, sampled over many."""

from __future__ import annotations

import numpy as np

from sfumato.kernels.compile import compiled
from sfumato.kernels.laws.discrete_law import merge_equal
from sfumato.kernels.laws.extreme_law import SURE

ROUNDING = 1e-15  # sums this close, relative to the sum of the absolute values, are one value


@compiled
def absence(offsets, prob, values, i):
    """Probability that tuple i has no value; 0 where only rounding says otherwise."""
    rest = 1.0
    for k in range(offsets[i], offsets[i + 1]):
        if not np.isnan(values[k]):
            rest -= prob[k]
    return 0.0 if rest < SURE else rest


@compiled
def sum_law(offsets, prob, values, averaged, most):
    """(whether it could be done, values, probabilities) of S, or of S / N with N >= 1.

    offsets : int64[n + 1]    prob, values : float64[m], NaN: no value
    averaged : bool, S / N    most : states, which are the different (N, S) or just S
    One tuple after the other; equal states are merged, and more than `most` of them decline.
    Returns ascending float64[k], and float64[k] whose sum is 1, or Pr(N >= 1) if `averaged`.
    O(n * most * l log) for l alternatives a tuple.  Error: relative 1e-15 n a probability, and
    values within 1e-15 n of the sum of the absolute values.
    """
    counts, sums, chances = np.zeros(1, np.int64), np.zeros(1), np.ones(1)
    scale, near = 0.0, 0.0
    for i in range(offsets.size - 1):
        rest = absence(offsets, prob, values, i)
        begin, end, size = offsets[i], offsets[i + 1], counts.size
        largest = 0.0
        pieces = 1 if rest > 0.0 else 0
        for k in range(begin, end):
            if not np.isnan(values[k]):
                pieces += 1
                largest = max(largest, abs(values[k]))
        scale += largest
        near = ROUNDING * (i + 8) * scale
        new_counts = np.empty(size * pieces, np.int64)
        new_sums, new_chances = np.empty(size * pieces), np.empty(size * pieces)
        at = 0
        for k in range(begin - 1, end):  # begin - 1: no value
            absent = k < begin
            if (absent and rest == 0.0) or (not absent and np.isnan(values[k])):
                continue
            p, v = (rest, 0.0) if absent else (prob[k], values[k])
            for j in range(size):
                new_counts[at] = counts[j] + (1 if averaged and not absent else 0)
                new_sums[at], new_chances[at] = sums[j] + v, chances[j] * p
                at += 1
        if pieces > 1:
            order = np.argsort(new_sums, kind="mergesort")
            if averaged:
                order = order[np.argsort(new_counts[order], kind="mergesort")]
            new_counts, new_sums = new_counts[order], new_sums[order]
            new_chances = new_chances[order]
            at = merge_states(new_counts, new_sums, new_chances, near)
        if at > most:
            return False, sums[:0], sums[:0]
        counts, sums, chances = new_counts[:at], new_sums[:at], new_chances[:at]
    if averaged:
        defined = counts > 0
        sums, chances = sums[defined] / counts[defined], chances[defined]
        order = np.argsort(sums, kind="mergesort")
        sums, chances = sums[order], chances[order]
    n = merge_equal(sums, chances, near)
    return True, sums[:n].copy(), chances[:n].copy()


@compiled
def merge_states(counts, sums, chances, near):
    """Merge neighbouring states of one count whose sums are at most `near` apart; how many left."""
    n = 0
    for i in range(counts.size):
        if n > 0 and counts[i] == counts[n - 1] and sums[i] - sums[n - 1] <= near:
            chances[n - 1] += chances[i]
        else:
            counts[n], sums[n], chances[n] = counts[i], sums[i], chances[i]
            n += 1
    return n


@compiled
def rank_of(share, n):
    """Which of n existing values, from 1, is the quantile: the least r with r >= share * n."""
    return max(int(np.ceil(share * n - 1e-9)), 1)


@compiled
def quantile_law(share, offsets, prob, values, distinct):
    """Law of the smallest existing value with at least share * N of the N existing ones up to it.

    offsets, prob, values : as `sum_law`    distinct : float64[k], the values, ascending
    For each value x, the joint law of how many exist up to x and above it.
    Returns float64[k], whose sum is Pr(N >= 1).  O(k n**3).  Error: 1e-15 n absolute.
    """
    n = offsets.size - 1
    result, before = np.zeros(distinct.size), 0.0
    for x in range(distinct.size):
        law = np.zeros((n + 1, n + 1))
        law[0, 0] = 1.0
        for i in range(n):
            below, above = 0.0, 0.0
            for k in range(offsets[i], offsets[i + 1]):
                if values[k] <= distinct[x]:
                    below += prob[k]
                elif values[k] > distinct[x]:
                    above += prob[k]
            rest = absence(offsets, prob, values, i)
            for a in range(i + 1, -1, -1):
                for b in range(i + 1 - a, -1, -1):
                    p = rest * law[a, b]
                    if a > 0:
                        p += below * law[a - 1, b]
                    if b > 0:
                        p += above * law[a, b - 1]
                    law[a, b] = p
        reached = 0.0
        for a in range(1, n + 1):
            for b in range(n + 1 - a):
                if a >= rank_of(share, a + b):
                    reached += law[a, b]
        result[x] = max(reached - before, 0.0)
        before = max(reached, before)
    return result


@compiled
def uniform(seed, index, sample):
    """A number in [0, 1) that looks random, a function of its three integers (SplitMix64)."""
    x = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15)
    x += np.uint64(index) * np.uint64(0xD1B54A32D192ED03)
    x += np.uint64(sample) * np.uint64(0x8CB92BA72F3D8DD7)
    for _ in range(2):
        x += np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
    return np.float64(x >> np.uint64(11)) * 2.0**-53


@compiled
def sampled(averaged, share, seed, index, offsets, prob, values, samples):
    """Sums (or averages, or quantiles) of sampled worlds: float64[samples], NaN where undefined.

    averaged : S / N instead of S    share : of a quantile, or NaN    index : int64[n], of tuples;
        what sample s makes of a tuple depends on (seed, index, s) alone
    O(samples * n), for quantiles times log n.  SplitMix64: Steele, Lea & Flood (2014).
    """
    n = offsets.size - 1
    result = np.empty(samples)
    there = np.empty(n)
    for s in range(samples):
        total, count = 0.0, 0
        for i in range(n):
            u, value = uniform(seed, index[i], s), np.nan
            for k in range(offsets[i], offsets[i + 1]):
                u -= prob[k]
                if u < 0.0 or (k + 1 == offsets[i + 1] and u < SURE):
                    value = values[k]
                    break
            if not np.isnan(value):
                total += value
                there[count] = value
                count += 1
        if not np.isnan(share):
            rank = rank_of(share, count)
            result[s] = np.sort(there[:count])[rank - 1] if count else np.nan
        elif averaged:
            result[s] = total / count if count else np.nan
        else:
            result[s] = total
    return result
