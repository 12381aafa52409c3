"""Reasons why a row is invalid: errors in its alternatives, existence or values."""

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sfumato.limits import alternatives_bound_in_memory, too_many_reason
from sfumato.near_misses import did_you_mean
from sfumato.operators.arguments import RESCALED_SUM_TOLERANCE, SUM_TOLERANCE
from sfumato.operators.arrays import Bools
from sfumato.tables.arrow import as_array
from sfumato.tables.reading.frame import Frame, column_names
from sfumato.tables.reading.tuples import UncertainTable
from sfumato.tables.reading.types import as_doubles, floats_of, is_number

RADIUS = "radius"  # fixed name of the radius column
RULE_ABOVE_ONE = "with this row, the probabilities of its rule sum to "  # followed by the sum
ABOVE_ONE = "the probabilities sum to more than 1"
ABOVE_ONE_HINT = "sf.alternatives(..., normalize=True) scales all sums to 1, also sums below 1"


def missing_attribute_reason(name: str, owner: str = "an alternative's ") -> str:
    return f"{owner}{name} is missing or not finite"


def invalid_radius_reason(name: str) -> str:
    return f"{name} is not a finite number of at least 0"


def has_invalid_radius(table: pa.Table, name: str) -> Bools:
    radii = floats_of(as_doubles(table.column(name), f"`within`: `{name}`"))
    return ~((radii >= 0.0) & (radii < np.inf))


class Reasons:
    """The first reason why each row is invalid.

    number : int32[n], index of the row's reason in `texts`; -1 for a valid row
    """

    def __init__(self, rows: int) -> None:
        self.texts: list[str] = []
        self.number = np.full(rows, -1, np.int32)

    @property
    def invalid(self) -> Bools:
        return self.number >= 0

    def add(self, wrong: Bools, text: str) -> None:
        fresh = wrong & (self.number < 0)
        if fresh.any():
            self.number[fresh] = len(self.texts)
            self.texts.append(text)

    def counts(self, counted: Bools | None = None) -> dict[str, int]:
        """Return the number of invalid rows per reason. counted : bool[n], or None for all rows"""
        found: dict[str, int] = {}
        which = self.invalid if counted is None else self.invalid & counted
        of_each = np.bincount(self.number[which], minlength=len(self.texts)).tolist()
        for text, count in zip(self.texts, of_each, strict=True):
            if count:
                found[text] = found.get(text, 0) + count
        return found

    def column(self) -> pa.Array:
        texts = pa.array(self.texts, pa.string())
        return texts.take(pa.array(self.number, pa.int32(), mask=self.number < 0))


Bounds = Sequence[tuple[str, float, str]]  # attribute, maximum magnitude, reason for larger values


def why_invalid(
    table: pa.Table | UncertainTable,
    attributes: Sequence[str] | None,
    existence: str | None = "existence",
    bounds: Bounds = (),
    max_alternatives: int | None = None,
) -> Reasons:
    """Return the errors in the rows' alternatives, or in their existence and values.

    attributes : must be present and, if numeric, finite; None for all attributes of alternatives
    existence : probability column of a table without alternatives, if it exists
    max_alternatives : maximum per row; None for the maximum of in-memory tables
    """
    tuples = table if isinstance(table, UncertainTable) else UncertainTable(table)
    columns, reasons = tuples.table, Reasons(tuples.table.num_rows)
    if tuples.uncertain:
        wanted = tuples.attributes if attributes is None else attributes
        bound = alternatives_bound_in_memory() if max_alternatives is None else max_alternatives
        _add_alternative_reasons(tuples, wanted, bounds, reasons, bound)
        return reasons
    if existence is not None and existence in columns.column_names:
        exists = floats_of(as_doubles(columns.column(existence), f"`{existence}`"))
        valid = (exists >= 0.0) & (exists <= 1.0 + RESCALED_SUM_TOLERANCE)  # 0: absent
        reasons.add(~valid, "existence is not a number in [0, 1]")
    for name in attributes or ():
        missing = _is_missing(as_array(columns.column(name)))
        reasons.add(missing, missing_attribute_reason(name, ""))
    for name, most, text in bounds:
        reasons.add(_exceeds(as_array(columns.column(name)), most), text)
    return reasons


