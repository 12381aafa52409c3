"""The newest known value of each attribute before each row, per key."""

import numpy as np

from sfumato.kernels.compile import compiled


@compiled
def earlier_values(key, time, values, known, since):
    """Return (earlier, age), float64[n, T] each; NaN if there is no earlier value.

    key : int64[n] in [0, keys)    time : float64[n]
    values : float64[n, T]; values that are not finite are missing
    known, since : float64[keys, T], value and time of the newest known value by time, NaN before
        the first; updated in place, but not by older rows
    O(n T).
    """
    n, attributes = values.shape
    earlier, age = np.empty((n, attributes)), np.empty((n, attributes))
    for i in range(n):
        for a in range(attributes):
            newest = since[key[i], a]
            earlier[i, a], age[i, a] = known[key[i], a], time[i] - newest
            if np.isfinite(values[i, a]) and not time[i] < newest:
                known[key[i], a], since[key[i], a] = values[i, a], time[i]
    return earlier, age
