"""About how many tuples a window will hold, before it holds any."""

import math
from statistics import NormalDist


def expected_tuples(rows: int, existence: float, confidence: float) -> int | None:
    """About how many tuples hold `rows` existing ones, if each exists with that probability.

    The least n with Pr(Binomial(n, existence) ≥ rows) ≥ confidence by the normal approximation
    with continuity correction; exact for existence 1; None where no n is enough. O(1).
    """
    if existence == 1 or confidence <= 0:
        return rows
    if confidence >= 1:
        return None
    spread = NormalDist().inv_cdf(confidence) * math.sqrt(existence * (1 - existence))
    root = (spread + math.sqrt(spread**2 + 4 * existence * (rows - 0.5))) / (2 * existence)
    return max(rows, math.ceil(root**2))


def join_confidence(confidence: float, probability: float) -> float:
    """The confidence that a join with pairs of at least `probability` needs of its windows.

    Source: A, Algorithm 2 (uncert-evict-beta).
    """
    return min(confidence, 1 - probability)