def why_invalid_after_filter(
    table: pa.Table, attributes: Sequence[str], kept: Bools, max_alternatives: int | None = None
) -> Reasons:
    """Return the errors in rows after a condition on attributes.

    kept : bool[n], whether some alternatives of a row satisfy the condition. The other alternatives
        of such a row may have NULL.
    """
    tuples = UncertainTable(table)
    reasons = why_invalid(tuples, [], max_alternatives=max_alternatives)
    for name in attributes:
        values = tuples.fields[name]
        if is_number(values.type):
            given = values.is_valid().to_numpy(zero_copy_only=False)
            infinite = np.zeros(table.num_rows, np.bool_)
            infinite[tuples.owner[given & _is_missing(values)]] = True
            reasons.add(infinite, missing_attribute_reason(name))
    emptied = why_invalid(tuples, attributes, max_alternatives=max_alternatives)
    for i, text in enumerate(emptied.texts):
        reasons.add((emptied.number == i) & ~kept, text)
    return reasons


def check_attributes(frame: Frame, attributes: str | Sequence[str] | None) -> list[str] | None:
    wanted = column_names("attributes", attributes)
    frame.require_tuples()
    if not frame.uncertain:
        return frame.resolve("attributes", wanted)
    for name in wanted:
        if name not in frame.attributes:
            raise ValueError(
                f"`attributes` names `{name}`, which is not in the alternatives; the alternatives "
                f"have {frame.attributes}{did_you_mean(name, frame.attributes)}"
            )
    return None if attributes is None else wanted


def require_order(order: object) -> None:
    if not order:
        raise ValueError("`exclusive` needs `order`, because the later rows of a rule are left out")


def add_rule_reasons(
    reasons: Reasons, existence: np.ndarray, rule: Sequence[object], order: np.ndarray
) -> None:
    """Visit rows in `order`; add a reason to rows that raise their rule's probability above 1."""
    mass: dict[object, float] = {}
    texts: dict[str, list[int]] = {}
    for i in order.tolist():
        if rule[i] is None or reasons.number[i] >= 0:
            continue
        total = mass.get(rule[i], 0.0) + float(existence[i])
        if total <= 1.0 + SUM_TOLERANCE:
            mass[rule[i]] = total
        else:
            text = RULE_ABOVE_ONE + java_text(total)
            texts.setdefault(text, []).append(i)
    for text, rows in texts.items():
        reasons.add(np.isin(np.arange(existence.size), rows), text)


def _add_alternative_reasons(
    tuples: UncertainTable, attributes: Sequence[str], bounds: Bounds, reasons: Reasons, bound: int
) -> None:
    prob = floats_of(as_doubles(tuples.fields["prob"], "`prob` of the alternatives"))
    rows, owner, lengths = tuples.table.num_rows, tuples.owner, tuples.lengths
    total = np.bincount(owner, prob, rows)  # summed in order, as in Spark

    def add(wrong: Bools, text: str) -> None:  # wrong : bool per alternative
        if wrong.any():
            hit = np.zeros(rows, np.bool_)
            hit[owner[wrong]] = True
            reasons.add(hit, text)

    most = 1.0 + RESCALED_SUM_TOLERANCE
    crowded, above = lengths > bound, total > most
    for many in np.unique(lengths[crowded]).tolist():
        reasons.add(crowded & (lengths == many), f"{many}{too_many_reason(bound)}")
    reasons.add(lengths == 0, "no alternatives")
    if tuples.flat.null_count:
        add(tuples.flat.is_null().to_numpy(zero_copy_only=False), "an alternative is NULL")
    credible = (prob > 0.0) & (prob <= most)  # false for NaN
    add(~credible, "an alternative's prob is missing or not in (0, 1]")
    for name in attributes:
        add(_is_missing(tuples.fields[name]), missing_attribute_reason(name))
    for name, most, text in bounds:
        add(_exceeds(tuples.fields[name], most), f"an alternative's {text}")
    for value in np.unique(total[above]).tolist():
        text = f"the probabilities sum to {java_text(value)}"
        reasons.add(above & (total == value), text)


def _is_missing(column: pa.Array) -> Bools:
    if is_number(column.type):
        return ~np.isfinite(floats_of(as_doubles(column, "an attribute")))
    return column.is_null().to_numpy(zero_copy_only=False)


def _exceeds(column: pa.Array, most: float) -> Bools:
    return ~(np.abs(floats_of(as_doubles(column, "an attribute"))) <= most)


def generalize_reason(reason: str) -> str:
    """Replace the sum of probabilities in a reason.

    >>> generalize_reason("the probabilities sum to 1.25")
    'the probabilities sum to more than 1'
    """
    return re.sub(r"( sum to) \S+$", r"\1 more than 1", reason)


def java_text(number: float) -> str:
    """Format a number >= 1 as Spark does.

    >>> java_text(1.1), java_text(12345678.0), java_text(99999999.0)
    ('1.1', '1.2345678E7', '9.9999999E7')
    """
    if number < 1e7:
        return repr(number)
    if number == np.inf:
        return "Infinity"
    return np.format_float_scientific(number, trim="0", exp_digits=1).replace("e+", "E")
