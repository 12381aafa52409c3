"""The similarity join of several streams: `sfumato.join_streams` without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import pyarrow as pa

from sfumato.local.model.counters import together
from sfumato.local.model.frame import frame_of
from sfumato.local.model.imputation import Imputation
from sfumato.local.model.kind import same_kind
from sfumato.local.similarity_join import similarity_join

STREAMS = ("left_stream", "right_stream")


@same_kind
def join_streams(
    streams: Mapping[str, Any], *, name: str | None = None, **options: Any
) -> pa.Table:
    """Pairs of tuples of different streams that are close with at least the wanted probability.

    streams : {name: table}, two or more, with the same columns of the same types
    options : the keyword arguments of `similarity_join`, `impute` among them
    Columns and counters are those of `sfumato.join_streams`; pairs of streams follow each other.
    Raises ValueError or TypeError for wrong arguments.
    """
    if not isinstance(streams, Mapping) or len(streams) < 2:
        raise TypeError(
            "`streams` must be a dict {name: table} of at least two streams; "
            f"got {_shape(streams)}"
        )
    tables = {stream: frame_of(given, stream).table for stream, given in streams.items()}
    first, table = next(iter(tables.items()))
    for stream, other in tables.items():
        if not other.schema.equals(table.schema):
            raise ValueError(
                f"`streams` must have the same columns: `{first}` has {_columns(table)}, "
                f"`{stream}` has {_columns(other)}"
            )
    if options.get("impute") is not None:
        options["impute"] = Imputation.of(options["impute"])  # read once for all pairs
    parts = []
    for (one, left), (other, right) in combinations(tables.items(), 2):
        called = None if name is None else f"{name}_{one}_{other}"
        part = similarity_join(left, right, name=called, **options)
        for column, of in zip(reversed(STREAMS), (other, one), strict=True):
            part = part.add_column(0, column, pa.array([of] * part.num_rows, pa.string()))
        parts.append(part)
    plain = [part.replace_schema_metadata(None) for part in parts]
    return pa.concat_tables(plain).replace_schema_metadata(together(parts))


def _columns(table: pa.Table) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in table.schema)


def _shape(streams: object) -> str:
    """What came, without its rows."""
    if isinstance(streams, Mapping):
        return f"{len(streams)}: {', '.join(map(repr, streams))}"
    return f"a {type(streams).__name__}: give each a name"
