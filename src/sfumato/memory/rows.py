"""Functions of rows over tables in memory, such as split_invalid, where and impute."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.memory.frame import ArrowFrame, frame_of
from sfumato.memory.run import (
    count_invalid,
    table_of,
    warn_of_invalid,
    with_record,
    with_records,
)
from sfumato.tables.arrow import as_array, as_numbers
from sfumato.tables.imputation.discovery_query import AttributeRanges, valued_columns, warn_of_gaps
from sfumato.tables.imputation.imputation_arguments import IMPUTED_BY
from sfumato.tables.imputation.repositories import ImputationSettings, RepositoryImputer
from sfumato.tables.imputation.table_imputation import count_imputed, impute_table, imputed_outputs
from sfumato.tables.joins.metric import bounds_of
from sfumato.tables.keys import group_rows, normalize_zeros
from sfumato.tables.reading.alternatives import existence_of, fused, lists_of_lengths, pruned
from sfumato.tables.reading.expressions import (
    ColumnRef,
    evaluate_condition,
    field_at,
    find_name,
    names_in,
    parse_expression,
)
from sfumato.tables.reading.frame import Names
from sfumato.tables.reading.job import filtered_metadata
from sfumato.tables.reading.results import cast_renamed
from sfumato.tables.reading.ties import ties_of
from sfumato.tables.reading.tuples import ALTERNATIVES, CONFLICT, PRUNED, UncertainTable
from sfumato.tables.reading.types import as_doubles, floats_of
from sfumato.tables.reading.user_warnings import ASSUMED_KEY, SAME_REVISION
from sfumato.tables.reading.validity import (
    add_rule_reasons,
    check_attributes,
    has_invalid_radius,
    invalid_radius_reason,
    require_order,
    why_invalid,
    why_invalid_after_filter,
)
from sfumato.tables.reading.worlds import Draw, Merge


def split_rows(
    frame: ArrowFrame,
    attributes: Names,
    key: Names,
    order: Names,
    metric: str,
    within: str | None,
    exclusive: str | None,
    strict: bool,
) -> tuple[pa.Table, pa.Table]:
    """Implement `split_invalid` for a table. Raises ValueError for an invalid row if `strict`."""
    wanted, table = check_attributes(frame, attributes), frame.table
    reasons = why_invalid(table, wanted, bounds=bounds_of(metric, wanted))
    named = {"key": frame.resolve("key", key), "order": frame.resolve("order", order)}
    for argument, columns in named.items():
        for name in columns:
            missing = as_array(table.column(name)).is_null().to_numpy(zero_copy_only=False)
            reasons.add(missing, f"{argument} is NULL")
    if within is not None:
        frame.require_numbers("within", [within])
        radius = frame.single_column("within", within)
        reasons.add(has_invalid_radius(table, radius), invalid_radius_reason(radius))
    if exclusive is not None:
        require_order(order)
        rule = [frame.single_column("exclusive", exclusive), *named["key"]]
        cells = zip(*(table.column(name).to_pylist() for name in rule), strict=True)
        rules = [None if of[0] is None else of for of in cells]
        number = frame.free_name("number")  # for a stable sort
        numbered = table.append_column(number, pa.array(np.arange(table.num_rows)))
        by = [(name, "ascending") for name in [*named["order"], number]]
        places = pc.sort_indices(numbered, sort_keys=by).to_numpy()
        add_rule_reasons(reasons, _existences(UncertainTable(table)), rules, places)
    invalid = table.append_column("reason", reasons.column()).filter(pa.array(reasons.invalid))
    if strict and invalid.num_rows:
        raise ValueError(f"invalid row: {invalid['reason'][0].as_py()}")
    return table.filter(pa.array(~reasons.invalid)) if invalid.num_rows else table, invalid


def split_by(frame: ArrowFrame, mark: str) -> tuple[pa.Table, pa.Table]:
    """Return the rows where a boolean column is not true, and the rows where it is true."""
    marked = pc.fill_null(frame.table.column(mark), False)
    return frame.table.filter(pc.invert(marked)), frame.table.filter(marked)


def newest_rows(frame: ArrowFrame, by: Sequence[str]) -> pa.Table:
    """Implement `newest_revisions` for a table; `by` are the key and the window."""
    codes, _ = group_rows(normalize_zeros(frame.table.select(by).flatten()))
    revision = as_numbers(frame.table.column("revision"))
    order = np.lexsort((revision, codes))
    differs, newer = np.diff(codes[order]) > 0, np.diff(revision[order]) > 0
    if not (differs | newer).all():
        raise ValueError(SAME_REVISION)
    last = order[np.append(differs, np.ones(min(1, len(order)), bool))]
    return frame.table.take(pa.array(np.sort(last)))


def _existences(tuples: UncertainTable) -> np.ndarray:
    if tuples.uncertain:
        return existence_of(tuples)
    given = "existence" if "existence" in tuples.table.column_names else None
    return floats_of(tuples.prob(given).flatten())


def where(frame: ArrowFrame, condition: str, name: str | None) -> pa.Table:
    asked = parse_expression("condition", condition, frame.quoting_hint(condition))
    tuples = UncertainTable(frame.table)
    if not tuples.has_attribute(asked):

        def cells(name: ColumnRef) -> pa.Array:
            column = frame.single_column("condition", name.parts[0])
            return field_at(as_array(frame.table.column(column)), name)

        return frame.table.filter(evaluate_condition(asked, cells, frame.table.num_rows))
    holds = evaluate_condition(asked, tuples.cells, len(tuples.owner))
    kept = pc.fill_null(holds, False).to_numpy(zero_copy_only=False)
    lengths = np.bincount(tuples.owner, kept, frame.table.num_rows).astype(np.int64)
    meant = (find_name(one.parts[0], tuples.attributes) for one in names_in(asked))
    attributes = list(dict.fromkeys(one for one in meant if one is not None))
    reasons = why_invalid_after_filter(frame.table, attributes, lengths > 0)
    lengths[reasons.invalid] = 0
    kept &= (lengths > 0)[tuples.owner]
    counts = count_invalid("where", frame.table.num_rows, reasons.counts())
    left = lists_of_lengths(tuples.flat.filter(pa.array(kept)), lengths)
    result = _replace_alternatives(frame, left, condition).filter(pa.array(lengths > 0))
    return with_record(result, [frame.table], "where", name, {"_input": counts})


def prune(frame: ArrowFrame, min_prob: float, top: int, normalize: bool) -> pa.Table:
    made = pruned(as_array(frame.table.column(ALTERNATIVES)), min_prob, top, normalize)
    table = _replace_alternatives(frame, made.field(0), f"prune({min_prob}, {top}, {normalize})")
    return table.append_column(PRUNED, made.field(1))


def fuse(frame: ArrowFrame, measurements: Sequence[str]) -> pa.Table:
    names = frame.common_attributes(measurements)
    made = fused([as_array(frame.table.column(name)) for name in measurements], names)
    return _replace_alternatives(frame, made.field(0)).append_column(CONFLICT, made.field(1))


def _replace_alternatives(
    frame: ArrowFrame, made: pa.Array, filtered_by: str | None = None
) -> pa.Table:
    """Return the table with new alternatives. filtered_by : the filter that removed some"""
    if not frame.uncertain:
        return frame.table.append_column(ALTERNATIVES, made)
    place = frame.columns.index(ALTERNATIVES)
    field = frame.schema.field(place)
    if filtered_by is not None:
        field = field.with_metadata(filtered_metadata(frame, filtered_by))
    return frame.table.set_column(place, field, made.cast(field.type))


def draw_worlds(frame: ArrowFrame, draw: Draw, name: str | None) -> pa.Table:
    reasons = draw.why_invalid(frame.table)
    counts = count_invalid("draw_worlds", frame.table.num_rows, reasons.counts())
    parts = [*draw.parts(frame.table.filter(pa.array(~reasons.invalid)))]
    result = table_of(parts, draw.outputs(frame))
    return with_record(result, [frame.table], "draw_worlds", name, {"_input": counts})


def merge_worlds(frame: ArrowFrame, merge: Merge) -> pa.Table:
    return table_of([merge.merge(frame.table)], merge.outputs(frame))


def assume_independent(frame: ArrowFrame, columns: Sequence[str]) -> pa.Table:
    """Implement `assume_independent` for a table: mark the columns."""
    table = frame.table
    for name in columns:
        place, metadata = frame.columns.index(name), frame.metadata(name)
        field = frame.schema.field(place).with_metadata({**metadata, ASSUMED_KEY: "true"})
        table = table.set_column(place, field, table.column(place))
    return table


def union(df: ArrowFrame, other: ArrowFrame, metadata: Mapping[str, Mapping[str, str]]) -> pa.Table:
    """Implement `union` for tables. metadata : of the result's columns"""
    fields = []
    for name in df.columns:
        types = (frame.type(name) for frame in (df, other))
        kind = next((of for of in types if not pa.types.is_null(of)), pa.null())
        fields.append(pa.field(name, kind, metadata=metadata[name] or None))
    parts = []
    for frame in (df, other):
        given = ((as_array(frame.table.column(of.name)), of.type) for of in fields)
        cells = [cast_renamed(column, kind) for column, kind in given]
        parts.append(pa.table(cells, pa.schema(fields)))
    return pa.concat_tables(parts)


