"""What of a frame a window aggregate reads, and the columns of its answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegralType,
    LongType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from sfumato.operators.laws.aggregate import LARGEST
from sfumato.spark.checked import invalid_reason
from sfumato.spark.model.aggregates import Wanted
from sfumato.spark.model.alternatives import ALTERNATIVES
from sfumato.spark.model.columns import ORDERABLE, attributes_of, names, require, with_tie
from sfumato.spark.model.expression_text import check_expression
from sfumato.spark.model.per_alternative import evaluated
from sfumato.spark.reorder import CONTROLLED_BY
from sfumato.tables.operator import TIE
from sfumato.tables.windows.extents import ExtentTableConfig
from sfumato.tables.windows.results import quantile_name
from sfumato.tables.windows.window_aggregate import RowWindowTableConfig
from sfumato.windows import Delta, Range, Rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True)
class WindowPlan:
    """What of the frame the operator reads, and what it gives."""

    df: DataFrame
    wanted: list[Wanted]
    window: Rows | Range | Delta
    order: str | Sequence[str]
    key: str | Sequence[str] | None
    existence: str | None
    distribution: int | None

    def __post_init__(self) -> None:
        df = self.df
        for w in self.wanted:
            if w.expression is not None:
                argument = f"aggregates[{w.name!r}]" if w.name else "by"
                check_expression(argument, w.expression, df.sparkSession)
        if not isinstance(self.window, Rows | Range | Delta):
            raise TypeError(f"`window` must be sf.Rows, sf.Range or sf.Delta; got {self.window!r}")
        require(df, "order", self.orders)
        require(df, "key", self.keys)
        if not self.orders:
            raise ValueError("`order` must name the column(s) of the order; got none")
        if self.existence is not None:
            require(df, "existence", [self.existence])
            if ALTERNATIVES in df.columns:
                raise ValueError(
                    "`existence` is for frames without alternatives, which carry their own "
                    "probabilities: leave it out"
                )
        for name in self.orders:
            kind = df.schema[name].dataType
            if not isinstance(kind, ORDERABLE):
                raise TypeError(
                    f"`order` must name columns of numbers, times or dates; `{name}` is "
                    f"{kind.simpleString()}"
                )
        if isinstance(self.window, Range):
            self._check_time()
        if isinstance(self.window, Delta) and not self._is_value(self.window.on):
            require(df, "window.on", [self.window.on])
        taken = [*self._passed, *self._added]
        for w in self.wanted:
            if taken.count(w.name):
                raise ValueError(
                    f"`aggregates` names a result `{w.name}`, but the answer has a column of that "
                    "name already: choose another"
                )

    def _check_time(self) -> None:
        if len(self.orders) != 1:
            raise ValueError(
                f"`order` must be the one column of the event time for sf.Range; got {self.orders}"
            )
        kind = self.df.schema[self.orders[0]].dataType
        if not isinstance(kind, TimestampType | TimestampNTZType | IntegralType):
            raise TypeError(
                f"`order` must be a timestamp or whole microseconds for sf.Range; "
                f"`{self.orders[0]}` is {kind.simpleString()}"
            )
        self._check_groups()

    def _check_groups(self) -> None:
        """Refuse groups whose rows are in order for each of their parts only."""
        parts = self.controlled_by if self._controlled else self._in_order_for
        lacking = [name for name in parts if name not in self.keys]
        if lacking and self._controlled:
            raise ValueError(
                f"the rows were reordered for each {', '.join(self.controlled_by)}, so extents "
                f"cannot be complete for groups across them: add {', '.join(lacking)} to `key`, or "
                "reorder without key"
            )
        if lacking and self.df.isStreaming:  # a static frame is sorted as a whole
            raise ValueError(
                f"the rows come in order for each {', '.join(lacking)} only: add "
                f"{', '.join(lacking)} to `key`, or let sf.reorder without key come before the "
                "operator that these rows come from"
            )

    @property
    def _in_order_for(self) -> list[str]:
        """The keys within which the frame's rows are in order, if an operator before us says so."""
        for name in ("punctuation", "window"):
            if name in self.df.columns and CONTROLLED_BY in self.df.schema[name].metadata:
                return list(json.loads(self.df.schema[name].metadata[CONTROLLED_BY]))
        return []

    @property
    def orders(self) -> list[str]:
        return names("order", self.order)

    @property
    def keys(self) -> list[str]:
        return names("key", self.key)

    @property
    def controlled_by(self) -> list[str]:
        """The keys of the disorder controller before us; `key`, if it does not say."""
        if not self._controlled:
            return []
        metadata = self.df.schema["punctuation"].metadata
        return list(json.loads(metadata[CONTROLLED_BY])) if CONTROLLED_BY in metadata else self.keys

    @property
    def _controlled(self) -> bool:
        """Whether rows come from a controller: after windows `late` is a number, not a mark."""
        if not isinstance(self.window, Range) or "punctuation" not in self.df.columns:
            return False
        return "late" in self.df.columns and isinstance(
            self.df.schema["late"].dataType, BooleanType
        )

    @property
    def scope(self) -> tuple[int, ...] | None:
        """Numbers of the keys that share a punctuation; None without a controller."""
        if not self._controlled:
            return None
        return tuple(self.keys.index(name) for name in self.controlled_by)

    @property
    def bucket_keys(self) -> list[str]:
        return self.controlled_by if self._controlled else self.keys

    @property
    def time(self) -> str:
        kind = self.df.schema[self.orders[0]].dataType
        if isinstance(kind, TimestampType):
            return "timestamp"
        return "timestamp_ntz" if isinstance(kind, TimestampNTZType) else "long"

    def _is_value(self, name: str) -> bool:
        return name in attributes_of(self.df)

    @property
    def expressions(self) -> list[str]:
        """The distinct expressions whose values the operator reads."""
        given = [w.expression for w in self.wanted if w.expression is not None]
        if isinstance(self.window, Delta):
            given.append(self.window.on)
        return list(dict.fromkeys(given))

    def number_of(self, expression: str | None) -> Any:
        """The number of an expression's values among the operator's attributes."""
        return None if expression is None else self.expressions.index(expression)

    def field(self, w: Wanted) -> str:
        """The field of a distribution's values."""
        if w.name != ALTERNATIVES:
            return w.name
        plain = w.expression is not None and w.expression.strip("`").isidentifier()
        return str(w.expression).strip("`") if plain else "value"

    @property
    def _passed(self) -> list[str]:
        """Columns of the input that come out again."""
        if isinstance(self.window, Range):
            return self.keys
        return [name for name in self.df.columns if name != ALTERNATIVES]

    @property
    def _added(self) -> list[str]:
        of_extents = ["window", "held", "punctuation", "late"]
        own = of_extents if isinstance(self.window, Range) else ["held"]
        return own if self.distribution is None else [*own, "accuracy"]

    def _row(self, members: bool) -> list[str]:
        """Columns that come out with each row of an answer, as a struct."""
        if isinstance(self.window, Range) and not members:
            return []
        dropped = {ALTERNATIVES} if not members else {"late", "punctuation", "window", "held"}
        return [name for name in self.df.columns if name not in dropped]

    def _row_struct(self, members: bool) -> Column:
        passed = [F.col(f"`{name}`") for name in self._row(members)]
        return F.struct(*(passed or [F.lit(0)]))

    def projected(self, metrics_name: str, members: bool) -> DataFrame:
        """What the operator reads of the valid rows, under fixed names; the others are counted."""
        df = self.df
        values = [self._values(expression) for expression in self.expressions]
        lacking = F.lit(False)
        for name in self.orders:
            lacking = lacking | F.col(f"`{name}`").isNull()
        controlled = self._controlled
        columns = [
            self._row_struct(members).alias("row"),
            self._prob().alias("prob"),
            *(column.alias(f"value{i}") for i, column in enumerate(values)),
            *(F.col(f"`{c}`").alias(f"order{i}") for i, c in enumerate(self.orders)),
            *(F.col(f"`{c}`").alias(f"key{i}") for i, c in enumerate(self.keys)),
            *([F.col("late"), F.col("punctuation")] if controlled else []),
            *self._also(),
            F.col(TIE),
            (self._reason().isNotNull() | lacking).alias("__invalid"),
        ]
        selected = with_tie(df, TIE).select(*columns)
        infinite = F.lit(False)
        for i in range(len(values)):
            infinite = infinite | F.coalesce(F.exists(f"value{i}", self._unusable), F.lit(False))
        counted = selected.withColumn("__invalid", F.col("__invalid") | infinite).observe(
            metrics_name,
            F.count(F.lit(1)).alias("rows"),
            F.coalesce(F.sum(F.col("__invalid").cast("long")), F.lit(0)).alias("invalid"),
        )
        return counted.where("not __invalid").drop("__invalid")

    def _also(self) -> list[Column]:
        """Further columns that the operator reads."""
        return []

    def _unusable(self, value: Column) -> Column:
        """Whether a value makes its row an invalid one; NULL is skipped."""
        return F.abs(value) > F.lit(LARGEST)  # NaN too, which Spark has above all numbers

    def _reason(self) -> Column:
        # Of the values NULL is skipped, so that count(*) hangs on nothing else that is asked for.
        if ALTERNATIVES in self.df.columns:
            return invalid_reason(self.df, [])
        column = self._existence
        if column is None:
            return F.lit(None).cast("string")
        valid = F.coalesce((F.col(f"`{column}`") > 0) & (F.col(f"`{column}`") <= 1), F.lit(False))
        return F.when(~valid, "existence is not a number in (0, 1]")

    @property
    def _existence(self) -> str | None:
        if self.existence is not None:
            return self.existence
        return "existence" if "existence" in self.df.columns else None

    def _prob(self) -> Column:
        if ALTERNATIVES in self.df.columns:
            return F.transform(ALTERNATIVES, lambda a: a["prob"].cast("double"))
        column = self._existence
        given = F.lit(1.0) if column is None else F.col(f"`{column}`").cast("double")
        return F.array(given)

    def _values(self, expression: str) -> Column:
        if ALTERNATIVES in self.df.columns:
            return evaluated(self.df, expression)
        return F.array(F.expr(expression).cast("double"))

    def output(self, settings: RowWindowTableConfig | ExtentTableConfig) -> StructType:
        """The columns of the answers."""
        schema = self.df.schema
        fields = [schema[name] for name in self._row(settings.members)]
        if not fields:
            fields = [schema[name] for name in self.keys]
        output = StructType(fields)
        if isinstance(self.window, Range):
            time = schema[self.orders[0]].dataType
            time = LongType() if self.time == "long" else time
            extent = StructType().add("start", time).add("end", time)
            scope = self.controlled_by if self._controlled else self.keys
            output = output.add("window", extent, metadata={CONTROLLED_BY: json.dumps(scope)})
            output = output.add("held", LongType())
            output = output.add("punctuation", time).add("late", LongType())
        else:
            output = output.add("held", LongType())
        for w, field in zip(self.wanted, settings.fields, strict=True):
            output = output.add(w.name, self._result(field, settings))
        if self.distribution is None or settings.whole:
            return output
        number = StructType().add("moved", DoubleType()).add("error", DoubleType())
        return output.add(
            "accuracy", StructType([StructField(w.name, number) for w in self.wanted])
        )

    def _result(self, field: str, settings: RowWindowTableConfig | ExtentTableConfig) -> DataType:
        if self.distribution is not None and not settings.whole:
            return _pairs(field)
        parts = ["mean", "stddev", "existence", *map(quantile_name, settings.quantiles)]
        result = StructType([StructField(part, DoubleType()) for part in parts])
        if self.distribution is not None:
            result = result.add("alternatives", _pairs("value")).add("moved", DoubleType())
        if self.distribution is not None or settings.quantiles:
            result = result.add("error", DoubleType())
        return result


def _pairs(field: str) -> ArrayType:
    return ArrayType(StructType().add("prob", DoubleType()).add(field, DoubleType()))
