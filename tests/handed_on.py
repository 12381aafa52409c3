"""The distribution of a result as the alternatives of rows for the next operator."""

import pyarrow as pa
import pyarrow.compute as pc

import sfumato as sf


def handed_on(rows, result):
    """Return rows of `sf.window_aggregate` with `alternatives`, as a Spark frame or Arrow table."""
    if not isinstance(rows, pa.Table):
        return rows.withColumn("alternatives", sf.alternatives(f"{result}.distribution"))
    distribution = pc.struct_field(rows.column(result).combine_chunks(), "distribution")
    return rows.append_column("alternatives", sf.alternatives(distribution))
