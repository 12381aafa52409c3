"""The arguments of the similarity joins, checked where no table or frame has to be looked at."""

from collections.abc import Sequence
from typing import Any

from sfumato.duration import microseconds
from sfumato.tables.imputation.arguments import ImputationArguments
from sfumato.tables.joins.metric import Metric
from sfumato.tables.reading.names import names


def joined_attributes(on: Any, order: Any) -> list[str]:
    """The attributes of `on`. Raises ValueError where there is none, or none of `order`."""
    attributes = names("on", on)
    if not attributes:
        raise ValueError("`on` must name at least one attribute; got none")
    if not names("order", order):
        raise ValueError("`order` must name the column(s) of the arrival order; got none")
    return attributes


def aligned(
    scopes: Sequence[Sequence[int] | None], idle_timeout: Any, reorder: str
) -> dict[str, Any] | None:
    """Of a config: that rows wait for the slower side; None where a side has no punctuations.

    scopes : of each side the numbers of the keys of its controller, None for a side without one
    reorder : what makes punctuations is called so in errors
    Raises ValueError for an `idle_timeout` that has no meaning.
    """
    if any(scope is None for scope in scopes):
        if idle_timeout is not None:
            raise ValueError(
                f"`idle_timeout` is for two sides with punctuations: put {reorder} before both, "
                "with no key or one that is part of `key`"
            )
        return None
    idle = None if idle_timeout is None else microseconds("idle_timeout", idle_timeout)
    return {
        "aligned": tuple(tuple(scope or ()) for scope in scopes),
        "idle_timeout": None if idle is None else max(1, idle // 1000),
    }


def check_imputation(
    imputation: ImputationArguments, on: Sequence[str], strategy: str, metric: Metric
) -> None:
    """Raise ValueError for arguments that do not go with `impute`."""
    attributes, called = list(imputation.settings.attributes), imputation.function
    if set(on) != set(attributes):
        raise ValueError(
            f"`impute` must have as `attributes` those of `on`, {list(on)}; got {attributes}: "
            f"to impute others, use {called} before the join"
        )
    if strategy != "auto":
        raise ValueError(
            f"`strategy` has no meaning with `impute`, whose join is its own; got {strategy!r}"
        )
    if metric != Metric():
        raise ValueError(
            f"`within` of a join with `impute` is one Euclidean distance: use {called} before the "
            "join for another"
        )
