"""The two sides of a join of ours: what their columns go by."""

from __future__ import annotations

from collections.abc import Sequence

from lark import Token
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sfumato.sql.plan.nodes import at
from sfumato.sql.plan.sources import found
from sfumato.sql.text.syntax import Name, Node, Relation, plain

SIDES = ("left", "right")


def side_names(left: Relation, right: Relation, text: str) -> list[str]:
    """What the columns of each side go by. Raises SqlError if both go by the same."""
    names = []
    for relation, default in ((left, SIDES[0]), (right, SIDES[1])):
        if relation.alias is not None:
            names.append(plain(relation.alias))
        else:
            named = isinstance(relation.head, Name)
            names.append(relation.head.parts[-1] if named else default)  # type: ignore[union-attr]
    if names[0].lower() == names[1].lower():
        raise at(text, right, f"both sides are called {names[1]}: give them aliases")
    return names


def with_side_names(
    df: DataFrame, names: Sequence[str], place: Node | Token, text: str
) -> tuple[DataFrame, list[str]]:
    """The join with a copy of each side's struct under the side's name, and those names.

    Spark itself then resolves `a.sensor`; a star does not mean these copies.
    """
    copies = []
    for name, column in zip(names, SIDES, strict=True):
        if name.lower() == column:
            continue
        if found(name, df.columns) is not None:
            reason = f"{name} is a column of the join as well: give the table another alias"
            raise at(text, place, reason)
        df = df.withColumn(name, F.col(column))
        copies.append(name)
    return df, copies
