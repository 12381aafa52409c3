"""Donors' values moved to the object along a line fitted through the donors.

A box's donors lie around the object, not at it. A linear function of the box's attributes, fitted
to the donors by least squares, predicts how their values change towards the object. The residuals
are enlarged, because a new value scatters more about a fitted line than the fitted values do.

Source: local linear regression (Stone, 1977; Fan, 1992), with its residuals as the distribution.
"""

import math

from sfumato.kernels.compile import lean

RIDGE = 1e-3  # of the determinants' mean square; nearly constant determinants have no effect
DONORS_PER_SLOPE = 4  # least number of donors per coefficient; fewer leave too little residual


@lean
def solve(matrix, p, sides):
    """Solve p equations in place for columns p ... p + sides - 1; `matrix` is positive definite."""
    for i in range(p):
        for r in range(i + 1, p):
            factor = matrix[r, i] / matrix[i, i]
            for c in range(i, p + sides):
                matrix[r, c] -= factor * matrix[i, c]
    for i in range(p - 1, -1, -1):
        for c in range(p, p + sides):
            for r in range(i + 1, p):
                matrix[i, c] -= matrix[i, r] * matrix[r, c]
            matrix[i, c] /= matrix[i, i]


@lean
def _offset(repository, t, scratch, i, j):
    """Return donor i's offset from the object in the box's attribute j, in units of reach."""
    a = scratch.search.attributes[j]
    off = repository.trees.columns[t, a, scratch.places[i]] - scratch.scaled[a]
    return off / scratch.search.reach[a]


@lean
def move_along_line(repository, t, p, n, scratch, low, high):
    """Move the n donors' values in scratch.local_values to the object, within [low, high].

    p : number of the box's attributes; n >= 4 p + 4
    Writes the slopes to scratch.line[:p, p], and the donors' mean offset from the object to
    scratch.line[p, :p].  O(n p**2).
    """
    moved, line, share = scratch.local_values, scratch.line, scratch.share
    total, squares, mean = 0.0, 0.0, 0.0
    for i in range(n):
        total += share[i]
        squares += share[i] * share[i]
    for i in range(n):
        mean += share[i] / total * moved[i]
    for j in range(p):
        line[p, j] = 0.0
        for i in range(n):
            line[p, j] += share[i] / total * _offset(repository, t, scratch, i, j)
        line[j, : p + 2] = 0.0
    for i in range(n):
        for j in range(p):
            x = _offset(repository, t, scratch, i, j) - line[p, j]
            x *= share[i] / total
            for k in range(j + 1):
                line[j, k] += x * (_offset(repository, t, scratch, i, k) - line[p, k])
            line[j, p] += x * (moved[i] - mean)
    ridge = 1e-12
    for j in range(p):
        ridge += RIDGE * line[j, j] / p
        line[j, p + 1] = line[p, j]
    for j in range(p):
        line[j, j] += ridge
        for k in range(j):
            line[k, j] = line[j, k]
    solve(line, p, 2)
    alike = total * total / squares  # effective number of donors with equal shares
    leverage, here = 1.0, mean
    for j in range(p):
        leverage += line[p, j] * line[j, p + 1]
        here -= line[p, j] * line[j, p]
    free = max(alike - p - 1, 0.25 * alike)
    wider = math.sqrt((1.0 + min(leverage / alike, 1.0)) * alike / free)
    for i in range(n):
        rest = moved[i] - mean
        for j in range(p):
            rest -= (_offset(repository, t, scratch, i, j) - line[p, j]) * line[j, p]
        moved[i] = min(max(here + wider * rest, low), high)
