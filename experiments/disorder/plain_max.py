"""MAX as C describes it: the punctuation trails the clock by the largest delay seen so far."""

import numpy as np

from sfumato.operators.arrays import Ints


def plain_max(event_time: Ints, arrival: Ints) -> Ints:
    """Return the punctuation after each arrival, int64[n] microseconds, in order of arrival.

    No guard against wrong clocks and no warm-up: the first row already sets a punctuation.
    Source: C, section 7 (the measure of its reference 12).
    """
    largest_delay = np.maximum.accumulate(arrival - event_time)
    return np.asarray(np.maximum.accumulate(arrival - largest_delay))
