"""Early answers of extents over Arrow tables: revisions and final answers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.limits import MAX_TIME_US
from sfumato.operators.arrays import Floats, Ints, gather_lists
from sfumato.operators.distributions.aggregate import AggregateResult
from sfumato.operators.state.declared import Part
from sfumato.operators.windows.early_answers import EarlyAnswers, Revisions
from sfumato.operators.windows.extent_aggregate import Extents
from sfumato.tables.arrow import as_numbers
from sfumato.tables.reading.frame import EARLY_COLUMN
from sfumato.tables.windows.table_extents import ExtentTableConfig, TableExtents

COMPLETENESS_PARTS = ("share", "low", "high")


@dataclass(frozen=True, kw_only=True)
class EarlyTableConfig(ExtentTableConfig):
    """Settings of extents with early answers: `early` in microseconds, `level` of intervals."""

    early: int
    level: float

    kind, version = "early_extents", 6
    reads_shown_early = True
    counters = (*ExtentTableConfig.counters, "revisions", "on_arrival")

    def check(self) -> None:
        self.make()


class EarlyTableExtents(TableExtents):
    """`TableExtents` that also emits revisions of open extents.

    With a scope, the column `early` is true for rows that are shown on arrival and included only in
    revisions. Without a scope, rows are in order and included in revisions and final answers.
    Answers also have final, revision, completeness and interval.
    """

    config: EarlyTableConfig
    state = {"early": Part()}

    def __init__(self, config: EarlyTableConfig) -> None:
        super().__init__(config)
        grid = self.operator.length, self.operator.slide  # type: ignore[union-attr]
        self.early = EarlyAnswers(
            *grid, config.early, config.level, config.aggregates, config.attributes,
            bool(config.kinds),
        )  # fmt: skip

    def answers(self, rows: pa.Table, now: int) -> list[pa.Table]:
        group, scope, time, punctuation, late, batch = self._read(rows, now)
        offsets, prob, values = batch
        lasting = shown = np.ones(len(time), bool)
        if late is not None:
            shown = as_numbers(rows.column(EARLY_COLUMN)) != 0
            lasting = ~shown
            self.counts["on_arrival"] += int(shown.sum())
        before = self.operator.counters["out_of_order"]
        places = np.flatnonzero(lasting)
        starts, alternatives = gather_lists(offsets, places)
        extents = self.operator.process(
            group[places],
            time[places],
            None if punctuation is None else punctuation[places],
            None if late is None else late[places],
            starts,
            prob[alternatives],
            values[alternatives],
            scope=scope[places],
        )
        self.require_one_controller(self.operator.counters["out_of_order"] - before)
        reached = np.minimum(time - 1 if punctuation is None else punctuation, MAX_TIME_US)
        moves = lasting if late is None else lasting & ~late
        given = group, scope, time, reached, moves, shown, *batch
        return self._revisions_and_finals(extents, *given)

    def _idle_keys(self) -> Ints:
        """Return the keys whose removal changes no early answer."""
        return self.early.idle_groups(super()._idle_keys())

    def forget(self, codes: Ints) -> None:
        super().forget(codes)
        self.early.forget(codes)

    def counters(self) -> dict[str, int]:
        counts = super().counters()
        return counts | {"rows": counts["rows"] - counts["on_arrival"]}

    def _tables(self, extents: Extents) -> list[pa.Table]:
        none, flags = np.empty(0, np.int64), np.empty(0, bool)
        alternatives = np.zeros(1, np.int64), np.empty(0), np.empty((0, self.config.attributes))
        rows = none, none, none, none, flags, flags, *alternatives
        return self._revisions_and_finals(extents, *rows)

    def _revisions_and_finals(self, extents: Extents, *rows: Any) -> list[pa.Table]:
        """Return the revisions that rows cause, and the final answers.

        Answers are ordered by punctuation, so their order does not depend on micro-batches.
        Revisions precede final answers with the same punctuation.
        """
        revisions, numbers = self.early.process(*rows, complete=extents)
        self.counts["revisions"] += len(revisions)
        held = extents.held.astype(float)
        answers = [held, *(result.mean for result in extents.results)]
        shares = np.ones(len(extents))
        sure = np.stack([*answers[1:], shares], axis=1)[:, :, np.newaxis].repeat(3, axis=2)
        revised = revisions.estimates
        tables = []
        for of, number, estimates in (
            (revisions, revisions.number, revised),
            (extents, numbers, sure),
        ):
            if not len(of):
                continue
            final = isinstance(of, Extents)
            results = extents.results if final else _revision_results(revisions)
            columns: dict[str, Any] = self.index.columns(of.group) | self._times_of(of)
            columns["late"] = pa.array(extents.late) if final else pa.nulls(len(of), pa.int64())
            columns |= {
                "final": pa.array(np.full(len(of), final)),
                "revision": pa.array(number),
                "completeness": _struct(estimates[:, -1], COMPLETENESS_PARTS),
                "interval": _intervals(estimates[:, :-1]),
                **self.config.result_columns(results),
            }
            tables.append(pa.table(columns))
        if len(tables) < 2:
            return tables
        finals = np.arange(len(revisions) + len(extents)) >= len(revisions)
        punctuation = np.append(revisions.punctuation, extents.punctuation)
        end = np.append(revisions.end, extents.end)
        return [pa.concat_tables(tables).take(pa.array(np.lexsort((end, finals, punctuation))))]


def _revision_results(revisions: Revisions) -> list[AggregateResult]:
    mean, exact, none = revisions.estimates[:, :-1, 0], np.zeros(len(revisions)), np.empty((0, 0))
    columns = [of.T.copy() for of in (mean, revisions.stddev, revisions.existence)]
    return [AggregateResult(*of, none, exact) for of in zip(*columns, strict=True)]  # type: ignore[call-arg]


def _struct(estimates: Floats, names: tuple[str, ...]) -> pa.StructArray:
    columns = [pa.array(column, mask=np.isnan(column)) for column in estimates.T.copy()]
    return pa.StructArray.from_arrays(columns, [*names])


def _intervals(estimates: Floats) -> pa.StructArray:
    parts = [_struct(estimates[:, i, 1:], ("low", "high")) for i in range(estimates.shape[1])]
    return pa.StructArray.from_arrays(parts, [f"result{i}" for i in range(len(parts))])
