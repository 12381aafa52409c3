"""Columns of small tables in memory."""

import pyarrow as pa


def at(*seconds):
    """Return times in seconds from 1970."""
    return pa.array([s * 1_000_000 for s in seconds], pa.timestamp("us"))


def tuples_of(rows, **kinds):
    """Return alternatives from lists of (probability, values of the attributes `kinds` ...).

    A list or an alternative may be None.
    """
    kind = pa.list_(pa.struct([("prob", pa.float64()), *kinds.items()]))
    names = ("prob", *kinds)
    cells = [row and [each and dict(zip(names, each, strict=True)) for each in row] for row in rows]
    return pa.array(cells, kind)
