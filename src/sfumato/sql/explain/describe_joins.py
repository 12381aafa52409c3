"""What `explain` says of similarity joins, of imputation and of earlier values."""

from __future__ import annotations

from sfumato.sql.explain.wording import about, expected_tuples, per_key, percent, size
from sfumato.sql.plan.nodes import Earlier, ImputeArguments, JoinStep
from sfumato.windows import Rows


def similarity_join(step: JoinStep) -> list[tuple[str, str]]:
    """The rows about `sf.similarity_join`."""
    plan, window = step.arguments, step.window
    attributes = ", ".join(plan.on)
    changes = "; a pair that leaves its window comes out again with change -"
    return [
        (
            "pairs",
            f"distance of ({attributes}) within {plan.within:g} with probability at least "
            f"{plan.probability:g}{changes if plan.output == 'changes' else ''}",
        ),
        ("order", ", ".join(step.order)),
        ("windows", per_key(step.key, "one a side, in one task")),
        (
            "window",
            f"the newest tuples that hold {window.rows} existing ones with confidence "
            f"{percent(window.confidence)}",
        ),
        ("tuples held", _tuples_held(window, plan.probability)),
        ("strategy", _strategy(plan.strategy)),
        ("state", _join_state(step)),
        ("guarantee", _exact(window.confidence, plan.probability)),
    ]


def _exact(confidence: float, probability: float) -> str:
    pairs = "exact: a pair comes out if and only if it reaches its probability"
    if confidence + probability >= 1:
        return f"{pairs}; none that has left its window could"
    missed = percent(1 - confidence)
    return f"{pairs} among the tuples held; one that has left counts with at most {missed}"


def _tuples_held(window: Rows, probability: float) -> str:
    level = level_of(window.confidence, probability)
    sizes = ", ".join(f"{p:g}: {about(window.rows, p, level)}" for p in (1.0, 0.9, 0.5))
    bound = "" if window.max_tuples is None else f"; at most {window.max_tuples}, the rest counted"
    return (
        f"w' = least n with Pr(the n newest hold ≥ {window.rows}) ≥ {level:g} = min("
        f"{window.confidence:g}, 1 - {probability:g}); at existence {sizes}{bound}"
    )


def _strategy(strategy: str) -> str:
    chosen = "auto: index, or a scan where that is cheaper" if strategy == "auto" else strategy
    return f"{chosen}; the answers are the same for all"


def _join_state(step: JoinStep) -> str:
    window, dimensions = step.window, len(step.arguments.on)
    level = level_of(window.confidence, step.arguments.probability)
    held = expected_tuples(window.rows, 0.9, level)
    tuples = "w'" if held is None else f"w' = {held} (existence 0.9)"
    ten = 8 * 10 * (dimensions + 1)
    total = "" if held is None else f" = {size(2 * held * ten)}"
    a_key = " a key" if step.key else ""
    return (
        f"2 × w' × (alternatives × {8 * (dimensions + 1)} bytes + row){a_key}; with 10 "
        f"alternatives and {tuples}: 2 × w' × {ten} bytes{total} + rows"
    )


def level_of(confidence: float, probability: float) -> float:
    """The confidence that a join needs of its window: A, Algorithm 2 (uncert-evict-beta)."""
    return min(confidence, 1 - probability)


def _without_donors(arguments: ImputeArguments) -> str:
    if arguments.fallback == "reject":
        return "the row is unimputable"
    return "the attribute's distribution in the repository"


def imputation_of(arguments: ImputeArguments) -> list[tuple[str, str]]:
    """The rows about `sf.impute`."""
    most, scaling = arguments.max_alternatives, arguments.scaling
    return [
        ("repository", f"{arguments.repository}, read when the query is made"),
        ("by", "; ".join(arguments.dependencies)),
        ("without donors", _without_donors(arguments)),
        *([("together", "missing attributes from the same rows")] if arguments.joint else []),
        *((("alternatives", f"at most {most}, near values merged"),) if most else ()),
        *(("scaling", f"({name} - {shift:g}) / {span:g}") for name, shift, span in scaling),
        ("state", "none; every worker keeps the prepared repository"),
    ]


def earlier_values(arguments: Earlier) -> list[tuple[str, str]]:
    """The rows about `sf.earlier_values`."""
    each = 16 * len(arguments.attributes)
    return [
        ("columns", "earlier_ATTR, the newest known value before a row, and age_ATTR"),
        ("order", str(arguments.order)),
        ("keys", per_key(arguments.key, "one, in one task")),
        ("state", f"{each} bytes a key"),
    ]


def incomplete_join(step: JoinStep, imputation: ImputeArguments) -> list[tuple[str, str]]:
    """The rows about `sf.similarity_join` with `impute`."""
    rows = step.window.rows
    keep = {"pairs", "order", "windows", "keys"}
    held = f"the newest {rows} rows of each side{' and key' if step.key else ''}"
    return [
        *((name, value) for name, value in similarity_join(step) if name in keep),
        ("window", held),
        *((name, value) for name, value in imputation_of(imputation) if name != "state"),
        ("state", f"{held}, and their numbers; not the repository"),
        ("guarantee", "the pairs of imputing every row first; rows in no reach are not imputed"),
    ]
