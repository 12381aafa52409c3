"""MAX: the punctuation trails the clock by the largest delay seen (and the averaged variant)."""

from __future__ import annotations

import math

from sfumato.kernels.compile import compiled
from sfumato.kernels.disorder.state import (
    BLOCK_SUM,
    BLOCKS,
    FED,
    LARGEST_DELAY,
    TURN,
)

BLOCK = 20  # rows whose largest delay is one term of the average


@compiled
def largest_step(tau, t, averaged, ints, reals):
    """Punctuation t - D after a row, D the largest delay t - tau so far or an average of maxima.

    With t - min delay as the newest event time this is the newest event time less the largest
    difference of delays. It never forgets: one slow row holds all later rows for as long.
    `averaged`: D is the mean over all blocks of BLOCK rows of the block's largest delay (the
    present block included), which forgets slowly and drops about 3 % on normal delays.

    tau, t : int64 microseconds    ints, reals : the key's state     Returns int64 microseconds.
    Cost: O(1).  Error: none; averaged: a float64 sum, 1e-16 relative.
    Source: Srivastava & Widom (PODS 2004) as C section 7 describes the measure.
    """
    delay = t - tau
    if ints[FED] == 1 or delay > ints[LARGEST_DELAY]:
        ints[LARGEST_DELAY] = delay
    if not averaged:
        return t - ints[LARGEST_DELAY]
    ints[TURN] += 1
    mean = (reals[BLOCK_SUM] + ints[LARGEST_DELAY]) / (reals[BLOCKS] + 1.0)
    if ints[TURN] == BLOCK:
        reals[BLOCK_SUM] += ints[LARGEST_DELAY]
        reals[BLOCKS] += 1.0
        ints[TURN] = 0
        ints[LARGEST_DELAY] = -(1 << 62)
    return t - math.ceil(mean)
