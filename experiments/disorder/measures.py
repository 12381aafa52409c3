"""The paper's readings with normal delays, and the effect of each measure of disorder on them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from experiments.disorder.waiting import waiting
from sfumato.operators.arrays import Ints
from sfumato.operators.disorder.punctuator import Punctuator

SECOND = 1_000_000
# The paper specifies neither the length of its sets nor the parameters of their delays.
MEAN_DELAY, SD_DELAY = 2.0, 0.7

DRATIO, MAX, AVERAGED = "DRATIO 1% (paper)", "MAX (paper)", "MAX, averaged (paper)"
GUARDED, OURS = "MAX with the clock guard (ours)", "conformal 1% (ours)"
Punctuations = Callable[[Ints, Ints], Ints]


def by_punctuator(**options: Any) -> Punctuations:
    """Return the punctuations of the library's `Punctuator` with these options."""
    return lambda event, arrival: Punctuator(**options).extend(event, arrival)


def plain_max(event_time: Ints, arrival: Ints) -> Ints:
    """Return the paper's MAX: the punctuation trails the clock by the largest delay seen so far.

    event_time, arrival : int64[n] microseconds, in order of arrival; one punctuation per arrival
    No guard against wrong clocks and no warm-up: the first row already sets a punctuation.
    Source: Kim et al. (2006), section 7 (the measure of its reference 12).
    """
    largest_delay = np.maximum.accumulate(arrival - event_time)
    return np.asarray(np.maximum.accumulate(arrival - largest_delay))


# The paper's measures run without the guard against wrong clocks, which the paper does not have.
MEASURES: dict[str, Punctuations] = {
    DRATIO: by_punctuator(drop_ratio=0.01, estimator="normal", rounding="floor", guard=False),
    MAX: plain_max,
    AVERAGED: by_punctuator(estimator="max", averaged=True, guard=False),
    GUARDED: by_punctuator(estimator="max"),
    OURS: by_punctuator(drop_ratio=0.01, estimator="conformal"),
}


def readings(rng: np.random.Generator, sensors: int, seconds: int) -> tuple[Ints, Ints]:
    """Draw (event time, delay) in microseconds: one reading per sensor and second, normal delays.

    Source: Kim et al. (2006), section 7.
    """
    event = np.repeat(np.arange(seconds), sensors) + rng.random(sensors * seconds)
    delay = np.maximum(rng.normal(MEAN_DELAY, SD_DELAY, event.size), 0.0)
    order = np.argsort(event, kind="stable")
    return (event[order] * SECOND).astype(np.int64), (delay * SECOND).astype(np.int64)


def judged(event: Ints, delay: Ints, measure: str) -> dict[str, float]:
    """Apply a measure: dropped (%), mean waiting time (s), mean buffer (tuples)."""
    order = np.argsort(event + delay, kind="stable")
    event, arrival = event[order], (event + delay)[order]
    found = waiting(event, arrival, MEASURES[measure](event, arrival))
    return {
        "dropped": 100 * found.drop_ratio,
        "waiting": found.mean / SECOND,
        "buffer": found.buffer,
    }
