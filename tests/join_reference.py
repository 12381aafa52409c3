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
    stream, within, probability, rows, confidence, max_tuples=None, spans=(None, None), delta=None,
    lockstep=False, crowded=None,
):  # fmt: skip
    """Return changes (arrival, change, left, right, probability, {(left, right sample): prob}).

    within : None for the sum of both tuples' radii
    rows : bound of both windows, or one per side; None for no bound
    spans : per side, how long a tuple is held, or None for no end. A key's time is its newest, and
        tuples that are `span` old or older are removed.
    delta : (distance, coordinate, threshold) of attribute-delta windows, or None
    lockstep : all tuples of a time enter both windows before any are compared
    crowded : list, extended by the numbers of tuples that leave only because of `max_tuples`
    """
    numbers, windows, current, changes, radii, clock = [0, 0], {}, [], [], {}, {}
    n = stream.side.size
    rows = [count or n for count in (rows if isinstance(rows, tuple) else (rows, rows))]
    evict_at = min(confidence, 1 - probability)
    time = [0] * n if stream.time is None else stream.time.tolist()
    starts = [i for i in range(n) if not (lockstep and i and time[i] == time[i - 1])]
    for begin, end in pairwise([*starts, n]):
        fresh, gone = {}, {}  # (side, number) to arrival
        for i in range(begin, end):
            side, key = int(stream.side[i]), int(stream.key[i])
            samples, existence = held(stream, i)
            number = numbers[side]
            numbers[side] += 1
            radii[side, number] = 0 if within is not None else on_paper(stream.radius[i])
            if existence == 0:
                continue
            fresh[side, number] = i
            now = clock[key] = max(time[i], clock.get(key, time[i]))
            for of in (0, 1):
                window = windows.setdefault((key, of), [])
                while spans[of] is not None and window and window[0][3] <= now - spans[of]:
                    gone[of, window.pop(0)[0]] = i
            own = windows[key, side]
            own.append((number, samples, existence, now))
            while len(own) > rows[side]:
                reached = at_least([e for _, _, e, _ in own[1:]], rows[side])
                if not (reached >= evict_at if evict_at > 0 else reached > 0):
                    break
                gone[side, own.pop(0)[0]] = i
            while delta is not None and len(own) > 1:
                distance, on, threshold = delta
                first, *others = (of for _, of, _, _ in own)
                is_far = broken_by_definition(first, others, distance, on) >= threshold
                if not is_far and (max_tuples is None or len(own) <= max_tuples):
                    break
                gone[side, own.pop(0)[0]] = i
            while max_tuples is not None and len(own) > max_tuples:
                crowded = [] if crowded is None else crowded
                crowded.append(own[0][0])
                gone[side, own.pop(0)[0]] = i
        leaving = [a for a in current if (0, a[0]) in gone or (1, a[1]) in gone]
        current = [a for a in current if a not in leaving]
        for (side, number), i in fresh.items():
            if (side, number) in gone:
                continue
            own, other = (windows[int(stream.key[i]), of] for of in (side, 1 - side))
            (place,) = (k for k, (mine, *_) in enumerate(own) if mine == number)
            both = positions([e for _, _, e, _ in own[place:]], rows[side])[0]
            for (opposite, theirs, *_), inside in zip(
                other, positions([e for _, _, e, _ in other], rows[1 - side]), strict=True
            ):
                if fresh.get((1 - side, opposite), -1) > i:
                    continue  # the later of two tuples finds their pair
                reach = within
                if within is None:
                    reach = radii[side, number] + radii[1 - side, opposite]
                pairs = {
                    ((k, m) if side == 0 else (m, k)): p * q * both * inside
                    for k, (p, x) in enumerate(own[place][1])
                    for m, (q, y) in enumerate(theirs)
                    if near_on_paper(x, y, reach)
                }
                match = sum(pairs.values())
                if match >= probability * (1 - SAME):
                    left, right = (number, opposite) if side == 0 else (opposite, number)
                    found = (left, right, match, pairs)
                    changes.append((i, 1, *found))
                    current.append(found)
        last = {a[:2]: min(gone.get((of, a[of]), n) for of in (0, 1)) for a in leaving}
        changes += [(last[a[:2]], -1, *a) for a in sorted(leaving, key=lambda a: a[:2])]
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
