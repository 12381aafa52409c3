"""The similarity join of two streams by brute force, and comparisons of answers."""

import math
from fractions import Fraction
from itertools import pairwise

from hypothesis import strategies as st

from sfumato.operators.joins.similarity_join import SimilarityJoin
from sfumato.windows import JoinWindow
from window_reference import broken_by_definition

SAME = 1e-12
COLUMNS = ("arrival", "change", "left", "right", "probability")


def join_of(dimensions, within, probability, rows, confidence, max_tuples=None, **options):
    """Return the join with one row window for both sides."""
    window = JoinWindow(rows, confidence, max_tuples)
    return SimilarityJoin(dimensions, within, probability, window, **options)


def near_on_paper(x, y, within):
    """Return whether points are within a distance, with all numbers as written decimals."""
    squared = sum((a - b) ** 2 for a, b in zip(x, y, strict=True))
    if abs(math.sqrt(squared) - within) > 1e-6 * within:
        return squared <= within * within
    x, y = (list(map(on_paper, point)) for point in (x, y))
    exact = sum((a - b) ** 2 for a, b in zip(x, y, strict=True))
    return exact <= on_paper(within) ** 2


def on_paper(number):
    """Return the decimal number that a float is written as."""
    return number if isinstance(number, Fraction) else Fraction(repr(float(number)))


def with_one_more(law, p):
    """Return the distribution of a count after one more independent tuple of existence p."""
    return [q * (1 - p) + r * p for q, r in zip([*law, 0.0], [0.0, *law], strict=True)]


def at_least(existences, rows):
    """Return Pr(at least `rows` of independent tuples exist)."""
    law = [1.0]
    for p in existences:
        law = with_one_more(law, p)
    return max(0.0, 1.0 - sum(law[:rows]))


def positions(existences, rows):
    """Return T_j of each tuple, oldest first: Pr(fewer than `rows` newer tuples exist)."""
    law, inside = [1.0], []
    for p in reversed(existences):
        inside.append(min(1.0, sum(law[:rows])))
        law = with_one_more(law, p)
    return inside[::-1]


def held(tuples, i):
    """Return (samples, existence) of tuple i."""
    part = slice(tuples.offsets[i], tuples.offsets[i + 1])
    samples = list(zip(tuples.prob[part].tolist(), tuples.points[part].tolist(), strict=True))
    total = math.fsum(p for p, _ in samples)
    return samples, 1.0 if abs(total - 1) < 1e-14 else total


def brute_force(
    stream, within, probability, rows, confidence, max_tuples=None, spans=(None, None), delta=None
):
    """Return changes (arrival, change, left, right, probability, {(left, right sample): prob}).

    within : None for the sum of both tuples' radii
    rows : bound of both windows, or one per side; None for no bound
    spans : per side, how long a tuple is held, or None for no end. A key's time is its newest, and
        tuples that are `span` old or older are removed.
    delta : (distance, coordinate, threshold) of attribute-delta windows, or None
    """
    numbers, windows, current, changes, radii, clock = [0, 0], {}, [], [], {}, {}
    rows = [
        count or stream.side.size for count in (rows if isinstance(rows, tuple) else (rows, rows))
    ]
    evict_at = min(confidence, 1 - probability)
    for i, (side, key) in enumerate(zip(stream.side.tolist(), stream.key.tolist(), strict=True)):
        samples, existence = held(stream, i)
        number = numbers[side]
        numbers[side] += 1
        radii[side, number] = 0 if within is not None else on_paper(stream.radius[i])
        if existence == 0:
            continue
        now = 0 if stream.time is None else int(stream.time[i])
        now = clock[key] = max(now, clock.get(key, now))
        gone = set()
        for of in (0, 1):
            window = windows.setdefault((key, of), [])
            while spans[of] is not None and window and window[0][3] <= now - spans[of]:
                gone.add((of, window.pop(0)[0]))
        other = windows[key, 1 - side]
        for (opposite, theirs, *_), inside in zip(
            other, positions([e for _, _, e, _ in other], rows[1 - side]), strict=True
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
            if match >= probability * (1 - SAME):
                left, right = (number, opposite) if side == 0 else (opposite, number)
                found = (left, right, match, {pair: p * inside for pair, p in pairs.items()})
                changes.append((i, 1, *found))
                current.append(found)
        own = windows[key, side]
        own.append((number, samples, existence, now))
        while len(own) > rows[side]:
            reached = at_least([e for _, _, e, _ in own[1:]], rows[side])
            if not (reached >= evict_at if evict_at > 0 else reached > 0):
                break
            gone.add((side, own.pop(0)[0]))
        while delta is not None and len(own) > 1:
            distance, on, threshold = delta
            first, *others = (of for _, of, _, _ in own)
            is_far = broken_by_definition(first, others, distance, on) >= threshold
            if not is_far and (max_tuples is None or len(own) <= max_tuples):
                break
            gone.add((side, own.pop(0)[0]))
        while max_tuples is not None and len(own) > max_tuples:
            gone.add((side, own.pop(0)[0]))
        leaving = [a for a in current if (0, a[0]) in gone or (1, a[1]) in gone]
        current = [a for a in current if a not in leaving]
        changes += [(i, -1, *a) for a in sorted(leaving, key=lambda a: a[:2])]
    return changes


def as_changes(answers):
    """Return answers in the form of `brute_force`."""
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
    """Process a stream with cuts, and with `saved` a restart at each; return (changes, join)."""
    changes, places = [], [0, *sorted(cuts), stream.side.size]
    for begin, end in pairwise(places):
        answers = join.process(stream.part(begin, end))
        changes += [(a + begin, *rest) for a, *rest in as_changes(answers)]
        if saved:
            join = SimilarityJoin.restore(join.snapshot())
    return changes, join


def strategies_for(dimensions):
    return ["nested", "index", "auto"] + (["sort"] if dimensions == 1 else [])


def assert_every_strategy(data, stream, expected, make, output="changes"):
    """Check a join's changes under every strategy, in any split and across snapshots.

    data : Hypothesis data, for the cuts    make : returns a new join for options
    """
    if output == "append":
        expected = [change for change in expected if change[1] > 0]
    cuts = data.draw(st.lists(st.integers(0, stream.side.size), max_size=4))
    saved = data.draw(st.booleans())
    for strategy in strategies_for(stream.points.shape[1]):
        join = make(strategy=strategy, output=output)
        assert_same(in_parts(join, stream, cuts, saved)[0], expected)


def assert_cells_lose_nothing(stream, make):
    """Compare each strategy with nested loops, bit for bit, with cuts and restarts.

    Return the join by nested loops and the join of the last other strategy.
    """
    nested = make(strategy="nested")
    expected = as_changes(nested.process(stream))
    assert len(expected) > 30
    for strategy in strategies_for(stream.points.shape[1])[1:]:
        join = make(strategy=strategy)
        changes, join = in_parts(join, stream, [1, 60, 61, 400, 777], saved=strategy == "auto")
        assert changes == expected
    return nested, join
