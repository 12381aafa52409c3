"""Ahead-of-time compilation of all kernels of queries, in this and other processes.

The steps run each operator on a few rows; every new operator needs a step here. Only `warm_up`,
public as `sf.ops.warm_up`, is for use outside this module.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Any, NamedTuple

import numpy as np

from sfumato.kernels import compile_store
from sfumato.kernels.compile import compile_counts
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
        ratio, by_source = None if estimator == "max" else 0.1, sources is not None
        operator = Reorder(estimator=estimator, drop_ratio=ratio, max_buffer=8, by_source=by_source)
        restart(operator, arrival % 2, event, arrival, sources).flush()


def run_row_hashes() -> None:
    """Run the hashes that distinguish simultaneous rows."""
    hashes, present = new_hashes(WARM_UP_ROWS), np.ones(WARM_UP_ROWS, np.bool_)
    offsets = np.arange(WARM_UP_ROWS + 1)
    words: list[Any] = [np.arange(WARM_UP_ROWS), np.ones(WARM_UP_ROWS, np.float32)]
    add_words(hashes, offsets, words, [present] * 2)
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
    numbers = np.arange(WARM_UP_ROWS)
    group, *arrivals = some_rows()
    rows = group, numbers, None, None, *arrivals
    for distributions in ({}, DISTRIBUTION_OPTIONS):
        restart(ExtentAggregate(30, 7, some_aggregates(), **distributions), *rows).flush()
        restart(SessionAggregate(3, 30, some_aggregates(), **distributions), *rows).flush()
    restart(ExtentAggregate(30, 7, [Aggregate(f, 0) for f in OVER_TIME]), *rows)
    plain = ExtentAggregate(30, 7, plain_aggregates(), certain=True)
    restart(plain, group, numbers, None, None, *certain_rows()[1:]).flush()
    versioned = VersionedExtentAggregate(30, 7, some_aggregates())
    versioned.process_versions(group, numbers, group, numbers, None, None, *arrivals, scope=group)
    versioned.flush()
    shared = SharedExtentAggregate(30, 7, some_aggregates(), **DISTRIBUTION_OPTIONS)
    prob = np.tile(arrivals[1][:2], WARM_UP_ROWS)
    shared.process_shared(
        group, group, numbers, None, None, arrivals[0], prob, arrivals[2], scope=group
    )
    shared.flush()
    wanted = [Aggregate("count", None), *(Aggregate(name, 0) for name in EARLY_FUNCTIONS)]
    extents = ExtentAggregate(30, 7, wanted, attributes=1)
    early = EarlyAnswers(30, 7, 3, 0.9, wanted, 1, False)
    group, (_, offsets, ones, _) = numbers % 2, certain_rows()
    for time in (numbers, numbers + WARM_UP_ROWS):
        certain = offsets, ones, ones[:, np.newaxis]
        complete = extents.process(group, time, None, None, *certain)
        early.process(group, group, time, time - 1, ones > 0, ones > 0, *certain, complete=complete)
        early = EarlyAnswers.restore(early.snapshot())
    early.forget(np.arange(2), scopes=True)


def run_join(strategy: str, dimensions: int) -> None:
    """Run joins whose windows grow, move, forget keys and are restored."""
    numbers, random = np.arange(WARM_UP_ROWS), np.random.default_rng(1)
    side, (_, offsets, prob, _) = (numbers % 2).astype(np.uint8), some_rows()
    points = random.random((2 * WARM_UP_ROWS, dimensions))
    arrivals = ArrivalBatch(side, numbers // 2 % 2, offsets, prob, points)
    how = {"strategy": strategy, "output": "changes"}
    join = SimilarityJoin(dimensions, 0.3, 0.1, JoinWindow(20, 0.9), **how)
    for begin in range(WARM_UP_ROWS):  # one row at a time, so that windows use spare capacity
        join.process(arrivals.part(begin, begin + 1))
    join.live_numbers(0)
    tuples = SampledTuples(arrivals.offsets, arrivals.prob, arrivals.points)
    pair_matches(tuples, tuples, (numbers, numbers), 0.3, 0.1)
    SimilarityJoin.restore(join.snapshot()).process(arrivals)
    SimilarityJoin(1, 0.3, 0.1, JoinWindow(20)).forget(np.zeros(1, np.int64))
    if strategy == "auto":
        counted = NeighbourCount(dimensions, 0.3, 1e-9, JoinWindow(20))
        counted.count(arrivals.part(0, WARM_UP_ROWS // 2)).moments()
        for some, _, near in counted.count_with_samples(arrivals):
            ones = np.ones(near.sample.size)
            given = [Aggregate("sum", 0)], DistributionOptions(distribution=9), some, near
            results_of_neighbours(*given, ones, ones[np.newaxis])
        timed = replace(arrivals, time=numbers)
        OuterJoin(dimensions, 0.3, 0.1, JoinWindow(span="9 us"), how="full").process(timed)


def run_joins(*cases: tuple[str, int]) -> None:
    for strategy, dimensions in cases:
        run_join(strategy, dimensions)


def run_imputation() -> None:
    names, time = ["a", "b", "c"], np.arange(WARM_UP_ROWS)
    key = np.zeros(WARM_UP_ROWS, np.int64)
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
        arrivals = IncompleteArrivals((time % 2).astype(np.uint8), key, objects)
        join.process(arrivals)
        join = IncompleteJoin.restore(join.snapshot(), imputer=imputer)
        join.process(arrivals)
        join.forget(np.zeros(1, np.int64))
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
    options: dict[str, Any] = {
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

# A new interpreter works in any script and notebook, unlike a fork or spawn. It runs several
# steps, because they share compiled code that is not stored.
# Numba keeps millions of objects, so garbage is collected rarely, and not in objects of earlier
# steps. Otherwise, collections take a tenth of the time.
STEPS_BY_LINE = """
import gc, json, sys
sys.path[:] = json.loads(sys.argv[1])
from sfumato.warmup import WARM_UP_STEPS
gc.set_threshold(200_000)
for line in sys.stdin:
    WARM_UP_STEPS[line.strip()]()
    gc.freeze()
    print(flush=True)
