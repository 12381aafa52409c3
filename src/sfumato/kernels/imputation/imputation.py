"""Missing values as distributions: the donors' values with their shares, joint or independent.

Dependencies are chosen on scaled attributes (`dependency_choice`); the values that come out are not
scaled.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled_ieee, lean, lean_inline
from sfumato.kernels.imputation.calibration import deviation_of, rank_of
from sfumato.kernels.imputation.dependency_choice import (
    IMPUTED,
    PRESENT,
    choose_narrowest,
    narrow_box,
    nodes_of_box,
    rows_of_nodes,
)
from sfumato.kernels.imputation.donors import attribute_law, calibrated_law, keep_nearest
from sfumato.kernels.imputation.reduced_values import (
    AlternativeRows,
    keep_levels,
    merge_nearest,
    room_for,
)
from sfumato.kernels.imputation.repository import new_scratch, scale
from sfumato.kernels.signals import after_signals


@compiled_ieee
def _joint_rows(repository, chosen, scratch):
    """Rows that are donors of every missing attribute, in scratch.places; of the nearest enough or
    none."""
    asked, tree, widest = 0, -1, -1
    for t in range(chosen.size):
        if chosen[t] != PRESENT:
            before = asked
            if chosen[t] > 0:
                asked = narrow_box(repository, t, chosen[t], asked, scratch.search)
            if asked - before > widest:
                tree, widest = t, asked - before
    count = nodes_of_box(repository, tree, asked, scratch)
    places = scratch.places
    n = rows_of_nodes(repository, tree, count, scratch, places.size, places)
    most = repository.choice.most_donors
    if most > 0:
        if n < repository.choice.least_donors:
            return 0
        n = keep_nearest(repository, tree, asked, n, scratch)
    for i in range(n):
        places[i] = repository.rows[tree, places[i]]
    return n


@compiled_ieee
def _sort_rows(order, n, codes, which, g):
    """Sort rows by their ranks of attributes which[:g], the first first: Shell sort."""
    gap = 1
    while gap < n // 9:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            row, j = order[i], i
            while j >= gap:
                other, a = order[j - gap], 0
                while a < g - 1 and codes[which[a], other] == codes[which[a], row]:
                    a += 1
                if codes[which[a], other] <= codes[which[a], row]:
                    break
                order[j] = other
                j -= gap
            order[j] = row
        gap //= 3


@compiled_ieee
def _distinct_rows(repository, order, n, which):
    """Distinct values of attributes `which` in sorted rows: (law float64[g, n], weight, number)."""
    g, codes = which.size, repository.row_codes
    law, weight = np.empty((g, n)), np.empty(n)
    k = 0
    for i in range(n):
        fresh = i == 0
        for a in range(g):
            if i > 0:
                fresh |= codes[which[a], order[i]] != codes[which[a], order[i - 1]]
        if fresh:
            for a in range(g):
                t = which[a]
                law[a, k] = repository.values[repository.first_value[t] + codes[t, order[i]]]
            weight[k] = 0.0
            k += 1
        weight[k - 1] += 1.0
    return law, weight, k


@compiled_ieee
def write_joint(repository, most, scratch, raw, chosen, account, out, at):
    """Alternatives that rows near on all determinants have together; none: end == at."""
    n = _joint_rows(repository, chosen, scratch)
    which = np.flatnonzero(chosen != PRESENT)
    g = which.size
    _sort_rows(scratch.places, n, repository.row_codes, which, g)
    law, weight, k = _distinct_rows(repository, scratch.places, n, which)
    span, moved = np.empty(g), np.zeros(g)
    for a in range(g):
        span[a] = repository.span[repository.column_of[which[a]]]
        least, largest = np.inf, -np.inf
        for i in range(k):
            least, largest = min(least, law[a, i]), max(largest, law[a, i])
        if k > 0:
            account.donors[which[a]], account.spread[which[a]] = n, largest - least
    k = merge_nearest(law, weight, k, most, span, moved)
    out = room_for(out, at + k)
    for i in range(k):
        out.prob[at + i] = weight[i] / n
        for t in range(chosen.size):
            out.points[at + i, t] = raw[repository.column_of[t]]
        for a in range(g):
            out.points[at + i, which[a]] = law[a, i]
    for a in range(g):
        account.error[which[a]] = moved[a]
    return out, at + k


# Alternatives of an object with several independent missing attributes: of all donors, and of the
# nearest, which are a sample of a few dozen as it is.
MOST_PRODUCTS, MOST_NEAREST_PRODUCTS = 65_536, 1_024
UNLIMITED, MOST_UNASKED = 2**62, 10_000  # no limit is given; alternatives of an object then
# Values of each that independent attributes need, where the nearest donors lend: fewer do not have
# the range of probability 90% any more (`reduced_values`).
CLOSE_DONORS = 10

STEPS_PER_OBJECT = 10_000  # about


@lean
def share_limits(sizes, missing, most, limits):
    """How many values each missing attribute may keep, so that their product is <= most: to
    `limits`.

    Small ones keep all; the others get equal shares of what that leaves.
    """
    left, open_attributes = most, 0
    for t in range(sizes.size):
        limits[t] = 0
        open_attributes += missing[t]
    while open_attributes > 0:
        smallest = -1
        for t in range(sizes.size):
            if missing[t] and limits[t] == 0 and (smallest < 0 or sizes[t] < sizes[smallest]):
                smallest = t
        root = 1
        while True:
            power = 1.0
            for _ in range(open_attributes):
                power *= root + 1
            if power > left or root >= sizes[smallest]:
                break
            root += 1
        limits[smallest] = min(root, sizes[smallest])
        left //= limits[smallest]
        open_attributes -= 1


@lean
def write_product(repository, raw, scratch, out, at):
    """Alternatives of independent attributes behind place `at`: every combination, the last
    attribute fastest; the place after them.

    out : `AlternativeRows` with room for them    `scratch` : as `independent_laws` leaves it
    """
    trees, end = scratch.missing.size, at + 1
    missing, sizes, about = scratch.missing, scratch.sizes, scratch.about
    for t in range(trees):
        if missing[t]:
            end = at + (end - at) * sizes[t]
    prob, points = out.prob, out.points
    for i in range(at, end):
        rest, p = i - at, 1.0
        for t in range(trees - 1, -1, -1):
            if missing[t]:
                j = rest % sizes[t]
                rest //= sizes[t]
                points[i, t] = scratch.law[t, j]
                p *= scratch.weight[t, j] / about[t].total
            else:
                points[i, t] = raw[repository.column_of[t]]
        prob[i] = p
    return end


class Completion(NamedTuple):
    """joint : bool, take several missing attributes from the same rows, where there are any
    most : int >= 1, alternatives an object may have; UNLIMITED stands for MOST_UNASKED
    """

    joint: bool
    most: int


@lean_inline
def most_values(completion):
    """How many alternatives an object may have."""
    return completion.most if completion.most < UNLIMITED else MOST_UNASKED


@lean
def taken_jointly(repository, completion, chosen):
    """Whether an object's missing attributes come from the same rows: several, where that is asked
    for, or where all have donors and, independent, too few alternatives for CLOSE_DONORS values
    each."""
    missing, needed, lent = 0, 1.0, repository.choice.most_donors > 0
    for t in range(chosen.size):
        if chosen[t] != PRESENT:
            missing += 1
            needed *= CLOSE_DONORS
            lent &= chosen[t] > 0
    return missing > 1 and (completion.joint or (lent and completion.most < needed))


class Account(NamedTuple):
    """What is said of imputations, for each attribute.

    donors : int64[..., T], rows that lent values    spread : float64[..., T], how far those lie
    apart    error : float64[..., T], the farthest a value was moved to have few enough
    """

    donors: np.ndarray
    spread: np.ndarray
    error: np.ndarray


@lean
def _shorten(repository, t, nearest, scratch, account):
    """Bring attribute t's law down to its limit of values: one for several near ones, or, where the
    nearest donors lend, those at levels of probability."""
    law, weight = scratch.law[t], scratch.weight[t]
    size, limit = scratch.sizes[t], scratch.limits[t]
    if nearest:
        about = scratch.about[t]
        kept, account.error[t] = keep_levels(law, weight, size, about.total, limit)
        if size > limit:
            about.total = 1.0
        scratch.sizes[t] = kept
    else:
        a = repository.column_of[t]
        scratch.sizes[t] = merge_nearest(
            scratch.law[t : t + 1], weight, size, limit, repository.span[a : a + 1],
            account.error[t : t + 1],
        )  # fmt: skip


@lean
def independent_laws(repository, completion, scratch, chosen, account):
    """The laws of an object's missing attributes, to `scratch`; how many alternatives they make.

    Arguments as of `impute_object`. The laws are shortened so that there are not too many.
    """
    missing, sizes, g, product = scratch.missing, scratch.sizes, 0, 1.0
    for t in range(chosen.size):
        account.donors[t], account.spread[t], account.error[t] = 0, 0.0, 0.0
        missing[t] = chosen[t] != PRESENT
        if missing[t]:
            account.donors[t] = calibrated_law(repository, t, chosen[t], scratch)
            account.spread[t] = scratch.about[t].spread
            product *= sizes[t]
            g += 1
    most, nearest = most_values(completion), repository.choice.most_donors > 0
    if g > 1:
        most = min(most, MOST_NEAREST_PRODUCTS if nearest else MOST_PRODUCTS)
    if product > most:
        share_limits(sizes, missing, most, scratch.limits)
        for t in range(chosen.size):
            if missing[t]:
                _shorten(repository, t, nearest, scratch, account)
    number = 1
    for t in range(chosen.size):
        number *= sizes[t] if missing[t] else 1
    return number


@compiled_ieee
def impute_object(repository, completion, scratch, raw, chosen, account, out, at):
    """Write the alternatives of one object, of `scratch.scaled`, behind place `at` of `out`.

    raw : float64[D]    chosen : int64[T], PRESENT, MARGINAL or dependencies with donors, for each
    attribute    account : `Account` of the object, written    out : `AlternativeRows`
    Returns (out, larger if need be; the place after the last; whether values were taken jointly).
    Source: E, section 2.2; spec: several attributes independent (product) or joint.
    """
    if taken_jointly(repository, completion, chosen):
        begin = at
        account.donors[:], account.spread[:], account.error[:] = 0, 0.0, 0.0
        most = most_values(completion)
        out, at = write_joint(repository, most, scratch, raw, chosen, account, out, at)
        if at > begin:
            return out, at, True
    needed = independent_laws(repository, completion, scratch, chosen, account)
    out = room_for(out, at + needed)
    return out, write_product(repository, raw, scratch, out, at), False


@compiled_ieee
def impute_batch(repository, completion, objects, chosen, reason):
    """Alternatives of many objects.

    completion : `Completion`    objects : float64[n, D], NaN = missing
    chosen, reason : of `judge_batch`
    Returns (offsets int64[n + 1], `AlternativeRows` of m, `Account` of n, joined bool[n]).
    """
    n, trees = chosen.shape
    scratch = new_scratch(repository)
    offsets, joined = np.zeros(n + 1, np.int64), np.zeros(n, np.bool_)
    account = Account(np.zeros((n, trees), np.int64), np.zeros((n, trees)), np.zeros((n, trees)))
    out, at = AlternativeRows(np.empty(2 * n + 16), np.empty((2 * n + 16, trees))), 0
    steps = np.int64(0)
    for i in range(n):
        steps = after_signals(steps + STEPS_PER_OBJECT + 8 * repository.rows.shape[1])
        if reason[i] <= IMPUTED:
            scale(repository, objects[i], scratch.scaled)
            own = Account(account.donors[i], account.spread[i], account.error[i])
            out, at, joined[i] = impute_object(
                repository, completion, scratch, objects[i], chosen[i], own, out, at
            )
        offsets[i + 1] = at
    return offsets, AlternativeRows(out.prob[:at], out.points[:at]), account, joined


class HeldOutRanks(NamedTuple):
    """What the other rows of a repository say of hidden values; NaN where no dependency has donors.

    rank : float64[s] in [0, 1], where they fall, of those that lie within the donors' values
    beyond : float64[s], how far others lie below (< 0) or above (> 0) the donors' values; else 0
    deviation : float64[s], standard deviation of the donors' values
    score : float64[s], how far off they are, by the continuous ranked probability score
    """

    rank: np.ndarray
    beyond: np.ndarray
    deviation: np.ndarray
    score: np.ndarray


@compiled_ieee
def held_out_ranks(repository, t, objects, rows, chance):
    """How well the hidden values of rows of the repository fit what the other rows give for them.

    objects : float64[s, D], the rows without attribute t and others    rows : int64[s], which rows
    chance : float64[s] in [0, 1), see `rank_of`
    repository : its `least_donors` one more than there are to be, for the row itself is found too
    Returns `HeldOutRanks`.
    """
    scratch, first = new_scratch(repository), repository.first_value[t]
    rank, beyond = np.full(rows.size, np.nan), np.full(rows.size, np.nan)
    deviation, scores = np.full(rows.size, np.nan), np.full(rows.size, np.nan)
    for i in range(rows.size):
        scale(repository, objects[i], scratch.scaled)
        chosen, _ = choose_narrowest(repository, t, scratch)
        if chosen <= 0:
            continue
        attribute_law(repository, t, chosen, scratch, rows[i])
        own, total = (
            repository.values[first + repository.row_codes[t, rows[i]]],
            scratch.about[t].total,
        )
        law, weight, k = scratch.law[t], scratch.weight[t], scratch.sizes[t]
        beyond[i] = min(own - law[0], 0.0) + max(own - law[k - 1], 0.0)
        if beyond[i] == 0.0:
            rank[i] = rank_of(own, law, weight, k, total, chance[i])
        deviation[i] = deviation_of(law, weight, k, total)
        cumulated, score = 0.0, 0.0
        for j in range(k):
            value, share = law[j], weight[j] / total
            cumulated += share
            score += share * (abs(value - own) - value * (2.0 * cumulated - share - 1.0))
        scores[i] = score
    return HeldOutRanks(rank, beyond, deviation, scores)