def concatenate(parts: Sequence[tuple[Any, Mapping[str, str]]]) -> pa.Table:
    """Return the union of results, each with leading columns of constant strings."""
    given, tables = [frame_of(part).table for part, _ in parts], []
    for table, (_, texts) in zip(given, parts, strict=True):
        labels = [pa.repeat(text, table.num_rows) for text in texts.values()]
        schema = pa.schema([*((name, pa.string()) for name in texts), *table.schema])
        tables.append(pa.table([*labels, *table.columns], schema))
    return with_records(pa.concat_tables(tables), given)


def impute(
    frame: ArrowFrame, settings: ImputationSettings, imputer: RepositoryImputer, name: str | None
) -> pa.Table:
    wanted = frame.resolve("attributes", list(settings.names))
    values, texts = imputer.values_of([_cells(frame, column) for column in wanted])
    existence = keys = None
    if settings.key:
        keys = frame.table.select(frame.resolve("key", list(settings.key)))
    if "existence" in frame.columns:
        existence = floats_of(as_doubles(frame.table.column("existence"), "`existence`"))
    parts = [part for _, part in impute_table(imputer, values, existence, keys, texts)]
    added_columns = table_of(parts, imputed_outputs(settings.attributes, imputer.categories, frame))
    result = frame.table
    for column in (ALTERNATIVES, IMPUTED_BY):
        cells = added_columns.column(column).combine_chunks()
        result = result.append_column(added_columns.schema.field(column), cells)
    by = added_columns.column(IMPUTED_BY)
    unimputable = by.filter(added_columns.column(ALTERNATIVES).is_null()).value_counts()
    reasons = {str(reason["values"]): reason["counts"] for reason in unimputable.to_pylist()}
    warn_of_invalid("impute", frame.table.num_rows, reasons)
    counts = {"rows": frame.table.num_rows, **count_imputed(added_columns)}
    return with_record(result, [frame.table], "impute", name, {"": counts})


