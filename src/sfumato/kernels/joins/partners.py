"""The probability that a tuple has no near partner, per sample."""

import numpy as np

from sfumato.kernels.compile import compiled_ieee, lean, lean_inline
from sfumato.kernels.distributions.tuples import round_to_one
from sfumato.kernels.joins.match_probability import limit_of
from sfumato.kernels.joins.tuple_store import padded
from sfumato.kernels.signals import after_signals


@lean_inline
def is_near(blocks, x, x_length, y, y_length, d, limit):
    """Return whether the samples at places x and y of blocks of these lengths are near."""
    if d == 1:
        return abs(blocks[x + x_length] - blocks[y + y_length]) <= limit
    squared = 0.0
    for a in range(1, d + 1):
        difference = blocks[x + a * x_length] - blocks[y + a * y_length]
        squared += difference * difference
    return squared <= limit


@lean
def near_mass(tuples, u, k, v, criterion):
    """Return the probability of the samples of slot v that are near sample k of slot u."""
    blocks, d, limit, total = tuples.blocks, criterion.d, limit_of(tuples, u, v, criterion), 0.0
    x, x_length = tuples.at[u] + k, padded(tuples.samples[u])
    y, y_length = tuples.at[v], padded(tuples.samples[v])
    for j in range(y, y + tuples.samples[v]):
        total += blocks[j] if is_near(blocks, x, x_length, j, y_length, d, limit) else 0.0
    return min(total, 1.0)


@compiled_ieee
def exclude_partners(tuples, slots, partners, places, alone, criterion):
    """Multiply each sample's probability of having no near partner by Pr(a partner is not near).

    Given the sample, partners are near independently.
    slots, partners : int64[n]    places : int64[n], place in `alone` of each slot's first sample
    alone : float64[m], multiplied in the order of the pairs
    Cost: O(samples of u * samples of v * d) per pair.  Source: this project.
    """
    steps = np.int64(0)
    for i in range(slots.size):
        u, v = slots[i], partners[i]
        steps = after_signals(steps + tuples.samples[u] * tuples.samples[v])
        for k in range(tuples.samples[u]):
            near = near_mass(tuples, u, k, v, criterion)
            alone[places[i] + k] *= 1.0 - round_to_one(near, tuples.samples[v])
