"""Consecutive arrivals that are close together share one visit to the index."""

import math

from sfumato.kernels.compile import compiled_ieee, lean


@lean
def ball_of(summary, s, d, centre):
    """Write the centre of a tuple's full region (see `regions`); its radius."""
    if d == 1:
        centre[0] = 0.5 * summary[s, 2] + 0.5 * summary[s, 3]
        return max(summary[s, 3] - centre[0], centre[0] - summary[s, 2])
    for a in range(d):
        centre[a] = summary[s, a]
    return summary[s, d + 1]


@compiled_ieee
def enclose(centre, radius, other, other_radius, d, result):
    """Smallest ball around two balls: its centre is written to `result`, its radius returned."""
    squared = 0.0
    for a in range(d):
        squared += (other[a] - centre[a]) * (other[a] - centre[a])
    distance = math.sqrt(squared)
    if distance + other_radius <= radius or distance == 0.0:
        for a in range(d):
            result[a] = centre[a]
        return max(radius, other_radius)
    if distance + radius <= other_radius:
        for a in range(d):
            result[a] = other[a]
        return other_radius
    whole = 0.5 * (distance + radius + other_radius)
    share = (whole - radius) / distance
    for a in range(d):
        result[a] = centre[a] + share * (other[a] - centre[a])
    return whole


@compiled_ieee
def arrival_group(summary, code, slots, begin, d, margin, centre, scratch):
    """One group of arrivals: (its end, the radius of the ball around it, centre in `centre`).

    begin : int, the first arrival of the group; the group ends before the next window's arrival
    margin : float64, distance plus the largest reach in the window that will be searched
    An arrival joins while the volume searched an arrival does not grow:
    Vol(G + X) / (|G| + 1) <= Vol(G) / |G|, Vol the ball of radius margin + radius of the group.
    O(d) an arrival.  Source: B, section 6, batch processing.
    """
    radius = ball_of(summary, slots[begin], d, centre)
    end = begin + 1
    if end == code.size or code[end] != code[begin]:
        return end, radius
    other, both = scratch[0], scratch[1]
    while end < code.size and code[end] == code[begin]:
        volume_radius = margin + radius
        if volume_radius <= 0.0:
            break
        other_radius = ball_of(summary, slots[end], d, other)
        whole = enclose(centre, radius, other, other_radius, d, both)
        size = end - begin
        if ((margin + whole) / volume_radius) ** d > (size + 1.0) / size:
            break
        radius = whole
        for a in range(d):
            centre[a] = both[a]
        end += 1
    return end, radius
