"""`[EARLIER x, y ORDER ts KEY sensor]`: the frame it makes of a table."""

from __future__ import annotations

from sfumato.sql.plan import Earlier, Remembered, at
from sfumato.sql.sources import Frame, called, column, found, ours
from sfumato.sql.syntax import Relation


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
