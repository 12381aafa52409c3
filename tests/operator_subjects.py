"""Every engine-free operator, with valid rows: subjects of the laws of operators."""

from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np

from controllers import CONTROLS
from operator_laws import Subject, exactly
from sfumato.operators.disorder.punctuator import Punctuator
from sfumato.operators.distributions.aggregate import Aggregate
from sfumato.operators.imputation.earlier_values import EarlierValues
from sfumato.operators.joins.arrivals import ArrivalBatch
from sfumato.operators.joins.neighbours import NeighbourCount
from sfumato.operators.joins.outer_join import OuterJoin
from sfumato.operators.joins.similarity_join import SimilarityJoin
from sfumato.operators.ranking.semantics import Semantics
from sfumato.operators.ranking.top_k_windows import TopKWindows
from sfumato.operators.windows.count.count_window_aggregate import CountWindowAggregate
from sfumato.operators.windows.delta_window_aggregate import DeltaWindowAggregate
from sfumato.operators.windows.extent_aggregate import ExtentAggregate
from sfumato.operators.windows.identified_extents import (
    SharedExtentAggregate,
    VersionedExtentAggregate,
)
from sfumato.operators.windows.session_aggregate import SessionAggregate
from sfumato.operators.windows.uncertain_window import UncertainWindow
from sfumato.windows import JoinWindow, Rows

ASKED = [
    Aggregate("count"), Aggregate("sum", 0), Aggregate("avg", 0), Aggregate("max", 0),
    Aggregate("quantile", 0, 0.5),
]  # fmt: skip
STATISTICS = [
    Aggregate(function, 0) for function in ("stddev", "var", "first", "last", "count_distinct")
]
OVER_TIME = [Aggregate("time_avg", 0), Aggregate("count"), Aggregate("integral", 0)]
LAW = {"quantiles": (0.1, 0.9), "distribution": 3, "seed": 5, "samples": 20}
PLAIN = [Aggregate("count"), *(Aggregate(of, 0) for of in ("count", "sum", "avg", "min", "max"))]
ONE_KEY = {"keys_in_any_order": "it has no keys: one for each is the caller's"}


def tuples(rng, n, keys=3):
    """Return tuples of up to three alternatives, a tenth of values missing, in time order."""
    sizes = rng.integers(1, 4, n)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    prob = np.repeat(rng.choice([0.4, 0.9, 1.0], n) / sizes, sizes)
    values = np.where(rng.random(prob.size) < 0.1, np.nan, rng.normal(0, 3, prob.size))
    return {
        "key": rng.integers(0, keys, n), "offsets": offsets, "prob": prob,
        "values": values[:, None], "time": np.sort(rng.integers(0, 300, n)),
    }  # fmt: skip


def chosen(rows, places):
    """Return (offsets, prob, values) of the tuples at some places."""
    sizes = np.diff(rows["offsets"])[places]
    flat = [np.arange(rows["offsets"][i], rows["offsets"][i + 1]) for i in places]
    flat = np.concatenate([np.empty(0, int), *flat])
    return np.concatenate([[0], np.cumsum(sizes)]), rows["prob"][flat], rows["values"][flat]


def results_of(measured):
    """Return every result of one aggregate, bit for bit."""
    columns = [measured.mean, measured.stddev, measured.existence, measured.quantiles]
    numbers = exactly(*columns, measured.error)
    if measured.offsets is None:  # no distributions are requested
        return numbers
    parts = np.split(np.stack([measured.prob, measured.value]), measured.offsets[1:-1], axis=1)
    laws = [part.tobytes() for part in parts[: measured.mean.size]]
    return list(zip(numbers, exactly(measured.moved), laws, strict=True))


def feed_window(operator, rows, places):
    keys = rows["key"][places]
    answers = operator.process(keys, *chosen(rows, places))
    results = zip(*map(results_of, answers.results), strict=True)
    return list(zip(keys.tolist(), zip(answers.held.tolist(), results, strict=True), strict=True))


def extents_of(found):
    results = zip(*map(results_of, found.results), strict=True)
    numbers = zip(found.start.tolist(), found.held.tolist(), found.late.tolist(), strict=True)
    return list(zip(found.group.tolist(), zip(numbers, results, strict=True), strict=True))


def feed_extents(operator, rows, places):
    arguments = rows["key"][places], rows["time"][places], None, None
    return extents_of(operator.process(*arguments, *chosen(rows, places)))


def feed_corrected(operator, rows, places):
    """Feed rows of a few ids per key, whose versions mostly rise."""
    key, time, number = rows["key"][places], rows["time"][places], np.asarray(places)
    found = operator.process_versions(
        key * 4 + number % 4, number + number % 3 * 9, key, time, None, None,
        *chosen(rows, places), scope=key,
    )  # fmt: skip
    return extents_of(found)


