"""`[EARLIER temperature ORDER ts KEY sensor]`: what each sensor's earlier rows knew."""

from typing import Any

from sfumato.api.earlier_values import earlier_values
from sfumato.sql.explanation.wording import listed, per_key, span
from sfumato.sql.plan.bracket import FORGET, NAMED, FunctionBracket
from sfumato.sql.plan.nodes import Lines
from sfumato.sql.text.words import Word


def _lines(arguments: dict[str, Any]) -> Lines:
    return [
        ("columns", "earlier_ATTR, the newest known value before a row, and age_ATTR"),
        ("order", arguments["order"]),
        ("keys", per_key(arguments.get("key"), "one, in one task")),
        ("state", _state(arguments)),
    ]


def _state(arguments: dict[str, Any]) -> str:
    state = f"{16 * len(listed(arguments['attributes']))} bytes a key"
    after = arguments.get("forget_after")
    return state if after is None else f"{state}, forgotten after {span(after)} without a row of it"


EARLIER = FunctionBracket(
    words=(
        Word("EARLIER", "names", "attributes"),
        Word("ORDER", "names", "order", default="arrival"),
        Word("KEY", "names", "key"),
        FORGET,
        NAMED,
    ),
    function=earlier_values,
    title=lambda arguments: f"earlier values of {', '.join(listed(arguments['attributes']))}",
    lines=_lines,
)
