"""One of the two frames of a join: what it offers, and the columns of its part of an answer."""

from collections.abc import Sequence
from itertools import chain

from pyspark.sql.types import ArrayType, DataType, DoubleType, StructField, StructType

from sfumato.spark.model.frame import SparkFrame, kind_of
from sfumato.spark.model.names import Passed
from sfumato.tables.joins.side import JoinSide
from sfumato.tables.reading.frame import NUMBERS


class Side(JoinSide):
    """A frame of one side, and what the operator reads of it as columns."""

    frame: SparkFrame

    def check_points(self, argument: str) -> None:
        if not self.frame.uncertain:
            self.frame.require_numbers(argument, self.points)
            return
        for name in self.points:
            kind = self.frame.attribute_type(name)
            if kind_of(kind) not in (*NUMBERS, "truth", "timestamp"):
                raise TypeError(
                    f"`{argument}`: attribute `{name}` must be of numbers; it is "
                    f"{kind.simpleString()}: cast it before"
                )

    @property
    def row(self) -> Passed:
        """The columns that come out again."""
        return Passed(self.frame.schema, self.passed)

    def _fixed(self, attribute: str) -> str:
        on = attribute in self.on
        return f"on{self.on.index(attribute)}" if on else f"a{self.attributes.index(attribute)}"

    def fields(self, *, fixed: bool) -> list[StructField]:
        """Fields of this side's attributes in an answer's alternatives."""
        fixed = fixed and self.imputed is None
        return [
            StructField(f"{self.name}_{self._fixed(a) if fixed else a}", self._type(a))
            for a in self.attributes
        ]

    def _type(self, attribute: str) -> DataType:
        return DoubleType() if attribute in self.on else self.frame.attribute_type(attribute)


def pairs_type(*sides: Sequence[StructField]) -> ArrayType:
    """The alternatives of an answer: pairs of alternatives of both sides, with these fields."""
    return ArrayType(StructType([StructField("prob", DoubleType()), *chain(*sides)]))
