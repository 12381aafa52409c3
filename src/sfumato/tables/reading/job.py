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

    about : further parts of the query for the fingerprint: JSON values
    computed : columns that only the frame's engine computes, with their types, by the names in the
        reading
    bucket : numbers of the keys that decide which rows share an operator; None: all
    light : whether the operator is so cheap that it may run in coarser buckets
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

    function : the public function, as named in messages
    metrics : the part of its metrics' names between `sfumato_` and `name`
    name : the user's name for the metrics; None: a number
    idle_timeout : microseconds without rows after which `idle` is called; streams only
    order : the columns of the single frame by which answers are ordered, for operators that run in
        the same step; (): no order; None: no operator can run in the same step
    late : whether rows flagged late are among them, out of order
    """

    function: str
    metrics: str
    name: str | None
    inputs: Sequence[Input]
    config: TableConfig
    outputs: Sequence[Output]
    idle_timeout: int | None = None
    order: Sequence[str] | None = None
    late: bool = False
