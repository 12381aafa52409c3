"""Every operator, run on a few rows: what compiles all kernels that a query may need."""

from itertools import product
from typing import Any, NamedTuple

import numpy as np

from sfumato.operators.disorder.control import ESTIMATORS
from sfumato.operators.disorder.reorder import Reorder
from sfumato.operators.imputation.dependency import Dependency
from sfumato.operators.imputation.donor_index import DonorIndex
from sfumato.operators.imputation.earlier_values import EarlierValues
from sfumato.operators.imputation.imputer import LEAST_DONORS, Imputer
from sfumato.operators.joins.answers import SampledTuples, pair_matches
from sfumato.operators.joins.arrivals import Arrivals, IncompleteArrivals
from sfumato.operators.joins.incomplete_join import IncompleteJoin
from sfumato.operators.joins.similarity_join import SimilarityJoin
from sfumato.operators.laws.aggregate import FUNCTIONS, Aggregate
from sfumato.operators.laws.poisson_binomial import COUNT_METHODS, PoissonBinomial
from sfumato.operators.ranking import top_k
from sfumato.operators.ranking.semantics import SEMANTICS, Semantics
from sfumato.operators.ranking.timetable import PLANS, timetable
from sfumato.operators.ranking.top_k_window import TopKWindow
from sfumato.operators.ranking.window_answers import judged
from sfumato.operators.row_hash import add_bytes, add_words, begun
from sfumato.operators.windows.count.count_window_aggregate import CountWindowAggregate
from sfumato.operators.windows.delta_window_aggregate import DeltaWindowAggregate
from sfumato.operators.windows.extent_aggregate import ExtentAggregate
from sfumato.operators.windows.uncertain_window import UncertainWindow
from sfumato.windows import JoinWindow

WARM_UP_ROWS = 80  # enough for windows to slide, and for sums with too many states to be exact
LAWS: dict[str, Any] = {"quantiles": [0.5], "distribution": 3, "samples": 10}


class WarmUpRows(NamedTuple):
    """Uncertain rows: two alternatives each, the last of every third row without a value."""

    group: np.ndarray
    time: np.ndarray
    offsets: np.ndarray
    prob: np.ndarray
    values: np.ndarray


def some_rows() -> WarmUpRows:
    random = np.random.default_rng(1)
    values = random.random((2 * WARM_UP_ROWS, 2))
    values[1::6] = np.nan
    return WarmUpRows(
        group=np.zeros(WARM_UP_ROWS, np.int64),
        time=np.arange(WARM_UP_ROWS),
        offsets=2 * np.arange(WARM_UP_ROWS + 1),
        prob=random.choice([0.3, 0.4, 0.5], 2 * WARM_UP_ROWS),
        values=values,
    )


def some_aggregates() -> list[Aggregate]:
    found = [Aggregate("count")]
    for function in FUNCTIONS:
        found.append(Aggregate(function, 0, 0.5 if function == "quantile" else None))
    return found


def disorder() -> None:
    """Each estimator; rows that are late, and rows from the future."""
    arrival = np.arange(WARM_UP_ROWS, dtype=np.int64)
    event = arrival - arrival % 7
    event[20] = 2**50
    for estimator, sources in product(ESTIMATORS, (None, arrival % 4)):
        operator = Reorder(
            drop_ratio=None if estimator == "max" else 0.1,
            estimator=estimator,
            max_buffer=8,
            by_source=sources is not None,
        )
        operator.process(arrival % 2, event, arrival, sources)
        operator = Reorder.restore(operator.snapshot())
        operator.process(arrival % 2, event + WARM_UP_ROWS, arrival + WARM_UP_ROWS, sources)
        operator.flush()


def row_hashes() -> None:
    """Those that tell simultaneous rows apart."""
    hashes, present = begun(WARM_UP_ROWS), np.ones(WARM_UP_ROWS, np.bool_)
    offsets = np.arange(WARM_UP_ROWS + 1)
    add_words(
        hashes, offsets, [np.arange(WARM_UP_ROWS), np.ones(WARM_UP_ROWS, np.float32)], [present] * 2
    )
    add_bytes(hashes, offsets, np.zeros(WARM_UP_ROWS, np.uint8), present)


def laws() -> None:
    p = np.linspace(0.01, 0.99, 40)
    for method in COUNT_METHODS:
        law = PoissonBinomial(p, method)
        law.cdf(3), law.sf(np.arange(3)), law.pmf()


def count_windows() -> None:
    """Windows by each method; all aggregates with laws and without, before and after a restart."""
    rows = some_rows()
    arrivals = rows.group, rows.offsets, rows.prob, rows.values
    for method in COUNT_METHODS:
        window = UncertainWindow(6, 0.9, method=method)
        window.extend(np.full(WARM_UP_ROWS, 0.5))
        window.in_window(window.indices)
    for laws in ({}, LAWS):
        operator = CountWindowAggregate(30, 0.9, some_aggregates(), **laws)
        operator.process(*arrivals)
        CountWindowAggregate.restore(operator.snapshot()).process(*arrivals)
    CountWindowAggregate(30, 0.9, [Aggregate("avg", 0)]).process(*arrivals)  # moved together


def delta_windows() -> None:
    rows = some_rows()
    arrivals = rows.group, rows.offsets, rows.prob, rows.values
    for laws in ({}, LAWS):
        operator = DeltaWindowAggregate(0.5, 0, some_aggregates(), **laws)
        operator.process(*arrivals)
        DeltaWindowAggregate.restore(operator.snapshot()).process(*arrivals)


