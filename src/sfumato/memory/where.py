"""The filter operator over tables in memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.memory.counters import warn_of_invalid, with_record
from sfumato.memory.frame import ArrowFrame
from sfumato.operators.arrays import offsets_of
from sfumato.tables.arrow import as_array
from sfumato.tables.reading.expressions import (
    ColumnRef,
    field_at,
    find_name,
    names_in,
    parse_expression,
    truths,
)
from sfumato.tables.reading.tuples import ALTERNATIVES, Tuples
from sfumato.tables.reading.types import as_doubles, floats_of, is_number
from sfumato.tables.reading.validity import no_attribute, why_invalid


def filtered(frame: ArrowFrame, condition: str, name: str | None) -> pa.Table:
    """Implement `where` for a table."""
    asked = parse_expression("condition", condition)
    tuples = Tuples(frame.table)
    if not tuples.mentioned(asked):

        def cells(name: ColumnRef) -> pa.Array:
            column = frame.one("condition", name.parts[0])
            return field_at(as_array(frame.table.column(column)), name, 1)

        return frame.table.filter(truths(asked, cells, frame.table.num_rows))
    holds = truths(asked, tuples.cells, len(tuples.owner))
    kept = pc.fill_null(holds, False).to_numpy(zero_copy_only=False)
    lengths = np.bincount(tuples.owner, kept, frame.table.num_rows).astype(np.int64)
    meant = (find_name(one.parts[0], tuples.attributes) for one in names_in(asked))
    attributes = list(dict.fromkeys(one for one in meant if one is not None))
    reasons = why_invalid(frame.table, [])
    for attribute in attributes:  # NULL in alternatives excluded by the condition is ignored
        text = no_attribute(attribute)
        reasons.add(_infinite(tuples, attribute), text)
    emptied = why_invalid(frame.table, attributes)
    for i, text in enumerate(emptied.texts):
        reasons.add((emptied.number == i) & (lengths == 0), text)
    lengths[reasons.invalid] = 0
    kept &= (lengths > 0)[tuples.owner]
    counted = reasons.counts()
    warn_of_invalid("where", frame.table.num_rows, counted)
    offsets = pa.array(offsets_of(lengths), pa.int32())
    place = frame.columns.index(ALTERNATIVES)
    field = frame.schema.field(place)
    flat = tuples.flat.filter(pa.array(kept))
    left = pa.ListArray.from_arrays(offsets, flat, type=field.type)
    counts = {"rows": frame.table.num_rows, "invalid": sum(counted.values()), "reasons": counted}
    result = frame.table.set_column(place, field, left).filter(pa.array(lengths > 0))
    return with_record(result, [frame.table], "where", name, {"_input": counts})


def _infinite(tuples: Tuples, name: str) -> np.ndarray:
    """Return bool[n]: whether an alternative of the row has an attribute that is not finite."""
    values, rows = tuples.fields[name], np.zeros(tuples.table.num_rows, np.bool_)
    if is_number(values.type):
        wrong = ~np.isfinite(floats_of(as_doubles(values, f"`{name}`")))
        rows[tuples.owner[wrong & values.is_valid().to_numpy(zero_copy_only=False)]] = True
    return rows
