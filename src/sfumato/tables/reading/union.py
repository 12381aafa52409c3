"""The union of two frames: its columns, and what its rows are known to share."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import Any

from sfumato.tables.reading.frame import (
    ADDED_COLUMN,
    FILTERED,
    WEIGHTED,
    WORLDS,
    Frame,
    require_same_worlds,
)
from sfumato.tables.reading.job import ORIGINS_KEY, common_origins, contain_same_readings
from sfumato.tables.reading.tuples import ALTERNATIVES
from sfumato.tables.reading.user_warnings import (
    ASSUMED_KEY,
    GAPS_KEY,
    REPEATED_KEY,
    SAME_READINGS,
    SHARED_KEY,
)

KEPT_METADATA = (ADDED_COLUMN, WEIGHTED, WORLDS)  # of a column that has it in both frames
NO_TYPE = {"null", "void"}  # types of columns without values


def check_union(df: Frame, other: Frame) -> None:
    """Raise ValueError or TypeError unless two frames have the same columns and no order."""
    for argument, frame in (("df", df), ("other", other)):
        if frame.has_controller_metadata:
            raise ValueError(
                f"`{argument}` is in order of event time, but a union is not: apply sf.reorder to "
                "the union, with a `source` column if the frames arrive at a different pace"
            )
    missing = {*df.columns} ^ {*other.columns}
    if missing:
        name = min(missing)
        side = "df" if name in df.columns else "other"
        raise ValueError(
            f"`df` and `other` must have the same columns; only `{side}` has `{name}`: drop it, or "
            "add it to the other frame"
        )
    for name in df.columns:
        texts = {_type_text(df, name), _type_text(other, name)} - NO_TYPE
        if len(texts) > 1:
            raise TypeError(
                f"column `{name}` must have the same type in both frames; got {df.type_name(name)} "
                f"in `df` and {other.type_name(name)} in `other`: convert one of them"
            )
    require_same_worlds((df, other))


def _type_text(frame: Frame, name: str) -> str:
    """Return a column's type, without the names of elements and whether values may be NULL."""
    return re.sub(r"(list<)\w+: | not null", r"\1", frame.type_name(name))


def union_metadata(df: Frame, other: Frame) -> dict[str, dict[str, Any]]:
    """Return the metadata of a union's columns, by name."""
    frames = (df, other)
    marks: dict[str, str] = {}
    shared = next((rows for of in frames if (rows := of.describe_shared())), None)
    if shared is None and contain_same_readings(*frames):
        shared = SAME_READINGS
    known = [of for frame in frames for of in frame.all_metadata]
    for key in (REPEATED_KEY, GAPS_KEY, *(() if shared else (ASSUMED_KEY,))):
        if (value := next((of[key] for of in known if of.get(key)), None)) is not None:
            marks[key] = value
    if shared is not None:
        marks[SHARED_KEY] = shared
    if (origins := common_origins(*frames)) is not None:
        marks[ORIGINS_KEY] = json.dumps(asdict(origins))
    found = {}
    for name in df.columns:
        both = [frame.metadata(name) for frame in frames]
        kept = {key: both[0][key] for key in KEPT_METADATA if all(key in of for of in both)}
        found[name] = {**kept, **marks}
    filters = [by for frame in frames if (by := frame.filtered_by)]
    if filters:
        found[ALTERNATIVES][FILTERED] = "; ".join(filters)
    return found
