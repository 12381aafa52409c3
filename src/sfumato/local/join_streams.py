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
from sfumato.tables.joins.streams import STREAMS, check_alike, check_streams


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
    check_streams(streams, "table")
    frames = {stream: frame_of(given, stream) for stream, given in streams.items()}
    check_alike(frames)
    if options.get("impute") is not None:
        options["impute"] = Imputation.of(options["impute"])  # read once for all pairs
    parts = []
    for (one, left), (other, right) in combinations(frames.items(), 2):
        called = None if name is None else f"{name}_{one}_{other}"
        part = similarity_join(left.table, right.table, name=called, **options)
        for column, of in zip(reversed(STREAMS), (other, one), strict=True):
            part = part.add_column(0, column, pa.array([of] * part.num_rows, pa.string()))
        parts.append(part)
    plain = [part.replace_schema_metadata(None) for part in parts]
    return pa.concat_tables(plain).replace_schema_metadata(together(parts))
