"""C's readings with normal delays, and what each measure of disorder does to them."""

from typing import Any

import numpy as np

from sfumato.operators.arrays import Ints
from sfumato.operators.disorder.punctuator import Punctuator
from sfumato.reproduce.disorder.waiting import waiting

SECOND = 1_000_000
# The paper names neither the length of its sets nor their delays. These make MAX drop in short sets
# what it reports.
MEAN_DELAY, SD_DELAY = 2.0, 0.7

DRATIO, MAX, AVERAGED, OURS = "DRATIO 1% (paper)", "MAX", "MAX, averaged", "conformal 1% (ours)"
MEASURES: dict[str, dict[str, Any]] = {
    DRATIO: {"drop_ratio": 0.01, "estimator": "normal", "rounding": "floor"},
    MAX: {"estimator": "max"},
    AVERAGED: {"estimator": "max", "averaged": True},
    OURS: {"drop_ratio": 0.01, "estimator": "conformal"},
}


def readings(rng: np.random.Generator, sensors: int, seconds: int) -> tuple[Ints, Ints]:
    """(event time, delay) in microseconds: a reading of each sensor in each second, normal delays.

    Source: C, section 7.
    """
    event = np.repeat(np.arange(seconds), sensors) + rng.random(sensors * seconds)
    delay = np.maximum(rng.normal(MEAN_DELAY, SD_DELAY, event.size), 0.0)
    order = np.argsort(event, kind="stable")
    return (event[order] * SECOND).astype(np.int64), (delay * SECOND).astype(np.int64)


def judged(event: Ints, delay: Ints, measure: str) -> dict[str, float]:
    """What a measure does to readings: dropped (%), mean waiting time (s), mean buffer (tuples)."""
    order = np.argsort(event + delay, kind="stable")
    event, arrival = event[order], (event + delay)[order]
    punctuation = Punctuator(**MEASURES[measure]).extend(event, arrival)
    found = waiting(event, arrival, punctuation)
    return {
        "dropped": 100 * found.drop_ratio,
        "waiting": found.mean / SECOND,
        "buffer": found.buffer,
    }
