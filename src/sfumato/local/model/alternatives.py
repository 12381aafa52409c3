"""The uncertain tuple as Arrow columns: make alternatives, and read numbers off them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.error_points import standard_points
from sfumato.local.model.frame import frame_of
from sfumato.operators.arrays import offsets_of
from sfumato.tables.arrow import as_array, fields_of
from sfumato.tables.reading.expressions import found
from sfumato.tables.reading.tuples import ALTERNATIVES, Tuples
from sfumato.tables.reading.types import as_doubles, floats_of, is_list, lengths_of, spark_type

ROUNDED = 1e-6  # a sum of single-precision probabilities may pass 1 by so much


def alternatives(
    values: Any,
    prob: Any = None,
    attributes: str | Sequence[str] = "value",
    *,
    points: bool = False,
    normalize: bool = False,
) -> pa.Array:
    """Alternatives from lists of values and lists of their probabilities, `sfumato.alternatives`.

    values : a column (Arrow array, pandas or Polars series, list) of lists of numbers
        (`attributes`: the name they get); or of structs (`attributes`: the fields to take); or,
        with ``points=True``, of lists of coordinates (`attributes`: one name a coordinate)
    prob : a column of as many probabilities a row; None: `values` are structs with a field `prob`
    normalize : scale the probabilities so that they sum to 1; else only sums up to 1 + 1e-6 are
    Returns list<struct<prob: double, ATTR: double, ...>>, a column to append; NULL where a list is
    NULL. Where the lengths differ the missing parts are NULL, and `rejected` will show the row.
    Values of probability 0 are left out.

    Raises ValueError when `attributes` names nothing, TypeError for other columns.
    """
    named = [attributes] if isinstance(attributes, str) else list(attributes)
    if not named:
        raise ValueError("`attributes` must name at least one attribute; got none")
    given = _lists("values", values)
    if prob is None:
        return _as_they_are(given, normalize)
    weights = _lists("prob", prob)
    if len(given) != len(weights):
        raise ValueError(
            f"`values` and `prob` must have as many rows; got {len(given)} and {len(weights)}"
        )
    lacking = given.is_null().to_numpy(False) | weights.is_null().to_numpy(False)
    sizes = np.maximum(lengths_of(given), lengths_of(weights))
    sizes[lacking] = 0
    elements = _padded(given, sizes)
    columns = {"prob": as_doubles(_padded(weights, sizes), "`prob`")}
    for i, name in enumerate(named):
        part = elements
        if points:
            part = _coordinate(elements, i)
        elif not isinstance(attributes, str):
            part = _field(elements, name)
        columns[name] = as_doubles(part, f"`values`: `{name}`")
    return _summing_to_one(columns, sizes, lacking, normalize)


def _as_they_are(given: pa.Array, normalize: bool) -> pa.Array:
    """Alternatives of structs that have a field `prob`; their other fields are the attributes."""
    lacking, sizes = given.is_null().to_numpy(False), lengths_of(given)
    flat = given.flatten()
    fields = fields_of(flat) if pa.types.is_struct(flat.type) else {}
    of = found("prob", list(fields))
    if of is None:
        raise ValueError(
            "`values` must be structs with a field `prob` where `prob` is not given; got "
            f"{given.type}"
        )
    columns = {**fields, of: as_doubles(fields[of], "`prob`")}
    return _summing_to_one(
        {"prob" if name == of else name: column for name, column in columns.items()},
        sizes, lacking, normalize,
    )  # fmt: skip


def _summing_to_one(
    columns: dict[str, pa.Array], sizes: np.ndarray, lacking: np.ndarray, normalize: bool
) -> pa.Array:
    """Lists of structs of the columns, without those of probability 0; their sum is 1 where it has
    to be."""
    prob = columns["prob"]
    known = prob.is_valid().to_numpy(zero_copy_only=False)
    weights = floats_of(prob)
    some = ~known | (weights != 0.0)
    row = np.repeat(np.arange(len(sizes)), sizes)[some]
    sizes = np.bincount(row, minlength=len(sizes)).astype(np.int64)
    weights, known = weights[some], known[some]
    total, lost = _folded(sizes, weights)
    total = total + lost  # of unknown ones it is NaN, and scales nothing
    if normalize:
        wrong = np.bincount(row[~(weights > 0.0)], minlength=len(sizes)) > 0
        scales = (total > 0.0) & (total < np.inf) & ~wrong
    else:
        scales = (total > 1.0) & (total <= 1.0 + ROUNDED)
    scaled = weights / np.where(scales, total, 1.0)[row]
    places = pa.array(np.flatnonzero(some))
    parts = {name: column.take(places) for name, column in columns.items()}
    parts["prob"] = pa.array(scaled, pa.float64(), mask=~known)
    return _as_lists(pa.StructArray.from_arrays([*parts.values()], [*parts]), sizes, lacking)


def samples(
    mean: Any,
    sd: Any,
    n: int,
    distribution: str = "normal",
    attributes: str | Sequence[str] = "value",
) -> pa.Array:
    """`n` equally likely alternatives of a reading whose error is known, see `sfumato.samples`.

    mean : the reading, a column; for several attributes a list of columns
    sd : a number or a column; for several attributes one for each, or one for all
    """
    named = [attributes] if isinstance(attributes, str) else list(attributes)
    several = not isinstance(attributes, str)
    means = list(mean) if several else [mean]
    sds = list(sd) if several and isinstance(sd, list | tuple) else [sd] * len(means)
    if not len(named) == len(means) == len(sds):
        raise ValueError(
            "`mean`, `sd` and `attributes` must be of one length; "
            f"got {len(means)}, {len(sds)} and {len(named)}"
        )
    scores = standard_points(n, len(named), distribution)
    centres = [floats_of(as_doubles(_array("mean", m), "`mean`")) for m in means]
    rows = len(centres[0])
    widths = [_number_or_column(s, rows) for s in sds]
    lacking = np.zeros(rows, np.bool_)
    for column, of in [*zip(means, centres, strict=True), *zip(sds, widths, strict=True)]:
        if not isinstance(column, int | float):
            lacking |= _array("mean", column).is_null().to_numpy(False)
        assert len(of) == rows
    cells = [pa.array(np.full(rows * n, 1.0 / n))]
    for d, (centre, width) in enumerate(zip(centres, widths, strict=True)):
        cells.append(pa.array((centre[:, None] + width[:, None] * scores[None, :, d]).ravel()))
    flat = pa.StructArray.from_arrays(cells, ["prob", *named])
    flat = flat.filter(pa.array(np.repeat(~lacking, n)))
    return _as_lists(flat, np.where(lacking, 0, n), lacking)


def existence(column: Any) -> pa.Array:
    """Probability that the tuple exists: Σ prob over its alternatives, at most 1.

    column : the alternatives, or a table with the column `alternatives`
    The rule of all operators, see `sfumato.existence`; NULL where the alternatives are NULL.
    """
    tuples = _tuples(column)
    return _nullable(_existence(tuples), tuples, tuples.fields["prob"])


def expected(attribute: str, column: Any, *, conditional: bool = False) -> pa.Array:
    """Expected value of an attribute: Σ prob · attribute, an absent tuple counting as 0.

    column : the alternatives, or a table with the column `alternatives`
    conditional : divide by the existence, which gives the mean given that the tuple exists
    """
    tuples = _tuples(column)
    values = _field(tuples.flat, attribute)
    mean = _mean(tuples, attribute, _existence(tuples) if conditional else None)
    lacking = _existence(tuples) == 0.0 if conditional else None
    return _nullable(mean, tuples, tuples.fields["prob"], values, lacking=lacking)


def stddev(attribute: str, column: Any, *, conditional: bool = False) -> pa.Array:
    """Standard deviation of an attribute, an absent tuple counting as 0.

    column : the alternatives, or a table with the column `alternatives`
    conditional : of the attribute given that the tuple exists
    """
    tuples = _tuples(column)
    exists = _existence(tuples)
    mean = _mean(tuples, attribute, exists if conditional else None)
    prob, values = _doubles(tuples, "prob"), _doubles(tuples, attribute)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        off = values - mean[tuples.owner]
        spread = np.bincount(tuples.owner, prob * off * off, len(mean))
        variance = spread / exists if conditional else spread + (1.0 - exists) * mean * mean
        deviation = np.sqrt(variance)
    lacking = exists == 0.0 if conditional else None
    of = _field(tuples.flat, attribute)
    return _nullable(deviation, tuples, tuples.fields["prob"], of, lacking=lacking)


def quantile(attribute: str, q: float, column: Any) -> pa.Array:
    """The q-quantile of an attribute given that the tuple exists, see `sfumato.quantile`.

    column : the alternatives, or a table with the column `alternatives`
    q : in [0, 1]; 0 gives the smallest value, 1 the largest.  Raises ValueError for q out of range.
    """
    if not 0 <= q <= 1:
        raise ValueError(f"`q` must lie in [0, 1]; got {q!r}")
    tuples = _tuples(column)
    values = _field(tuples.flat, attribute)
    known = values.is_valid().to_numpy(zero_copy_only=False)
    numbers, prob = _doubles(tuples, attribute), _doubles(tuples, "prob")
    order = np.lexsort((prob, np.where(known, numbers, 0.0), known, tuples.owner))
    numbers, prob, known = numbers[order], prob[order], known[order]
    # Sums of a few dozen doubles differ by some ulps with their order; 1e-12 absorbs that.
    level = q * _existence(tuples) - 1e-12
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
    return pa.array(found, pa.float64(), mask=~has)


def _existence(tuples: Tuples) -> np.ndarray:
    total, lost = _folded(tuples.lengths, _doubles(tuples, "prob"))
    total, terms = total + lost, tuples.lengths
    certain = (total > 1.0) | ((terms > 1) & (total >= 1.0 - terms * 2.0**-52))
    return np.where(certain, 1.0, total)


def _mean(tuples: Tuples, attribute: str, exists: np.ndarray | None) -> np.ndarray:
    """Σ prob · attribute of each row, divided by `exists` if there is one."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        weighed = _doubles(tuples, "prob") * _doubles(tuples, attribute)
        total = np.bincount(tuples.owner, weighed, len(tuples.lengths))
        return total if exists is None else total / exists


