"""Which rows share a punctuation: the keys of the disorder controller that gave it.

What is aggregated or joined by `keys` may only be complete by a punctuation that holds for all of
its rows, so that these keys must contain those of the controller.
"""

from collections.abc import Sequence


def scope_of(
    keys: Sequence[str], controlled_by: Sequence[str], wrong: str = "extents cannot be complete"
) -> tuple[int, ...]:
    """Numbers of the keys that share a punctuation.

    keys : names of the keys of what is aggregated    controlled_by : those of the controller
    wrong : what cannot be for other keys, in words
    Raises ValueError where groups reach across the controller's keys.
    """
    lacking = [name for name in controlled_by if name not in keys]
    if lacking:
        raise ValueError(
            f"the rows were reordered for each {', '.join(controlled_by)}, so {wrong} for groups "
            f"across them: add {', '.join(lacking)} to `key`, or "
            "reorder without key"
        )
    return tuple(keys.index(name) for name in controlled_by)


def check_order(keys: Sequence[str], in_order_for: Sequence[str]) -> None:
    """Raise ValueError where groups reach across the keys within which rows come in order."""
    lacking = [name for name in in_order_for if name not in keys]
    if lacking:
        raise ValueError(
            f"the rows come in order for each {', '.join(lacking)} only: add "
            f"{', '.join(lacking)} to `key`, or let sf.reorder without key come before the "
            "operator that these rows come from"
        )


def joined_scope(keys: Sequence[str], left: Sequence[str], right: Sequence[str]) -> tuple[int, ...]:
    """Numbers of the keys within which the extents of both sides of a join come in order.

    keys : names of the keys of the join    left, right : those within which each side is in order
    Raises ValueError where `keys` lacks one of them.
    """
    for side, controlled in (("left", left), ("right", right)):
        lacking = [name for name in controlled if name not in keys]
        if lacking:
            raise ValueError(
                f"the extents of the {side} frame are complete for each {', '.join(controlled)}: "
                f"add {', '.join(lacking)} to `key`, or reorder without key before the window"
            )
    return tuple(sorted({keys.index(name) for name in [*left, *right]}))
