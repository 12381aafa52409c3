"""What a window aggregate is asked for, as users write it: ``sum(temperature)``."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sfumato.near_misses import did_you_mean
from sfumato.operators.laws.aggregate import FUNCTIONS

CALL = re.compile(r"\s*(\w+)\s*\((.*)\)\s*", re.DOTALL)
LEVEL = re.compile(r"\s*(\d*\.?\d+(?:e-?\d+)?)\s*(%?)\s*")


@dataclass(frozen=True)
class Wanted:
    """One result column: its name, the function, and the SQL expression it is taken of.

    expression : None for count(*)
    argument : the share q of a quantile, else None
    """

    name: str
    function: str
    expression: str | None
    argument: float | None = None


def wanted(aggregates: Mapping[str, str]) -> list[Wanted]:
    """The aggregates of a mapping from result name to text, such as ``{"n": "count(*)"}``.

    Raises TypeError or ValueError, naming the entry, for what is none.
    """
    if not isinstance(aggregates, Mapping) or not aggregates:
        raise TypeError(
            "`aggregates` must map at least one result name to an aggregate, like "
            f"{{'total': 'sum(temperature)'}}; got {aggregates!r}"
        )
    return [_wanted(name, text) for name, text in aggregates.items()]


HINTS = {  # functions of other libraries that have another name here
    "median": ": write quantile(x, 0.5)",
    "percentile": ": write quantile(x, 0.9)",
    "nunique": ": write count_distinct(x)",
}
ALIASES = {
    "mean": "avg",
    **dict.fromkeys(("stddev_samp", "stdev", "std"), "stddev"),
    **dict.fromkeys(("variance", "var_samp"), "var"),
    "first_value": "first",
    "last_value": "last",
}


def _wanted(name: str, text: str) -> Wanted:
    entry = f"`aggregates[{name!r}]`"
    if not isinstance(name, str) or not name or not isinstance(text, str):
        raise TypeError(f"{entry} must be text like 'sum(temperature)'; got {text!r}")
    call = CALL.fullmatch(text)
    known = ", ".join(FUNCTIONS)
    if call is None:
        raise ValueError(f"{entry} must be one of {known} of an expression; got {text!r}")
    function, expression = call[1].lower(), call[2].strip()
    function = ALIASES.get(function, function)
    if function not in FUNCTIONS:
        hint = HINTS.get(function, did_you_mean(function, FUNCTIONS))
        raise ValueError(f"{entry} must be one of {known}; got {call[1]!r}{hint}")
    distinct = re.match(r"distinct\s+(.+)", expression, re.IGNORECASE | re.DOTALL)
    if distinct and function == "count":
        function, expression = "count_distinct", distinct[1]
    elif distinct:
        raise ValueError(f"{entry}: DISTINCT is supported in count(DISTINCT x) only; got {text!r}")
    if function == "count" and expression in ("*", "1"):
        return Wanted(name, function, None)
    if not expression or expression == "*":
        raise ValueError(f"{entry}: {function} needs an attribute; got {text!r}")
    if function != "quantile":
        return Wanted(name, function, expression)
    inner, _, level = expression.rpartition(",")
    share = LEVEL.fullmatch(level)
    q = float(share[1]) / (100 if share[2] else 1) if share else -1.0
    if not inner.strip() or not 0 <= q <= 1:
        raise ValueError(
            f"{entry} must be quantile(expression, share) with a share from 0 to 1; got {text!r}"
        )
    return Wanted(name, function, inner.strip(), q)