def feed_shared(operator, rows, places):
    """Feed rows that share outcomes; rows of one outcome may differ in their probabilities."""
    key, time, number = rows["key"][places], rows["time"][places], np.asarray(places)
    offsets, *flat = chosen(rows, places)
    ids = np.where(number % 3 == 0, -1, key * 3 + np.diff(offsets) - 1)
    return extents_of(
        operator.process_shared(ids, key, time, None, None, offsets, *flat, scope=key)
    )


def certain_tuples(rng, n, keys=3):
    """Return certain tuples of one alternative each; every fifth value is missing."""
    rows = tuples(rng, n, keys)
    values = np.where(rng.random(n) < 0.2, np.nan, rng.normal(0, 3, n))
    return rows | {
        "offsets": np.arange(n + 1), "prob": np.ones(n), "values": values[:, None],
    }  # fmt: skip


def existences(rng, n):
    return {"existence": rng.choice([0.0, 0.3, 0.8, 1.0], n)}


def times(rng, n):
    arrival = np.cumsum(rng.integers(0, 9, n)) * 1_000
    return {"event": arrival - rng.exponential(20_000, n).astype(int), "arrival": arrival}


def readings(rng, n):
    rows = tuples(rng, n)
    values = np.where(rng.random((n, 2)) < 0.4, np.nan, rng.normal(0, 1, (n, 2)))
    return {"key": rows["key"], "time": rows["time"].astype(float), "readings": values}


def feed_readings(operator, rows, places):
    keys = rows["key"][places]
    found = operator.process(keys, rows["time"][places], rows["readings"][places])
    return list(zip(keys.tolist(), exactly(*found), strict=True))


def two_streams(rng, n):
    rows = tuples(rng, n)
    points = np.nan_to_num(rows["values"])
    return rows | {"values": points, "side": rng.integers(0, 2, n).astype(np.uint8)}


def feed_join(operator, rows, places):
    arrivals = ArrivalBatch(rows["side"][places], rows["key"][places], *chosen(rows, places))
    found = operator.process(arrivals)
    return [(0, row) for row in exactly(found.left, found.right, found.probability, found.change)]


def feed_outer_join(operator, rows, places):
    of = chosen(rows, places)
    arrivals = ArrivalBatch(rows["side"][places], rows["key"][places], *of, rows["time"][places])
    found = operator.process(arrivals)
    pairs = [(0, row) for row in exactly(found.left, found.right, found.probability)]
    reached = int(rows["time"][places].max()) if len(places) else None
    return pairs + unmatched(operator.release(reached))


def unmatched(released):
    """Return tuples without a partner, each side under its own key, in order of the tuples."""
    return [(1 + side, row) for side, of in released for row in exactly(of.number, of.probability)]


def feed_neighbours(operator, rows, places):
    arrivals = ArrivalBatch(rows["side"][places], rows["key"][places], *chosen(rows, places))
    found = operator.count(arrivals)
    counts = exactly(found.prob, found.value)
    laws = [counts[a:b] for a, b in pairwise(found.offsets.tolist())]
    return list(zip(rows["key"][places].tolist(), laws, strict=True))


def feed_ranking(operator, rows, places):
    offsets, prob, values = chosen(rows, places)
    found = operator.extend(
        rows["time"][places], scores=np.nan_to_num(values[:, 0]), prob=prob, offsets=offsets,
        exclusive=rows["time"][places] // 40, group=rows["time"][places] % 4,
        key=rows["key"][places],
    )  # fmt: skip
    return answers_of(found)


def answers_of(found):
    return list(zip(found.window.tolist(), exactly(*found[2:-2]), strict=True))


def ranking(**settings):
    queries = {"quick": (1, 7), "wide": (3, 25)}
    return Subject(
        lambda: TopKWindows(queries, **settings), tuples, feed_ranking,
        lambda operator: answers_of(operator.advance(400)),
        lambda operator: [operator.rejected, operator.executions, operator.out_of_order],
        any_key_first=True,
    )  # fmt: skip


def extents(make, feed=feed_extents, rows=tuples):
    """Return the subject of a window over extents."""
    return Subject(
        make, rows, feed, lambda operator: extents_of(operator.flush()),
        lambda operator: operator.counters,
    )  # fmt: skip


