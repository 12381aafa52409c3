"""A slow reference for calibrated imputation, row by row.

It has every step of docs/reference/semantics/imputation.md.

It shares no code with the imputer. What an imputer has learned (its order of dependencies, how
donors lend, curves, tails) is the argument `Learned`; learning itself is tested separately.
"""

from dataclasses import dataclass

import numpy as np

TAIL = 4


@dataclass
class Learned:
    """What is learned about one attribute; see `sfumato.kernels.imputation.repository`."""

    dependencies: list  # in order of use
    least: int
    max_rules: int
    power: float
    equal_scales: bool
    unit: float
    curve: np.ndarray  # [groups, q + 1]
    tails: np.ndarray  # [groups, 2, TAIL + 1]
    far: np.ndarray  # [groups]


def learned(imputer, t) -> Learned:
    of = imputer.prepared
    weighting = of.weighting[t]
    return Learned(
        list(imputer.dependencies_of(t)), of.choice.least_donors, int(weighting["max_rules"]),
        float(weighting["power"]), bool(weighting["equal_scales"]), float(weighting["unit"]),
        of.curve[t], of.tails[t], of.far[t],
    )  # fmt: skip


def in_box(rows, centre, box):
    inside = np.ones(len(rows), bool)
    for a, reach in box.items():
        inside &= np.abs(rows[:, a] - centre[a]) <= reach
    return np.flatnonzero(inside)


def narrowed(box, dependency, names):
    box = dict(box)
    for name, epsilon in dependency.determinants:
        a = names.index(name)
        box[a] = min(box.get(a, np.inf), epsilon)
    return box


def chosen_box(scaled, centre, names, how):
    """Return the box that dependencies narrow, widened until it has enough donors, or None."""
    box, any_chosen = {}, False
    for i, dependency in enumerate(how.dependencies):
        if any_chosen and i >= how.max_rules:
            break
        if any(np.isnan(centre[names.index(name)]) for name in dependency.names):
            continue
        tried = narrowed(box, dependency, names)
        found = len(in_box(scaled, centre, tried))
        if found >= how.least or (not any_chosen and found > 0):
            box, any_chosen = tried, True
            if found <= how.least:
                break
    if not any_chosen:
        return None
    while len(in_box(scaled, centre, box)) < how.least:
        box = {a: max(2.0 * reach, 1e-6) for a, reach in box.items()}
    return box


def nearest(scaled, centre, box, how):
    """Return (rows, shares) of the donors that lend."""
    rows = in_box(scaled, centre, box)
    units = {a: 1.0 if how.equal_scales else reach for a, reach in box.items()}
    distance = np.max([np.abs(scaled[rows, a] - centre[a]) / units[a] for a in box], axis=0)
    if len(rows) > 2 * how.least:
        near = distance <= np.sort(distance)[2 * how.least - 1]
        rows, distance = rows[near], distance[near]
    farthest = distance.max()
    near = np.maximum(distance / farthest, 0.05) if farthest > 0 else np.ones(len(rows))
    return rows, near**-how.power


def on_the_line(scaled, centre, box, rows, share, values):
    """Return the donors' values, moved to the object along a regression line and widened."""
    x = np.column_stack([(scaled[rows, a] - centre[a]) / reach for a, reach in box.items()])
    w, p = share / share.sum(), len(box)
    at, mean = w @ x, w @ values
    moments = (x - at).T @ ((x - at) * w[:, None])
    ridged = moments + (1e-12 + 1e-3 * np.trace(moments) / p) * np.eye(p)
    slope = np.linalg.solve(ridged, (x - at).T @ (w * (values - mean)))
    alike = 1.0 / (w @ w)
    leverage = 1.0 + at @ np.linalg.solve(ridged, at)
    free = max(alike - p - 1.0, 0.25 * alike)
    wider = np.sqrt((1.0 + min(leverage / alike, 1.0)) * alike / free)
    return mean - at @ slope + wider * (values - mean - (x - at) @ slope)


def distinct(values, weight):
    found, which = np.unique(values, return_inverse=True)
    return found, np.bincount(which.reshape(-1), weight)


