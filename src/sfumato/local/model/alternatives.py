"""The uncertain tuple as an Arrow column: alternatives of values or of samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.error_points import standard_points
from sfumato.limits import alternatives_bound_in_memory, check_alternatives
from sfumato.local.model.columns import array_of, field_of, folded, lists_of
from sfumato.operators.arrays import offsets_of
from sfumato.operators.laws.poisson_binomial import ROUNDED
from sfumato.tables.arrow import as_array, fields_of
from sfumato.tables.reading.expressions import found
from sfumato.tables.reading.types import as_doubles, floats_of, is_list, lengths_of
from sfumato.tables.reading.wanted_values import WANTED_PROB, wanted_values


def alternatives(
    values: Any,
    prob: Any = None,
    attributes: str | Sequence[str] | None = None,
    *,
    points: bool = False,
    normalize: bool = False,
) -> pa.Array:
    """Alternatives from lists of values and lists of their probabilities, `sfumato.alternatives`.

    values : a column (Arrow array, pandas or Polars series, list, matrix) of lists of numbers
        (`attributes`: the name they get, by default `value`); or of structs (`attributes`: the
        fields to take); or, with ``points=True``, of lists of coordinates (`attributes`: one name a
        coordinate)
    prob : a column of as many probabilities a row; None: `values` are structs with a field `prob`;
        a name: with that field. Then their other fields are the attributes, as they are, unless
        `attributes` names some of them
    normalize : scale the probabilities so that they sum to 1; else only sums up to 1 + 1e-6 are
    Returns list<struct<prob: double, ATTR: double, ...>>, a column to append; NULL where a list is
    NULL. Where the lengths differ the missing parts are NULL, and `rejected` will show the row.
    Values of probability 0 are left out.

    Raises ValueError when `attributes` names nothing, TypeError for other columns.
    """
    named = [attributes] if isinstance(attributes, str) else list(attributes or ("value",))
    if attributes is not None and not attributes:
        raise ValueError("`attributes` must name at least one attribute; got none")
    field = "prob" if prob is None else prob if isinstance(prob, str) else None
    several = None if attributes is None or isinstance(attributes, str) else named
    wanted = wanted_values(field, several, points)
    given = lists_of("values", values, wanted)
    if field is not None:
        return _as_they_are(given, field, None if attributes is None else named, normalize)
    weights = lists_of("prob", prob, WANTED_PROB)
    if len(given) != len(weights):
        raise ValueError(
            f"`values` and `prob` must have as many rows; got {len(given)} and {len(weights)}"
        )
    lacking = given.is_null().to_numpy(False) | weights.is_null().to_numpy(False)
    sizes = np.maximum(lengths_of(given), lengths_of(weights))
    sizes[lacking] = 0
    elements = _padded(given, sizes)
    if not _fits(elements.type, several, points):
        raise TypeError(f"{wanted}; got {given.type}")
    if pa.types.is_nested(weights.type.value_type):
        raise TypeError(f"{WANTED_PROB}; got {weights.type}")
    columns = {"prob": as_doubles(_padded(weights, sizes), "`prob`")}
    for i, name in enumerate(named):
        part = elements
        if points:
            part = _coordinate(elements, i)
        elif several is not None:
            part = field_of(elements, name)
        columns[name] = as_doubles(part, f"`values`: `{name}`")
    return _summing_to_one(columns, sizes, lacking, normalize)


def _fits(kind: pa.DataType, several: Sequence[str] | None, points: bool) -> bool:
    """Whether values of a type are what `alternatives` is to take apart, or to take as numbers."""
    if points:
        return is_list(kind)
    return not pa.types.is_nested(kind) if several is None else pa.types.is_struct(kind)


def _as_they_are(
    given: pa.Array, field: str, wanted: Sequence[str] | None, normalize: bool
) -> pa.Array:
    """Alternatives of structs: `field` is the probability, other ones the attributes (`wanted`)."""
    lacking, sizes = given.is_null().to_numpy(False), lengths_of(given)
    flat = given.flatten()
    if not pa.types.is_struct(flat.type):
        raise TypeError(f"{wanted_values(field, None, False)}; got {given.type}")
    fields = fields_of(flat)
    of = found(field, list(fields))
    if of is None:
        raise ValueError(
            f"`values` must be structs with a field `{field}`, or `prob` a column of its own; got "
            f"{given.type}"
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
    return _summing_to_one(columns, sizes, lacking, normalize)


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
    total, lost = folded(sizes, weights)
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
    sd : a number or a column; for several attributes one for each, or one for all. A row whose sd
        is negative has no alternatives and is invalid
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
    if isinstance(n, int):
        check_alternatives("n", n, alternatives_bound_in_memory())
    scores = standard_points(n, len(named), distribution)
    centres = [floats_of(as_doubles(array_of("mean", m), "`mean`")) for m in means]
    rows = len(centres[0])
    widths = [_number_or_column(s, rows) for s in sds]
    lacking = np.zeros(rows, np.bool_)
    for width in widths:
        lacking |= width < 0.0
    for column, of in [*zip(means, centres, strict=True), *zip(sds, widths, strict=True)]:
        if not isinstance(column, int | float):
            lacking |= array_of("mean", column).is_null().to_numpy(False)
        assert len(of) == rows
    cells = [pa.array(np.full(rows * n, 1.0 / n))]
    for d, (centre, width) in enumerate(zip(centres, widths, strict=True)):
        cells.append(pa.array((centre[:, None] + width[:, None] * scores[None, :, d]).ravel()))
    flat = pa.StructArray.from_arrays(cells, ["prob", *named])
    flat = flat.filter(pa.array(np.repeat(~lacking, n)))
    return _as_lists(flat, np.where(lacking, 0, n), lacking)


def _padded(lists: pa.Array, sizes: np.ndarray) -> pa.Array:
    """The elements of lists, with NULLs behind where a list is shorter than its size."""
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


def _as_lists(flat: pa.Array, sizes: np.ndarray, lacking: np.ndarray) -> pa.Array:
    offsets = pa.array(offsets_of(sizes), pa.int32())
    mask = pa.array(lacking) if lacking.any() else None
    return pa.ListArray.from_arrays(offsets, flat, mask=mask)


def _number_or_column(given: Any, rows: int) -> np.ndarray:
    if isinstance(given, int | float):
        return np.full(rows, float(given))
    return floats_of(as_doubles(array_of("sd", given), "`sd`"))
