"""What a bracket after a table makes of its frame: rows in order, windows, earlier values."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sfumato.sql.plan.nodes import Count, Disorder, Earlier, Remembered, Reorder, Table, at
from sfumato.sql.plan.options import CONTROLS
from sfumato.sql.plan.sources import Frame, called, column, found, ours, unknown_column
from sfumato.sql.text.syntax import Node, Relation
from sfumato.windows import Delta, Range, Rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def counted(
    frame: Frame, plan: Count, relation: Relation, text: str
) -> tuple[Rows | Delta, list[str]]:
    """A window over arrivals with its columns as the frame spells them."""
    of, bracket, window = called(relation), relation.window, plan.window
    assert bracket is not None
    option = bracket.get("ORDER")
    if option is not None:
        order = [column(name, frame, of, text) for name in option.names]
    else:
        default = found("arrival", frame.df.columns)
        if default is None:
            reason = f"{of} has no column `arrival` to order it by"
            raise at(text, bracket, reason, expected=("ORDER column in the window",))
        order = [default]
    delta = bracket.get("DELTA")
    if isinstance(window, Delta) and delta is not None:
        known = frame.attributes or frame.df.columns
        on = found(window.on, known)
        if on is None:
            raise unknown_column(delta.names[0], known, of, text)
        window = replace(window, on=on)
    return window, order


def ranged(frame: Frame, plan: Disorder) -> tuple[Range | None, list[str]]:
    """The extents of a reordered frame, if it has any, and its event time."""
    if plan.extent is None:
        return None, []
    assert isinstance(frame.step, Reorder)
    extents = Range(plan.extent.length, plan.extent.slide, plan.idle_timeout)
    return extents, [frame.step.arguments.event_time]


def reordered(frame: Frame, plan: Disorder, relation: Relation, text: str) -> Frame:
    from sfumato.spark.reorder import reorder

    window, of = relation.window, called(relation)
    assert window is not None

    def resolved(word: str) -> list[str]:
        option = window.get(word)
        names = option.names if option is not None else ()
        return [column(name, frame, of, text) for name in names]

    event_time = (resolved("WATTR") or [plan.event_time])[0]
    arrival, key = resolved("ARRIVAL"), resolved("KEY")
    if not arrival:
        default = found("arrival", frame.df.columns)
        uncontrolled = not any(window.get(word) for word in CONTROLS)
        if default is None and uncontrolled and not frame.df.isStreaming:
            default = event_time  # the rows are all there, and come in order of event time
        if default is None:
            frame, default = _with_arrival(frame, window, text), "arrival"
        arrival = [default]
    plan = replace(plan, event_time=event_time, arrival=arrival[0], key=tuple(key))
    # A slack has no estimator, so that is left to the function's default.
    named: dict[str, Any] = {} if plan.slack is not None else {"estimator": plan.estimator}
    df = ours(
        lambda: reorder(
            frame.df,
            event_time=plan.event_time,
            arrival=arrival[0],
            key=key or None,
            drop_ratio=plan.drop_ratio,
            slack=plan.slack,
            max_buffer=plan.max_buffer,
            idle_timeout=plan.idle_timeout,
            **named,
        ),
        window,
        text,
    )
    return Frame(df, Reorder(frame.step, plan, row_bytes(frame.df)))


def _with_arrival(frame: Frame, window: Node, text: str) -> Frame:
    """The stream with `arrival`: the time of the micro-batch in which Spark received a row."""
    from pyspark.sql import functions as F  # noqa: N812

    if not frame.df.isStreaming:
        reason = "the table has no column `arrival`: say when its rows arrived"
        raise at(text, window, reason, expected=("ARRIVAL column",))
    step = frame.step
    step = replace(step, received=True) if isinstance(step, Table) else step
    return Frame(frame.df.withColumn("arrival", F.current_timestamp()), step)


def row_bytes(df: DataFrame) -> int:
    """About how many bytes a row takes in a buffer: 8 a number or time, 20 a text, 16 an item."""
    total = 0
    for declared in df.schema.fields:
        kind = declared.dataType.simpleString()
        if kind.startswith(("array", "map", "struct")):
            total += 16 * max(1, kind.count(":"))
        else:
            total += 20 if kind in ("string", "binary") else 8
    return total


def remembered(frame: Frame, relation: Relation, text: str) -> Frame:
    """The frame of a relation with the earlier values that its bracket asks for."""
    from sfumato.spark.earlier_values import earlier_values

    bracket, of = relation.window, called(relation)
    assert bracket is not None

    def resolved(word: str) -> tuple[str, ...]:
        option = bracket.get(word)
        names = () if option is None else option.names
        return tuple(column(name, frame, of, text) for name in names)

    order = resolved("ORDER") or (found("arrival", frame.df.columns),)
    if order[0] is None:
        reason = f"{of} has no column `arrival` to order it by"
        raise at(text, bracket, reason, expected=("ORDER column",))
    plan = Earlier(resolved("EARLIER"), order[0], resolved("KEY"))
    df = ours(
        lambda: earlier_values(
            frame.df, plan.attributes, order=str(plan.order), key=plan.key or None
        ),
        bracket,
        text,
    )
    return Frame(df, Remembered(frame.step, plan))
