"""The newest known value of every attribute before each row, by key."""

import numpy as np

from sfumato.kernels.compile import compiled


@compiled
def earlier_values(key, time, values, known, since):
    """Return (earlier, age) of n rows, float64[n, T] each; NaN where nothing is known yet.

    key : int64[n] in [0, keys)    time : float64[n]    values : float64[n, T], missing where
        not finite
    known, since : float64[keys, T], newest known value by time and its time, NaN before the first;
        updated in place. An older row leaves them unchanged.
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
