"""Missing values as distributions of donors' values, joint or independent.

Dependencies are chosen on scaled attributes (`dependency_choice`); imputed values are unscaled.
"""

import numpy as np

from sfumato.kernels.arrays import stable_order, with_room, write_at
from sfumato.kernels.compile import compiled, compiled_ieee, inlined, lean
from sfumato.kernels.imputation.calibration import deviation_of, rank_of
from sfumato.kernels.imputation.dependency_choice import (
    IMPUTED,
    PRESENT,
    choose_dependencies,
    choose_narrowest,
    narrow_box,
    rows_in_box,
)
from sfumato.kernels.imputation.donors import (
    attribute_distribution,
    calibrated_distribution,
    keep_nearest,
)
from sfumato.kernels.imputation.reduced_values import merge_nearest, thin_to_quantiles
from sfumato.kernels.imputation.repository import new_scratch, scale
from sfumato.kernels.signals import after_signals

# Maximum number of alternatives of an object with several independent missing attributes: from all
# donors, and from the nearest donors, which are a sample of a few dozen anyway.
MOST_PRODUCTS, MOST_NEAREST_PRODUCTS = 65_536, 1_024
UNLIMITED = 2**62
DEFAULT_MAX_ALTERNATIVES = 10_000  # of an object, if no limit is set
# Values that each independent attribute needs if the nearest donors are used: with fewer values,
# the 90% range is lost (`reduced_values`).
CLOSE_DONORS = 10
STEPS_PER_OBJECT = 10_000  # rough estimate, for `after_signals`


@inlined
def _joint_distribution(repository, most, scratch, chosen, which, report):
    """Return values of the g attributes `which` in rows that are near in all determinants, and
    their probabilities, float64[g, >= k] and float64[k]; k = 0 if there are too few rows."""
    donors, spread, error = report
    constrained, choice = np.int64(0), repository.choice
    tree, widest = np.int64(-1), np.int64(-1)
    for t in which:
        before = constrained
        if chosen[t] > 0:
            constrained = narrow_box(repository, t, chosen[t], constrained, scratch.search)
        if constrained - before > widest:
            tree, widest = np.int64(t), constrained - before
    places, g, codes = scratch.places, which.size, repository.row_codes
    n, _ = rows_in_box(repository, tree, constrained, scratch, places.size, places)
    if choice.most_donors > 0 and n >= choice.least_donors:
        n = keep_nearest(repository, tree, constrained, n, scratch)
    elif choice.most_donors > 0:
        n = 0
    rows = repository.trees.rows[tree][places[:n]]
    for t in which[::-1]:
        rows = rows[stable_order(codes[t][rows])]
    distribution, weight, k = np.empty((g, n)), np.empty(n), np.int64(0)
    for i in range(n):
        fresh = i == 0
        for t in which:
            fresh |= i > 0 and codes[t, rows[i]] != codes[t, rows[i - 1]]
        if fresh:
            for a in range(g):
                t = which[a]
                distribution[a, k] = repository.values[
                    repository.first_value[t] + codes[t, rows[i]]
                ]
            weight[k] = 0.0
            k += 1
        weight[k - 1] += 1.0
    if k == 0:
        return distribution, weight
    span, moved = repository.span[repository.column_of[which]], np.zeros(g)
    for a in range(g):
        donors[which[a]] = n
        spread[which[a]] = distribution[a, :k].max() - distribution[a, :k].min()
    k = merge_nearest(distribution, weight, k, most, span, moved)
    for a in range(g):
        error[which[a]] = moved[a]
    return distribution, weight[:k] / n


