"""Totals of certain values by pane: sums, counts, maxima and minima as plain numbers.

Rows that certainly exist, each with one value, need no moments: a pane has one number per field,
and panes are merged field by field, in blocks as in `extents`.

totals : float64[panes, TOTALS_PER_PANE, fields]: of the pane, of its block up to the pane, and of
    its block from the pane onwards; the last two are derived
signs : float64[fields], 0 for a sum, 1 for a maximum, -1 for a minimum (NaN for no value)
"""

import numpy as np

from sfumato.kernels.arrays import first_at_least, write_at
from sfumato.kernels.compile import compiled_ieee, inlined, lean

OWN, PREFIX, SUFFIX = range(3)
TOTALS_PER_PANE = 3


@lean
def add_to_total(sign, total, x):
    """Return a total with the value x, or another total, added; an extreme ignores NaN."""
    if sign == 0.0:
        return total + x
    if x != x or total != total:
        return total if x != x else x
    return max(total, x) if sign > 0.0 else min(total, x)


@lean
def _merge(signs, source, to):
    for f in range(signs.size):
        to[f] = add_to_total(signs[f], to[f], source[f])


@compiled_ieee
def add_rows(group, to, values, attributes, signs, panes, totals):
    """Add rows to the totals of their panes; `last` of a pane is its group.

    to : int64[n], panes of the rows; negative to skip    values : float64[a, n], NaN for no value
    attributes : int64[fields], the attribute that each field aggregates, or -1 - a for the number
        of values of attribute a; with a = values.shape[0], the number of rows
    """
    for i in range(to.size):
        s = to[i]
        if s < 0:
            continue
        own = totals[s, OWN]
        if panes[s].last < 0:  # a new pane
            panes[s].last = group[i]
            for f in range(signs.size):
                own[f] = 0.0 if signs[f] == 0.0 else np.nan
        for f in range(signs.size):
            a = attributes[f]
            if a >= 0:
                x = values[a, i]
                if x == x:
                    own[f] = add_to_total(signs[f], own[f], x)
            elif -1 - a == values.shape[0] or values[-1 - a, i] == values[-1 - a, i]:
                own[f] += 1.0


@lean
def merge_prefix(i, slots, numbers, panes, totals, signs, width):
    """Compute the totals of a block up to a group's pane i unless they are known."""
    s = slots[i]
    if panes[s].state > 0:
        return
    panes[s].state = 1
    write_at(totals[s, PREFIX], 0, totals[s, OWN])
    if i > 0 and numbers[i - 1] // width == numbers[i] // width:
        write_at(totals[s, PREFIX], 0, totals[slots[i - 1], PREFIX])
        _merge(signs, totals[s, OWN], totals[s, PREFIX])


@inlined
def total_extent(extent, slots, numbers, inside, late_rows, grid, panes, totals, signs, out):
    """Write the totals of an extent, merged as in `extents._merge_extent`."""
    low, high = extent.low, extent.high
    start, middle = extent.number * grid.per_slide - grid.width, low
    for f in range(signs.size):
        out[f] = 0.0 if signs[f] == 0.0 else np.nan
    if start % grid.width != 0:
        middle = first_at_least(numbers, low, high, (start // grid.width + 1) * grid.width)
        if middle > low and panes[slots[low]].state < 2:
            for i in range(middle - 1, low - 1, -1):
                s = slots[i]
                if panes[s].state < 2:
                    panes[s].state = 2
                    write_at(totals[s, SUFFIX], 0, totals[s, OWN])
                    if i + 1 < middle:
                        _merge(signs, totals[slots[i + 1], SUFFIX], totals[s, SUFFIX])
    if middle > low:
        write_at(out, 0, totals[slots[low], SUFFIX])
    if middle < high:
        _merge(signs, totals[slots[high - 1], PREFIX], out)
    for i in inside:
        if late_rows[i].pane >= 0:
            _merge(signs, totals[late_rows[i].pane, OWN], out)
