"""Several Spark frames in one query, because starting a query takes longer than answering it."""

from collections.abc import Iterable, Mapping
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc


def side_by_side(frames: Mapping):
    """Return one frame with the rows of several frames, each in a separate column.

    A row is in a list: Spark cannot convert a NULL struct to Arrow if its fields are not nullable.
    """
    from pyspark.sql import functions as F  # noqa: N812

    parts = [
        df.select(F.lit(i).alias("frame"), F.array(F.struct("*")).alias(f"rows{i}"))
        for i, df in enumerate(frames.values())
    ]
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)


def apart(found: pa.Table, names: Iterable) -> dict:
    """Return {name: Arrow table} of the rows of frames that were side by side."""
    tables = {}
    for i, name in enumerate(names):
        mine = found.filter(pc.equal(found.column("frame"), i))
        rows = mine.column(f"rows{i}").combine_chunks().flatten()
        tables[name] = pa.Table.from_arrays(rows.flatten(), rows.type.names)
    return tables


def tables_of(frames: Mapping) -> dict:
    """Return {name: Arrow table} of {name: Spark frame}, computed in one query."""
    return apart(side_by_side(frames).toArrow(), frames)


def in_groups(names, size: int) -> dict:
    """Return {name: its group of `size` names}."""
    names = list(names)
    groups = [names[i : i + size] for i in range(0, len(names), size)]
    return {name: tuple(group) for group in groups for name in group}
