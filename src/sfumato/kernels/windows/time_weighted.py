"""Integrals over time of values that hold until the next reading of their series.

The readings of a series are independent, and each may exist or not. At any time, the series has the
value of the newest existing reading; before the first one it is undefined. Given the first existing
reading, the current value V and the integral I up to a reading follow a recurrence, in which a
reading with existence e, mean m and variance s replaces V:

    I <- I + dt V               var I + 2 dt cov(V, I) + dt^2 var V,   cov(V, I) + dt var V
    V <- the reading or V       mean e m + (1 - e) mean V,             (1 - e) cov(V, I),
                                var  e s + (1 - e) var V + e (1 - e) (m - mean V)^2

So mean and variance are exact, without differences of large numbers. The results for each possible
first reading are averaged, weighted by the probability that this reading is the first.

columns : int64[4, n], series, time, number and `first` of each reading, ordered by the first three;
    windows with numbers below `first` do not contain the reading
values : float64[3, n], existence in (0, 1], mean and variance given existence
Source: original.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import first_at_least
from sfumato.kernels.compile import compiled_ieee, lean
from sfumato.kernels.signals import after_signals
from sfumato.kernels.tolerances import NEGLIGIBLE

READING_SERIES, READING_TIME, READING_NUMBER, READING_FIRST_WINDOW = range(4)
READING_EXISTENCE, READING_MEAN, READING_VARIANCE = range(3)
SECOND_US = 1e6  # microseconds per second


class TimeWindows(NamedTuple):
    """m windows, ordered by series and number; each holds the readings with start <= time < end.

    begin, until : int64[m], start and end in microseconds; `start`, `end` and the readings' `time`
        may be in a different unit with the same order, such as positions in a calendar
    averaged : bool[m], average over the time with a value, instead of the integral in seconds
    """

    series: np.ndarray
    number: np.ndarray
    start: np.ndarray
    end: np.ndarray
    begin: np.ndarray
    until: np.ndarray
    averaged: np.ndarray


@lean
def _carry(values, i, existence, mean, variance):
    """Return existence, mean and variance of the newest value after reading i."""
    e = values[READING_EXISTENCE, i]
    if e == 1.0 or existence == 0.0:
        return e, values[READING_MEAN, i], values[READING_VARIANCE, i]
    total = min(1.0, e + (1.0 - e) * existence)
    share = e / total
    step = values[READING_MEAN, i] - mean
    rest = 1.0 - share
    variance = share * values[READING_VARIANCE, i] + rest * variance + share * rest * step * step
    return total, mean + share * step, variance


@lean
def _integral(values, clock, readings, begin, until, mean, variance):
    """Return mean and variance of the integral from `begin`, given mean and variance there."""
    total, spread, shared, time = 0.0, 0.0, 0.0, begin
    for k in range(readings.size + 1):
        at = clock[readings[k]] if k < readings.size else until
        dt = float(at - time)
        total += dt * mean
        spread += dt * (2.0 * shared + dt * variance)
        shared += dt * variance
        time = at
        if k < readings.size:
            i = readings[k]
            _, mean, variance = _carry(values, i, 1.0, mean, variance)
            shared *= 1.0 - values[READING_EXISTENCE, i]
    return total, spread


@compiled_ieee
def time_weighted(windows, columns, values, clock):
    """Return mean, standard deviation and probability of each window's result, float64[m, 3].

    Mean and deviation are conditional on a defined result, and NaN if no result is ever defined.
    clock : int64[n], microseconds of the readings
    O(n) per series and O(k) per window of k readings; O(k^2) while all readings may be missing.
    """
    results = np.empty((windows.series.size, 3))
    series, time = columns[READING_SERIES], columns[READING_TIME]
    n, steps = columns.shape[1], np.int64(0)
    last, at, high, existence, mean, variance = -1, 0, 0, 0.0, 0.0, 0.0
    for w in range(windows.series.size):
        if windows.series[w] != last:
            last, existence = windows.series[w], 0.0
            at = first_at_least(series, 0, n, last)
            high = first_at_least(series, at, n, last + 1)
        while at < high and time[at] < windows.start[w]:
            existence, mean, variance = _carry(values, at, existence, mean, variance)
            at += 1
        stop = first_at_least(time, at, high, windows.end[w])
        readings, found = np.empty(stop - at, np.int64), 0
        for i in range(at, stop):
            if columns[READING_FIRST_WINDOW, i] <= windows.number[w]:
                readings[found] = i
                found += 1
        none, weight, centre, spread = 1.0, 0.0, 0.0, 0.0
        for k in range(-1, found):  # first existing reading; -1: before the window
            begin, e, m, v = windows.begin[w], existence, mean, variance
            if k >= 0:
                i = readings[k]
                begin, e = clock[i], values[READING_EXISTENCE, i]
                m, v = values[READING_MEAN, i], values[READING_VARIANCE, i]
            if e == 0.0:
                continue
            steps = after_signals(steps + found - k)
            m, v = _integral(values, clock, readings[k + 1 : found], begin, windows.until[w], m, v)
            scale = float(windows.until[w] - begin) if windows.averaged[w] else SECOND_US
            m, v, p = m / scale, v / (scale * scale), none * e
            weight += p
            step, share = m - centre, p / weight
            centre += share * step
            spread += p * (v + (1.0 - share) * step * step)
            none *= 1.0 - e
            if none <= NEGLIGIBLE:
                break
        results[w, 0] = centre if weight > 0.0 else np.nan
        results[w, 1] = np.sqrt(spread / weight)
        results[w, 2] = min(1.0, weight) if none > NEGLIGIBLE else 1.0
    return results


@compiled_ieee
def fold(bound, columns, values):
    """Combine each series' readings before its bound into one, in place.

    bound : int64[n], the bound of each reading's series: no later window starts before it
    Returns bool[n], the readings to keep. Later windows keep their results bit for bit.
    """
    kept = np.ones(bound.size, np.bool_)
    for i in range(1, bound.size):
        same_series = columns[READING_SERIES, i - 1] == columns[READING_SERIES, i]
        if same_series and columns[READING_TIME, i] < bound[i]:
            kept[i - 1] = False
            old, new = values[:, i - 1], values[:, i]
            new[0], new[1], new[2] = _carry(values, i, old[0], old[1], old[2])
    return kept
