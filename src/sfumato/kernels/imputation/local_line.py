"""Donors' values as they would be at the object: moved along a line through the donors.

The donors of a box lie around the object, not at it. A linear function of what the box asks about,
fitted to them by least squares, says how their values change on the way; what it does not explain
stays theirs, as much larger as a new value scatters more about a fitted line than the old ones.

Source: local linear regression (Stone, 1977; Fan, 1992), with its residuals as the distribution.
"""

import math

from sfumato.kernels.compile import lean

RIDGE = 1e-3  # of the mean square of the determinants: those that hardly vary move nothing
DONORS_A_SLOPE = 4  # fewer leave too little of what a line does not explain


@lean
def solve(matrix, p, sides):
    """Solve p equations in place: columns p .. p + sides - 1 of the positive definite `matrix`."""
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
def offset(repository, t, scratch, i, a):
    """How far donor i is from the object on attribute a, in units of the box's reach."""
    off = repository.columns[t, a, scratch.places[i]] - scratch.scaled[a]
    return off / scratch.search.reach[a]


@lean
def fit_line(repository, t, asked, n, scratch):
    """Fit the line: its slopes to scratch.line[:p, p]; (the mean, the spread's factor).

    scratch.line[p, :p] is where the donors' mean stands as seen from the object.
    """
    places, line, share = scratch.places, scratch.line, scratch.share
    attributes, first, p = scratch.search.attributes, repository.first_value[t], asked
    total, squares, mean = 0.0, 0.0, 0.0
    for i in range(n):
        total += share[i]
        squares += share[i] * share[i]
    for i in range(n):
        mean += share[i] / total * repository.values[first + repository.codes[t, places[i]]]
    for j in range(p):
        line[p, j] = 0.0
        for i in range(n):
            line[p, j] += share[i] / total * offset(repository, t, scratch, i, attributes[j])
        for k in range(p + 2):
            line[j, k] = 0.0
    for i in range(n):
        off = repository.values[first + repository.codes[t, places[i]]] - mean
        for j in range(p):
            x = offset(repository, t, scratch, i, attributes[j]) - line[p, j]
            x *= share[i] / total
            for k in range(j + 1):
                y = offset(repository, t, scratch, i, attributes[k]) - line[p, k]
                line[j, k] += x * y
            line[j, p] += x * off
    ridge = 1e-12
    for j in range(p):
        ridge += RIDGE * line[j, j] / p
        line[j, p + 1] = line[p, j]
    for j in range(p):
        line[j, j] += ridge
        for k in range(j):
            line[k, j] = line[j, k]
    solve(line, p, 2)
    alike = total * total / squares  # as many donors of equal share would say as much
    leverage = 1.0
    for j in range(p):
        leverage += line[p, j] * line[j, p + 1]
    free = max(alike - p - 1, 0.25 * alike)
    return mean, math.sqrt((1.0 + min(leverage / alike, 1.0)) * alike / free)


@lean
def move_along_line(repository, t, asked, n, scratch, low, high):
    """Write to scratch.moved[:n] what the n donors' values would be at the object.

    asked : attributes of the box, p of them; n >= 4 p + 4.  Results stay in [low, high].  O(n
    p**2).
    """
    places, line, first = scratch.places, scratch.line, repository.first_value[t]
    mean, wider = fit_line(repository, t, asked, n, scratch)
    here = mean
    for j in range(asked):
        here -= line[asked, j] * line[j, asked]
    for i in range(n):
        rest = repository.values[first + repository.codes[t, places[i]]] - mean
        for j in range(asked):
            x = offset(repository, t, scratch, i, scratch.search.attributes[j])
            rest -= (x - line[asked, j]) * line[j, asked]
        scratch.moved[i] = min(max(here + wider * rest, low), high)
