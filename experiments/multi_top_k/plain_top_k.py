"""Algorithm of Chen et al. (2013), in plain code: top-k probabilities, one tuple at a time."""

# mypy: allow-untyped-defs, allow-untyped-decorators

import numpy as np

from sfumato.kernels.compile import compiled_ieee


@compiled_ieee
def _fold(law, mass, first):
    """Add one more higher-ranked rule, in place: Pr(count = j) is law[law.size - 2 - j]."""
    rest, one = 1.0 - mass, np.uint64(1)
    # Unsigned indexes need no test for negative ones, which would prevent SIMD.
    for j in range(np.uint64(first), np.uint64(law.size - 1)):
        law[j] = rest * law[j] + mass * law[j + one]


@compiled_ieee
def top_k_from_scratch(prob, rule, k, begin, step):
    """Compute Pr_k of every `step`-th tuple, starting at place `begin`, each from scratch.

    prob : float64[n] by rank    rule : int64[n] in [0, n); a tuple without a rule has a separate
    one k : int >= 1    begin, step : 0 and 1 for all tuples; a sample of them takes its share of
    the time Returns float64[n], 0 for the other tuples. Cost: O(n k) per tuple.  Source: Chen et
    al. (2013), section 3, (1) and (2) after compressing the rules.
    """
    n = prob.size
    out, law = np.zeros(n), np.empty(k + 1)
    mass, owner, place = np.zeros(n), np.empty(n, np.int64), np.full(n, -1)
    rules = 0
    for i in range(n):
        if i >= begin and (i - begin) % step == 0:
            law[:] = 0.0
            law[k - 1] = 1.0
            seen = 0
            for r in range(rules):
                if owner[r] != rule[i]:
                    seen += 1
                    _fold(law, mass[r], max(0, k - 1 - seen))
            out[i] = prob[i] * law[:k].sum()
        r = place[rule[i]]
        if r < 0:
            r = place[rule[i]] = rules
            owner[r] = rule[i]
            rules += 1
        mass[r] = min(mass[r] + prob[i], 1.0)
    return out
