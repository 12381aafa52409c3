"""The similarity join of two streams by brute force, and how answers are compared."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

from sfumato.operators.joins.similarity_join import SimilarityJoin
from sfumato.windows import JoinWindow

SAME = 1e-12
COLUMNS = ("arrival", "change", "left", "right", "probability")


def join_of(dimensions, within, probability, rows, confidence, max_tuples=None, **options):
    """The join with one count window for both sides."""
    window = JoinWindow(rows, confidence, max_tuples)
    return SimilarityJoin(dimensions, within, probability, window, **options)


def near_on_paper(x, y, within):
    """Whether points are within a distance, all numbers being the decimals they are written as."""
    squared = sum((a - b) ** 2 for a, b in zip(x, y, strict=True))
    if abs(math.sqrt(squared) - within) > 1e-6 * within:
        return squared <= within * within
    x, y = (list(map(on_paper, point)) for point in (x, y))
    exact = sum((a - b) ** 2 for a, b in zip(x, y, strict=True))
    return exact <= on_paper(within) ** 2


def on_paper(number):
    """The decimal that a float is written as."""
    return number if isinstance(number, Fraction) else Fraction(repr(float(number)))


def with_one_more(law, p):
    """Law of a count after one more independent tuple of existence p."""
    return [q * (1 - p) + r * p for q, r in zip([*law, 0.0], [0.0, *law], strict=True)]


def at_least(existences, rows):
    """Pr(at least `rows` of independent tuples exist)."""
    law = [1.0]
    for p in existences:
        law = with_one_more(law, p)
    return max(0.0, 1.0 - sum(law[:rows]))


def positions(existences, rows):
    """T_j of each tuple, oldest first: Pr(fewer than `rows` of the newer ones exist)."""
    law, inside = [1.0], []
    for p in reversed(existences):
        inside.append(min(1.0, sum(law[:rows])))
        law = with_one_more(law, p)
    return inside[::-1]


def held(tuples, i):
    """(samples, existence) of tuple i."""
    part = slice(tuples.offsets[i], tuples.offsets[i + 1])
    samples = list(zip(tuples.prob[part].tolist(), tuples.points[part].tolist(), strict=True))
    total = math.fsum(p for p, _ in samples)
    return samples, 1.0 if abs(total - 1) < 1e-14 else total


def brute_force(stream, within, probability, rows, confidence, max_tuples=None):
    """All changes: (arrival, change, left, right, probability, {(left, right sample): prob}).

    within : None for the sum of both tuples' radii
    """
    numbers, windows, current, changes, radii = [0, 0], {}, [], [], {}
    evict_at = min(confidence, 1 - probability)
    for i, (side, key) in enumerate(zip(stream.side.tolist(), stream.key.tolist(), strict=True)):
        samples, existence = held(stream, i)
        number = numbers[side]
        numbers[side] += 1
        radii[side, number] = 0 if within is not None else on_paper(stream.radius[i])
        if existence == 0:
            continue
        other = windows.setdefault((key, 1 - side), [])
        for (opposite, theirs, _), inside in zip(
            other, positions([e for _, _, e in other], rows), strict=True
        ):
            reach = within
            if within is None:
                reach = radii[side, number] + radii[1 - side, opposite]
            pairs = {
                ((k, m) if side == 0 else (m, k)): p * q
                for k, (p, x) in enumerate(samples)
                for m, (q, y) in enumerate(theirs)
                if near_on_paper(x, y, reach)
            }
            match = inside * sum(pairs.values())
            if match >= probability:
                left, right = (number, opposite) if side == 0 else (opposite, number)
                found = (left, right, match, {pair: p * inside for pair, p in pairs.items()}, key)
                changes.append((i, 1, *found[:4]))
                current.append(found)
        own = windows.setdefault((key, side), [])
        own.append((number, samples, existence))
        gone = set()
        while len(own) > rows:
            reached = at_least([e for _, _, e in own[1:]], rows)
            if not (reached >= evict_at if evict_at > 0 else reached > 0):
                break
            gone.add(own.pop(0)[0])
        while max_tuples is not None and len(own) > max_tuples:
            gone.add(own.pop(0)[0])
        leaving = [a for a in current if a[side] in gone]
        current = [a for a in current if a[side] not in gone]
        changes += [(i, -1, *a[:4]) for a in sorted(leaving, key=lambda a: a[:2])]
    return changes


def as_changes(answers):
    """Answers in the form of `brute_force`."""
    rows = []
    for i in range(len(answers)):
        part = slice(answers.offsets[i], answers.offsets[i + 1])
        pairs = zip(
            answers.left_sample[part].tolist(), answers.right_sample[part].tolist(), strict=True
        )
        line = (getattr(answers, name)[i].item() for name in COLUMNS)
        rows.append((*line, dict(zip(pairs, answers.prob[part].tolist(), strict=True))))
    return rows


def assert_same(got, expected):
    assert [row[:4] for row in got] == [row[:4] for row in expected]
    for mine, theirs in zip(got, expected, strict=True):
        assert abs(mine[4] - theirs[4]) <= SAME
        assert mine[5].keys() == theirs[5].keys()
        assert all(abs(p - theirs[5][pair]) <= SAME for pair, p in mine[5].items())


def in_parts(join, stream, cuts, saved=False):
    """Process a stream cut at some places; with `saved`, through a snapshot at every cut."""
    changes, places = [], [0, *sorted(cuts), stream.side.size]
    for begin, end in pairwise(places):
        answers = join.process(stream.part(begin, end))
        changes += [(a + begin, *rest) for a, *rest in as_changes(answers)]
        if saved:
            join = SimilarityJoin.restore(join.snapshot())
    return changes, join


def strategies_for(dimensions):
    return ["nested", "index", "auto"] + (["sort"] if dimensions == 1 else [])
