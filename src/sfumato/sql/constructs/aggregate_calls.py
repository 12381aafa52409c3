"""Which calls in a query are of aggregates, ours or Spark's, and what stands in them."""

from dataclasses import dataclass

from sfumato.sql.plan.nodes import at
from sfumato.sql.text.references import AGGREGATES, Reference, is_measure, is_type, is_word
from sfumato.sql.text.syntax import Item

MOST = 64  # values of a distribution that DISTRIBUTION(x) gives by default

CALLS = {
    "count": "count",
    "sum": "sum",
    "avg": "avg",
    "mean": "avg",
    "min": "min",
    "max": "max",
    "percentile": "quantile",
    **dict.fromkeys(("stddev", "stddev_samp", "std"), "stddev"),
    **dict.fromkeys(("variance", "var_samp"), "var"),
    "boundary_sum": "boundary_sum",
}
"""What a query calls our aggregates."""


@dataclass(frozen=True)
class Call:
    """A call of one of our aggregates: `text` as `sf.window_aggregate` takes it."""

    reference: Reference
    text: str
    function: str


def is_aggregate(reference: Reference) -> bool:
    """Whether a reference is a call of one of our aggregates."""
    return (
        reference.call is not None
        and len(reference.words) == 1
        and reference.parts[0].lower() in CALLS
        and not is_word(reference.after, "OVER", "FILTER")
    )


def is_sparks(reference: Reference) -> bool:
    """Whether a call is of an aggregate that only Spark knows."""
    return reference.parts[-1].lower() in AGGREGATES and not is_measure(reference.words)


def arguments_of(call: Reference) -> tuple[Item, ...]:
    """All the words of a call's arguments."""
    return tuple(item for part in call.arguments for item in part)


def most_values(given: list[tuple[Item, ...]], text: str) -> int:
    """How many values DISTRIBUTION(aggregate, most) may give; `given` are its arguments."""
    if len(given) < 2:
        return MOST
    number = given[1][0] if len(given[1]) == 1 else None
    if is_type(number, "NUMBER") and float(number).is_integer():
        return int(float(number))
    reason = "DISTRIBUTION takes an aggregate and how many values it may have"
    place = given[1][0] if given[1] else given[0][0]
    raise at(text, place, reason, expected=("DISTRIBUTION(SUM(x), 16)",))
