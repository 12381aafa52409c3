"""One of the two frames of a join: what it offers, and what the operator reads of it."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from sfumato.spark.model.alternatives import ALTERNATIVES
from sfumato.spark.model.columns import attributes_of, keys_of, require_orders, resolved
from sfumato.spark.model.controlled import controller_of, never_behind, require_late
from sfumato.spark.model.imputation import require_numbers
from sfumato.spark.model.names import Passed, column
from sfumato.spark.model.validity import invalid_reason
from sfumato.windows import LONGEST

LONGEST_NTZ = "-34563-01-01", "+38504-01-01"  # within 2**60 microseconds of 1970


class Side:
    """A frame of uncertain tuples; without alternatives each row is one, of its plain columns.

    on : the attributes that span the distance    alone : the other side is the same frame, which
        errors do not call left or right
    timed : whether a window goes by the order, which is a time
    """

    timed = False

    def __init__(
        self,
        frame: DataFrame,
        name: str,
        on: Sequence[str],
        order: str | Sequence[str],
        key: str | Sequence[str] | None,
        *,
        alone: bool = False,
    ) -> None:
        of = "" if alone else f" of the {name} frame"
        require_late(frame.schema)
        self.frame, self.name, self.on = frame, name, list(on)
        self.orders = resolved(frame, f"order{of}", order)
        self.keys = keys_of(frame, f"key{of}", key)
        require_orders(frame, f"order{of}", self.orders)
        self.uncertain = ALTERNATIVES in frame.columns
        self.attributes = attributes_of(frame) if self.uncertain else list(on)
        lacking = [a for a in self.on if a not in self.attributes]
        if lacking:
            raise ValueError(
                f"`on` names {lacking}, which the alternatives{of} lack; "
                f"they have {self.attributes}"
            )
        self.plain = [] if self.uncertain else resolved(frame, f"on{of}", self.on)
        require_numbers(frame, f"on{of}", self.plain)
        self.passed = Passed(frame.schema, [c for c in frame.columns if c != ALTERNATIVES])

    def _fixed(self, attribute: str) -> str:
        on = attribute in self.on
        return f"on{self.on.index(attribute)}" if on else f"a{self.attributes.index(attribute)}"

    def values(self) -> Mapping[str, Column]:
        """What the operator reads beside keys and order, by fixed name."""
        return {ALTERNATIVES: self._alternatives()}

    def reason(self) -> Column | None:
        """Why a row is invalid by columns of the frame; else NULL."""
        return invalid_reason(self.frame, self.on if self.uncertain else self.plain)

    def invalid(self) -> Column:
        """Rows without order or key, or with a time beyond what windows take."""
        lacking = F.lit(False)
        for kind, number in (("order", len(self.orders)), ("key", len(self.keys))):
            for i in range(number):
                lacking = lacking | F.col(f"{kind}{i}").isNull()
        if not self.timed:
            return lacking
        return lacking | F.coalesce(beyond(self.frame.schema[self.orders[0]].dataType), F.lit(True))

    def _alternatives(self) -> Column:
        if self.uncertain:
            return F.transform(
                ALTERNATIVES,
                lambda a: F.struct(
                    a["prob"].cast("double").alias("prob"),
                    *(
                        a[name].cast(self._type(name)).alias(self._fixed(name))
                        for name in self.attributes
                    ),
                ),
            )
        prob = column("existence") if "existence" in self.frame.columns else F.lit(1.0)
        values = [column(n).cast("double").alias(f"on{i}") for i, n in enumerate(self.plain)]
        return F.array(F.struct(prob.cast("double").alias("prob"), *values))

    @property
    def never_behind(self) -> bool:
        """Whether the rows are said to be those of one controller, see `reading.controlled`."""
        return never_behind(self.frame.schema, self.orders, self.keys)

    @property
    def controlled_by(self) -> list[int] | None:
        """Numbers of the keys for each of which a controller stands before; None: of none."""
        found = controller_of(self.frame.schema, self.orders, self.keys)
        return None if found is None else [self.keys.index(key) for key in found]

    def fields(self, *, fixed: bool) -> list[StructField]:
        """Fields of this side's attributes in an answer's alternatives."""
        return [
            StructField(f"{self.name}_{self._fixed(a) if fixed else a}", self._type(a))
            for a in self.attributes
        ]

    def _type(self, attribute: str) -> DataType:
        if attribute in self.on:
            return DoubleType()
        array: Any = self.frame.schema[ALTERNATIVES].dataType
        return array.elementType[attribute].dataType


def beyond(kind: DataType) -> Column:
    """Whether the order, of this type, lies beyond 2**60 microseconds of 1970."""
    low, high = F.lit(-LONGEST), F.lit(LONGEST)
    if isinstance(kind, TimestampType):
        low, high = F.timestamp_micros(low), F.timestamp_micros(high)
    if isinstance(kind, TimestampNTZType):  # whatever the session's time zone
        low, high = (F.lit(time).cast(kind) for time in LONGEST_NTZ)
    return ~F.col("order0").between(low, high)


class IncompleteSide(Side):
    """A frame with missing values.

    given : what else a `Side` takes
    imputed : the attributes and determinants, in the imputer's order
    """

    def __init__(self, frame: DataFrame, name: str, *given: Any, imputed: Sequence[str]) -> None:
        for taken in (ALTERNATIVES, "existence"):
            if taken in frame.columns:
                raise ValueError(
                    f"`impute`: the {name} frame has a column `{taken}`, but joins of incomplete "
                    "rows take rows that exist, with plain values: drop it, or use sf.impute "
                    "before the join"
                )
        super().__init__(frame, name, *given)
        require_numbers(frame, f"impute, for the {name} frame", imputed)
        self.imputed = resolved(frame, f"impute, for the {name} frame", list(imputed))

    def values(self) -> Mapping[str, Column]:
        return {f"value{i}": column(n).cast("double") for i, n in enumerate(self.imputed)}

    def reason(self) -> Column | None:
        return None

    def fields(self, *, fixed: bool) -> list[StructField]:
        return super().fields(fixed=False)


def pairs_type(*sides: Sequence[StructField]) -> ArrayType:
    """The alternatives of an answer: pairs of alternatives of both sides, with these fields."""
    return ArrayType(StructType([StructField("prob", DoubleType()), *chain(*sides)]))