"""


class WarmedUp(NamedTuple):
    """Result of `warm_up`.

    Parameters
    ----------
    compiled
        Number of compiled kernels, in this and other processes.
    loaded
        Number of kernels read from disk.
    folder
        Folder of the compiled kernels; None if no folder is writable.
    """

    compiled: int
    loaded: int
    folder: Path | None


def warm_up(
    only: Iterable[str] | None = None,
    progress: Callable[[str], None] | None = None,
    processes: int | None = None,
) -> WarmedUp:
    """Compile all kernels ahead of time, so that queries start without compilation.

    Parameters
    ----------
    only
        Names of the steps to run, as passed to `progress`; None for all.
    progress
        Called with the name of each step before it runs.
    processes
        Number of parallel processes; None: one per processor core.

    Returns
    -------
    The numbers of kernels compiled and loaded, and their folder.

    Raises
    ------
    KeyError
        For an unknown name.
    ValueError
        For a number of processes below 1.

    Notes
    -----
    Call it once per machine, as the user who installed the package or who runs the queries. For an
    image, call it during the build. Every machine of a cluster needs the kernels. Kernels on disk
    are not compiled again. The first run takes a few minutes of processor time, later runs take a
    few seconds.
    More: page how-to/warm-up of the documentation.
    Cost: 600 MB of memory per process.

    Examples
    --------
        sf.ops.warm_up(processes=2)
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    processes = cores or 1 if processes is None else processes
    if processes < 1:
        raise ValueError(f"`processes` must be 1 or more; got {processes}")
    names = list(WARM_UP_STEPS if only is None else only)
    unknown = [name for name in names if name not in WARM_UP_STEPS]
    if unknown:
        raise KeyError(
            f"there is no warm-up step {unknown[0]!r}; the steps are {list(WARM_UP_STEPS)}"
        )
    begun, folder = compile_counts(), compile_store.folder()
    compile_store.create_marker("compiling")  # suppress the notice about compilation
    elsewhere = 0
    for place, name in enumerate(names):
        if progress is not None:
            progress(name)
        before = compile_counts()
        WARM_UP_STEPS[name]()
        if not elsewhere and len(compile_counts().compiled) > len(before.compiled):
            # Other processes compile the remaining kernels, and this process then reads them.
            elsewhere = _compile_elsewhere(names[place + 1 :], processes, progress)
    if only is None:
        compile_store.create_marker("warm")
    compiled, loaded = (
        len(now) - len(then) for now, then in zip(compile_counts(), begun, strict=True)
    )
    return WarmedUp(compiled + elsewhere, loaded, folder)


def _compile_elsewhere(
    names: Sequence[str], processes: int, progress: Callable[[str], None] | None
) -> int:
    """Run steps in other processes; raise their errors; return the number of compiled kernels."""
    folder = compile_store.folder()
    if folder is None or processes == 1 or len(names) < 2 or not sys.executable:
        return 0
    waiting = iter(sorted(names, key=lambda n: (*SLOWEST, n).index(n)))  # shared by the threads

    def compile_some(_: int) -> None:
        command = [sys.executable, "-c", STEPS_BY_LINE, json.dumps(sys.path)]
        pipes: dict[str, Any] = {"stdin": PIPE, "stdout": PIPE, "stderr": DEVNULL}
        with Popen(command, text=True, **pipes) as process, suppress(OSError):
            assert process.stdin is not None
            assert process.stdout is not None
            for name in waiting:
                if progress is not None:
                    progress(name)
                print(name, file=process.stdin, flush=True)
                if not process.stdout.readline():  # it failed
                    break
            process.stdin.close()

    before = set(os.listdir(folder))
    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(compile_some, range(min(processes, len(names)))))
    return len({name for name in os.listdir(folder) if name.endswith(".nbc")} - before)