@lean
def share_limits(info, missing, most):
    """Set the number of values that each missing attribute keeps, with a product of at most `most`.

    Attributes with few values keep all of them; the others keep about equal numbers of values.
    """
    left, open_attributes = most, 0
    for t in range(info.size):
        info[t].limit = 0
        open_attributes += missing[t]
    while open_attributes > 0:
        least = -1
        for t in range(info.size):
            smaller = least < 0 or info[t].size < info[least].size
            if missing[t] and info[t].limit == 0 and smaller:
                least = t
        root, power = 1, 2.0**open_attributes
        while power <= left and root < info[least].size:
            root, power = root + 1, 1.0
            for _ in range(open_attributes):
                power *= root + 1
        info[least].limit = root
        left //= root
        open_attributes -= 1


@lean
def _write_product(repository, raw, scratch, missing, prob, points, at, end):
    """Write the alternatives [at, end): every combination of values, the last attribute fastest."""
    trees, info = missing.size, scratch.info
    for i in range(at, end):
        rest, p = i - at, 1.0
        for t in range(trees - 1, -1, -1):
            if missing[t]:
                j = rest % info[t].size
                rest //= info[t].size
                points[i * trees + t] = scratch.distribution[t, j]
                p *= scratch.weight[t, j] / info[t].total
            else:
                points[i * trees + t] = raw[repository.column_of[t]]
        prob[i] = p


@lean
def _is_taken_jointly(repository, joint, limit, chosen):
    """Return whether several missing attributes are imputed from the same rows.

    Joint imputation is used if `joint` requests it, and also if all missing attributes have nearest
    donors and the limit on alternatives would leave each independent attribute fewer than
    CLOSE_DONORS values.
    """
    missing, needed, lent = 0, 1.0, repository.choice.most_donors > 0
    for t in range(chosen.size):
        if chosen[t] != PRESENT:
            missing += 1
            needed *= CLOSE_DONORS
            lent &= chosen[t] > 0
    return missing > 1 and (joint or (lent and limit < needed))


@lean
def _independent_distributions(repository, most, scratch, missing, chosen, report):
    """Write the distributions of the missing attributes; return the number of their combinations.

    If the distributions are too long, near values are merged or, with the nearest donors, only
    values at evenly spaced probability levels are kept.
    """
    donors, spread, error = report
    nearest, g, product, number = repository.choice.most_donors > 0, 0, 1.0, 1
    for t in range(chosen.size):
        if missing[t]:
            donors[t] = calibrated_distribution(repository, t, chosen[t], scratch)
            spread[t] = scratch.info[t].spread
            product *= scratch.info[t].size
            g += 1
    if g > 1:
        most = min(most, MOST_NEAREST_PRODUCTS if nearest else MOST_PRODUCTS)
    if product > most:
        share_limits(scratch.info, missing, most)
    for t in range(chosen.size):
        if not missing[t]:
            continue
        info, weight, a = scratch.info[t], scratch.weight[t], repository.column_of[t]
        if product > most and nearest and info.size > info.limit:
            info.size, error[t] = thin_to_quantiles(
                scratch.distribution[t], weight, info.size, info.total, info.limit
            )
            info.total = 1.0
        elif product > most:
            info.size = merge_nearest(
                scratch.distribution[t : t + 1], weight, info.size, info.limit,
                repository.span[a : a + 1], error[t : t + 1],
            )  # fmt: skip
        number *= info.size
    return number


@compiled
def _grow(prob, points, needed, trees):
    """Return the arrays, enlarged to twice the needed alternatives if they are too small."""
    if needed <= prob.size:
        return prob, points
    return with_room(prob, 2 * needed), with_room(points, 2 * needed * trees)


