"""The repository of an imputation in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.memory.frame import ArrowFrame, frame_of
from sfumato.memory.kinds import is_pandas, is_polars
from sfumato.tables.reading.types import as_doubles


def is_table(given: Any) -> bool:
    """Return whether something is a pandas, Polars or Arrow table."""
    of_arrow = isinstance(given, pa.RecordBatch) or hasattr(given, "__arrow_c_stream__")
    return of_arrow or is_pandas(given) or is_polars(given)


def read_parquet(path: str | Path) -> ArrowFrame:
    """Return the Parquet data at a path. Raises ValueError where nothing is there."""
    from pyarrow import dataset

    if "://" not in str(path) and not Path(path).exists():
        raise ValueError(
            "`repository` must be a table, or the path of Parquet data; there is no file or "
            f"folder {str(path)!r}"
        )
    return frame_of(dataset.dataset(str(path), format="parquet").to_table(), "repository")


def rows_of(frame: ArrowFrame, wanted: Sequence[str]) -> pa.Table:
    """Return columns of a repository as doubles, under these names."""
    columns = frame.resolved("repository", list(wanted))
    numbers = [as_doubles(frame.table.column(of), f"repository: `{of}`") for of in columns]
    return pa.table(numbers, names=list(wanted))
