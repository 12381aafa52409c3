"""MAX: the punctuation trails the clock by the largest delay seen (and the averaged variant), or
the newest event time by a delay that is given."""

import math

from sfumato.kernels.compile import compiled

BLOCK = 20  # rows whose largest delay is one term of the average


@compiled
def largest_step(tau, t, averaged, key):
    """Punctuation t - D after a row, D the largest delay t - tau so far or an average of maxima.

    With t - min delay as the newest event time this is the newest event time less the largest
    difference of delays. It never forgets: one slow row holds all later rows for as long.
    `averaged`: D is the mean over all blocks of BLOCK rows of the block's largest delay (the
    present block included), which forgets slowly and drops about 3 % on normal delays.
    O(1).  Source: Srivastava & Widom (PODS 2004) as C section 7 describes the measure.
    """
    delay = t - tau
    if key.fed == 1:
        key.turn = 0
        key.blocks = key.block_sum = 0.0
    if key.fed == 1 or delay > key.largest_delay:
        key.largest_delay = delay
    if not averaged:
        return t - key.largest_delay
    key.turn += 1
    mean = (key.block_sum + key.largest_delay) / (key.blocks + 1.0)
    if key.turn == BLOCK:
        key.block_sum += key.largest_delay
        key.blocks += 1.0
        key.turn = 0
        key.largest_delay = -(1 << 62)
    return t - math.ceil(mean)


@compiled
def fixed_step(tau, max_delay, key):
    """Punctuation after a row: the newest event time less `max_delay`, int64 microseconds. O(1)."""
    key.newest = tau if key.fed == 1 else max(key.newest, tau)
    return key.newest - max_delay
