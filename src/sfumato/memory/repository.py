"""The repository of an imputation in memory: reading, and rows for discovery."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from sfumato.memory.frame import ArrowFrame, frame_of
from sfumato.tables.imputation.discovery_query import AttributeRanges, valued_columns, warn_of_gaps
from sfumato.tables.reading.ties import ties_of
from sfumato.tables.reading.types import as_doubles, floats_of


def read_parquet(path: str | Path) -> ArrowFrame:
    """Read the Parquet data at a path. Raises ValueError if there is none."""
    from pyarrow import dataset

    if "://" not in str(path) and not Path(path).exists():
        raise ValueError(
            "`repository` must be a table or the path of Parquet data; no such file or folder: "
            f"{str(path)!r}"
        )
    return frame_of(dataset.dataset(str(path), format="parquet").to_table(), "repository")


def rows_of(frame: ArrowFrame, wanted: Sequence[str], key: Sequence[str]) -> pa.Table:
    """Return a repository's columns, renamed: `wanted` as doubles or strings, and `key`."""
    columns = frame.resolve("repository", list(wanted))
    found = [
        frame.table.column(of)
        if frame.kind(of) == "text"
        else as_doubles(frame.table.column(of), f"repository: `{of}`")
        for of in columns
    ]
    found += [frame.table.column(of) for of in frame.resolve("repository", list(key))]
    return pa.table(found, names=[*wanted, *key])


def complete_rows(
    frame: ArrowFrame, asked: Sequence[str], max_rows: int, seed: int
) -> tuple[pa.Table, AttributeRanges] | None:
    """Return at most `max_rows` complete rows of finite numbers, and the columns' extents.

    The extents, (minimum, length), are over all complete rows. Returns None if there are fewer than
    two rows or columns.
    """
    columns = dict(zip(asked, frame.resolve("attributes", asked), strict=True))
    numbers = {name: as_doubles(frame.table.column(of), f"`{of}`") for name, of in columns.items()}
    finite = {name: np.isfinite(floats_of(column)) for name, column in numbers.items()}
    known = {name: int(np.count_nonzero(each)) for name, each in finite.items()}
    wanted = valued_columns(asked, known)
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
    return _sample_rows(rows, max_rows, seed), extents


def _sample_rows(rows: pa.Table, most: int, seed: int) -> pa.Table:
    """Return the `most` rows with the smallest hashes, or all rows if there are fewer."""
    if rows.num_rows <= most:
        return rows
    seeds = pa.array(np.full(rows.num_rows, seed, np.int32))
    hashes = ties_of(rows.add_column(0, "__seed", seeds)).to_numpy()
    return rows.take(pa.array(np.argsort(hashes, kind="stable")[:most]))
