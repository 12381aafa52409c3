"""Why a row is invalid: what is wrong with its alternatives, existence or values."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sfumato.limits import alternatives_bound_in_memory, too_many
from sfumato.near_misses import did_you_mean
from sfumato.operators.arguments import EXCESS, ROUNDED
from sfumato.operators.arrays import Bools
from sfumato.tables.arrow import as_array
from sfumato.tables.reading.tuples import Tuples
from sfumato.tables.reading.types import as_doubles, floats_of, is_number

# The reasons, here and for Spark's columns.
NO_EXISTENCE = "existence is not a number in [0, 1]"
NO_ALTERNATIVES = "no alternatives"
NULL_ALTERNATIVE = "an alternative is NULL"
NO_PROBABILITY = "an alternative's prob is not a number in (0, 1]"
ABOVE_ONE = "the probabilities sum to "  # and then the sum
RULE_ABOVE_ONE = "with it the probabilities of its rule sum to "  # and then the sum


def no_attribute(name: str) -> str:
    """Return the reason of rows with an alternative without a value of an attribute."""
    return f"an alternative's {name} is missing or not finite"


def no_value(name: str) -> str:
    """Return the reason of rows without a value in a column."""
    return f"{name} is missing or not finite"


class Reasons:
    """The first reason of each row for which it is invalid.

    number : int32[n], of the row's text; -1: it is valid
    """

    def __init__(self, rows: int) -> None:
        self.texts: list[str] = []
        self.number = np.full(rows, -1, np.int32)

    @property
    def invalid(self) -> Bools:
        """bool[n]: rows with a reason."""
        return self.number >= 0

    def add(self, wrong: Bools, text: str) -> None:
        """Add a reason of rows; those that have one already keep it."""
        fresh = wrong & (self.number < 0)
        if fresh.any():
            self.number[fresh] = len(self.texts)
            self.texts.append(text)

    def counts(self) -> dict[str, int]:
        """Count the rows of each reason."""
        found: dict[str, int] = {}
        of_each = np.bincount(self.number[self.invalid], minlength=len(self.texts)).tolist()
        for text, count in zip(self.texts, of_each, strict=True):
            if count:
                found[text] = found.get(text, 0) + count
        return found

    def column(self) -> pa.Array:
        """Return the reasons as text, NULL for valid rows."""
        texts = pa.array(self.texts, pa.string())
        return texts.take(pa.array(self.number, pa.int32(), mask=self.number < 0))


Bounds = Sequence[tuple[str, float, str]]  # attribute, greatest size, why a larger one is wrong


def why_invalid(
    table: pa.Table | Tuples,
    attributes: Sequence[str] | None,
    existence: str | None = "existence",
    bounds: Bounds = (),
    max_alternatives: int | None = None,
) -> Reasons:
    """Return what is wrong with the rows' alternatives, or with their existence and values.

    attributes : must be present and, if they are numbers, finite; None: all of the alternatives,
        no column
    existence : of a table without alternatives the column of probabilities, if it has it
    bounds : of some of these attributes, which are numbers
    max_alternatives : of a row; None: the bound of tables in memory
    Raises ValueError for unknown attributes.
    """
    tuples = table if isinstance(table, Tuples) else Tuples(table)
    columns, reasons = tuples.table, Reasons(tuples.table.num_rows)
    if tuples.uncertain:
        wanted = tuples.attributes if attributes is None else attributes
        for name in wanted:
            if name not in tuples.attributes:
                raise ValueError(
                    f"`attributes` names `{name}`, which the alternatives lack; they have "
                    f"{tuples.attributes}{did_you_mean(name, tuples.attributes)}"
                )
        bound = alternatives_bound_in_memory() if max_alternatives is None else max_alternatives
        _add_of_alternatives(tuples, wanted, bounds, reasons, bound)
        return reasons
    if existence is not None and existence in columns.column_names:
        exists = floats_of(as_doubles(columns.column(existence), f"`{existence}`"))
        reasons.add(~((exists >= 0.0) & (exists <= 1.0 + ROUNDED)), NO_EXISTENCE)  # 0: absent
    for name in attributes or ():
        reasons.add(_missing(as_array(columns.column(name))), no_value(name))
    for name, most, text in bounds:
        reasons.add(_beyond(as_array(columns.column(name)), most), text)
    return reasons


def require_order(order: object) -> None:
    """Raise ValueError for `rules` without an order of the rows."""
    if not order:
        raise ValueError(
            "`exclusive` needs `order`: of the rows of a rule the later ones are left out"
        )


def add_of_rules(
    reasons: Reasons, existence: np.ndarray, rule: Sequence[object], order: np.ndarray
) -> None:
    """Add the rows with which the probabilities of their rule sum to more than 1.

    existence : float64[n]    rule : of each row, or None
    order : int64[n], the rows in order of arrival. A row that is left out does not count.
    """
    mass: dict[object, float] = {}
    texts: dict[str, list[int]] = {}
    for i in order.tolist():
        if rule[i] is None or reasons.number[i] >= 0:
            continue
        total = mass.get(rule[i], 0.0) + float(existence[i])
        if total <= 1.0 + EXCESS:
            mass[rule[i]] = total
        else:
            text = RULE_ABOVE_ONE + java_text(total)
            texts.setdefault(text, []).append(i)
    for text, rows in texts.items():
        reasons.add(np.isin(np.arange(existence.size), rows), text)


def _add_of_alternatives(
    tuples: Tuples, attributes: Sequence[str], bounds: Bounds, reasons: Reasons, bound: int
) -> None:
    prob = floats_of(as_doubles(tuples.fields["prob"], "`prob` of the alternatives"))
    total = np.bincount(tuples.owner, prob, tuples.table.num_rows)  # in order, as Spark adds
    if not bounds and _are_valid(tuples, attributes, prob, total, bound):
        return
    rows, owner = tuples.table.num_rows, tuples.owner
    crowded = tuples.lengths > bound
    for many in np.unique(tuples.lengths[crowded]).tolist():
        reasons.add(crowded & (tuples.lengths == many), f"{many}{too_many(bound)}")
    reasons.add(tuples.lengths == 0, NO_ALTERNATIVES)

    def some(wrong: Bools) -> Bools:
        hit = np.zeros(rows, np.bool_)
        hit[owner[wrong]] = True
        return hit

    reasons.add(some(tuples.flat.is_null().to_numpy(zero_copy_only=False)), NULL_ALTERNATIVE)
    reasons.add(some(~((prob > 0.0) & (prob <= 1.0))), NO_PROBABILITY)  # NaN is neither
    for name in attributes:
        reasons.add(some(_missing(tuples.fields[name])), no_attribute(name))
    for name, most, text in bounds:
        reasons.add(some(_beyond(tuples.fields[name], most)), f"an alternative's {text}")
    above = total > 1.0 + EXCESS
    for value in np.unique(total[above]).tolist():
        reasons.add(above & (total == value), ABOVE_ONE + java_text(value))


def _are_valid(
    tuples: Tuples, attributes: Sequence[str], prob: np.ndarray, total: np.ndarray, bound: int
) -> bool:
    """Whether all rows are valid: cheaper than finding the reason of each."""
    if not len(total):
        return True
    lengths = tuples.lengths
    fine = lengths.min() > 0 and lengths.max() <= bound and total.max() <= 1.0 + EXCESS
    # NULL is NaN here, and NaN is the minimum of what has one.
    return bool(fine and prob.min() > 0.0 and prob.max() <= 1.0) and not any(
        _missing(tuples.fields[name]).any() for name in attributes
    )


def _missing(column: pa.Array) -> Bools:
    if is_number(column.type):
        return ~np.isfinite(floats_of(as_doubles(column, "an attribute")))
    return column.is_null().to_numpy(zero_copy_only=False)


def _beyond(column: pa.Array, most: float) -> Bools:
    return ~(np.abs(floats_of(as_doubles(column, "an attribute"))) <= most)


def kind_of(reason: str) -> str:
    """Return a reason without the sum of probabilities that it names.

    >>> kind_of("the probabilities sum to 1.25")
    'the probabilities sum to more than 1'
    """
    return re.sub(r" to \S+$", " to more than 1", reason)


def java_text(number: float) -> str:
    """Return a number of at least 1 as Spark writes it.

    >>> java_text(1.1), java_text(12345678.0)
    ('1.1', '1.2345678E7')
    """
    if number < 1e7:
        return repr(number)
    digits, _, exponent = f"{number:e}".partition("e")
    shortest = repr(number).partition("e")[0].replace(".", "").rstrip("0")
    digits = f"{shortest[0]}.{shortest[1:] or '0'}"
    return f"{digits}E{int(exponent)}" if np.isfinite(number) else "Infinity"
