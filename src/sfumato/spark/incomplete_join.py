"""The join of two incomplete streams, imputation and join at once, as a DataFrame function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812

from sfumato.spark.model.alternatives import ALTERNATIVES
from sfumato.spark.model.columns import with_tie
from sfumato.spark.model.imputation import Imputation, require_numbers
from sfumato.spark.similarity_join import Side
from sfumato.tables.joins.incomplete_join import IncompleteJoinSettings
from sfumato.tables.joins.join import TIE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


class IncompleteSide(Side):
    """A frame with missing values, and its projection to what the operator needs."""

    def __init__(
        self,
        frame: DataFrame,
        name: str,
        on: list[str],
        orders: list[str],
        keys: list[str],
        values: tuple[str, ...],
    ) -> None:
        for column in (ALTERNATIVES, "existence"):
            if column in frame.columns:
                raise ValueError(
                    f"`impute`: the {name} frame has a column `{column}`, but joins of incomplete "
                    "rows take rows that exist, with plain values: drop it, or use sf.impute "
                    "before the join"
                )
        super().__init__(frame, name, on, orders, keys)
        require_numbers(frame, f"impute, for the {name} frame", values)
        self.values = values

    def projected(self, metrics_name: str) -> DataFrame:
        lacking = F.lit(False)
        for name in [*self.orders, *self.keys]:
            lacking = lacking | F.col(f"`{name}`").isNull()
        counted = with_tie(self.frame, TIE).withColumn("__invalid", lacking)
        counted = counted.observe(
            metrics_name,
            F.count(F.lit(1)).alias("rows"),
            F.coalesce(F.sum(F.col("__invalid").cast("long")), F.lit(0)).alias("invalid"),
        )
        values = [F.col(f"`{name}`").cast("double") for name in self.values]
        return counted.where("not __invalid").select(
            F.struct(*(F.col(f"`{c}`") for c in self.certain)).alias("row"),
            *_named("value", values),
            *_named("order", [F.col(f"`{name}`") for name in self.orders]),
            *_named("key", [F.col(f"`{name}`") for name in self.keys]),
            TIE,
        )


def _named(prefix: str, columns: list[Column]) -> list[Column]:
    return [column.alias(f"{prefix}{i}") for i, column in enumerate(columns)]


def as_imputation(given: Any) -> Imputation:
    """The imputation that an argument `impute` gives: itself, or its arguments as a dict."""
    if isinstance(given, Imputation):
        return given
    if isinstance(given, Mapping):
        try:
            return Imputation(**given)
        except TypeError as error:
            raise TypeError(f"`impute` must have the arguments of sf.Imputation: {error}") from None
    raise TypeError(f"`impute` must be sf.Imputation(...) or a dict; got {type(given).__name__}")


def prepared(
    impute: Any, spark: SparkSession, chosen: dict[str, Any]
) -> tuple[IncompleteJoinSettings, Callable[..., Side]]:
    """The settings of the join, and how to make its sides; reads and prepares the repository.

    impute : the argument of `similarity_join`    chosen : what the settings share with those of
        the join of complete streams, and its `strategy`
    Raises ValueError or TypeError for wrong arguments.
    """
    imputation = as_imputation(impute)
    attributes, on = imputation.settings.attributes, list(chosen["on"])
    if set(on) != set(attributes):
        raise ValueError(
            f"`impute` must have as `attributes` those of `on`, {on}; got {list(attributes)}: to "
            "impute others, use sf.impute before the join"
        )
    strategy = chosen.pop("strategy")
    if strategy != "auto":
        raise ValueError(
            f"`strategy` has no meaning with `impute`, whose join is its own; got {strategy!r}"
        )
    repository = imputation.prepare(spark)
    settings = IncompleteJoinSettings(imputer=repository.data, **chosen)
    return settings, partial(IncompleteSide, values=imputation.settings.names)
