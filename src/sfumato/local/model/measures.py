"""Numbers that are read off uncertain tuples: existence, mean, standard deviation, quantiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.local.model.columns import array_of, field_of, folded
from sfumato.local.model.frame import frame_of
from sfumato.operators.arrays import offsets_of
from sfumato.operators.laws.poisson_binomial import EXCESS
from sfumato.tables.reading.tuples import ALTERNATIVES, Tuples
from sfumato.tables.reading.types import as_doubles, floats_of


def existence(column: Any) -> pa.Array:
    """Probability that the tuple exists: Σ prob over its alternatives, at most 1.

    column : the alternatives, or a table with the column `alternatives`
    The rule of all operators, see `sfumato.existence`; NULL where the alternatives are NULL or
    their probabilities invalid.
    """
    tuples = _tuples(column)
    exists = existence_of(tuples)
    return _nullable(exists, tuples, tuples.fields["prob"], lacking=np.isnan(exists))


def expected(attribute: str, column: Any, *, conditional: bool = False) -> pa.Array:
    """Expected value of an attribute: Σ prob · attribute, an absent tuple counting as 0.

    column : the alternatives, or a table with the column `alternatives`
    conditional : divide by the existence, which gives the mean given that the tuple exists
    """
    _check_attribute("expected(attribute, table)", attribute)
    tuples = _tuples(column)
    values = field_of(tuples.flat, attribute)
    mean = _mean(tuples, attribute, existence_of(tuples) if conditional else None)
    lacking = ~(existence_of(tuples) > 0.0) if conditional else None
    return _nullable(mean, tuples, tuples.fields["prob"], values, lacking=lacking)


def stddev(attribute: str, column: Any, *, conditional: bool = False) -> pa.Array:
    """Standard deviation of an attribute, an absent tuple counting as 0.

    column : the alternatives, or a table with the column `alternatives`
    conditional : of the attribute given that the tuple exists
    """
    _check_attribute("stddev(attribute, table)", attribute)
    tuples = _tuples(column)
    exists = existence_of(tuples)
    mean = _mean(tuples, attribute, exists if conditional else None)
    prob, values = _doubles(tuples, "prob"), _doubles(tuples, attribute)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        off = values - mean[tuples.owner]
        spread = np.bincount(tuples.owner, prob * off * off, len(mean))
        variance = spread / exists if conditional else spread + (1.0 - exists) * mean * mean
        deviation = np.sqrt(variance)
    lacking = ~(exists > 0.0) if conditional else np.isnan(exists)
    of = field_of(tuples.flat, attribute)
    return _nullable(deviation, tuples, tuples.fields["prob"], of, lacking=lacking)


def quantile(attribute: str, q: float, column: Any) -> pa.Array:
    """The q-quantile of an attribute given that the tuple exists, see `sfumato.quantile`.

    column : the alternatives, or a table with the column `alternatives`
    q : in [0, 1]; 0 gives the smallest value, 1 the largest.  Raises ValueError for q out of range.
    """
    call = "quantile(attribute, q, table)"
    _check_attribute(call, attribute)
    if isinstance(q, bool) or not isinstance(q, int | float | np.number):
        raise TypeError(f"`q` must be a number: {call}; got {shown(q)}")
    if not 0 <= q <= 1:
        raise ValueError(f"`q` must lie in [0, 1]; got {q!r}")
    tuples = _tuples(column)
    values = field_of(tuples.flat, attribute)
    known = values.is_valid().to_numpy(zero_copy_only=False)
    numbers, prob = _doubles(tuples, attribute), _doubles(tuples, "prob")
    order = np.lexsort((prob, np.where(known, numbers, 0.0), known, tuples.owner))
    numbers, prob, known = numbers[order], prob[order], known[order]
    # Sums of a few dozen doubles differ by some ulps with their order; 1e-12 absorbs that.
    level = q * existence_of(tuples) - 1e-12
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


def _check_attribute(call: str, attribute: object) -> None:
    """Raise TypeError for an attribute that is not a name; the table comes last."""
    if not isinstance(attribute, str):
        raise TypeError(
            f"`attribute` must be the name of an attribute: {call}; got {shown(attribute)}"
        )


def shown(given: object) -> str:
    """Return a value for an error, and the type of what would fill a page."""
    plain = given is None or isinstance(given, str | int | float)
    return f"{given!r:.80}" if plain else type(given).__name__


def existence_of(tuples: Tuples) -> np.ndarray:
    """The existence of each tuple; NaN where its probabilities are invalid."""
    prob = _doubles(tuples, "prob")
    total, lost = folded(tuples.lengths, np.where((prob >= 0.0) & (prob <= 1.0), prob, np.nan))
    total, terms = total + lost, tuples.lengths
    total[total > 1.0 + EXCESS] = np.nan
    certain = (total > 1.0) | ((terms > 1) & (total >= 1.0 - terms * 2.0**-52))
    return np.where(certain, 1.0, total)


def _mean(tuples: Tuples, attribute: str, exists: np.ndarray | None) -> np.ndarray:
    """Σ prob · attribute of each row, divided by `exists` if there is one."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        weighed = _doubles(tuples, "prob") * _doubles(tuples, attribute)
        total = np.bincount(tuples.owner, weighed, len(tuples.lengths))
        return total if exists is None else total / exists


def _doubles(tuples: Tuples, attribute: str) -> np.ndarray:
    return floats_of(as_doubles(field_of(tuples.flat, attribute), f"`{attribute}`"))


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
        table = pa.table({ALTERNATIVES: array_of("column", column)})
        return Tuples(frame_of(table, "column").table)
    frame = frame_of(column, "column")
    if not frame.uncertain:
        raise ValueError(
            f"`column` must have the column `{ALTERNATIVES}`; it has {', '.join(frame.columns)}"
        )
    return Tuples(frame.table.select([ALTERNATIVES]))


def _is_series(given: Any) -> bool:
    return type(given).__name__ == "Series"
