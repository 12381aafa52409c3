"""The rows of a repository in memory in which dependencies are looked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sfumato.memory.frame import ArrowFrame
from sfumato.tables.imputation.query import warn_of_gaps, with_values
from sfumato.tables.reading.ties import ties_of
from sfumato.tables.reading.types import as_doubles, floats_of

Extents = dict[str, tuple[float, float]]  # minimum, and maximum less that


def complete_rows(
    frame: ArrowFrame, asked: Sequence[str], max_rows: int, seed: int
) -> tuple[pa.Table, Extents] | None:
    """Return some rows in which all columns have finite numbers, and the columns' extents over all
    such rows; None where there are too few rows or columns."""
    columns = dict(zip(asked, frame.resolved("attributes", asked), strict=True))
    numbers = {name: as_doubles(frame.table.column(of), f"`{of}`") for name, of in columns.items()}
    finite = {name: np.isfinite(floats_of(column)) for name, column in numbers.items()}
    known = {name: int(np.count_nonzero(each)) for name, each in finite.items()}
    wanted = with_values(asked, known)
    whole = np.ones(frame.table.num_rows, np.bool_)
    for name in wanted:
        whole &= finite[name]
    rows = pa.table([numbers[name] for name in wanted], names=wanted).filter(pa.array(whole))
    warn_of_gaps(wanted, known, whole.size, rows.num_rows)
    if rows.num_rows < 2 or len(wanted) < 2:
        return None
    extents = {}
    for name in wanted:
        values = floats_of(rows.column(name).combine_chunks())
        extents[name] = float(values.min()), float(values.max() - values.min()) or 1.0
    return _few(rows, max_rows, seed), extents


def _few(rows: pa.Table, most: int, seed: int) -> pa.Table:
    """At most so many of the rows: those whose hash, begun with the seed, is least."""
    if rows.num_rows <= most:
        return rows
    seeds = pa.array(np.full(rows.num_rows, seed, np.int32))
    hashes = ties_of(rows.add_column(0, "__seed", seeds)).to_numpy()
    return rows.take(pa.array(np.argsort(hashes, kind="stable")[:most]))
