"""A job: an operator, its input frames, and the columns of its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sfumato.tables.operator import TableConfig
from sfumato.tables.reading.frame import Frame
from sfumato.tables.reading.results import Output
from sfumato.tables.reading.rows import Reading


@dataclass(frozen=True)
class Input:
    """A frame, and how an operator reads it.

    about : other parts of the query that the fingerprint includes, as JSON values
    computed : by name in `reading`, columns that only the frame's engine computes, with their types
    bucket : positions of the keys that assign rows to operators; None for all keys
    light : whether the operator is cheap enough for coarser buckets
    """

    frame: Frame
    reading: Reading
    about: Mapping[str, Any] = field(default_factory=dict)
    computed: Mapping[str, Any] = field(default_factory=dict)
    bucket: Sequence[int] | None = None
    light: bool = False


@dataclass(frozen=True)
class Job:
    """An operator over frames.

    function : name of the public function in messages
    metrics : the part of metric names between `sfumato_` and `name`
    name : the user's name in metric names; None for a number
    idle_timeout : microseconds without rows after which `idle` is called; streams only
    order : the columns of the single frame that order answers, for a later operator in the same
        step; () without an order; None if no later operator can run in the same step
    has_late_rows : whether answers include late rows, which are out of order
    """

    function: str
    metrics: str
    name: str | None
    inputs: Sequence[Input]
    config: TableConfig
    outputs: Sequence[Output]
    idle_timeout: int | None = None
    order: Sequence[str] | None = None
    has_late_rows: bool = False
