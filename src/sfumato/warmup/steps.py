"""Warm-up steps: runs of every operator on a few rows, which compile all kernels of queries."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from sfumato.operators.disorder.control import ESTIMATORS
from sfumato.operators.disorder.reorder import Reorder
from sfumato.operators.distributions.aggregate import FUNCTIONS, OVER_TIME, TOTALLED, Aggregate
from sfumato.operators.distributions.discrete_distributions import DistributionOptions
from sfumato.operators.distributions.independent_distribution import draw_tuples
from sfumato.operators.distributions.poisson_binomial import COUNT_METHODS, PoissonBinomial
from sfumato.operators.imputation.dependency import Dependency
from sfumato.operators.imputation.earlier_values import EarlierValues
from sfumato.operators.imputation.imputer import DEFAULT_DONORS, Imputer
from sfumato.operators.imputation.stream_imputer import (
    StreamImputer,
    change_dependencies,
    change_names,
    level_dependencies,
    past_changes,
)
from sfumato.operators.joins.answers import SampledTuples, pair_matches
from sfumato.operators.joins.arrivals import ArrivalBatch, IncompleteArrivals
from sfumato.operators.joins.incomplete_join import IncompleteJoin
from sfumato.operators.joins.neighbours import NeighbourCount, results_of_neighbours
from sfumato.operators.joins.outer_join import OuterJoin
from sfumato.operators.joins.similarity_join import SimilarityJoin
from sfumato.operators.ranking import top_k
from sfumato.operators.ranking.event_clocks import EventClocks
from sfumato.operators.ranking.semantics import SEMANTICS, Semantics
from sfumato.operators.ranking.timetable import PLANS, timetable
from sfumato.operators.ranking.top_k_windows import TopKWindows
from sfumato.operators.row_hash import add_bytes, add_words, new_hashes
from sfumato.operators.windows.count.count_window_aggregate import CountWindowAggregate
from sfumato.operators.windows.delta_window_aggregate import DeltaWindowAggregate
from sfumato.operators.windows.early_answers import EARLY_FUNCTIONS, EarlyAnswers
from sfumato.operators.windows.extent_aggregate import ExtentAggregate
from sfumato.operators.windows.identified_extents import (
    SharedExtentAggregate,
    VersionedExtentAggregate,
)
from sfumato.operators.windows.session_aggregate import SessionAggregate
from sfumato.operators.windows.uncertain_window import UncertainWindow
from sfumato.windows import JoinWindow

WARM_UP_ROWS = 80  # enough for sliding windows, and for sums that are too large to be exact
DISTRIBUTION_OPTIONS: dict[str, Any] = {"quantiles": [0.5], "distribution": 3, "samples": 10}


def some_rows() -> tuple[np.ndarray, ...]:
    """Return uncertain rows (group, offsets, prob, values) with two alternatives each.

    The last alternative of every third row has no value.
    """
    random = np.random.default_rng(1)
    values = random.random((2 * WARM_UP_ROWS, 2))
    values[1::6] = np.nan
    prob = random.choice([0.3, 0.4, 0.5], 2 * WARM_UP_ROWS)
    return np.zeros(WARM_UP_ROWS, np.int64), 2 * np.arange(WARM_UP_ROWS + 1), prob, values


def certain_rows() -> tuple[np.ndarray, ...]:
    """Return `some_rows` with one certain alternative per row."""
    group, _, _, values = some_rows()
    return group, np.arange(WARM_UP_ROWS + 1), np.ones(WARM_UP_ROWS), values[:WARM_UP_ROWS]


def plain_aggregates() -> list[Aggregate]:
    return [Aggregate("count"), *(Aggregate(f, 0) for f in TOTALLED)]


def some_aggregates() -> list[Aggregate]:
    known = [f for f in FUNCTIONS if f not in OVER_TIME]
    of_values = [Aggregate(f, 0, 0.5 if f == "quantile" else None) for f in known]
    return [Aggregate("count"), *of_values]


def restart(operator: Any, *rows: Any) -> Any:
    """Process rows, restore the operator from its snapshot, process the rows again; return it."""
    operator.process(*rows)
    operator = type(operator).restore(operator.snapshot())
    operator.process(*rows)
    return operator


def run_disorder() -> None:
    """Run each estimator, with late rows and rows from the future."""
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


def run_row_hashes() -> None:
    """Run the hashes that distinguish simultaneous rows."""
    hashes, present = new_hashes(WARM_UP_ROWS), np.ones(WARM_UP_ROWS, np.bool_)
    offsets = np.arange(WARM_UP_ROWS + 1)
    add_words(
        hashes, offsets, [np.arange(WARM_UP_ROWS), np.ones(WARM_UP_ROWS, np.float32)], [present] * 2
    )
    add_bytes(hashes, offsets, np.zeros(WARM_UP_ROWS, np.uint8), present)


def run_distributions() -> None:
    p = np.linspace(0.01, 0.99, 40)
    for method in COUNT_METHODS:
        distribution = PoissonBinomial(p, method)
        distribution.cdf(3), distribution.sf(np.arange(3)), distribution.pmf()
    draw_tuples(np.arange(41), p, new_hashes(40), 2)


def run_count_windows() -> None:
    """Run windows with all aggregates, with and without distributions, across a restart."""
    window = UncertainWindow(6, 0.9)
    window.extend(np.full(WARM_UP_ROWS, 0.5))
    window.in_window(window.indices)
    for distributions in ({}, DISTRIBUTION_OPTIONS):
        restart(CountWindowAggregate(30, 0.9, some_aggregates(), **distributions), *some_rows())
    restart(CountWindowAggregate(30, 0.9, plain_aggregates(), certain=True), *certain_rows())


def run_delta_windows() -> None:
    for distributions in ({}, DISTRIBUTION_OPTIONS):
        restart(DeltaWindowAggregate(0.5, 0, some_aggregates(), **distributions), *some_rows())


def run_time_windows() -> None:
    group, *arrivals = some_rows()
    for distributions in ({}, DISTRIBUTION_OPTIONS):
        extents = ExtentAggregate(30, 7, some_aggregates(), **distributions)
        sessions = SessionAggregate(3, 30, some_aggregates(), **distributions)
        for time in (np.arange(WARM_UP_ROWS), np.arange(WARM_UP_ROWS) + WARM_UP_ROWS):
            extents.process(group, time, None, None, *arrivals)
            extents = ExtentAggregate.restore(extents.snapshot())
            sessions.process(group, time, None, None, *arrivals)
        extents.flush(), sessions.flush()
    over_time = ExtentAggregate(30, 7, [Aggregate(f, 0) for f in OVER_TIME])
    restart(over_time, group, np.arange(WARM_UP_ROWS), None, None, *arrivals)
    plain = ExtentAggregate(30, 7, plain_aggregates(), certain=True)
    group, *arrivals = certain_rows()
    plain.process(group, np.arange(WARM_UP_ROWS), None, None, *arrivals)
    plain.flush()
    group, *arrivals = some_rows()
    numbers = np.arange(WARM_UP_ROWS)
    versioned = VersionedExtentAggregate(30, 7, some_aggregates())
    versioned.process_versions(group, numbers, group, numbers, None, None, *arrivals, scope=group)
    versioned.flush()
    shared = SharedExtentAggregate(30, 7, some_aggregates(), **DISTRIBUTION_OPTIONS)
    prob = np.tile(arrivals[1][:2], WARM_UP_ROWS)
    shared.process_shared(
        group, group, numbers, None, None, arrivals[0], prob, arrivals[2], scope=group
    )
    shared.flush()
    run_early_windows()


def run_early_windows() -> None:
    """Run early answers of extents with all their aggregates, across a restart."""
    n = WARM_UP_ROWS
    group, ones = np.arange(n) % 2, np.ones(n)
    wanted = [Aggregate("count", None), *(Aggregate(name, 0) for name in EARLY_FUNCTIONS)]
    extents = ExtentAggregate(30, 7, wanted, attributes=1)
    early = EarlyAnswers(30, 7, 3, 0.9, wanted, 1, False)
    for time in (np.arange(n), np.arange(n) + n):
        rows = group, time, None, None, np.arange(n + 1), ones, ones[:, np.newaxis]
        arrivals = group, group, time, time - 1, ones > 0, ones > 0, *rows[4:]
        early.process(*arrivals, complete=extents.process(*rows))
        early = EarlyAnswers.restore(early.snapshot())
    early.forget(np.arange(2), scopes=True)


def run_join(strategy: str, dimensions: int) -> None:
    """Run joins whose windows grow, move, forget keys and are restored."""
    random = np.random.default_rng(1)
    arrivals = ArrivalBatch(
        side=(np.arange(WARM_UP_ROWS) % 2).astype(np.uint8),
        key=np.arange(WARM_UP_ROWS, dtype=np.int64) // 2 % 2,
        offsets=2 * np.arange(WARM_UP_ROWS + 1, dtype=np.int64),
        prob=random.choice([0.3, 0.4], 2 * WARM_UP_ROWS),
        points=random.random((2 * WARM_UP_ROWS, dimensions)),
    )
    join = SimilarityJoin(
        dimensions, 0.3, 0.1, JoinWindow(20, 0.9), strategy=strategy, output="changes"
    )
    for begin in range(WARM_UP_ROWS):  # one row at a time, so that windows use spare capacity
        join.process(arrivals.part(begin, begin + 1))
    join.live_numbers(0)
    tuples = SampledTuples(arrivals.offsets, arrivals.prob, arrivals.points)
    pair_matches(tuples, tuples, (np.arange(WARM_UP_ROWS), np.arange(WARM_UP_ROWS)), 0.3, 0.1)
    join = SimilarityJoin.restore(join.snapshot())
    join.process(arrivals)
    SimilarityJoin(1, 0.3, 0.1, JoinWindow(20)).forget(np.zeros(1, np.int64))
    if strategy == "auto":
        counted = NeighbourCount(dimensions, 0.3, 1e-9, JoinWindow(20))
        counted.count(arrivals.part(0, WARM_UP_ROWS // 2)).moments()
        for some, _, near in counted.count_with_samples(arrivals):
            ones = np.ones(near.sample.size)
            given = [Aggregate("sum", 0)], DistributionOptions(distribution=9), some, near
            results_of_neighbours(*given, ones, ones[np.newaxis])
        timed = replace(arrivals, time=np.arange(WARM_UP_ROWS))
        OuterJoin(dimensions, 0.3, 0.1, JoinWindow(span="9 us"), how="full").process(timed)


def run_joins(*cases: tuple[str, int]) -> None:
    for strategy, dimensions in cases:
        run_join(strategy, dimensions)


def run_imputation() -> None:
    names = ["a", "b", "c"]
    repository = np.random.default_rng(1).random((100, 3))
    objects = repository[:WARM_UP_ROWS].copy()
    objects[::2, 2], objects[::3, 1] = np.nan, np.nan
    rules = [Dependency.parse("a -> c : 0.1 -> 0.1"), Dependency.parse("a -> b : 0.1 -> 0.1")]
    for joint, method in product((False, True), DEFAULT_DONORS):
        imputer = Imputer(
            repository, rules, names=names, joint=joint, max_alternatives=4, method=method
        )
        imputer.impute(objects)
        join = IncompleteJoin(imputer, 0.3, 0.1, JoinWindow(8), alternatives=True)
        arrivals = IncompleteArrivals(
            side=(np.arange(WARM_UP_ROWS) % 2).astype(np.uint8),
            key=np.zeros(WARM_UP_ROWS, np.int64),
            values=objects,
        )
        join.process(arrivals)
        join = IncompleteJoin.restore(join.snapshot(), imputer=imputer)
        join.process(arrivals)
        join.forget(np.zeros(1, np.int64))
    key, time = np.zeros(WARM_UP_ROWS, int), np.arange(WARM_UP_ROWS)
    EarlierValues(3).process(key, time, objects)
    past, _ = past_changes(np.zeros(100, int), np.arange(100.0), repository)
    found = change_dependencies(past, names)
    changes = Imputer(past, found, names, names=change_names(names), max_alternatives=4)
    levels = Imputer(repository, level_dependencies(names), names, names=names)
    stream = StreamImputer(3)
    for _ in range(2):
        stream.process((changes, levels), key, time.astype(float), objects)
        stream = StreamImputer.restore(stream.snapshot())


def run_ranking() -> None:
    scores, prob, pairs = np.arange(8.0), np.full(8, 0.4), np.arange(8) // 2
    top_k.top_k_probabilities(scores, prob, k=1)
    top_k.top_k_probabilities(scores, prob, tuples=pairs, k=1)
    top_k.rank_probabilities(scores, prob, tuples=pairs, k=2)
    top_k.top_k_streams(scores, prob, pairs, k=2)
    top_k.pk_topk(scores, prob, k=2), top_k.pt_k(scores, prob, k=2, probability=0.1)
    top_k.u_topk(scores, prob, k=2), top_k.u_kranks(scores, prob, k=2)
    top_k.u_topk(scores, prob, tuples=pairs, k=2)
    top_k.expected_ranks(scores, prob), top_k.prf(scores, prob, weights=[1.0])
    top_k.prfe(scores, prob, alpha=0.5)
    options: dict[str, dict[str, Any]] = {
        "pt_k": {"probability": 0.1},
        "prf": {"weights": (1.0,)},
        "prfe": {"alpha": 0.5},
    }
    given = {"scores": scores, "prob": prob, "exclusive": pairs}
    for name in SEMANTICS:
        semantics = Semantics(name, **options.get(name, {}))
        windows = TopKWindows({"a": (1, 2), "b": (2, 3)}, length=5, semantics=semantics)
        windows.extend(np.arange(8), key=pairs, **given)
    clocks, scope, times = EventClocks(), np.zeros(8, np.int64), np.arange(8)
    clocks.grow(1)
    clocks.select_late(scope, times, np.zeros(8, np.bool_), times)
    clocks.first_reached(scope, times, times)
    for plan in PLANS:
        timetable([(1, 2), (2, 3), (3, 5)], plan)


WARM_UP_STEPS: dict[str, Callable[[], Any]] = {
    "row hashes": run_row_hashes,
    "disorder": run_disorder,
    "distributions": run_distributions,
    "count windows": run_count_windows,
    "delta windows": run_delta_windows,
    "time windows": run_time_windows,
    "similarity join": partial(run_joins, ("auto", 1), ("auto", 3)),
    "other join strategies": partial(run_joins, ("nested", 1), ("sort", 1)),
    "imputation": run_imputation,
    "ranking": run_ranking,
}
# The slowest steps, which start first, so that no process is still running one at the end
SLOWEST = ("imputation", "count windows", "similarity join", "disorder", "ranking")
