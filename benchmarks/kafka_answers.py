"""Answers of `kafka_kills.py`, compared with those of the static frame, by sink."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any, TypeAlias

Row: TypeAlias = tuple[int, int, float]  # id, sensor, mean


def rows_of(found: Iterable[dict[str, Any]]) -> list[Row]:
    return [(row["id"], row["sensor"], row["mean"]) for row in found]


def by_key(found: Iterable[tuple[str | None, str]]) -> dict[str | None, set[Row]]:
    """What a topic has under each key, without equal ones."""
    different: dict[str | None, set[Row]] = {}
    for key, value in found:
        different.setdefault(key, set()).update(rows_of([json.loads(value)]))
    return different


def found(
    expected: list[Row], lake: list[Row], files: list[Row], topic: list[tuple[str | None, str]]
) -> tuple[dict[str, int], dict[str, bool]]:
    """What there is of answers, and what must hold of it."""
    counts, keyed = Counter(expected), by_key(topic)
    figures = {"answers of the static frame": len(expected)}
    for name, rows in {"in the Delta table": lake, "in files": files}.items():
        figures[f"answers {name}"] = len(rows)
        figures[f"doubles {name}"] = len(rows) - len(set(rows))
    figures |= {
        "messages in the topic of answers": len(topic),
        "of them equal to an earlier one of the same key": len(topic)
        - sum(len(rows) for rows in keyed.values()),
        "keys in that topic": len(keyed),
    }
    read_by_key = Counter(row for rows in keyed.values() for row in rows)
    held = {
        "the key names one answer of the static frame": len({row[0] for row in expected})
        == len(expected),
        "the Delta table has each answer once, as the static frame": Counter(lake) == counts,
        "files have each answer once, as the static frame": Counter(files) == counts,
        "the topic, read by key, has each answer once, as the static frame": read_by_key == counts
        and all(key == str(row[0]) for key, rows in keyed.items() for row in rows),
    }
    return figures, held