NUMBERED = {"keys_in_any_order": "a tuple's name is its number in the stream of all keys"}
SUBJECTS = {
    "count windows of few tuples": Subject(
        lambda: CountWindowAggregate(6, 0.9, ASKED, max_tuples=5, **LAW), tuples, feed_window,
        counts=lambda operator: operator.overflow,
    ),
    "count windows": Subject(
        lambda: CountWindowAggregate(4, 0.9, ASKED, **LAW), tuples, feed_window
    ),
    "count windows of certain tuples": Subject(
        lambda: CountWindowAggregate(4, 0.9, PLAIN, certain=True), certain_tuples, feed_window
    ),
    "extents of certain tuples": extents(
        lambda: ExtentAggregate(50, 20, PLAIN, empty=True, certain=True), rows=certain_tuples
    ),
    "statistics of count windows": Subject(
        lambda: CountWindowAggregate(4, 0.9, STATISTICS, **LAW), tuples, feed_window,
    ),
    "statistics of extents": extents(lambda: ExtentAggregate(50, 20, STATISTICS, **LAW)),
    "averages over time": extents(lambda: ExtentAggregate(50, 20, OVER_TIME)),
    "averages over time of certain tuples": extents(
        lambda: ExtentAggregate(50, 50, [OVER_TIME[2], *PLAIN], empty=True, certain=True),
        rows=certain_tuples,
    ),
    "statistics of sessions": extents(
        lambda: SessionAggregate(9, 40, [*STATISTICS, *ASKED], members=True, **LAW)
    ),
    "top-k of a range": ranking(length=60),
    "top-k of rows, scaled": ranking(rows=5, semantics="u_kranks", rescale=True),
    "top-k of uncertain windows": ranking(rows=3, confidence=0.9, max_tuples=6, plan="none"),
    "top-k of streams": ranking(length=60, streams=True, ascending=True),
    "delta windows": Subject(
        lambda: DeltaWindowAggregate(4.0, 0, ASKED, **LAW), tuples, feed_window
    ),
    "extents": extents(lambda: ExtentAggregate(50, 20, ASKED, **LAW)),
    "corrected extents": extents(
        lambda: VersionedExtentAggregate(50, 20, ASKED, **LAW), feed_corrected
    ),
    "shared extents": extents(
        lambda: SharedExtentAggregate(50, 20, ASKED, **LAW), feed_shared
    ),
    "tuples held": Subject(
        lambda: UncertainWindow(4, 0.9), existences,
        lambda o, rows, at: [(0, int(x)) for x in o.extend(rows["existence"][at])], gaps=ONE_KEY,
    ),
    "punctuations": Subject(
        lambda: Punctuator(drop_ratio=0.1, estimator="normal"), times,
        lambda o, rows, at: [(0, int(x)) for x in o.extend(rows["event"][at], rows["arrival"][at])],
        gaps=ONE_KEY,
    ),
    "earlier values": Subject(lambda: EarlierValues(2), readings, feed_readings),
    "similarity join": Subject(
        lambda: SimilarityJoin(1, 1.0, 0.2, Rows(4, 0.9), output="changes"), two_streams, feed_join,
        gaps=NUMBERED,
    ),
    "similarity join, delta windows": Subject(
        lambda: SimilarityJoin(1, 1.0, 0.2, JoinWindow(delta=2.0, max_tuples=9), output="changes"),
        two_streams, feed_join, gaps=NUMBERED,
    ),
    "similarity join, a task of three": Subject(
        lambda: SimilarityJoin(1, 1.0, 0.2, Rows(4, 0.9), output="changes", task=1, tasks=3),
        two_streams, feed_join, gaps=NUMBERED,
    ),
    "outer join": Subject(
        lambda: OuterJoin(
            1, 1.0, 0.2, [JoinWindow(span="9 us"), JoinWindow(span="20 us")], how="full"
        ),
        two_streams, feed_outer_join, lambda operator: unmatched(operator.release(None, True)),
        any_key_first=True, gaps=NUMBERED,
    ),
    "neighbours": Subject(
        lambda: NeighbourCount(1, 1.0, 1e-9, Rows(4, 1 - 1e-9)), two_streams, feed_neighbours
    ),
}  # fmt: skip
SEMANTICS = [
    Semantics("pk_topk"),
    Semantics("pt_k", probability=0.3),
    Semantics("u_topk"),
    Semantics("u_kranks"),
    Semantics("expected_rank"),
    Semantics("prf", weights=(3, 2.5, 1)),
    Semantics("prfe", alpha=0.9),
]
# Other settings of the same operators, which have the same layouts of state.
OTHER_SETTINGS = {
    **{
        f"top-k by {each.name} of {of}": ranking(semantics=each, rescale=True, **extent)
        for each in SEMANTICS
        for of, extent in (
            ("a range", {"length": 40}),
            ("rows", {"rows": 4, "confidence": 0.8, "plan": "none"}),
        )
    },
    **{
        f"punctuations, {name}, {guard}": replace(
            SUBJECTS["punctuations"],
            make=partial(Punctuator, **control, guard=guard == "guarded"),
            counts=lambda operator: (operator.counters, operator.punctuation),
        )
        for name, control in CONTROLS.items()
        for guard in ("guarded", "unguarded")
    },
    "tuples held, bounded": replace(
        SUBJECTS["tuples held"],
        make=partial(UncertainWindow, 10, 0.9, 0.3, max_tuples=15),
        counts=lambda operator: (operator.overflow, operator.guaranteed),
    ),
}
