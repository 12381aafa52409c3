"""Uncertain tuples as an Arrow column: construction and statistics."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.limits import alternatives_bound_in_memory
from sfumato.memory.frame import frame_of
from sfumato.operators.arguments import RESCALED_SUM_TOLERANCE
from sfumato.operators.arrays import offsets_of
from sfumato.tables.arrow import as_array, fields_of
from sfumato.tables.reading.alternatives import compensated_sums, existence_of, lists_of_lengths
from sfumato.tables.reading.expressions import find_name
from sfumato.tables.reading.tuples import ALTERNATIVES, WANTED_PROB, UncertainTable, wanted_values
from sfumato.tables.reading.types import as_doubles, floats_of, is_list, lengths_of, spark_type


def alternatives(
    values: Any, prob: Any, attributes: str | Sequence[str] | None, points: bool, normalize: bool
) -> pa.Array:
    named = [attributes] if isinstance(attributes, str) else list(attributes or ("value",))
    field = "prob" if prob is None else prob if isinstance(prob, str) else None
    several = None if attributes is None or isinstance(attributes, str) else named
    wanted = wanted_values(field, several, points)
    given = lists_of("values", values, wanted)
    if field is not None:
        return _from_structs(given, field, None if attributes is None else named, normalize)
    weights = lists_of("prob", prob, WANTED_PROB)
    if len(given) != len(weights):
        raise ValueError(
            "`values` and `prob` must have the same number of rows; "
            f"got {len(given)} and {len(weights)}"
        )
    missing = given.is_null().to_numpy(False) | weights.is_null().to_numpy(False)
    sizes = np.maximum(lengths_of(given), lengths_of(weights))
    sizes[missing] = 0
    elements = _pad_lists(given, sizes)
    if not _fits(elements.type, several, points):
        raise TypeError(f"{wanted}; got {given.type}")
    if pa.types.is_nested(weights.type.value_type):
        raise TypeError(f"{WANTED_PROB}; got {weights.type}")
    columns = {"prob": as_doubles(_pad_lists(weights, sizes), "`prob`")}
    for i, name in enumerate(named):
        part = elements
        if points:
            part = _coordinate(elements, i)
        elif several is not None:
            part = field_of(elements, name)
        columns[name] = as_doubles(part, f"`values`: `{name}`")
    return _summing_to_one(columns, sizes, missing, normalize)


def _fits(kind: pa.DataType, several: Sequence[str] | None, points: bool) -> bool:
    """Return whether elements of a type can be alternatives."""
    if points:
        return is_list(kind)
    return not pa.types.is_nested(kind) if several is None else pa.types.is_struct(kind)


def _from_structs(
    given: pa.Array, field: str, wanted: Sequence[str] | None, normalize: bool
) -> pa.Array:
    """Return alternatives from structs with the probability `field` and the attributes `wanted`."""
    missing, sizes = given.is_null().to_numpy(False), lengths_of(given)
    flat = given.flatten()
    if pa.types.is_null(flat.type):
        raise TypeError(
            "`values` has no value, so its type is unknown: pandas keeps no type for such a "
            "column. Use an Arrow or Polars table, or a frame that has a value"
        )
    if not pa.types.is_struct(flat.type):
        raise TypeError(f"{wanted_values(field, None, False)}; got {given.type}")
    fields = fields_of(flat)
    of = find_name(field, list(fields))
    if of is None:
        own = find_name(field.rpartition(".")[2], list(fields))
        hint = "" if own is None else f'. Write prob="{own}"'
        raise ValueError(
            f"`values` must be structs with a field `{field}`, or `prob` must be a separate "
            f"column; got {given.type}{hint}"
        )
    weights = as_doubles(fields[of], f"`{field}`")
    if wanted is not None:
        columns = {"prob": weights, **{name: field_of(flat, name) for name in wanted}}
    elif field == "prob":
        columns = {"prob" if name == of else name: part for name, part in fields.items()}
        columns["prob"] = weights
    else:
        columns = {name: part for name, part in fields.items() if name != of}
        columns["prob"] = weights
    return _summing_to_one(columns, sizes, missing, normalize)


def _summing_to_one(
    columns: dict[str, pa.Array], sizes: np.ndarray, missing: np.ndarray, normalize: bool
) -> pa.Array:
    """Return the columns as lists of structs, without probability 0, scaled to 1 if required."""
    prob = columns["prob"]
    known = prob.is_valid().to_numpy(zero_copy_only=False)
    weights = floats_of(prob)
    some = ~known | (weights != 0.0)
    row = np.repeat(np.arange(len(sizes)), sizes)[some]
    sizes = np.bincount(row, minlength=len(sizes)).astype(np.int64)
    weights, known = weights[some], known[some]
    total = compensated_sums(sizes, weights)  # NaN if some are unknown, which disables scaling
    if normalize:
        wrong = np.bincount(row[~(weights > 0.0)], minlength=len(sizes)) > 0
        scales = (total > 0.0) & (total < np.inf) & ~wrong
    else:
        scales = (total > 1.0) & (total <= 1.0 + RESCALED_SUM_TOLERANCE)
    scaled = weights / np.where(scales, total, 1.0)[row]
    places = pa.array(np.flatnonzero(some))
    parts = {name: column.take(places) for name, column in columns.items()}
    parts["prob"] = pa.array(scaled, pa.float64(), mask=~known)
    return lists_of_lengths(pa.StructArray.from_arrays([*parts.values()], [*parts]), sizes, missing)


max_alternatives = alternatives_bound_in_memory
EITHER = "a number or a column"


def samples(
    means: Sequence[Any],
    sds: Sequence[Any],
    points: np.ndarray,
    names: Sequence[str],
    period: float | None = None,
    called: tuple[str, str] = ("mean", "sd"),
) -> pa.Array:
    """Return columns of alternatives, see `samples`.

    points : float64[n, attributes], errors in standard deviations
    period : for a single reading that wraps; the attributes are then its cosine and sine
    called : the arguments that contain the means and the standard deviations, for errors
    """
    columns = [as_doubles(array_of(called[0], m), f"`{called[0]}`") for m in means]
    n, rows = len(points), len(columns[0])
    columns += [_number_or_column(called[1], s, rows) for s in sds]
    missing = np.zeros(rows, np.bool_)
    for column in columns:
        if len(column) != rows:
            raise ValueError(
                f"`{called[0]}` and `{called[1]}` must have the same number of values; got "
                f"{rows} and {len(column)}"
            )
        missing |= column.is_null().to_numpy(False)
    numbers = [*map(floats_of, columns)]
    centres, widths = numbers[: len(means)], numbers[len(means) :]
    for width in widths:
        missing |= width < 0.0
    cells = [
        (centre[:, None] + width[:, None] * points[None, :, d]).ravel()
        for d, (centre, width) in enumerate(zip(centres, widths, strict=True))
    ]
    if period is not None:
        turn = cells[0] * (2.0 * np.pi / period)
        cells = [np.cos(turn), np.sin(turn)]
    parts = [pa.array(np.full(rows * n, 1.0 / n)), *map(pa.array, cells)]
    flat = pa.StructArray.from_arrays(parts, ["prob", *names])
    flat = flat.filter(pa.array(np.repeat(~missing, n)))
    return lists_of_lengths(flat, np.where(missing, 0, n), missing)


def middle_and_half_width(low: Any, high: Any) -> tuple[pa.Array, pa.Array]:
    """Return the middles of intervals, and half their lengths."""
    ends = [
        float(x) if isinstance(x, int | float) else as_doubles(array_of(of, x, EITHER), f"`{of}`")
        for of, x in (("low", low), ("high", high))
    ]
    sizes = [len(end) for end in ends if not isinstance(end, float)]
    if len(set(sizes)) > 1:
        raise ValueError(
            f"`low` and `high` must have the same number of values; got {sizes[0]} and {sizes[1]}"
        )
    start, end = (pc.multiply(end, 0.5) for end in ends)
    return pc.add(start, end), pc.subtract(end, start)


def _pad_lists(lists: pa.Array, sizes: np.ndarray) -> pa.Array:
    """Return the elements of lists, padded with NULLs to the given sizes."""
    offsets = offsets_of(lengths_of(lists))
    row = np.repeat(np.arange(len(sizes)), sizes)
    number = np.arange(len(row)) - np.repeat(offsets_of(sizes)[:-1], sizes)
    there = number < np.diff(offsets)[row]
    places = pa.array(offsets[row] + number, pa.int64(), mask=~there)
    return as_array(lists.flatten().take(places))


def _coordinate(elements: pa.Array, i: int) -> pa.Array:
    there = lengths_of(elements) > i
    places = offsets_of(lengths_of(elements))[:-1] + i
    return as_array(elements.flatten().take(pa.array(places, pa.int64(), mask=~there)))


def _number_or_column(argument: str, given: Any, rows: int) -> pa.Array:
    if isinstance(given, int | float):
        return pa.array(np.full(rows, float(given)))
    return as_doubles(array_of(argument, given, EITHER), f"`{argument}`")


def existence(column: Any) -> pa.Array:
    tuples = _tuples(column)
    exists = existence_of(tuples)
    return _nullable(exists, tuples, missing=np.isnan(exists))


def expected(attribute: str, column: Any, *, conditional: bool = False) -> pa.Array:
    tuples = _tuples(column)
    exists = existence_of(tuples) if conditional else None
    missing = None if exists is None else ~(exists > 0.0)
    return _nullable(_mean(tuples, attribute, exists), tuples, attribute, missing=missing)


def stddev(attribute: str, column: Any, *, conditional: bool = False) -> pa.Array:
    tuples = _tuples(column)
    exists = existence_of(tuples)
    mean = _mean(tuples, attribute, exists if conditional else None)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        off = _doubles(tuples, attribute) - mean[tuples.owner]
        spread = np.bincount(tuples.owner, _doubles(tuples, "prob") * off * off, len(mean))
        variance = spread / exists if conditional else spread + (1.0 - exists) * mean * mean
        deviation = np.sqrt(variance)
    missing = ~(exists > 0.0) if conditional else np.isnan(exists)
    return _nullable(deviation, tuples, attribute, missing=missing)


def quantile(attribute: str, q: float, column: Any) -> pa.Array:
    tuples = _tuples(column)
    values = field_of(tuples.flat, attribute)
    known = values.is_valid().to_numpy(zero_copy_only=False)
    numbers, prob = _doubles(tuples, attribute), _doubles(tuples, "prob")
    order = np.lexsort((prob, np.where(known, numbers, 0.0), known, tuples.owner))
    numbers, prob, known = numbers[order], prob[order], known[order]
    # The sum of a few dozen doubles varies by some ulps with their order; 1e-12 covers this.
    level = q * (1.0 - 1e-12) * existence_of(tuples)
    rows = len(tuples.lengths)
    mass, found, has = np.zeros(rows), np.full(rows, np.nan), np.zeros(rows, np.bool_)
    starts = offsets_of(tuples.lengths)[:-1]
    for j in range(int(tuples.lengths.max(initial=0))):
        of = np.flatnonzero(tuples.lengths > j)
        place = starts[of] + j
        reached = (mass[of] >= level[of]) & has[of]
        found[of] = np.where(reached, found[of], numbers[place])
        has[of] = np.where(reached, has[of], known[place])
        mass[of] += prob[place]
    return pa.array(found, pa.float64(), mask=~has | np.isnan(level))


def _mean(tuples: UncertainTable, attribute: str, exists: np.ndarray | None) -> np.ndarray:
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        weighed = _doubles(tuples, "prob") * _doubles(tuples, attribute)
        total = np.bincount(tuples.owner, weighed, len(tuples.lengths))
        return total if exists is None else total / exists


def _doubles(tuples: UncertainTable, attribute: str) -> np.ndarray:
    return floats_of(as_doubles(field_of(tuples.flat, attribute), f"`{attribute}`"))


def _nullable(
    numbers: np.ndarray, tuples: UncertainTable, *attributes: str, missing: np.ndarray | None
) -> pa.Array:
    """Return one number per row, or NULL where `missing` or where an input is NULL."""
    mask = tuples.column.is_null().to_numpy(zero_copy_only=False)
    for name in ("prob", *attributes):
        unknown = field_of(tuples.flat, name).is_null().to_numpy(zero_copy_only=False)
        mask[tuples.owner[unknown]] = True
    return pa.array(numbers, pa.float64(), mask=mask if missing is None else mask | missing)


def _tuples(column: Any) -> UncertainTable:
    if isinstance(column, list | pa.Array | pa.ChunkedArray) or type(column).__name__ == "Series":
        table = pa.table({ALTERNATIVES: array_of("column", column)})
        return UncertainTable(frame_of(table, "column").table)
    frame = frame_of(column, "column")
    if not frame.uncertain:
        raise ValueError(
            f"the table in `column` must have the column `{ALTERNATIVES}`; its columns are "
            f"{', '.join(frame.columns)}"
        )
    return UncertainTable(frame.table.select([ALTERNATIVES]))


# ---- columns given by users ----------------------------------------------------------------------


def array_of(argument: str, given: Any, wanted: str = "a column") -> pa.Array:
    """Return a column as one array of a type that Spark supports. wanted : for errors"""
    if isinstance(given, pa.Array | pa.ChunkedArray):
        array = as_array(given)
    elif hasattr(given, "__arrow_c_stream__"):
        array = as_array(pa.chunked_array(given))
    else:
        try:
            array = as_array(pa.array(given))
        except (pa.ArrowInvalid, TypeError) as error:
            why = f" ({error})" if isinstance(given, Iterable) else ""
            raise TypeError(f"`{argument}` must be {wanted}; got {given!r:.80}{why}") from None
    kind = spark_type(array.type)
    return array if array.type == kind else as_array(array.cast(kind))


def lists_of(argument: str, given: Any, wanted: str) -> pa.Array:
    """Return a column of lists; the rows of a matrix become lists."""
    if isinstance(given, np.ndarray) and given.ndim == 2:
        given = list(given)
    rows = given if isinstance(given, Iterable) else ()
    first = next((row for row in rows if row is not None), None)
    if isinstance(first, Mapping) and "distribution" in first:  # the result of an aggregate
        raise TypeError(
            f"{wanted}; got results of an aggregate: give their distributions, "
            'df["total"].str["distribution"] in pandas, '
            'df["total"].struct.field("distribution") in Polars'
        )
    if isinstance(first, Mapping):
        of_dicts = "[list(d) for d in column], [list(d.values()) for d in column]"
        raise TypeError(f"{wanted}; got dicts. Write alternatives({of_dicts})")
    array = array_of(argument, given)
    if not is_list(array.type):
        raise TypeError(f"{wanted}; got {array.type!s:.80}")
    return array


def field_of(elements: pa.Array, name: str) -> pa.Array:
    fields = fields_of(elements) if pa.types.is_struct(elements.type) else {}
    of = find_name(name, list(fields))
    if of is None:
        raise ValueError(
            f"there is no field `{name}`; the fields are {', '.join(fields) or 'none'}"
        )
    return fields[of]