def time_windows() -> None:
    rows = some_rows()
    arrivals = rows.offsets, rows.prob, rows.values
    for laws in ({}, LAWS):
        operator = ExtentAggregate(30, 7, some_aggregates(), **laws)
        operator.process(rows.group, rows.time, None, None, *arrivals)
        operator = ExtentAggregate.restore(operator.snapshot())
        operator.process(rows.group, rows.time + WARM_UP_ROWS, None, None, *arrivals)
        operator.flush()


def similarity_join() -> None:
    join_by("auto", 1)
    join_by("auto", 3)


def other_strategies() -> None:
    join_by("nested", 1)
    join_by("sort", 1)


def join_by(strategy: str, dimensions: int) -> None:
    """Windows that grow, move, forget and are read again."""
    random = np.random.default_rng(1)
    arrivals = Arrivals(
        side=(np.arange(WARM_UP_ROWS) % 2).astype(np.uint8),
        key=np.arange(WARM_UP_ROWS, dtype=np.int64) // 2 % 2,
        offsets=2 * np.arange(WARM_UP_ROWS + 1, dtype=np.int64),
        prob=random.choice([0.3, 0.4], 2 * WARM_UP_ROWS),
        points=random.random((2 * WARM_UP_ROWS, dimensions)),
    )
    join = SimilarityJoin(
        dimensions, 0.3, 0.1, JoinWindow(20, 0.9), strategy=strategy, output="changes"
    )
    for begin in range(WARM_UP_ROWS):  # one by one: a window then grows alone, in room that is left
        join.process(arrivals.part(begin, begin + 1))
    join.live(0)
    tuples = SampledTuples(arrivals.offsets, arrivals.prob, arrivals.points)
    pair_matches(tuples, tuples, (np.arange(WARM_UP_ROWS), np.arange(WARM_UP_ROWS)), 0.3, 0.1)
    join = SimilarityJoin.restore(join.snapshot())
    join.process(arrivals)
    join.store.forget(np.zeros(1, np.int64))


def imputation() -> None:
    names = ["a", "b", "c"]
    repository = np.random.default_rng(1).random((100, 3))
    objects = repository[:WARM_UP_ROWS].copy()
    objects[::2, 2], objects[::3, 1] = np.nan, np.nan
    rules = [Dependency.parse("a -> c : 0.1 -> 0.1"), Dependency.parse("a -> b : 0.1 -> 0.1")]
    for joint, method in product((False, True), LEAST_DONORS):
        imputer = Imputer(
            repository, rules, names=names, joint=joint, max_alternatives=4, method=method
        )
        imputer.impute(objects)
        for streams in (2, 3):
            join = IncompleteJoin(imputer, 0.3, 0.1, [JoinWindow(8)] * streams, alternatives=True)
            arrivals = IncompleteArrivals(
                side=(np.arange(WARM_UP_ROWS) % streams).astype(np.uint8),
                key=np.zeros(WARM_UP_ROWS, np.int64),
                values=objects,
            )
            join.process(arrivals)
            join = IncompleteJoin.restore(join.snapshot(), imputer=imputer)
            join.process(arrivals)
            join.forget(np.zeros(1, np.int64))
    DonorIndex(repository).query(repository[:3], 0.1)
    EarlierValues(3).process(np.zeros(WARM_UP_ROWS, int), np.arange(WARM_UP_ROWS), objects)


def ranking() -> None:
    scores, prob, pairs = np.arange(8.0), np.full(8, 0.4), np.arange(8) // 2
    top_k.top_k_probabilities(scores, prob, k=1)
    top_k.top_k_probabilities(scores, prob, tuples=pairs, k=1)
    top_k.rank_probabilities(scores, prob, tuples=pairs, k=2)
    top_k.top_k_streams(scores, prob, pairs, k=2)
    options: dict[str, dict[str, Any]] = {
        "pt_k": {"probability": 0.1},
        "prf": {"weights": (1.0,)},
        "prfe": {"alpha": 0.5},
    }
    for name in SEMANTICS:
        semantics = Semantics(name, **options.get(name, {}))
        window = TopKWindow({"a": (1, 2), "b": (2, 3)}, length=5, semantics=semantics)
        window.extend(np.arange(8), scores=scores, prob=prob, exclusive=pairs)
        window.advance(20)
    by_rows = TopKWindow({"a": (1, 2)}, rows=3, confidence=0.9)
    by_rows.extend(np.arange(8), scores=scores, prob=prob)
    scope, clocks = np.zeros(8, np.int64), (np.zeros(1, np.int64), np.zeros(1, np.int64))
    _, steps = judged(scope, np.arange(8), np.zeros(8, np.bool_), np.arange(8), clocks)
    steps.known(scope, np.arange(8), np.arange(8))
    for plan in PLANS:
        timetable([(1, 2), (2, 3), (3, 5)], plan)


WARM_UP_STEPS = {
    "row hashes": row_hashes,
    "disorder": disorder,
    "laws": laws,
    "count windows": count_windows,
    "delta windows": delta_windows,
    "time windows": time_windows,
    "similarity join": similarity_join,
    "other join strategies": other_strategies,
    "imputation": imputation,
    "ranking": ranking,
}
# Begun first, so that no process is left with a long one at the end.
SLOWEST = ("imputation", "count windows", "similarity join", "disorder", "ranking")
