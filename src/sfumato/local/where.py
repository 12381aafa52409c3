"""The filter operator: keep the alternatives that satisfy a condition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.local.model.counters import check_name, warn_of_invalid, with_record
from sfumato.local.model.frame import frame_of
from sfumato.local.model.kind import same_kind
from sfumato.operators.arrays import offsets_of
from sfumato.tables.arrow import as_array
from sfumato.tables.reading.expressions import Name, field_at, found, names_in, truths
from sfumato.tables.reading.parse import parsed
from sfumato.tables.reading.tuples import ALTERNATIVES, Tuples
from sfumato.tables.reading.types import as_doubles, floats_of, is_number
from sfumato.tables.reading.validity import no_attribute, why_invalid


@same_kind
def where(df: Any, condition: str, *, name: str | None = None) -> pa.Table:
    """Keep the alternatives that satisfy `condition`, with their probabilities.

    condition : over the alternatives' attributes and the table's other columns, made of these,
        fields of structs (m.mean), numbers, 'texts', + - * /, comparisons, AND, OR, NOT, BETWEEN,
        IS NULL and parentheses
    As `sfumato.where`: a tuple left without alternatives disappears, a comparison with NULL is not
    satisfied, and a table whose attributes are not mentioned is filtered by rows. Invalid rows are
    left out, with a warning, and counted. Raises TypeError or ValueError for what is no condition.
    """
    if not isinstance(condition, str):
        raise TypeError(f"`condition` must be text; got {type(condition).__name__}")
    check_name(name)
    frame, asked = frame_of(df), parsed("condition", condition)
    tuples = Tuples(frame.table)
    if not tuples.mentioned(asked):

        def cells(name: Name) -> pa.Array:
            column = frame.one("condition", name.parts[0])
            return field_at(as_array(frame.table.column(column)), name, 1)

        return frame.table.filter(truths(asked, cells, frame.table.num_rows))
    holds = truths(asked, tuples.cells, len(tuples.owner))
    kept = pc.fill_null(holds, False).to_numpy(zero_copy_only=False)
    lengths = np.bincount(tuples.owner, kept, frame.table.num_rows).astype(np.int64)
    meant = (found(one.parts[0], tuples.attributes) for one in names_in(asked))
    attributes = list(dict.fromkeys(one for one in meant if one is not None))
    reasons = why_invalid(frame.table, [])
    for (
        attribute
    ) in attributes:  # NULL in alternatives that the condition leaves out does not matter
        text = no_attribute(attribute)
        reasons.add(_infinite(tuples, attribute), text)
    emptied = why_invalid(frame.table, attributes)
    for i, text in enumerate(emptied.texts):
        reasons.add((emptied.number == i) & (lengths == 0), text)
    lengths[reasons.invalid] = 0
    kept &= (lengths > 0)[tuples.owner]
    counted = reasons.counts()
    warn_of_invalid("where", frame.table.num_rows, counted, 1)
    offsets = pa.array(offsets_of(lengths), pa.int32())
    place = frame.columns.index(ALTERNATIVES)
    field = frame.schema.field(place)
    flat = tuples.flat.filter(pa.array(kept))
    left = pa.ListArray.from_arrays(offsets, flat, type=field.type)
    counts = {"rows": frame.table.num_rows, "invalid": sum(counted.values()), "reasons": counted}
    result = frame.table.set_column(place, field, left).filter(pa.array(lengths > 0))
    return with_record(result, [frame.table], "where", name, {"_input": counts})


def _infinite(tuples: Tuples, name: str) -> np.ndarray:
    """bool[n]: rows with an alternative whose attribute is NaN or infinite."""
    values, rows = tuples.fields[name], np.zeros(tuples.table.num_rows, np.bool_)
    if is_number(values.type):
        wrong = ~np.isfinite(floats_of(as_doubles(values, f"`{name}`")))
        rows[tuples.owner[wrong & values.is_valid().to_numpy(zero_copy_only=False)]] = True
    return rows
