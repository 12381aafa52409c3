"""Jobs of operators: frames as an operator reads them, and the columns of the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sfumato.tables.operator import TableConfig
from sfumato.tables.reading.frame import Frame
from sfumato.tables.reading.input import Reading
from sfumato.tables.reading.outputs import Output


@dataclass(frozen=True)
class Input:
    """A frame as an operator reads it.

    reading : how the operator's rows are made of the frame's
    about : what of the query the config does not say, for the fingerprint: JSON values
    computed : columns that only the frame's engine computes, with their types, by names of the
        reading that the frame does not have
    bucket : numbers of the keys that decide which rows share an operator; None: all
    light : the operator does so little that it may as well run in coarser buckets
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

    function : the public function, as messages call it
    metrics : what its metrics are called, between `sfumato_` and the name
    name : the user's name for them; None: a number
    idle_timeout : microseconds without rows after which `idle` is called; streams only
    order : the columns of the one frame in whose order answers come, for operators that take them
        in one step with this one; () : in none; None: no operator takes them so
    late : rows that are marked late come among them, out of order
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
