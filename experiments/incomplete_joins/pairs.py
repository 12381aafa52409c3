"""Joins of objects with imputed attributes, and the pairs they find."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from experiments.continuation import continued
from experiments.repeats import timed
from sfumato.operators.arrays import Floats, Ints
from sfumato.operators.imputation.imputer import Imputer
from sfumato.operators.joins.incomplete_join import IncompleteArrivals, IncompleteJoin
from sfumato.operators.joins.similarity_join import ArrivalBatch, JoinAnswers, SimilarityJoin
from sfumato.windows import Rows

Sides = npt.NDArray[np.uint8]
Pairs = Ints  # a number for each pair, ascending
NARROW = 1e-9  # a distance within which hardly anything lies
WARM = 20  # arrivals matched before the timing starts


@dataclass
class Join:
    """A join whose windows are filled first, then matched with the following arrivals."""

    fill: Callable[[slice], object]
    match: Callable[[slice], JoinAnswers]


def certain_join(sides: Sides, values: Floats, within: float, rows: int) -> Join:
    """Join objects that have one value each: float64[n, d]."""

    def arrivals(part: slice) -> ArrivalBatch:
        points = np.ascontiguousarray(values[part])
        n = len(points)
        return ArrivalBatch(
            sides[part], np.zeros(n, np.int64), np.arange(n + 1), np.ones(n), points
        )

    return _join(arrivals, values.shape[1], within, 0.5, rows)


def separate_join(
    imputer: Imputer, sides: Sides, objects: Floats, within: float, alpha: float, rows: int
) -> Join:
    """Join objects that are fully imputed beforehand: float64[n, D], NaN is missing."""

    def arrivals(part: slice) -> ArrivalBatch:
        done = imputer.impute(objects[part])
        n = len(done.offsets) - 1
        return ArrivalBatch(
            sides[part], np.zeros(n, np.int64), done.offsets, done.prob, done.values
        )

    return _join(arrivals, len(imputer.attributes), within, alpha, rows)


def _join(
    arrivals: Callable[[slice], ArrivalBatch], d: int, within: float, alpha: float, rows: int
) -> Join:
    # Tuples that fill the windows are not matched with each other, which would take too long.
    join = SimilarityJoin(d, NARROW, 1.0, Rows(rows, 1.0), alternatives=False)

    def fill(part: slice) -> None:
        nonlocal join
        join.process(arrivals(part))
        join = continued(join, SimilarityJoin, within=within, probability=alpha)

    return Join(fill, lambda part: join.process(arrivals(part)))


def fused_join(
    imputer: Imputer, sides: Sides, objects: Floats, within: float, alpha: float, rows: int
) -> Join:
    """Join and impute only nearby objects; imputations made while filling the windows are kept."""
    join = IncompleteJoin(imputer, within, alpha, Rows(rows))

    def match(part: slice) -> JoinAnswers:
        values = objects[part].copy()
        keys = np.zeros(len(values), np.int64)
        return join.process(IncompleteArrivals(sides[part], keys, values))[0]

    return Join(match, match)


def found(join: Join, first: int, n: int) -> tuple[Pairs, float]:
    """Return the pairs of arrivals starting at `first`, and seconds per arrival.

    n : int, arrivals in total    Earlier arrivals fill the windows. Seconds are processor time.
    """
    warm = max(first - WARM, 0)
    join.fill(slice(0, warm))
    join.match(slice(warm, first))
    answers, spent = timed(lambda: join.match(slice(first, n)))
    return np.sort(answers.left * 2**31 + answers.right), spent / (n - first)


def f_score(found: Pairs, true: Pairs) -> float:
    """Return 2 precision recall / (precision + recall) = 2 both / (found + true), or 1 for none."""
    if not found.size + true.size:
        return 1.0
    both = np.intersect1d(found, true, assume_unique=True).size
    return 2.0 * both / (found.size + true.size)
