"""Possible worlds, one by one, in exact rationals: the definition that operators must satisfy.

A group is a list of (probability, outcome), of which at most one happens; groups are independent. A
tuple is a group of its alternatives, a generation rule a group of its members' alternatives.
"""

import math
from fractions import Fraction


def worlds(groups, most=None):
    """Return (probability, outcomes in the order of the groups) of every possible world.

    most : only the last `most` outcomes that happen; earlier groups are then ignored
    """
    if not groups or most == 0:
        return [(Fraction(1), [])]
    *before, last = groups
    without = worlds(before, most)
    absent = 1 - sum((Fraction(p) for p, _ in last), Fraction(0))
    found = [(absent * p, there) for p, there in without] if absent > 0 else []
    after = without if most is None else worlds(before, most - 1)
    return found + [(Fraction(p) * q, [*there, x]) for p, x in last for q, there in after]


def near_worlds(own, others, is_near, newest=None):
    """Yield (probability, near outcomes) of every world in which a tuple exists.

    own : the tuple's alternatives (probability, outcome)    others : groups, oldest first
    is_near : whether two outcomes are near    newest : as `most` in `worlds`
    """
    for p, mine in own:
        for chance, there in worlds(others, newest):
            yield p * float(chance), [theirs for theirs in there if is_near(mine, theirs)]


def existing(probabilities):
    """Return groups for tuples without values, which exist or not."""
    return [[(p, True)] for p in probabilities if p > 0]


def at_least(probabilities, count):
    """Return Pr(at least `count` of these tuples exist)."""
    return sum(
        (p for p, there in worlds(existing(probabilities)) if len(there) >= count), Fraction()
    )


def law_over(some_worlds, function):
    """Return {result: probability} of a function of a world's tuples, without None results."""
    law = {}
    for p, there in some_worlds:
        value = function(there)
        if value is not None:
            law[value] = law.get(value, 0) + p
    return law


def aggregate_of(function, argument, there):
    """Return a world's aggregate; `there` has one entry per existing tuple, None for no value."""
    in_order = [v for v in there if v is not None]
    values = sorted(in_order)
    if function == "count":
        return Fraction(len(values))
    if function == "sum":
        return sum(values, Fraction(0))
    if function == "count_distinct":
        return Fraction(len(set(values)))
    if not values or (function in ("stddev", "var") and len(values) < 2):
        return None
    if function in ("stddev", "var"):
        mean = sum(values, Fraction(0)) / len(values)
        variance = sum((v - mean) ** 2 for v in values) / (len(values) - 1)
        return variance if function == "var" else math.sqrt(variance)
    if function == "avg":
        return sum(values) / len(values)
    if function in ("first", "last"):
        return in_order[0 if function == "first" else -1]
    if function == "min":
        return values[0]
    if function == "max":
        return values[-1]
    share = Fraction(argument) * len(values)
    return next(v for v in values if sum(x <= v for x in values) >= share)


def mean_value(alternatives):
    """Return the mean of a tuple's value given that it has one, or None if it never has."""
    there = [(Fraction(p), v) for p, v in alternatives if v is not None]
    return sum(p * v for p, v in there) / sum(p for p, _ in there) if there else None


def shared_worlds(tuples, shared):
    """Return `worlds`; tuples with an equal `shared`, not None, take the same alternative."""
    groups = {}
    for place, (alternatives, of) in enumerate(zip(tuples, shared, strict=True)):
        alone = [(p, []) for p, _ in alternatives]
        group = groups.setdefault(("alone", place) if of is None else of, alone)
        for (_, there), (_, value) in zip(group, alternatives, strict=True):
            there.append((place, value))
    return [
        (p, [value for _, value in sorted(pair for outcome in there for pair in outcome)])
        for p, there in worlds(list(groups.values()))
    ]


def aggregate_laws(requests, tuples, most=None, shared=None):
    """Return {value: probability} per request (function, argument), without undefined results.

    tuples : groups of (probability, value or None)    most : as in `worlds`; not for boundary_sum
    shared : the outcome that each tuple shares; None for independent tuples
    """
    found = worlds(tuples, most) if shared is None else shared_worlds(tuples, shared)
    laws = []
    for function, argument in requests:
        if function == "boundary_sum":
            means = [mean_value(alternatives) for alternatives in tuples]
            total = sum((mean for mean in means if mean is not None), Fraction(0))
            laws.append({total: Fraction(1)})
        else:
            laws.append(
                law_over(found, lambda there, f=function, q=argument: aggregate_of(f, q, there))
            )
    return laws


def moments_of(law):
    """Return mean and variance given that there is a value, and the probability of a value."""
    existence = sum(law.values(), Fraction(0))
    if not existence:
        return None, None, existence
    mean = sum(p * v for v, p in law.items()) / existence
    return mean, sum(p * (v - mean) ** 2 for v, p in law.items()) / existence, existence


def quantile_of(law, share):
    """Return the smallest value not exceeded in at least this share of the worlds with a value."""
    reached, wanted = Fraction(0), Fraction(share) * sum(law.values(), Fraction(0))
    for value in sorted(law):
        reached += law[value]
        if reached >= wanted:
            return value
    raise AssertionError(f"no value reaches {share}")
