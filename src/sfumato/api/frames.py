"""Frames of users as the functions see them, and operators run on them."""

from __future__ import annotations

from typing import Any, TypeGuard

from sfumato.api.calls import is_of_spark
from sfumato.memory.frame import ArrowFrame
from sfumato.memory.queried_frame import QueriedArrowFrame
from sfumato.memory.run import run_in_memory
from sfumato.tables.reading.frame import Frame
from sfumato.tables.reading.job import Job, QueriedFrame


def frame_of(given: Any, argument: str = "df") -> QueriedFrame:
    """Return the frame of Spark, or of a pandas, Polars or Arrow table.

    Raises TypeError for anything else, ValueError for a table that has a name twice.
    """
    if is_of_spark(given):
        from sfumato.spark.model.queried_frame import QueriedSparkFrame

        return QueriedSparkFrame(given)
    return QueriedArrowFrame.of(given, argument)


def in_memory(frame: Frame) -> TypeGuard[ArrowFrame]:
    """Return whether a frame is a table in memory."""
    return isinstance(frame, ArrowFrame)


def run(job: Job) -> Any:
    """Return the answers of an operator: a frame of Spark, or an Arrow table."""
    if in_memory(job.inputs[0].frame):
        return run_in_memory(job)
    from sfumato.spark.runtime.run import run_operator

    return run_operator(job)
