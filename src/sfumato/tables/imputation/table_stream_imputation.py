"""Imputation of streams over Arrow tables: the operator and its job."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.operators.arrays import Floats
from sfumato.operators.imputation.stream_imputer import ImputedRows, StreamImputer
from sfumato.operators.state.declared import Part
from sfumato.tables.arrow import numbers_of
from sfumato.tables.imputation.imputation_arguments import IMPUTED_BY
from sfumato.tables.imputation.repositories import (
    ImputationSettings,
    StreamRepository,
    cached_imputer,
    seconds_of,
)
from sfumato.tables.imputation.table_earlier_values import (
    EarlierValuesTableConfig,
    TableEarlierValues,
    released_values,
)
from sfumato.tables.imputation.table_imputation import (
    FLAGS,
    SLICE_ROWS,
    alternatives_of,
    imputed_columns,
)
from sfumato.tables.operator import ROW
from sfumato.tables.reading.frame import EXISTENCE, Frame
from sfumato.tables.reading.job import Input, Job
from sfumato.tables.reading.results import (
    DOUBLE_TYPE,
    STRING_TYPE,
    Field,
    Output,
    alternatives_type,
    passthrough_outputs,
)
from sfumato.tables.reading.rows import Doubles
from sfumato.tables.reading.tuples import ALTERNATIVES
from sfumato.tables.reading.user_warnings import GAPS_KEY


@dataclass(frozen=True, kw_only=True)
class StreamImputationTableConfig(EarlierValuesTableConfig):
    """Settings of an imputation of streams over tables.

    imputers : `StreamRepository.to_bytes`; a checkpoint stores only the checksum
    weighted : whether rows have a column `existence`
    """

    imputers: bytes
    weighted: bool = False

    kind, version = "stream imputation", 1
    counters = (
        "rows", "invalid", "out_of_order", "complete", "imputed", "unimputable", *FLAGS,
        "tested", "covered", "widened",
    )  # fmt: skip

    def make(self) -> TableStreamImputation:
        return TableStreamImputation(self)


class TableStreamImputation(TableEarlierValues):
    """`StreamImputer` over Arrow tables, for the keys of one bucket.

    Answers have `row`, alternatives and imputed_by. Rows without order or key are imputed by values
    alone, and are not remembered.
    """

    config: StreamImputationTableConfig
    state = {"operator": Part()}

    def __init__(self, config: StreamImputationTableConfig) -> None:
        super().__init__(config)
        self.operator = StreamImputer(config.attributes)
        self.repository = cached_imputer(config.imputers, StreamRepository)

    def answers(self, rows: pa.Table, now: int) -> list[pa.Table]:
        codes, time = self.codes(rows), seconds_of(rows.column("order0"))
        slices = (slice(i, i + SLICE_ROWS) for i in range(0, rows.num_rows, SLICE_ROWS))
        return [self._impute(rows[of], codes[of], time[of]) for of in slices]

    def process_invalid(self, rows: pa.Table) -> list[pa.Table]:
        self.counts["invalid"] += rows.num_rows
        imputer, parts = self.repository.levels.shared, []
        for i in range(0, rows.num_rows, SLICE_ROWS):
            part = rows.slice(i, SLICE_ROWS)
            done = imputer.impute(self._values(part))
            found = imputed_columns(imputer, done, self._existence(part), False, {})
            parts.append(self._answer(part, found))
        return parts

    def _impute(self, rows: pa.Table, codes: np.ndarray, time: Floats) -> pa.Table:
        """Return the answers to at most `SLICE_ROWS` rows, each by the imputers of its key."""
        keys = rows.select(self.config.key_columns)
        changes, levels = self.repository.changes, self.repository.levels
        owners = np.column_stack([changes.owners(keys), levels.owners(keys)])
        values, existence = self._values(rows), self._existence(rows)
        parts, places = [], []
        for pair in np.unique(owners, axis=0).tolist():
            of = np.flatnonzero((owners == pair).all(axis=1))
            imputers = changes.imputers[pair[0]], levels.imputers[pair[1]]
            found, counts = self.operator.process(imputers, codes[of], time[of], values[of])
            for name, count in zip(("tested", "covered", "widened"), counts, strict=True):
                self.counts[name] += count
            for imputed in found:
                weight = None if existence is None else existence[of[imputed.places]]
                own = self.repository.changes.own or self.repository.levels.own
                shared = bool(own) and imputed.ways[0][0] in (changes.shared, levels.shared)
                parts.append(imputed_rows_columns(imputed, weight, shared))
                places.append(of[imputed.places])
        order = pa.array(np.argsort(np.concatenate(places)))
        return self._answer(rows, pa.concat_tables(parts).take(order))

    def _answer(self, rows: pa.Table, found: pa.Table) -> pa.Table:
        by = found.column(IMPUTED_BY)
        none = found.column(ALTERNATIVES).null_count
        self.counts["complete"] += by.null_count
        self.counts["unimputable"] += none
        self.counts["imputed"] += rows.num_rows - by.null_count - none
        for flag in FLAGS:
            self.counts[flag] += int(np.count_nonzero(found.column(flag)))
        columns = {name: found.column(name) for name in (ALTERNATIVES, IMPUTED_BY)}
        return pa.table({ROW: rows.column(ROW), **columns})

    def _values(self, rows: pa.Table) -> Floats:
        return numbers_of(rows, self.config.value_columns)

    def _existence(self, rows: pa.Table) -> Floats | None:
        if not self.config.weighted:
            return None
        existence: Floats = np.minimum(numbers_of(rows, [EXISTENCE])[:, 0], 1.0)
        return existence


def imputed_rows_columns(rows: ImputedRows, existence: Floats | None, shared: bool) -> pa.Table:
    """Return the columns of `impute_table` for rows imputed by one or two imputers."""
    found = [imputed_columns(*way, existence, shared, {}) for way in rows.ways]
    if len(found) == 1:
        return found[0]
    first, second = found
    texts = [of.column(IMPUTED_BY).combine_chunks() for of in found]
    failed = second.column(ALTERNATIVES).combine_chunks().is_null()
    both = pc.binary_join_element_wise(*texts, "; ")
    columns = {ALTERNATIVES: alternatives_of(rows.ways[0][0], rows.result, existence, {})}
    columns[IMPUTED_BY] = pc.if_else(failed, texts[1], both)
    columns |= {flag: pc.or_(first.column(flag), second.column(flag)) for flag in FLAGS}
    return pa.table(columns)


def stream_imputation_job(
    frame: Frame,
    settings: ImputationSettings,
    imputers: bytes,
    forget_after: str | timedelta | float | None,
    name: str | None,
) -> Job:
    """Return the job of `impute` with an order. Raises ValueError or TypeError if it is invalid."""
    wanted = frame.resolve("attributes", list(settings.attributes))
    reading, known = released_values(frame, wanted, settings.order, settings.key, forget_after)
    weighted = EXISTENCE in frame.columns
    if weighted:
        reading = replace(reading, values=(*reading.values, (EXISTENCE, Doubles(EXISTENCE))))
    config = StreamImputationTableConfig(imputers=imputers, weighted=weighted, **known)
    kind = alternatives_type(Field(of, DOUBLE_TYPE) for of in settings.attributes)
    outputs = passthrough_outputs(frame, frame.columns, ROW)
    outputs.append(Output(ALTERNATIVES, (ALTERNATIVES,), kind, {GAPS_KEY: "true"}))
    outputs.append(Output(IMPUTED_BY, (IMPUTED_BY,), STRING_TYPE))
    given = [Input(frame, reading, {"attributes": wanted})]
    return Job("impute", "impute", name, given, config, outputs, order=[*reading.order])
