"""What a frame says about the order of its rows: by metadata, and by the columns `late` and
`punctuation` of a disorder controller."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import BooleanType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

CONTROLLED_BY = "sfumato.controlled_by"  # metadata: JSON list of the keys rows are in order within


def controlled_by(keys: list[str]) -> dict[str, Any]:
    """Metadata of a column that says: rows are in order within these keys."""
    return {CONTROLLED_BY: json.dumps(keys)}


def says_order(schema: StructType, name: str) -> list[str] | None:
    """The keys that the metadata of a column names; None where it has none."""
    if name not in schema.names or CONTROLLED_BY not in schema[name].metadata:
        return None
    return list(json.loads(schema[name].metadata[CONTROLLED_BY]))


def in_order_for(schema: StructType) -> list[str]:
    """The keys within which rows are in order, if an operator before says so; else none."""
    for name in ("punctuation", "window"):
        found = says_order(schema, name)
        if found is not None:
            return found
    return []


def has_punctuations(schema: StructType) -> bool:
    """Whether rows come from a controller: after windows `late` is a number, not a mark."""
    return (
        "punctuation" in schema.names
        and "late" in schema.names
        and isinstance(schema["late"].dataType, BooleanType)
    )


def is_extents(df: DataFrame) -> bool:
    """Whether a frame has the column `window` of extents, as window_aggregate made it."""
    return says_order(df.schema, "window") is not None
