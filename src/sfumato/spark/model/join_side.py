"""One of the two frames of a join: what it offers, and what the operator reads of it."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from pyspark.sql import Column
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
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.model.names import Passed, column
from sfumato.spark.model.same import Constant, Single, Whole
from sfumato.spark.model.validity import absent_or, clipped, invalid_reason
from sfumato.tables.joins.side import JoinSide
from sfumato.windows import LONGEST

LONGEST_NTZ = "-34563-01-01", "+38504-01-01"  # within 2**60 microseconds of 1970


class Side(JoinSide):
    """A frame of one side, and what the operator reads of it as columns."""

    frame: SparkFrame

    def check_points(self, argument: str) -> None:
        if not self.frame.uncertain:
            self.frame.require_numbers(argument, self.points)

    @property
    def row(self) -> Passed:
        """The columns that come out again."""
        return Passed(self.frame.schema, self.passed)

    @property
    def same(self) -> dict[str, Any]:
        """What `values` are, see `Input`."""
        if self.imputed is not None:
            return {f"value{i}": Whole(name) for i, name in enumerate(self.imputed)}
        if self.frame.uncertain:
            return {}
        certain = "existence" not in self.frame.columns
        fields = {f"on{i}": Whole(name) for i, name in enumerate(self.points)}
        return {
            ALTERNATIVES: Single(
                {"prob": Constant(1.0) if certain else Whole("existence"), **fields}
            )
        }

    def _fixed(self, attribute: str) -> str:
        on = attribute in self.on
        return f"on{self.on.index(attribute)}" if on else f"a{self.attributes.index(attribute)}"

    def values(self) -> Mapping[str, Column]:
        """What the operator reads beside keys and order, by fixed name."""
        if self.imputed is None:
            return {ALTERNATIVES: self._alternatives()}
        return {f"value{i}": column(n).cast("double") for i, n in enumerate(self.imputed)}

    def reason(self) -> Column | None:
        """Why a row is invalid by columns of the frame; else NULL."""
        if self.imputed is not None:
            return None
        exists = "existence" in self.frame.columns and not self.frame.uncertain
        reason = invalid_reason(self.frame.df, self.points, self.bounds)
        return absent_or(reason, "existence" if exists else None)

    def invalid(self) -> Column:
        """Rows without order or key, or with a time beyond what windows take."""
        lacking = F.lit(False)
        for kind, number in (("order", len(self.orders)), ("key", len(self.keys))):
            for i in range(number):
                lacking = lacking | F.col(f"{kind}{i}").isNull()
        if not self.timed:
            return lacking
        return lacking | F.coalesce(beyond(self.frame.type(self.orders[0])), F.lit(True))

    def _alternatives(self) -> Column:
        if self.frame.uncertain:
            return self._renamed()
        certain = "existence" not in self.frame.columns
        prob = F.lit(1.0) if certain else clipped(column("existence"))
        values = [column(n).cast("double").alias(f"on{i}") for i, n in enumerate(self.points)]
        return F.array(F.struct(prob.alias("prob"), *values))

    def _renamed(self) -> Column:
        """The alternatives with their attributes under fixed names."""
        fields: list[tuple[str, str, DataType]] = [("prob", "prob", DoubleType())]
        fields += [(name, self._fixed(name), self._type(name)) for name in self.attributes]
        given: Any = self.frame.type(ALTERNATIVES)
        if given.elementType.names == [name for name, _, _ in fields]:
            # As they are: a cast renames them by their places, and is compiled, as no lambda is.
            kind = StructType([StructField(fixed, kind) for _, fixed, kind in fields])
            return F.col(ALTERNATIVES).cast(ArrayType(kind))
        return F.transform(
            ALTERNATIVES,
            lambda a: F.struct(*(a[name].cast(kind).alias(to) for name, to, kind in fields)),
        )

    def fields(self, *, fixed: bool) -> list[StructField]:
        """Fields of this side's attributes in an answer's alternatives."""
        fixed = fixed and self.imputed is None
        return [
            StructField(f"{self.name}_{self._fixed(a) if fixed else a}", self._type(a))
            for a in self.attributes
        ]

    def _type(self, attribute: str) -> DataType:
        return DoubleType() if attribute in self.on else self.frame.attribute_type(attribute)


def beyond(kind: DataType) -> Column:
    """Whether the order, of this type, lies beyond 2**60 microseconds of 1970."""
    low, high = F.lit(-LONGEST), F.lit(LONGEST)
    if isinstance(kind, TimestampType):
        low, high = F.timestamp_micros(low), F.timestamp_micros(high)
    if isinstance(kind, TimestampNTZType):  # whatever the session's time zone
        low, high = (F.lit(time).cast(kind) for time in LONGEST_NTZ)
    return ~F.col("order0").between(low, high)


def pairs_type(*sides: Sequence[StructField]) -> ArrayType:
    """The alternatives of an answer: pairs of alternatives of both sides, with these fields."""
    return ArrayType(StructType([StructField("prob", DoubleType()), *chain(*sides)]))