def _doubles(tuples: Tuples, attribute: str) -> np.ndarray:
    return floats_of(as_doubles(_field(tuples.flat, attribute), f"`{attribute}`"))


def _folded(lengths: np.ndarray, terms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(sum, what roundings lost of it) of each row's terms, one after the other (Neumaier)."""
    total, lost = np.zeros(len(lengths)), np.zeros(len(lengths))
    starts = offsets_of(lengths)[:-1]
    for j in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(lengths > j)
        term, before = terms[starts[rows] + j], total[rows]
        larger = before + term
        low, high = np.minimum(before, term), np.maximum(before, term)
        total[rows] = larger
        lost[rows] += (high - larger) + low
    return total, lost


def _nullable(
    numbers: np.ndarray, tuples: Tuples, *of: pa.Array, lacking: np.ndarray | None = None
) -> pa.Array:
    """Numbers of rows; NULL where the alternatives, or one of the values they are `of`, are NULL,
    and where they are `lacking`."""
    mask = tuples.column.is_null().to_numpy(zero_copy_only=False)
    for column in of:
        mask[tuples.owner[column.is_null().to_numpy(zero_copy_only=False)]] = True
    if lacking is not None:
        mask |= lacking
    return pa.array(numbers, pa.float64(), mask=mask)


def _tuples(column: Any) -> Tuples:
    if isinstance(column, list | pa.Array | pa.ChunkedArray) or _is_series(column):
        return Tuples(frame_of(pa.table({ALTERNATIVES: _array("column", column)}), "column").table)
    frame = frame_of(column, "column")
    if not frame.uncertain:
        raise ValueError(
            f"`column` must have the column `{ALTERNATIVES}`; it has {', '.join(frame.columns)}"
        )
    return Tuples(frame.table.select([ALTERNATIVES]))


def _is_series(given: Any) -> bool:
    return type(given).__name__ == "Series"


def _array(argument: str, given: Any) -> pa.Array:
    """A column as one array of a type that Spark has."""
    if isinstance(given, pa.Array | pa.ChunkedArray):
        array = as_array(given)
    elif hasattr(given, "__arrow_c_stream__"):
        array = as_array(pa.chunked_array(given))
    else:
        try:
            array = as_array(pa.array(given))
        except (pa.ArrowInvalid, TypeError) as error:
            raise TypeError(f"`{argument}` must be a column; got {given!r:.80}: {error}") from None
    kind = spark_type(array.type)
    return array if array.type == kind else as_array(array.cast(kind))


def _lists(argument: str, given: Any) -> pa.Array:
    array = _array(argument, given)
    if not is_list(array.type):
        raise TypeError(f"`{argument}` must be a column of lists; got {array.type}")
    return array


def _padded(lists: pa.Array, sizes: np.ndarray) -> pa.Array:
    """The elements of lists, with NULLs behind where a list is shorter than its size."""
    offsets = offsets_of(lengths_of(lists))
    row = np.repeat(np.arange(len(sizes)), sizes)
    number = np.arange(len(row)) - np.repeat(offsets_of(sizes)[:-1], sizes)
    there = number < np.diff(offsets)[row]
    places = pa.array(offsets[row] + number, pa.int64(), mask=~there)
    return as_array(lists.flatten().take(places))


def _coordinate(elements: pa.Array, i: int) -> pa.Array:
    if not is_list(elements.type):
        raise TypeError(f"`values` must hold lists of coordinates; got {elements.type}")
    there = lengths_of(elements) > i
    places = offsets_of(lengths_of(elements))[:-1] + i
    return as_array(elements.flatten().take(pa.array(places, pa.int64(), mask=~there)))


def _field(elements: pa.Array, name: str) -> pa.Array:
    fields = fields_of(elements) if pa.types.is_struct(elements.type) else {}
    of = found(name, list(fields))
    if of is None:
        raise ValueError(f"`{name}` is none of the fields; they are {', '.join(fields) or 'none'}")
    return fields[of]


def _as_lists(flat: pa.Array, sizes: np.ndarray, lacking: np.ndarray) -> pa.Array:
    offsets = pa.array(offsets_of(sizes), pa.int32())
    mask = pa.array(lacking) if lacking.any() else None
    return pa.ListArray.from_arrays(offsets, flat, mask=mask)


def _number_or_column(given: Any, rows: int) -> np.ndarray:
    if isinstance(given, int | float):
        return np.full(rows, float(given))
    return floats_of(as_doubles(_array("sd", given), "`sd`"))
