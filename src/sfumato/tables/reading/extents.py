"""Tuples with an uncertain event time, copied to each extent that may contain them."""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from sfumato.limits import MAX_TIME_US, max_alternatives_with_uncertain_time
from sfumato.operators.arrays import Bools, Ints, offsets_of, ranges_of
from sfumato.tables.reading.tuples import UncertainTable
from sfumato.tables.reading.validity import why_invalid
from sfumato.windows import Range


def unplaced_reason(window: Range) -> str:
    """Return the reason why `spread_over_extents` gives a row no time."""
    extents = _extents_per_row(window)
    return (
        "an alternative has no time or a time beyond 2**60 microseconds from 1970, or the row has "
        f"more than {max_alternatives_with_uncertain_time(extents)} alternatives, each in up to "
        f"{extents} extents"
    )


def _extents_per_row(window: Range) -> int:
    return -(-window.length_us // window.slide_us)


def one_copy_window(window: Range) -> Range:
    """Return the tumbling window over rows that have one copy per extent."""
    if window.slide_us > window.length_us:
        raise ValueError(
            "`window` over an uncertain event time must have a `slide` of at most its `length`: a "
            f"tuple between two extents would be in no extent; got {window!r}"
        )
    return replace(window, length=window.slide or window.length, slide=None)


def spread_over_extents(
    table: pa.Table, order: str, window: Range, max_alternatives: int | None = None
) -> tuple[Ints, pa.Array, pa.ListArray]:
    """Return (row, time, alternatives), one entry per row and extent; see `Frame.by_extent`.

    time : the last microsecond of the extent, as a timestamp if the attribute `order` is one,
        otherwise as int64; NULL for invalid rows
    """
    tuples = UncertainTable(table)
    times = tuples.fields[order]
    kind = times.type if pa.types.is_timestamp(times.type) else pa.int64()
    times = times.cast(pa.int64())
    known = times.is_valid().to_numpy(zero_copy_only=False)
    time = times.fill_null(0).to_numpy()
    known &= (time >= -MAX_TIME_US) & (time <= MAX_TIME_US)
    valid = ~why_invalid(tuples, [], max_alternatives=max_alternatives).invalid
    valid &= tuples.lengths <= max_alternatives_with_uncertain_time(_extents_per_row(window))
    valid[tuples.owner[~known]] = False
    row, extent, chosen, lengths = _pair(tuples, np.where(known, time, 0), valid, window)
    last = (extent + 1) * window.slide_us + window.offset_us - 1
    flat = tuples.flat.take(pa.array(chosen))
    lists = pa.ListArray.from_arrays(pa.array(offsets_of(lengths), pa.int32()), flat)
    return row, pa.array(last, pa.int64(), mask=~valid[row]).cast(kind), lists


def _pair(
    tuples: UncertainTable, time: Ints, valid: Bools, window: Range
) -> tuple[Ints, Ints, Ints, Ints]:
    """Return (row, extent, alternatives, lengths) per row and extent; extent 0 if invalid."""
    time = time - window.offset_us
    good, first = valid[tuples.owner], time // window.slide_us  # extent i ends at (i + 1) * slide
    count = np.where(good, (time + window.length_us) // window.slide_us - first, 1)
    _, extent = ranges_of(np.where(good, first, 0), count)
    place = np.repeat(np.arange(len(time)), count)
    without = np.flatnonzero(~valid & (tuples.lengths == 0))
    row = np.append(tuples.owner[place], without)
    extent = np.append(extent, np.zeros(len(without), np.int64))
    place = np.append(place, np.full(len(without), -1))
    order = np.lexsort((place, extent, row))
    row, extent, place = row[order], extent[order], place[order]
    begins = np.ones(len(row), np.bool_)
    begins[1:] = (np.diff(row) != 0) | (np.diff(extent) != 0)
    groups = np.cumsum(begins) - 1
    lengths = np.bincount(groups, place >= 0, int(begins.sum())).astype(np.int64)
    return row[begins], extent[begins], place[place >= 0], lengths
