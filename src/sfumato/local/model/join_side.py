"""One of the two tables of a join: what it offers, and what the operator reads of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import pyarrow as pa

from sfumato.local.model.controlled import (
    controller_of,
    never_behind,
    require_late,
    require_said,
)
from sfumato.local.model.frame import Frame
from sfumato.tables.reading.input import Reading, of_incomplete_join, of_join
from sfumato.tables.reading.tuples import ALTERNATIVES

NUMBER = pa.float64()


class Side:
    """A table of uncertain tuples; without alternatives each row is one, of its plain columns.

    on : the attributes that span the distance    alone : the other side is the same table, which
        errors do not call left or right
    timed : whether a window goes by the order, which is a time
    """

    timed = False

    def __init__(
        self,
        frame: Frame,
        name: str,
        on: Sequence[str],
        order: str | Sequence[str],
        key: str | Sequence[str] | None,
        *,
        alone: bool = False,
    ) -> None:
        of = "" if alone else f" of the {name} table"
        require_late(frame.schema)
        require_said(frame.schema, frame.forgotten)
        self.frame, self.name, self.on = frame, name, list(on)
        self.orders = frame.resolved(f"order{of}", order)
        self.keys = frame.keys(f"key{of}", key)
        frame.require_orders(f"order{of}", self.orders)
        self.attributes = frame.attributes if frame.uncertain else list(on)
        lacking = [a for a in self.on if a not in self.attributes]
        if lacking:
            raise ValueError(
                f"`on` names {lacking}, which the alternatives{of} lack; "
                f"they have {self.attributes}"
            )
        self.points = self.on
        if not frame.uncertain:
            self.points = frame.resolved(f"on{of}", self.on)
        self.passed = [column for column in frame.columns if column != ALTERNATIVES]

    def reading(self, aligned: bool) -> Reading:
        """How the operator reads the table; `aligned`: with late rows and punctuations."""
        return of_join(self.passed, self.orders, self.keys, self.points, aligned, self.timed)

    @property
    def never_behind(self) -> bool:
        """Whether the rows are said to be those of one controller, see `reading.controlled`."""
        return never_behind(self.frame.schema, self.orders, self.keys)

    @property
    def controlled_by(self) -> list[int] | None:
        """Numbers of the keys for each of which a controller stands before; None: of none."""
        found = controller_of(self.frame.schema, self.orders, self.keys)
        return None if found is None else [self.keys.index(key) for key in found]

    @property
    def fields(self) -> list[pa.Field]:
        """Of this side's attributes in an answer's alternatives."""
        kinds = [NUMBER if a in self.on else self.frame.attribute_type(a) for a in self.attributes]
        names = [f"{self.name}_{attribute}" for attribute in self.attributes]
        return [pa.field(name, kind) for name, kind in zip(names, kinds, strict=True)]


class IncompleteSide(Side):
    """A table with missing values.

    imputed : the attributes and determinants, in the imputer's order
    """

    def __init__(
        self,
        frame: Frame,
        name: str,
        on: Sequence[str],
        order: str | Sequence[str],
        key: str | Sequence[str] | None,
        imputed: Sequence[str],
    ) -> None:
        for taken in (ALTERNATIVES, "existence"):
            if taken in frame.columns:
                raise ValueError(
                    f"`impute`: the {name} table has a column `{taken}`, but joins of incomplete "
                    "rows take rows that exist, with plain values: drop it, or use impute "
                    "before the join"
                )
        super().__init__(frame, name, on, order, key)
        frame.require_numbers(f"impute, for the {name} table", imputed)
        self.imputed = frame.resolved(f"impute, for the {name} table", list(imputed))

    def reading(self, aligned: bool) -> Reading:
        return of_incomplete_join(
            self.passed, self.orders, self.keys, self.imputed, aligned, self.timed
        )


def pairs_type(*sides: Sequence[pa.Field]) -> pa.DataType:
    """The alternatives of an answer: pairs of alternatives of both sides, with these fields."""
    return pa.list_(pa.struct([pa.field("prob", NUMBER), *chain(*sides)]))