@compiled_ieee
def impute_batch(repository, joint, limit, objects):
    """Return the alternatives of many objects.

    joint : bool, impute several missing attributes from the same rows if such rows exist
    limit : int >= 1, maximum number of alternatives per object; UNLIMITED stands for
        DEFAULT_MAX_ALTERNATIVES    objects : float64[n, D], NaN for missing
    Returns (offsets int64[n + 1]; prob float64[m], points float64[m, T]; chosen int64[n, T] and
    reason uint8[n], see `choose_dependencies`; donors int64[n, T], the numbers of donors; spread
    float64[n, T], the range of their values; error float64[n, T], the largest distance by which a
    value was moved to reduce their number; joined bool[n], whether values were taken jointly).
    Source: Ren et al. (2019), sections 2.2 and 3.
    """
    n, trees = objects.shape[0], repository.column_of.size
    scratch, steps, at = new_scratch(repository), np.int64(0), np.int64(0)
    chosen, reason = np.empty((n, trees), np.int64), np.empty(n, np.uint8)
    offsets, joined = np.zeros(n + 1, np.int64), np.zeros(n, np.bool_)
    donors = np.zeros((n, trees), np.int64)
    spread, error = np.zeros((n, trees)), np.zeros((n, trees))
    prob, points = np.empty(2 * n + 16), np.empty((2 * n + 16) * trees)
    most = limit if limit < UNLIMITED else DEFAULT_MAX_ALTERNATIVES
    for i in range(n):
        steps = after_signals(steps + STEPS_PER_OBJECT + 8 * repository.trees.rows.shape[1])
        reason[i] = choose_dependencies(repository, scratch, objects[i], chosen[i])
        end, missing = at, chosen[i] != PRESENT
        if reason[i] <= IMPUTED:
            report = (donors[i], spread[i], error[i])
            if _is_taken_jointly(repository, joint, limit, chosen[i]):
                which = np.flatnonzero(missing)
                distribution, share = _joint_distribution(
                    repository, most, scratch, chosen[i], which, report
                )
                end = at + share.size
                prob, points = _grow(prob, points, end, trees)
                write_at(prob, at, share)
                for k in range(share.size):
                    for t in range(trees):
                        points[(at + k) * trees + t] = objects[i, repository.column_of[t]]
                    for a in range(which.size):
                        points[(at + k) * trees + which[a]] = distribution[a, k]
                joined[i] = end > at
            if end == at:
                end += _independent_distributions(
                    repository, most, scratch, missing, chosen[i], report
                )
                prob, points = _grow(prob, points, end, trees)
                _write_product(repository, objects[i], scratch, missing, prob, points, at, end)
        at = end
        offsets[i + 1] = at
    points = points[: at * trees].reshape((at, trees))
    return offsets, prob[:at], points, chosen, reason, donors, spread, error, joined


@compiled_ieee
def held_out_ranks(repository, t, objects, rows, chance):
    """Compare hidden values of repository rows with the distributions from the other rows.

    objects : float64[s, D], the rows, with attribute t and others set to NaN
    rows : int64[s], numbers of these rows in the repository
    chance : float64[s] in [0, 1), see `rank_of`
    repository : with `least_donors` increased by one, because each row also finds itself as a donor
    Returns float64[4, s], NaN without donors: the rank of each value within the donors' range (NaN
    beyond it), its distance below (< 0) or above (> 0) that range, the standard deviation of the
    donors' values, and the continuous ranked probability score.
    """
    scratch, first = new_scratch(repository), repository.first_value[t]
    found = np.full((4, rows.size), np.nan)
    for i in range(rows.size):
        scale(repository, objects[i], scratch.scaled)
        chosen, _ = choose_narrowest(repository, t, scratch)
        if chosen <= 0:
            continue
        attribute_distribution(repository, t, chosen, scratch, rows[i])
        own = repository.values[first + repository.row_codes[t, rows[i]]]
        total, k = scratch.info[t].total, scratch.info[t].size
        distribution, weight = scratch.distribution[t], scratch.weight[t]
        beyond = min(own - distribution[0], 0.0) + max(own - distribution[k - 1], 0.0)
        if beyond == 0.0:
            found[0, i] = rank_of(own, distribution, weight, k, total, chance[i])
        found[1, i], found[2, i] = beyond, deviation_of(distribution, weight, k, total)
        cumulated, score = 0.0, 0.0
        for j in range(k):
            value, share = distribution[j], weight[j] / total
            cumulated += share
            score += share * (abs(value - own) - value * (2.0 * cumulated - share - 1.0))
        found[3, i] = score
    return found