def _cells(frame: ArrowFrame, name: str, of: str = "") -> pa.ChunkedArray | pa.Array:
    column = frame.table.column(name)
    return column if frame.kind(name) == "text" else as_doubles(column, f"{of}`{name}`")


def read_parquet(path: str | Path) -> ArrowFrame:
    """Read the Parquet data at a path. Raises ValueError if there is none."""
    from pyarrow import dataset

    if "://" not in str(path) and not Path(path).exists():
        raise ValueError(
            "`repository` must be a table or the path of Parquet data; no such file or folder: "
            f"{str(path)!r}"
        )
    return frame_of(dataset.dataset(str(path), format="parquet").to_table(), "repository")


def rows_of(frame: ArrowFrame, wanted: Sequence[str], key: Sequence[str]) -> pa.Table:
    """Return a repository's columns, renamed: `wanted` as doubles or strings, and `key`."""
    columns = frame.resolve("repository", list(wanted))
    found = [_cells(frame, of, "repository: ") for of in columns]
    found += [frame.table.column(of) for of in frame.resolve("repository", list(key))]
    return pa.table(found, names=[*wanted, *key])


def complete_rows(
    frame: ArrowFrame, asked: Sequence[str], max_rows: int, seed: int
) -> tuple[pa.Table, AttributeRanges] | None:
    """Return at most `max_rows` complete rows of finite numbers, and the columns' ranges.

    The ranges are over all complete rows. Returns None for fewer than two rows or columns.
    """
    columns = dict(zip(asked, frame.resolve("attributes", asked), strict=True))
    numbers = {name: as_doubles(frame.table.column(of), f"`{of}`") for name, of in columns.items()}
    finite = {name: np.isfinite(floats_of(column)) for name, column in numbers.items()}
    known = {name: int(np.count_nonzero(each)) for name, each in finite.items()}
    wanted = valued_columns(asked, known)
    whole = np.ones(frame.table.num_rows, np.bool_)
    for name in wanted:
        whole &= finite[name]
    rows = pa.table([numbers[name] for name in wanted], names=wanted).filter(pa.array(whole))
    warn_of_gaps(wanted, known, whole.size, rows.num_rows)
    if rows.num_rows < 2 or len(wanted) < 2:
        return None
    extents = {}
    for name in wanted:
        values = floats_of(rows.column(name).combine_chunks())
        extents[name] = float(values.min()), float(values.max() - values.min()) or 1.0
    if rows.num_rows <= max_rows:
        return rows, extents
    seeds = pa.array(np.full(rows.num_rows, seed, np.int32))
    hashes = ties_of(rows.add_column(0, "__seed", seeds)).to_numpy()
    return rows.take(pa.array(np.argsort(hashes, kind="stable")[:max_rows])), extents
