"""The distribution of a result as the alternatives of rows for the next operator."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

import sfumato as sf


def handed_on(rows, result):
    """Rows of `sf.window_aggregate`, a frame of Spark or an Arrow table, with `alternatives`."""
    if not isinstance(rows, pa.Table):
        return rows.withColumn("alternatives", sf.alternatives(f"{result}.distribution"))
    distribution = pc.struct_field(rows.column(result).combine_chunks(), "distribution")
    return rows.append_column("alternatives", sf.alternatives(distribution))
