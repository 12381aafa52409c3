"""A program that warms up, runs operators in other ways than the warm-up, and prints new compiles.

It uses one to nine columns, and arrays as users and Arrow pass them: lists, other dtypes,
read-only arrays, Fortran order, every other element of a longer array.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

import sfumato as sf
from sfumato import engine_free
from sfumato.kernels.compile import compile_counts
from sfumato.operators.disorder.reorder import Reorder
from sfumato.operators.distributions.aggregate import OVER_TIME, TOTALLED, Aggregate
from sfumato.operators.imputation.earlier_values import EarlierValues
from sfumato.operators.joins.arrivals import ArrivalBatch, IncompleteArrivals
from sfumato.operators.joins.incomplete_join import IncompleteJoin
from sfumato.operators.joins.neighbours import NeighbourCount
from sfumato.operators.joins.outer_join import OuterJoin
from sfumato.operators.joins.similarity_join import SimilarityJoin
from sfumato.operators.ranking.top_k_windows import TopKWindows
from sfumato.operators.windows.count.count_window_aggregate import CountWindowAggregate
from sfumato.operators.windows.delta_window_aggregate import DeltaWindowAggregate
from sfumato.operators.windows.early_answers import (
    EARLY_FUNCTIONS,
    EarlyAnswers,
)
from sfumato.operators.windows.extent_aggregate import ExtentAggregate
from sfumato.operators.windows.identified_extents import (
    SharedExtentAggregate,
    VersionedExtentAggregate,
)
from sfumato.operators.windows.session_aggregate import SessionAggregate
from sfumato.windows import JoinWindow

N = 60
COLUMNS = (1, 2, 3, 9)
random = np.random.default_rng(7)


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


def spaced(array: np.ndarray) -> np.ndarray:
    return np.repeat(array, 2, axis=0)[::2]


def narrow(array: np.ndarray) -> np.ndarray:
    return array.astype({"i": np.int32, "f": np.float32}.get(array.dtype.kind, array.dtype))


FORMS = (np.asarray, read_only, spaced, np.asfortranarray, narrow, np.ndarray.tolist)
EXACT_FORMS = FORMS[:4]  # for arguments that need the right dtypes


def all_aggregates(attribute: int) -> list[Aggregate]:
    functions = ("count", "sum", "avg", "min", "max", "boundary_sum")
    found = [Aggregate(function, attribute) for function in functions]
    return [Aggregate("count"), *found, Aggregate("quantile", attribute, 0.25)]


def windows() -> None:
    for columns in COLUMNS:
        values = random.random((2 * N, columns))
        values[::5] = np.nan
        codes, offsets, time = np.arange(N) % 3, 2 * np.arange(N + 1), np.arange(N)
        prob = random.choice([0.25, 0.5], 2 * N)
        plain = [Aggregate("count"), *(Aggregate(of, columns - 1) for of in TOTALLED)]
        for form in FORMS:
            certain = form(np.arange(N + 1)), form(np.ones(N)), form(values[:N])
            count = CountWindowAggregate(7, 0.9, plain, certain=True)
            count.process(form(codes), *certain)
            count = CountWindowAggregate.restore(count.snapshot())
            count.process(form(codes), *certain)
            extents = ExtentAggregate(10, 4, plain, attributes=columns, certain=True)
            extents.process(form(codes), form(time), None, None, *certain)
            extents = ExtentAggregate.restore(extents.snapshot())
            extents.process(form(codes), form(time + N), None, None, *certain)
            extents.flush()
            rows = form(offsets), form(prob), form(values)
            for laws in ({}, {"quantiles": (0.1, 0.9), "distribution": 4, "samples": 20}):
                asked = all_aggregates(columns - 1)
                count = CountWindowAggregate(7, 0.9, asked, max_tuples=20, **laws)
                count.process(form(codes), *rows)
                count = CountWindowAggregate.restore(count.snapshot())
                count.process(form(codes), *rows)
                count.process(form(0 * codes), *rows)
                delta = DeltaWindowAggregate(0.4, 0, asked, attributes=columns, **laws)
                delta.process(form(codes), *rows)
                delta = DeltaWindowAggregate.restore(delta.snapshot())
                delta.process(form(codes), *rows)
                delta.process(form(0 * codes), *rows)
                extents = ExtentAggregate(10, 4, asked, attributes=columns, empty=True, **laws)
                extents.process(form(codes), form(time), None, None, *rows)
                extents = ExtentAggregate.restore(extents.snapshot())
                extents.process(form(codes), form(time + N), None, None, *rows)
                extents.flush()
                means = [Aggregate(of, columns - 1) for of in OVER_TIME]
                over_time = ExtentAggregate(10, 4, means, attributes=columns)
                over_time.process(form(codes), form(time), None, None, *rows)
                over_time = ExtentAggregate.restore(over_time.snapshot())
                over_time.process(form(codes), form(time + N), None, None, *rows)
                over_time.flush()
                versioned = VersionedExtentAggregate(10, 4, asked, attributes=columns, **laws)
                for number in (np.arange(N), np.arange(N) + N):
                    versioned.process_versions(
                        form(codes),
                        form(number),
                        form(codes),
                        form(number),
                        None,
                        None,
                        *rows,
                        scope=form(codes),
                    )
                    versioned = VersionedExtentAggregate.restore(versioned.snapshot())
                versioned.flush()
                shared = SharedExtentAggregate(10, 4, asked, attributes=columns + 1, **laws)
                same = form(np.full(2 * N, 0.5))
                shared.process_shared(
                    form(codes), form(codes), form(time), None, None, form(offsets), same,
                    form(values), scope=form(codes),
                )  # fmt: skip
                SharedExtentAggregate.restore(shared.snapshot()).flush()
                sessions = SessionAggregate(2, 9, asked, attributes=columns, **laws)
                sessions.process(form(codes), form(time), None, None, *rows)
                sessions = SessionAggregate.restore(sessions.snapshot())
                sessions.process(form(codes), form(time + N), None, None, *rows)
                sessions.flush()
            if columns:
                early_answers(form, columns, True)
                early_answers(form, columns, False)


def early_answers(form, columns, certain) -> None:
    asked = [Aggregate("count"), *(Aggregate(name, columns - 1) for name in EARLY_FUNCTIONS)]
    extents = ExtentAggregate(10, 4, asked, attributes=columns)
    early = EarlyAnswers(10, 4, 2, 0.8, asked, columns, certain)
    codes, values = np.arange(N) % 3, random.random((N, columns))
    for time in (np.arange(N), np.arange(N) + N):
        rows = np.arange(N + 1), np.full(N, 1.0 if certain else 0.5), values
        complete = extents.process(form(codes), form(time), None, None, *rows)
        arrivals = form(codes), form(codes), form(time), form(time - 1), *(np.ones(N, bool),) * 2
        early.process(*arrivals, *rows, complete=complete)
        early = EarlyAnswers.restore(early.snapshot())
    early.forget(np.arange(2), scopes=True)


def disorder() -> None:
    arrival = np.arange(N)
    event = arrival - random.integers(0, 9, N)
    for form in EXACT_FORMS:
        for settings in ({"slack": 3}, {"drop_ratio": 0.1}, {"estimator": "max"}):
            operator = Reorder(**settings)
            operator.process(form(arrival % 3), form(event), form(arrival))
            operator = Reorder.restore(operator.snapshot())
            operator.process(form(arrival % 3), form(event + N), form(arrival + N))
            operator.flush()
            several = Reorder(by_source=True, **settings)
            keys = form(arrival % 3)
            several.process(keys, form(event), form(arrival), form(arrival % 6))
            several.flush()
            one = engine_free.Punctuator(**settings)
            one.extend(form(event), form(arrival))


def joins() -> None:
    for dimensions in COLUMNS:
        for form in EXACT_FORMS:
            arrivals = ArrivalBatch(
                side=form((np.arange(N) % 2).astype(np.uint8)),
                key=form(np.arange(N) % 5),
                offsets=form(3 * np.arange(N + 1)),
                prob=form(np.full(3 * N, 0.3)),
                points=form(random.random((3 * N, dimensions))),
            )
            join = SimilarityJoin(dimensions, 0.5, 0.2, JoinWindow(9, 0.95, max_tuples=20))
            for _ in range(2):
                join.process(arrivals)
                join = SimilarityJoin.restore(join.snapshot())
            NeighbourCount(dimensions, 0.5, 1e-9, JoinWindow(9, 0.95)).count(arrivals)
            outer = OuterJoin(dimensions, 0.5, 0.2, JoinWindow(span="9 us"), how="full")
            outer.process(replace(arrivals, time=np.arange(N)))
            outer.release(N)


def imputation() -> None:
    for columns in COLUMNS:
        names = [f"c{i}" for i in range(columns + 1)]
        repository = random.random((90, columns + 1))
        objects = repository[:N].copy()
        objects[::2, -1] = np.nan
        rules = [f"{name} -> {names[-1]} : 0.1 -> 0.2" for name in names[:-1]]
        for form, method in product(FORMS, ("plain", "calibrated")):
            imputer = engine_free.Imputer(
                form(repository), rules, names=names, joint=columns == 2, method=method
            )
            imputer.impute(form(objects))
            imputer = engine_free.Imputer.from_bytes(imputer.to_bytes())
            imputer.impute(form(objects))
            EarlierValues(columns + 1).process(
                form(np.arange(N) % 2), form(np.arange(N)), form(objects)
            )
        for form in EXACT_FORMS:
            join = IncompleteJoin(imputer, 0.3, 0.2, JoinWindow(9), output="changes")
            for _ in range(2):
                join.process(
                    IncompleteArrivals(
                        side=form((np.arange(N) % 2).astype(np.uint8)),
                        key=form(np.arange(N) % 3),
                        values=form(objects),
                    )
                )
                join = IncompleteJoin.restore(join.snapshot(), imputer=imputer)


def ranking() -> None:
    scores, prob = random.random(N), np.full(N, 0.4)
    rules, tuples = np.arange(N) // 2, np.arange(N) // 2
    for form in FORMS:
        rows: dict[str, Any] = {"scores": form(scores), "prob": form(prob)}
        for extra in ({}, {"exclusive": form(rules)}, {"tuples": form(tuples)}):
            both = {**rows, **extra}
            engine_free.pk_topk(**both, k=3)
            engine_free.pt_k(**both, k=3, probability=0.1)
            engine_free.u_kranks(**both, k=3)
            engine_free.expected_ranks(**both)
            engine_free.prf(**both, weights=[2, 1])
            engine_free.prfe(**both, alpha=0.9)
            engine_free.rank_probabilities(**both, k=3)
            engine_free.top_k_probabilities(**both, k=list(range(1, 12)))
        engine_free.u_topk(**rows, exclusive=form(rules), k=3)
        engine_free.top_k_streams(**rows, group=form(tuples), k=3)
        for kind in ({"length": 9}, {"rows": 5}, {"rows": 5, "confidence": 0.9}):
            window = TopKWindows({"a": (2, 3), "b": (5, 7)}, **kind)
            window.extend(form(np.arange(N)), **rows, exclusive=form(rules))
            window = TopKWindows.restore(window.snapshot())
            window.extend(form(np.arange(N, 2 * N)), **rows)
        streams = TopKWindows({"a": (2, 3)}, length=9, streams=True)
        streams.extend(form(np.arange(N)), **rows, group=form(tuples))
    (
        engine_free.timetable([(3, 4), (5, 6), (7, 8)]),
        engine_free.timetable([(3, 4), (5, 6)], "greedy"),
    )


def laws() -> None:
    for form in FORMS:
        for method in ("exact", "poisson", "normal", "refined_normal"):
            law = engine_free.PoissonBinomial(form(np.full(N, 0.3)), method)
            law.pmf(), law.cdf(3), law.sf([1, 2])
        window = engine_free.UncertainWindow(5, 0.9)
        window.extend(form(np.full(N, 0.3)))
        window.in_window(window.indices), window.in_window(int(window.indices[0]))
    for existence in (random.random(N), random.random(N).astype(np.float32)):
        rows = pa.table({"id": np.arange(N), "existence": existence})
        sf.draw_worlds(rows, 3, source="rows", id="id")


def what_they_compile() -> Iterator[tuple[str, list[str], list[str]]]:
    for step in (windows, disorder, joins, imputation, ranking, laws):
        before = compile_counts()
        step()
        now = compile_counts()
        yield (
            step.__name__,
            list(now.compiled[len(before.compiled) :]),
            list(now.loaded[len(before.loaded) :]),
        )


if __name__ == "__main__":
    sf.ops.warm_up()
    print(json.dumps(list(what_they_compile())))
