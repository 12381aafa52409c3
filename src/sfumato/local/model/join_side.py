"""One of the two tables of a join: what it offers, and what the operator reads of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import pyarrow as pa

from sfumato.local.model.frame import ArrowFrame
from sfumato.tables.joins.side import JoinSide

NUMBER = pa.float64()


class Side(JoinSide):
    """A table of one side, and how the operator reads it."""

    frame: ArrowFrame

    def check_points(self, argument: str) -> None:
        if not self.frame.uncertain:
            for name in self.points:
                self.frame.look_at_digits(argument, name)

    @property
    def fields(self) -> list[pa.Field]:
        """Of this side's attributes in an answer's alternatives."""
        kinds = [NUMBER if a in self.on else self.frame.attribute_type(a) for a in self.attributes]
        names = [f"{self.name}_{attribute}" for attribute in self.attributes]
        return [pa.field(name, kind) for name, kind in zip(names, kinds, strict=True)]


def pairs_type(*sides: Sequence[pa.Field]) -> pa.DataType:
    """The alternatives of an answer: pairs of alternatives of both sides, with these fields."""
    return pa.list_(pa.struct([pa.field("prob", NUMBER), *chain(*sides)]))
