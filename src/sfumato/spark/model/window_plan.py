"""What of a frame a window aggregate reads, and the columns of its answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from sfumato.operators.laws.aggregate import LARGEST
from sfumato.spark.model.aggregates import Wanted
from sfumato.spark.model.alternatives import ALTERNATIVES
from sfumato.spark.model.columns import (
    attributes_of,
    keys_of,
    one_resolved,
    require_orders,
    require_time,
    resolved,
)
from sfumato.spark.model.controlled import (
    ADDED,
    MARKS,
    controlled_by,
    has_punctuations,
    in_order_for,
    marks_late,
    never_behind,
    says_order,
)
from sfumato.spark.model.expression_text import check_expression
from sfumato.spark.model.imputation import require_numbers
from sfumato.spark.model.names import Passed, column, named, renamed
from sfumato.spark.model.per_alternative import evaluated
from sfumato.spark.model.validity import invalid_reason
from sfumato.tables.link import Taken
from sfumato.tables.scope import check_order, scope_of
from sfumato.tables.windows.extents import ExtentTableConfig
from sfumato.tables.windows.query import WindowQuery
from sfumato.tables.windows.results import quantile_name
from sfumato.tables.windows.window_aggregate import RowWindowTableConfig
from sfumato.windows import Delta, Range, Rows


@dataclass(frozen=True)
class WindowPlan(WindowQuery):
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
                self._check_number(argument, w.expression.strip().strip("`"))
        if not isinstance(self.window, Rows | Range | Delta):
            raise TypeError(f"`window` must be sf.Rows, sf.Range or sf.Delta; got {self.window!r}")
        if not self.orders:
            raise ValueError("`order` must name the column(s) of the order; got none")
        if self.existence is not None:
            require_numbers(df, "existence", [one_resolved(df, "existence", self.existence)])
            if ALTERNATIVES in df.columns:
                raise ValueError(
                    "`existence` is for frames without alternatives, which carry their own "
                    "probabilities: leave it out"
                )
        require_orders(df, "order", self.orders)
        if isinstance(self.window, Range):
            self._check_time()
        if isinstance(self.window, Delta) and self.window.on not in attributes_of(df):
            one_resolved(df, "window.on", self.window.on)
        self.check_results(self._passed(False).names)

    def _check_number(self, argument: str, name: str) -> None:
        """Raise TypeError for a column of texts: Spark would fail at the first row."""
        kind = self.schema[name].dataType if name in self.schema.names else None
        if isinstance(kind, StringType):
            raise TypeError(
                f"`{argument}`: column `{name}` must be of numbers; it is string: cast it before"
            )

    def check_members(self) -> None:
        """Raise ValueError for a result that has the name of a column of the rows."""
        self.check_results(self._passed(True).names)

    def _check_time(self) -> None:
        if len(self.orders) != 1:
            raise ValueError(
                f"`order` must be the one column of the event time for sf.Range; got {self.orders}"
            )
        require_time(self.df, "order", self.orders[0], " for sf.Range")
        if self.controlled:
            assert self.scope is not None  # or it has raised
        elif self.df.isStreaming:  # a static frame is sorted as a whole
            check_order(self.keys, in_order_for(self.schema))

    @cached_property
    def schema(self) -> StructType:
        return self.df.schema

    @cached_property
    def orders(self) -> list[str]:
        return resolved(self.df, "order", self.order)

    @cached_property
    def keys(self) -> list[str]:
        return keys_of(self.df, "key", self.key)

    @cached_property
    def controlled(self) -> bool:
        """Whether extents are complete by the punctuations of a controller."""
        return isinstance(self.window, Range) and has_punctuations(self.schema)

    @cached_property
    def marks_late(self) -> bool:
        """Whether a window of rows leaves out those that a controller marked late."""
        return not isinstance(self.window, Range) and marks_late(self.schema, self.orders)

    @cached_property
    def never_behind(self) -> bool:
        return never_behind(self.schema, self.orders, self.keys)

    @cached_property
    def in_order_within(self) -> list[str]:
        """The keys of the controller before us; `key`, if it does not say."""
        known = says_order(self.schema, "punctuation") if self.controlled else None
        return self.keys if known is None else known

    @cached_property
    def scope(self) -> tuple[int, ...] | None:
        """Numbers of the keys that share a punctuation; None without a controller."""
        return scope_of(self.keys, self.in_order_within) if self.controlled else None

    @cached_property
    def time(self) -> str:
        """The kind of the order: "timestamp", "timestamp_ntz" or "long"."""
        kind = self.schema[self.orders[0]].dataType
        if isinstance(kind, TimestampType):
            return "timestamp"
        return "timestamp_ntz" if isinstance(kind, TimestampNTZType) else "long"

    def _passed(self, members: bool) -> Passed:
        """Columns of the input that come out again: of rows, or the keys of extents."""
        if isinstance(self.window, Range) and not members:
            return Passed(self.schema, self.keys)
        return Passed(self.schema, self._row(members))

    def _row(self, members: bool) -> list[str]:
        """Columns that come out with each row of an answer."""
        dropped = {ALTERNATIVES} if not members else {"late", "punctuation", "window", "held"}
        return [name for name in self.schema.names if name not in dropped]

    def row(self, members: bool) -> Passed:
        """Columns that travel to the operator with each row."""
        wanted = not isinstance(self.window, Range) or members
        return Passed(self.schema, self._row(members) if wanted else [])

    def values(self) -> Mapping[str, Column]:
        """What the operator reads beside keys and order, by fixed name."""
        read = {"prob": self._prob()}
        read |= {f"value{i}": self._values(e) for i, e in enumerate(self.expressions)}
        return read

    @property
    def marks(self) -> Sequence[str]:
        """The marks of a controller that the operator reads."""
        if self.controlled:
            return MARKS
        return ["late"] if self.marks_late else []

    def reason(self) -> Column:
        """Why a row is invalid by columns of the frame; else NULL."""
        return self._reason()

    def invalid(self) -> Column:
        """Rows that are invalid by what the operator reads: without order, not finite."""
        lacking = F.lit(False)
        for i in range(len(self.orders)):
            lacking = lacking | F.col(f"order{i}").isNull()
        for i in range(len(self.expressions)):
            some = F.exists(f"value{i}", self._unusable)
            lacking = lacking | F.coalesce(some, F.lit(False))
        return lacking

    def _unusable(self, value: Column) -> Column:
        """Whether a value makes its row an invalid one; NULL is skipped."""
        return F.abs(value) > F.lit(LARGEST)  # NaN too, which Spark has above all numbers

    def _reason(self) -> Column:
        # Of the values NULL is skipped, so that count(*) depends on nothing else that is asked for.
        if ALTERNATIVES in self.df.columns:
            return invalid_reason(self.df, [])
        if self._existence is None:
            return F.lit(None).cast("string")
        given = column(self._existence)
        valid = F.coalesce((given > 0) & (given <= 1), F.lit(False))
        return F.when(~valid, "existence is not a number in (0, 1]")

    @property
    def _existence(self) -> str | None:
        if self.existence is not None:
            return one_resolved(self.df, "existence", self.existence)
        return "existence" if "existence" in self.df.columns else None

    def _prob(self) -> Column:
        if ALTERNATIVES in self.df.columns:
            return F.transform(ALTERNATIVES, lambda a: a["prob"].cast("double"))
        given = F.lit(1.0) if self._existence is None else column(self._existence)
        return F.array(given.cast("double"))

    def _values(self, expression: str) -> Column:
        if ALTERNATIVES in self.df.columns:
            return evaluated(self.df, expression)
        return F.array(F.expr(expression).cast("double"))

    def passing(self, members: bool) -> tuple[dict[str, Taken], list[str] | None]:
        """Where answers have the columns that are added, and the columns of rows that pass if they
        are rows: see `Passing`."""
        rows = self._row(members)
        whole = not isinstance(self.window, Range) or members
        at = {} if whole else {name: f"key{i}" for i, name in enumerate(self.keys)}
        at |= {name: name for name in self.added}
        at |= {w.name: f"result{i}" for i, w in enumerate(self.wanted)}
        return {name: Taken((place,)) for name, place in at.items()}, rows if whole else None

    def answers(self, settings: RowWindowTableConfig | ExtentTableConfig) -> StructType:
        """The columns that the operator gives, under fixed names."""
        passed = self._passed(settings.members)
        if isinstance(self.window, Range):
            time = self.schema[self.orders[0]].dataType
            time = LongType() if self.time == "long" else time
            extent = StructType().add("start", time).add("end", time)
            fields = passed.named("c" if settings.members else "key")
            fields = fields.add("window", extent).add("held", LongType())
            fields = fields.add("punctuation", time).add("late", LongType())
        else:
            fields = passed.named().add("held", LongType())
        for i in range(len(self.wanted)):
            fields = fields.add(f"result{i}", self._result("value", settings))
        if "accuracy" not in self.added or settings.whole:
            return fields
        return fields.add("accuracy", _accuracy([f"result{i}" for i in range(len(self.wanted))]))

    def columns(self, settings: RowWindowTableConfig | ExtentTableConfig) -> list[Column]:
        """The columns of the result, made of those."""
        added = [name for name in self.added if name != "accuracy" or not settings.whole]
        keys = isinstance(self.window, Range) and not settings.members
        own = self._passed(settings.members).columns(prefix="key" if keys else "c", taken=added)
        scope = self.in_order_within if self.controlled else self.keys
        fixed = {name: F.col(name) for name in added if name != "accuracy"}
        said = {ADDED: "true"}
        fixed["held"] = named(fixed["held"], "held", said)
        if "window" in fixed:
            fixed["window"] = named(fixed["window"], "window", controlled_by(scope))
        results = [
            renamed(f"result{i}", w.name, self._result(self.field(w), settings), said)
            for i, w in enumerate(self.wanted)
        ]
        if "accuracy" not in added:
            return [*own, *fixed.values(), *results]
        accuracy = _accuracy([w.name for w in self.wanted])
        return [*own, *fixed.values(), *results, renamed("accuracy", "accuracy", accuracy, said)]

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


def _accuracy(names: Sequence[str]) -> StructType:
    number = StructType().add("moved", DoubleType()).add("error", DoubleType())
    return StructType([StructField(name, number) for name in names])


def _pairs(field: str) -> ArrayType:
    return ArrayType(StructType().add("prob", DoubleType()).add(field, DoubleType()))