def raw_law(rows, scaled, centre, t, names, how):
    """Return (values, weights, whether most are repeated, donors' range) before any correction,
    or None without donors."""
    box = chosen_box(scaled, centre, names, how)
    if box is None:
        return None
    donors, share = nearest(scaled, centre, box, how)
    values = rows[donors, t]
    extent = values.min(), values.max()
    law, weight = distinct(values, share)
    repeated = 2 * len(law) < len(donors)
    if not repeated and len(donors) >= 4 * (len(box) + 1):
        law, weight = on_the_line(scaled, centre, box, donors, share, values), share
    return law, weight, repeated, extent


def calibrated_law(rows, scaled, centre, t, names, how, bounds):
    """Return (values, probabilities) of attribute t within `bounds`, or None without donors."""
    raw = raw_law(rows, scaled, centre, t, names, how)
    if raw is None:
        return None
    law, weight, repeated, _ = raw
    if not repeated:
        law = np.clip(law, *bounds)
    law, weight = distinct(law, weight)
    asked = {names.index(name) for dependency in how.dependencies for name in dependency.names}
    group = min(sum(np.isnan(centre[a]) for a in asked), len(how.curve) - 1)
    curve, tails, far = how.curve[group], how.tails[group], how.far[group]
    share = weight / weight.sum()
    deviation = np.sqrt(share @ (law - share @ law) ** 2)
    unit = np.hypot(how.unit, deviation)
    heights = np.interp(np.minimum(np.cumsum(share), 1.0), np.linspace(0, 1, curve.size), curve)
    prob = np.diff(np.concatenate([[curve[0]], heights[:-1], [curve[-1]]]))
    below, above = law[0] - tails[0] * unit, law[-1] + tails[1] * unit
    if repeated:
        below, above = (nearest_known(x, rows[:, t], bounds) for x in (below, above))
    below = np.minimum(np.clip(below, *bounds), law[0])
    above = np.maximum(np.clip(above, *bounds), law[-1])
    values = np.concatenate([below, law, above])
    weights = np.concatenate(
        [
            np.append(np.full(TAIL, (curve[0] - far) / TAIL), far),
            prob,
            np.append(np.full(TAIL, (1.0 - curve[-1] - far) / TAIL), far),
        ]
    )
    values, weights = distinct(values, weights)
    return values[weights > 0], weights[weights > 0]


def nearest_known(targets, values, bounds):
    """Return the repository's nearest value to each target, or the target if out of bounds."""
    known, result = np.unique(values), []
    for x in np.clip(targets, *bounds):
        near = known[np.argmin(np.abs(known - x))]
        result.append(near if bounds[0] <= near <= bounds[1] else x)
    return np.array(result)


def at_levels(law, prob, most):
    """Return at most `most` values, with probabilities, at even levels from 5% to 95%; with 24 or
    more values, two are beyond each of these ends. With fewer than ten, both ends have a tenth."""
    if len(law) <= most:
        return law, prob
    if most < 10:
        inner = (
            np.linspace(0.1, 0.9, most - 1) if most > 2 else np.linspace(0.0, 1.0, most + 1)[1:-1]
        )
        ends = np.concatenate([[0.0], inner, [1.0]])
        levels = (ends[1:] + ends[:-1]) / 2
    else:
        levels = np.linspace(0.05, 0.95, most if most < 24 else most - 4)
        if most >= 24:
            levels = np.concatenate([[0.005, 0.025], levels, [0.975, 0.995]])
        ends = np.concatenate([[0.0], (levels[1:] + levels[:-1]) / 2, [1.0]])
    places = np.searchsorted(np.cumsum(prob), levels - 1e-12)
    return distinct(law[np.minimum(places, len(law) - 1)], np.diff(ends))


def rank_and_beyond(law, weight, value, chance):
    """Return (rank of a hidden value or None, its distance beyond the donors or 0)."""
    if value < law[0] or value > law[-1]:
        return None, value - (law[0] if value < law[0] else law[-1])
    share = weight / weight.sum()
    if value in law:
        return share[law < value].sum() + chance * share[law == value].sum(), 0.0
    j = np.searchsorted(law, value)
    middle = share[:j].sum() - share[j - 1] / 2
    return middle + chance * (share[j - 1] + share[j]) / 2, 0.0


def within(law, value, probability):
    """Return whether a value lies in the central range of this probability."""
    values, prob = law
    order = np.argsort(values)
    below = np.cumsum(prob[order])
    low, high = (np.searchsorted(below, p) for p in ((1 - probability) / 2, (1 + probability) / 2))
    return values[order][low] <= value <= values[order][min(high, len(values) - 1)]
