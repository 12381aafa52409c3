"""Columns of a schema as Spark's DDL writes them, so far as they can be told without Spark."""

import re

from sfumato.near_misses import did_you_mean

TYPES = (
    *("boolean", "byte", "tinyint", "short", "smallint", "int", "integer", "long", "bigint"),
    *("float", "real", "double", "decimal", "dec", "numeric", "string", "char", "varchar"),
    *("binary", "date", "time", "timestamp", "timestamp_ntz", "timestamp_ltz", "interval"),
    *("array", "struct", "map", "variant", "void"),
)
COLUMN = re.compile(
    r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<name>[^\s:`]+))\s*:?\s*(?P<type>.*)", re.S
)
OPEN, CLOSE = "<(", ">)"


def columns(ddl: str) -> list[str]:
    """The names of the columns. Raises ValueError for what is no list of names and types."""
    names: list[str] = []
    for part in _parts(ddl):
        found = COLUMN.fullmatch(part)
        kind = "" if found is None else (re.match(r"\w*", found["type"].strip()) or [""])[0]
        if found is None or not kind:
            raise ValueError(f'must be columns and types, "id string, t timestamp"; got {ddl!r}')
        if kind.lower() not in TYPES:
            hint = did_you_mean(kind, TYPES)
            raise ValueError(f"has the type {kind!r}, which Spark does not have{hint}")
        name = found["name"] or found["quoted"].replace("``", "`")
        if name.lower() in [other.lower() for other in names]:
            raise ValueError(f"names the column {name!r} twice")
        names.append(name)
    return names


def _parts(ddl: str) -> list[str]:
    """The text between commas that stand in no bracket."""
    parts, depth, begun = [], 0, 0
    for place, sign in enumerate(ddl):
        depth += (sign in OPEN) - (sign in CLOSE)
        if depth < 0:
            break
        if sign == "," and depth == 0:
            parts.append(ddl[begun:place])
            begun = place + 1
    if depth:
        raise ValueError(f"opens a bracket that is not closed, or the other way round: {ddl!r}")
    return [*parts, ddl[begun:]]
