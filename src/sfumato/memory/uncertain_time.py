"""Event times that are uncertain: a tuple's alternatives go to the extents that they may lie in.

As `sfumato.spark.model.uncertain_time`, which says why that is exact.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sfumato.limits import most_placed
from sfumato.memory.frame import ArrowFrame
from sfumato.operators.arrays import Ints, offsets_of
from sfumato.tables.arrow import as_array
from sfumato.tables.reading.tuples import ALTERNATIVES, Tuples
from sfumato.tables.reading.validity import why_invalid
from sfumato.tables.windows.query import extents_per_row, tumbling
from sfumato.windows import LONGEST, Range


def by_extent(frame: ArrowFrame, order: str, window: Range) -> tuple[pa.Table, str, Range]:
    """(rows, order, window): one row a tuple and extent it may be in, and the extents' window.

    Invalid tuples stay one row, without order. Raises ValueError or TypeError for what cannot be.
    """
    kind = frame.attribute_type(order)
    stamped = pa.types.is_timestamp(kind) and kind.tz is not None
    if not (stamped or pa.types.is_integer(kind)):
        raise TypeError(
            f"`order` names the attribute `{order}`, an uncertain event time: it must be a "
            f"timestamp with a time zone, or whole microseconds; got {kind}"
        )
    extents = tumbling(window)
    tuples = Tuples(frame.table)
    times = tuples.fields[order].cast(pa.int64())
    known = times.is_valid().to_numpy(zero_copy_only=False)
    time = times.fill_null(0).to_numpy()
    known &= (time >= -LONGEST) & (time <= LONGEST)
    valid = ~why_invalid(frame.table, []).invalid
    valid &= tuples.lengths <= most_placed(extents_per_row(window))
    valid[tuples.owner[~known]] = False
    row, extent, chosen, lengths = _spread(tuples, np.where(known, time, 0), valid, window)
    last = pa.array(extent * window.slide_us + window.slide_us - 1, pa.int64(), mask=~valid[row])
    at = frame.free_name("__extent_time")
    flat = tuples.flat.take(pa.array(chosen))
    lists = pa.ListArray.from_arrays(pa.array(offsets_of(lengths), pa.int32()), flat)
    place = frame.columns.index(ALTERNATIVES)
    rows = frame.table.take(pa.array(row))
    rows = rows.set_column(place, pa.field(ALTERNATIVES, lists.type), lists)
    rows = rows.append_column(at, last.cast(kind) if stamped else last)
    return rows, at, extents


def _spread(
    tuples: Tuples, time: Ints, valid: np.ndarray, window: Range
) -> tuple[Ints, Ints, Ints, Ints]:
    """(row, extent, alternatives, how many of them) of each tuple in each extent it may be in.

    Alternatives are places among all of them, in their order. Invalid tuples keep all of theirs,
    in no extent.
    """
    first = time // window.slide_us  # extent i ends at (i + 1) * slide
    count = np.where(valid[tuples.owner], (time + window.length_us) // window.slide_us - first, 0)
    place = np.repeat(np.arange(len(time)), count)
    number = np.arange(len(place)) - np.repeat(offsets_of(count)[:-1], count)
    row, extent = tuples.owner[place], first[place] + number
    bad = np.flatnonzero(~valid[tuples.owner])
    without = np.flatnonzero(~valid & (tuples.lengths == 0))
    row = np.concatenate([row, tuples.owner[bad], without])
    extent = np.concatenate([extent, np.zeros(len(bad) + len(without), np.int64)])
    place = np.concatenate([place, bad, np.full(len(without), -1)])
    order = np.lexsort((place, extent, row))
    row, extent, place = row[order], extent[order], place[order]
    begins = np.ones(len(row), np.bool_)
    begins[1:] = (np.diff(row) != 0) | (np.diff(extent) != 0)
    groups = np.cumsum(begins) - 1
    lengths = np.bincount(groups, place >= 0, int(begins.sum())).astype(np.int64)
    return row[begins], extent[begins], place[place >= 0], lengths


def true_extents(answers: pa.Table, window: Range) -> pa.Table:
    """The answers over the extents of `by_extent`, with the extents that are meant as `window`."""
    place = answers.column_names.index("window")
    field = answers.schema.field(place)
    end = as_array(answers.column("window")).field("end")
    whole = end.cast(pa.int64()).to_numpy(zero_copy_only=False)
    start = pa.array(whole - window.length_us, pa.int64()).cast(end.type)
    both = pa.StructArray.from_arrays([start, end], fields=list(field.type))
    return answers.set_column(place, field, both)
