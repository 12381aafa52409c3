"""Texts that only choose, name and compare columns: what follows an operator need not end its step.

Only what is sure to mean the same to Spark and to the operators: columns, fields of results, a
count as a whole number, and comparisons of a field with a number.
"""

import re

from sfumato.spark.runtime.lineage import Condition, Selection

NAME = r"(?:`[^`]+`|[A-Za-z_]\w*)"
COLUMN = rf"({NAME}(?:\.{NAME})*)"
ITEM = re.compile(
    rf"\s*(?:CAST\(\s*{COLUMN}\s+AS\s+BIGINT\s*\)|{COLUMN})(?:\s+(?:AS\s+)?({NAME}))?\s*", re.I
)
CONDITION = re.compile(rf"\s*{COLUMN}\s*(<=|>=|<|>)\s*(-?\d+(?:\.\d+)?)\s*", re.I)
SELECT = re.compile(
    rf"\s*SELECT\s+(?P<items>.+?)\s+FROM\s+\{{d0\}}(?:\s+AS\s+(?P<alias>{NAME}))?"
    r"(?:\s+WHERE\s+(?P<where>.+?))?\s*",
    re.I | re.S,
)


def plain_selection(text: str) -> Selection | None:
    """What `SELECT a, b.mean AS c FROM {d0} WHERE b.mean < 40` takes of its table; None for a text
    that does anything else."""
    whole = SELECT.fullmatch(text)
    if whole is None:
        return None
    alias = _plain(whole["alias"] or "")
    where = [
        CONDITION.fullmatch(one) for one in re.split(r"\sAND\s", whole["where"] or "", flags=re.I)
    ]
    if whole["where"] and not all(where):
        return None
    conditions = [
        Condition(_path(one[1], alias), one[2], float(one[3])) for one in where if one is not None
    ]
    if whole["items"].strip() == "*":
        return Selection(None, tuple(conditions))
    items = [ITEM.fullmatch(item) for item in whole["items"].split(",")]
    columns = {}
    for item in items:
        if item is None:
            return None
        path = _path(item[1] or item[2], alias)
        name = _plain(item[3]) if item[3] else path[-1]
        if name in columns or (item[1] and not item[3]):
            return None
        columns[name] = (path, "int64" if item[1] else "")
    return Selection(columns, tuple(conditions))


def _path(text: str, alias: str) -> tuple[str, ...]:
    parts = tuple(_plain(part) for part in re.findall(NAME, text))
    return parts[1:] if len(parts) > 1 and parts[0].lower() == alias.lower() else parts


def _plain(name: str) -> str:
    return name.strip("`")
