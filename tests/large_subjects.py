"""Operators in windows of hundreds of tuples: subjects of the laws of operators at size.

There, buffers grow, rings wrap, chunks are merged, and different algorithms run than with few rows.
"""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from operator_laws import Subject, exactly
from operator_subjects import (
    LAW,
    SUBJECTS,
    chosen,
    feed_extents,
    feed_join,
    feed_window,
    readings,
    tuples,
    two_streams,
)
from sfumato.operators.disorder.punctuator import Punctuator
from sfumato.operators.distributions.aggregate import Aggregate
from sfumato.operators.imputation.earlier_values import EarlierValues
from sfumato.operators.joins.arrivals import ArrivalBatch
from sfumato.operators.joins.similarity_join import SimilarityJoin
from sfumato.operators.windows.count.count_window_aggregate import CountWindowAggregate
from sfumato.operators.windows.delta_window_aggregate import DeltaWindowAggregate
from sfumato.operators.windows.extent_aggregate import ExtentAggregate
from sfumato.operators.windows.uncertain_window import UncertainWindow
from sfumato.windows import JoinWindow, Rows

MOMENTS = [Aggregate("count"), *(Aggregate(of, 0) for of in ("count", "sum", "max", "min"))]
AVERAGE = [*MOMENTS, Aggregate("avg", 0)]  # slow over count windows with missing values
LAWFUL = [Aggregate("count"), Aggregate("max", 0)]  # distributions that are exact at any size


class AtSize(NamedTuple):
    """A subject and its number of rows."""

    subject: Subject
    rows: int


def long_tuples(rng, n, keys=1, missing=0.1, most=3):
    """Return `tuples` with up to `most` alternatives, long times and a share of missing values."""
    rows = tuples(rng, n, keys)
    sizes = rng.integers(1, most + 1, n)
    own = np.repeat(np.arange(n), sizes)
    values = rng.normal(0, 3, own.size) + own / 100
    values[rng.random(own.size) < missing] = np.nan
    return rows | {
        "offsets": np.concatenate([[0], np.cumsum(sizes)]),
        "prob": (rng.choice([0.05, 0.4, 0.9, 1.0], n) / sizes)[own],
        "values": values[:, None],
        "time": np.sort(rng.integers(0, 20 * n, n)),
    }


def like(name, make, rows=None):
    """Return the subject of this name with a different operator and, if given, different rows."""
    subject = SUBJECTS[name]
    return replace(subject, make=make, rows=rows or subject.rows)


def counts(rows, aggregates, of, **options):
    return Subject(lambda: CountWindowAggregate(rows, 0.9, aggregates, **options), of, feed_window)


def join(window, **options):
    def make():
        return SimilarityJoin(1, 0.3, 0.2, window, output="changes", **options)

    return Subject(make, two_streams, feed_join)


def timed(rng, n):
    return two_streams(rng, n) | {"time": np.cumsum(rng.integers(0, 4, n))}


def feed_timed(operator, rows, places):
    some = rows["side"][places], rows["key"][places], *chosen(rows, places), rows["time"][places]
    found = operator.process(ArrivalBatch(*some))
    return [(0, row) for row in exactly(found.left, found.right, found.probability, found.change)]


AT_SIZE = {
    "count windows": AtSize(counts(100, AVERAGE, partial(long_tuples, missing=0.0)), 700),
    "count windows with laws": AtSize(
        counts(100, LAWFUL, long_tuples, quantiles=(0.1, 0.9), distribution=150), 600
    ),
    "count windows with sampled laws": AtSize(
        counts(60, [Aggregate("sum", 0), Aggregate("quantile", 0, 0.5)], long_tuples, **LAW), 300
    ),
    "count windows of rare values": AtSize(
        counts(100, MOMENTS, partial(long_tuples, missing=0.95)), 700
    ),
    "count windows of many alternatives": AtSize(
        counts(40, MOMENTS, partial(long_tuples, most=20)), 300
    ),
    "count windows of few tuples": AtSize(
        counts(100, MOMENTS, long_tuples, max_tuples=120), 700
    ),
    "count windows of many keys": AtSize(
        counts(20, MOMENTS[:3], partial(long_tuples, keys=200)), 1_200
    ),
    "delta windows": AtSize(
        like(
            "delta windows", lambda: DeltaWindowAggregate(9.0, 0, AVERAGE),
            partial(long_tuples, keys=2),
        ), 1_500,
    ),
    "extents": AtSize(
        Subject(
            lambda: ExtentAggregate(2_000, 350, AVERAGE), partial(long_tuples, keys=3),
            feed_extents, SUBJECTS["extents"].finish, SUBJECTS["extents"].counts,
        ), 1_500,
    ),
    "tuples held": AtSize(like("tuples held", lambda: UncertainWindow(200, 0.9)), 2_000),
    "earlier values": AtSize(
        like(
            "earlier values", lambda: EarlierValues(2),
            lambda rng, n: readings(rng, n) | {"key": rng.integers(0, 500, n)},
        ), 2_000,
    ),
    "similarity join": AtSize(join(Rows(150, 0.9)), 800),
    "similarity join of a task": AtSize(join(Rows(150, 0.9), task=1, tasks=3), 600),
    "similarity join in order": AtSize(join(Rows(100, 0.9), strategy="sort"), 600),
    "similarity join by time and rows": AtSize(
        replace(
            join(JoinWindow(60, 0.9, 70, "300 us")), rows=timed, feed=feed_timed,
            counts=lambda operator: operator.overflow,
        ), 600,
    ),
    **{
        f"punctuations, {name}": AtSize(like("punctuations", partial(Punctuator, **given)), 2_000)
        for name, given in {
            "conformal": {"drop_ratio": 0.05},
            "normal": {"drop_ratio": 0.05, "estimator": "normal", "max_buffer": 40},
            "slack": {"slack": 300},
        }.items()
    },
}  # fmt: skip
