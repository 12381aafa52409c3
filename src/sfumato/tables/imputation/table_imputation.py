"""Imputation of incomplete rows over Arrow tables: by values, or by changes in a stream."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.limits import check_alternatives
from sfumato.operators.arguments import RESCALED_SUM_TOLERANCE
from sfumato.operators.arrays import Floats, Ints, by_code
from sfumato.operators.imputation.imputer import IMPUTED, Imputed, Imputer
from sfumato.operators.imputation.stream_imputer import ImputedRows, StreamImputer
from sfumato.operators.state.declared import Part
from sfumato.tables.arrow import numbers_of
from sfumato.tables.imputation.imputation_arguments import IMPUTED_BY
from sfumato.tables.imputation.repositories import (
    ImputationSettings,
    RepositoryImputer,
    StreamRepository,
    cached_imputer,
    has_few_rows,
    seconds_of,
)
from sfumato.tables.imputation.table_earlier_values import (
    EarlierValuesTableConfig,
    TableEarlierValues,
    released_values,
)
from sfumato.tables.operator import ROW
from sfumato.tables.reading.frame import EXISTENCE, WEIGHTED, Frame
from sfumato.tables.reading.job import Input, Job, imputed_origins
from sfumato.tables.reading.results import (
    Output,
    OutputField,
    alternatives_type,
    passthrough_outputs,
    with_metadata,
)
from sfumato.tables.reading.rows import Doubles
from sfumato.tables.reading.ties import ties_of
from sfumato.tables.reading.tuples import ALTERNATIVES
from sfumato.tables.reading.user_warnings import GAPS_KEY

UNIMPUTABLE = "unimputable: "  # prefix of `imputed_by` for a row without alternatives
NO_EXISTENCE = UNIMPUTABLE + "existence is not a number in (0, 1]"
SLICE_ROWS = 256  # rows imputed together; a row may have one alternative per repository row
FLAGS = ("far_donors", "few_rows", "shared")  # columns of `impute_table`, each with a counter


def impute_table(
    imputer: RepositoryImputer,
    values: Floats,
    existence: Floats | None = None,
    keys: pa.Table | None = None,
    texts: Mapping[str, list[str]] | None = None,
) -> Iterator[tuple[slice, pa.Table]]:
    """Yield (slice of the objects, their new columns), for `SLICE_ROWS` objects at a time.

    values : float64[n, D], NaN is missing    keys : the objects' keys, if the repository has a key
    existence : float64[n], factors of each object's probabilities, or None. An object whose
        existence is not in (0, 1] cannot be imputed
    texts : the strings of coded columns, see `RepositoryImputer.values_of`

    New columns: alternatives (NULL if the object cannot be imputed), imputed_by (text, NULL if the
    object is complete), far_donors (whether donors are farther apart than the dependency allows),
    few_rows (whether the object was imputed by an imputer that `has_few_rows`) and shared (whether
    the object was imputed although its key has too few rows for a separate imputer).
    """
    for begin in range(0, len(values), SLICE_ROWS):
        part = slice(begin, min(begin + SLICE_ROWS, len(values)))
        own, weights = values[part], None if existence is None else existence[part]
        owners = np.full(len(own), -1)
        if keys is not None:
            owners = imputer.owners(keys.slice(begin, len(own)))
        parts = []
        for owner, of in by_code(owners):
            weight = None if weights is None else weights[of]
            shared = keys is not None and owner < 0
            of_owner = imputer.imputers[owner]
            imputed = of_owner.impute(own[of])
            parts.append((of, imputed_columns(of_owner, imputed, weight, shared, texts or {})))
        yield part, merge_parts(parts)


def merge_parts(parts: Sequence[tuple[Ints, pa.Table]]) -> pa.Table:
    """Return the rows of all parts, each given with its places, in the order of the places."""
    places, tables = zip(*parts, strict=True)
    if len(tables) == 1:
        return tables[0]
    return pa.concat_tables(tables).take(pa.array(np.argsort(np.concatenate(places))))


def imputed_outputs(
    attributes: Sequence[str], texts: Collection[str], frame: Frame
) -> list[Output]:
    """Return the columns of `impute_table`. texts : the attributes that are strings"""
    fields = [OutputField(of, pa.string() if of in texts else pa.float64()) for of in attributes]
    outputs = [
        Output(ALTERNATIVES, (ALTERNATIVES,), alternatives_type(fields), {WEIGHTED: "true"}),
        Output(IMPUTED_BY, (IMPUTED_BY,), pa.string()),
        *(Output(flag, (flag,), pa.bool_()) for flag in FLAGS),
    ]
    return [with_metadata(of, imputed_origins(frame).metadata) for of in outputs]


def imputed_columns(
    imputer: Imputer,
    imputed: Imputed,
    existence: Floats | None,
    shared: bool,
    texts: Mapping[str, list[str]],
) -> pa.Table:
    """Return the columns of `impute_table` for the results of one imputer."""
    inferred = imputed.reason == IMPUTED
    columns = {
        "alternatives": alternatives_of(imputer, imputed, existence, texts),
        "imputed_by": _explanations(imputer, imputed),
        "far_donors": pa.array(imputed.beyond.any(axis=1)),
        "few_rows": pa.array(inferred & has_few_rows(imputer)),
        "shared": pa.array(inferred & shared),
    }
    return _without_absent(columns, existence)


def _without_absent(columns: dict[str, pa.Array], existence: Floats | None) -> pa.Table:
    """Return the columns, where rows whose existence is not in (0, 1] are unimputable."""
    if existence is not None:
        valid = (existence > 0.0) & (existence <= 1.0 + RESCALED_SUM_TOLERANCE)
        if not valid.all():
            none = {ALTERNATIVES: None, IMPUTED_BY: NO_EXISTENCE}
            for name, column in columns.items():
                other = pa.scalar(none.get(name, False), column.type)
                columns[name] = pc.if_else(pa.array(valid), column, other)
    return pa.table(columns)


def count_imputed(columns: pa.Table) -> dict[str, int]:
    complete = columns.column(IMPUTED_BY).null_count
    unimputable = columns.column(ALTERNATIVES).null_count
    imputed = columns.num_rows - complete - unimputable
    counts = {"complete": complete, "imputed": imputed, "unimputable": unimputable}
    return counts | {flag: int(np.count_nonzero(columns.column(flag))) for flag in FLAGS}


def alternatives_of(
    imputer: Imputer, imputed: Imputed, existence: Floats | None, texts: Mapping[str, list[str]]
) -> pa.Array:
    """Return the alternatives of imputed objects, list<struct<prob, ATTR...>>; NULL if empty."""
    prob = imputed.prob
    if existence is not None:
        prob = prob * np.repeat(np.minimum(existence, 1.0), np.diff(imputed.offsets))
    fields = [pa.array(prob)]
    for name, column in zip(imputer.attributes, imputed.values.T, strict=True):
        if name in texts:
            codes = pa.array(column.astype(np.int64), mask=np.isnan(column))
            fields.append(pa.array(texts[name], pa.string()).take(codes))
        else:
            fields.append(pa.array(np.ascontiguousarray(column)))
    flat = pa.StructArray.from_arrays(fields, names=["prob", *imputer.attributes])
    offsets = pa.array(imputed.offsets, pa.int32())
    return pa.ListArray.from_arrays(offsets, flat, mask=pa.array(imputed.reason > IMPUTED))


def _explanations(imputer: Imputer, imputed: Imputed) -> pa.Array:
    """Return `imputed_by`: the dependencies used, or the reason for failure."""
    if not imputed.reason.size:
        return pa.array([], pa.string())
    ways = np.column_stack([imputed.reason.astype(np.int64), imputed.rules_used])
    _, first, which = np.unique(ways, axis=0, return_index=True, return_inverse=True)
    texts = []
    for i in first.tolist():
        reason = int(imputed.reason[i])
        text = imputer.explain(imputed, i)
        texts.append(None if reason == 0 else text if reason == IMPUTED else UNIMPUTABLE + text)
    return pa.array(texts, pa.string()).take(pa.array(which.reshape(-1)))


@dataclass(frozen=True, kw_only=True)
class StreamImputationTableConfig(EarlierValuesTableConfig):
    """Settings of an imputation of streams over tables.

    imputers : `StreamRepository.to_bytes`; a checkpoint stores only the checksum
    weighted : whether rows have a column `existence`
    gap_values : number of equally probable values of a row that is imputed by changes, or None
    """

    imputers: bytes
    weighted: bool = False
    gap_values: int | None = field(default=None, metadata={"fingerprint": "added"})

    kind, version = "stream imputation", 2
    counters = (
        "rows", "invalid", "out_of_order", "complete", "imputed", "unimputable", *FLAGS,
        "tested", "covered", "widened",
    )  # fmt: skip


class TableStreamImputation(TableEarlierValues):
    """`StreamImputer` over Arrow tables, for the keys of one bucket.

    Answers have `row`, alternatives and imputed_by, and with `gap_values`, gap0.. (see
    `gaps_of`). Rows without order or key, and duplicates, are imputed by values alone, and are not
    remembered.
    """

    config: StreamImputationTableConfig
    state = {"operator": Part()}

    def __init__(self, config: StreamImputationTableConfig) -> None:
        super().__init__(config)
        self.operator = StreamImputer(config.attributes, config.gap_values)
        self.repository = cached_imputer(config.imputers, StreamRepository)

    def answers(self, rows: pa.Table, now: int) -> list[pa.Table]:
        codes, time = self.codes(rows), seconds_of(rows.column("order0"))
        slices = (slice(i, i + SLICE_ROWS) for i in range(0, rows.num_rows, SLICE_ROWS))
        return [self._impute(rows[of], codes[of], time[of]) for of in slices]

    def process_invalid(self, rows: pa.Table) -> list[pa.Table]:
        self._count_invalid(rows)
        parts = impute_table(self.repository.levels, self._values(rows), self._existence(rows))
        return [self._answer(rows[part], found) for part, found in parts]

    def _impute(self, rows: pa.Table, codes: np.ndarray, time: Floats) -> pa.Table:
        """Return the answers to at most `SLICE_ROWS` rows, each by the imputers of its key."""
        keys = rows.select(self.config.key_columns)
        changes, levels = self.repository.changes, self.repository.levels
        owners = np.column_stack([changes.owners(keys), levels.owners(keys)])
        values, existence = self._values(rows), self._existence(rows)
        parts = []
        for pair in np.unique(owners, axis=0).tolist():
            of = np.flatnonzero((owners == pair).all(axis=1))
            imputers = changes.imputers[pair[0]], levels.imputers[pair[1]]
            found, counts = self.operator.process(imputers, codes[of], time[of], values[of])
            for name, count in zip(("tested", "covered", "widened"), counts, strict=True):
                self.counts[name] += count
            for imputed in found:
                places, own = of[imputed.places], changes.own or levels.own
                weight = None if existence is None else existence[places]
                shared = bool(own) and imputed.ways[0][0] in (changes.shared, levels.shared)
                columns = imputed_rows_columns(imputed, weight, shared)
                if self.config.gap_values is not None:
                    gaps = gaps_of(keys, places, imputed.since)
                    for name, gap in zip(self.gap_columns, gaps, strict=True):
                        columns = columns.append_column(name, gap)
                parts.append((places, columns))
        return self._answer(rows, merge_parts(parts))

    def _answer(self, rows: pa.Table, found: pa.Table) -> pa.Table:
        for name, count in count_imputed(found).items():
            self.counts[name] += count
        columns = {name: found.column(name) for name in (ALTERNATIVES, IMPUTED_BY)}
        for name in self.gap_columns:
            is_known = name in found.column_names
            columns[name] = found.column(name) if is_known else pa.nulls(len(found), pa.int64())
        return pa.table({ROW: rows.column(ROW), **columns})

    @property
    def gap_columns(self) -> list[str]:
        number = 0 if self.config.gap_values is None else self.config.attributes
        return [f"gap{i}" for i in range(number)]

    def _values(self, rows: pa.Table) -> Floats:
        return numbers_of(rows, self.config.value_columns)

    def _existence(self, rows: pa.Table) -> Floats | None:
        if not self.config.weighted:
            return None
        return numbers_of(rows, [EXISTENCE])[:, 0]


def gaps_of(keys: pa.Table, places: Ints, since: Floats) -> list[pa.Array]:
    """Return the number of each row's gap per attribute: a hash of the row's key and of the time of
    the last known value; NULL if the attribute was not imputed by a change.

    places : the rows' places in `keys`    since : see `ImputedRows`
    """
    found = []
    own = [column.take(pa.array(places)) for column in keys.columns]
    for times in since.T:
        gap = ties_of(pa.table([*own, times], [*keys.column_names, "since"]))
        found.append(pc.if_else(pa.array(np.isnan(times)), None, gap))
    return found


def imputed_rows_columns(rows: ImputedRows, existence: Floats | None, shared: bool) -> pa.Table:
    """Return the columns of `impute_table` for rows imputed by one or two imputers."""
    if len(rows.ways) == 1:
        return imputed_columns(rows.ways[0][0], rows.result, existence, shared, {})
    found = [imputed_columns(*way, existence, shared, {}) for way in rows.ways]
    first, second = found
    texts = [of.column(IMPUTED_BY).combine_chunks() for of in found]
    failed = second.column(ALTERNATIVES).combine_chunks().is_null()
    both = pc.binary_join_element_wise(*texts, "; ")
    columns = {ALTERNATIVES: alternatives_of(rows.ways[0][0], rows.result, existence, {})}
    columns[IMPUTED_BY] = pc.if_else(failed, texts[1], both)
    columns |= {flag: pc.or_(first.column(flag), second.column(flag)) for flag in FLAGS}
    return _without_absent(columns, existence)


def stream_imputation_job(
    frame: Frame,
    settings: ImputationSettings,
    imputers: bytes,
    forget_after: str | timedelta | float | None,
    gap_values: int | None,
    name: str | None,
) -> Job:
    gaps = [] if gap_values is None else [f"gap_{of}" for of in settings.attributes]
    if gap_values is not None:
        check_gap_values(gap_values, frame, settings)
        frame.require_free(gaps)
    wanted = frame.resolve("attributes", list(settings.attributes))
    reading, known = released_values(frame, wanted, settings.order, settings.key, forget_after)
    weighted = EXISTENCE in frame.columns
    if weighted:
        reading = replace(reading, values=(*reading.values, (EXISTENCE, Doubles(EXISTENCE))))
    config = StreamImputationTableConfig(
        imputers=imputers, weighted=weighted, gap_values=gap_values, **known
    )
    kind = alternatives_type(OutputField(of, pa.float64()) for of in settings.attributes)
    outputs = passthrough_outputs(frame, frame.columns, ROW)
    marks = {GAPS_KEY: "true", WEIGHTED: "true"}
    outputs.append(Output(ALTERNATIVES, (ALTERNATIVES,), kind, marks))
    outputs.append(Output(IMPUTED_BY, (IMPUTED_BY,), pa.string()))
    outputs += [Output(gap, (f"gap{i}",), pa.int64()) for i, gap in enumerate(gaps)]
    given = [Input(frame, reading, {"attributes": wanted})]
    return Job(
        "impute", "impute", name, given, config, outputs, order=[*reading.order], imputes=True
    )


def check_gap_values(count: int, frame: Frame, settings: ImputationSettings) -> None:
    check_alternatives("gap_values", count, frame.max_alternatives)
    if count == 1:
        raise ValueError("`gap_values` must be at least 2, because one value has no range; got 1")
    conflicts = {
        "joint=True": settings.joint,
        f"a column `{EXISTENCE}`": EXISTENCE in frame.columns,
    }
    for what in (what for what, is_given in conflicts.items() if is_given):
        raise ValueError(f"`gap_values` and {what} cannot be combined: leave one of them out")
