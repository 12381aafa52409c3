"""The job of `reorder`, and the checks of its arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from sfumato.duration import microseconds
from sfumato.operators.disorder.control import SENT, WAIT_OPTIONS, DisorderControl
from sfumato.tables.disorder.table_reorder import EVENT, PROMISED, ReorderTableConfig
from sfumato.tables.operator import ROW
from sfumato.tables.reading.frame import (
    ADDED_COLUMN,
    ARRIVED,
    CONTROLLER_COLUMNS,
    DUPLICATE,
    EARLY_COLUMN,
    ORDERED,
    REMEMBERED,
    Frame,
    forget_after_of,
    milliseconds_of,
    order_metadata,
    with_roles,
)
from sfumato.tables.reading.job import Input, Job
from sfumato.tables.reading.results import BOOLEAN_TYPE, Output, passthrough_outputs
from sfumato.tables.reading.rows import Column, ColumnReader, Reading, Ties


def reorder_job(
    frame: Frame,
    event_time: str,
    arrival: str,
    key: str | Sequence[str] | None,
    source: str | Sequence[str] | None,
    unique: str | Sequence[str] | None,
    waits: Mapping[str, Any],
    expected_sources: int | None,
    idle_timeout: str | timedelta | None,
    forget_after: str | timedelta | float | None,
    name: str | None,
    early: bool = False,
    punctuation: str | None = None,
) -> Job:
    """Return the job of `reorder`. Raises ValueError or TypeError for invalid arguments.

    waits : arguments of `DisorderControl`; max_delay, max_ahead and max_behind are still durations
    """
    keys, sources = frame.keys("key", key), frame.group_columns("source", source)
    for name in (name for name in sources if frame.type_name(name).startswith(("list", "array"))):
        raise TypeError(
            f"`source` names column `{name}`, but rows cannot be sorted by "
            f"{frame.type_name(name)}: convert the column to text"
        )
    ids = frame.group_columns("unique", unique)
    event = frame.single_column("event_time", event_time)
    arrived = frame.single_column("arrival", arrival)
    is_reordered = frame.ordered_by_keys("punctuation") is not None
    if frame.duplicate_column is not None:
        raise ValueError(
            f"the {frame.noun} has a column `{frame.duplicate_column}` from an earlier reorder "
            "with `unique`: filter out the duplicates and drop the column before sf.reorder"
        )
    if not isinstance(early, bool):
        raise TypeError(f"`early` must be True or False; got {early!r}")
    if early and forget_after is not None:
        raise ValueError("`early` and `forget_after` cannot be combined: leave one of them out")
    flags = [DUPLICATE] * bool(ids) + [EARLY_COLUMN] * early
    for added in (*CONTROLLER_COLUMNS, *flags):
        found = frame.find_column(added)
        if found is not None and not (is_reordered and found == added):
            as_added = "" if found == added else f", which has the same name as `{added}`"
            raise ValueError(
                f"the {frame.noun} already has a column `{found}`{as_added}: rename it before "
                "sf.reorder"
            )
    frame.require_time("event_time", event)
    frame.require_time("arrival", arrived)
    sent_punctuation = None
    if punctuation is not None:
        sent_punctuation = frame.single_column("punctuation", punctuation)
        frame.require_time("punctuation", sent_punctuation)
        waits = _sent_punctuation_options(waits)
    elif waits["estimator"] == SENT:
        raise ValueError(
            "estimator='sent' needs `punctuation`: name the column of the sent punctuations"
        )
    durations = {
        name: microseconds(name, waits[name])
        for name in ("max_delay", "max_ahead", "max_behind")
        if waits[name] is not None
    }
    config = ReorderTableConfig(
        control=DisorderControl(**{**waits, **durations}),
        sources=len(sources),
        unique=len(ids),
        expected_sources=expected_sources,
        idle_timeout=milliseconds_of(idle_timeout),
        early=early,
        keys=len(keys),
        forget_after=forget_after_of(frame, arrived, keys, forget_after),
    )
    kept = tuple(name for name in frame.columns if name not in CONTROLLER_COLUMNS)
    values: list[tuple[str, ColumnReader]] = [(EVENT, Column(event))]
    values += [(f"source{i}", Column(column)) for i, column in enumerate(sources)]
    values += [(f"id{i}", Column(column)) for i, column in enumerate(ids)]
    values += [(PROMISED, Column(sent_punctuation))] if sent_punctuation is not None else []
    reading = Reading(kept, (arrived,), tuple(keys), tuple(values), tie=Ties(frame.tie_columns))
    outputs = []
    for column in passthrough_outputs(frame, kept, ROW):
        roles = [of for of, read in ((ORDERED, event), (ARRIVED, arrived)) if read == column.name]
        outputs.append(replace(column, metadata=with_roles(column.metadata or {}, roles)))
    order = order_metadata(keys, event, config.forget_after is not None, bool(sources))
    outputs.append(Output("late", ("late",), BOOLEAN_TYPE, default=False))
    outputs.append(Output("punctuation", ("punctuation",), frame.type(event), order))
    for flag in flags:
        remembered = {REMEMBERED: str(config.forget_after or 0.0)} if flag == DUPLICATE else {}
        about = with_roles({ADDED_COLUMN: "true", **remembered}, [flag])
        outputs.append(Output(flag, (flag,), BOOLEAN_TYPE, about, default=False))
    shares_buffer = waits["max_buffer_total"] is not None
    described = {"event_time": event, "source": sources, "unique": ids}
    return Job(
        "reorder",
        "reorder",
        name,
        [Input(frame, reading, described, bucket=() if shares_buffer else None)],
        config,
        outputs,
        idle_timeout=None if config.idle_timeout is None else 1000 * config.idle_timeout,
        order=[event],
        has_late_rows=True,
    )


def _sent_punctuation_options(waits: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `DisorderControl` for rows that carry their punctuations."""
    for name in (*WAIT_OPTIONS, "estimator"):
        if waits[name] is not None:
            raise ValueError(
                f"`punctuation` and `{name}` cannot be combined: the punctuation is either sent "
                "or estimated. Leave one of the two out"
            )
    return {**waits, "estimator": SENT}


def require_late_flags(frame: Frame) -> None:
    """Raise ValueError if late rows of a frame are not flagged."""
    if "late" not in frame.columns or frame.kind("late") != "truth":
        raise ValueError(
            f"sf.split_late needs a {frame.noun} with a boolean column `late`; it has "
            f"{', '.join(frame.columns)}. Reorder the rows first"
        )
