"""The two sides of a join of ours: what their columns go by."""

from collections.abc import Sequence

from pyspark.sql import functions as F  # noqa: N812

from sfumato.sql.plan.nodes import at
from sfumato.sql.plan.sources import Frame, Source, found
from sfumato.sql.text.syntax import Name, Node, Relation, SimilarityJoin, plain

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


def joined_source(
    joined: Frame,
    names: Sequence[str],
    span: tuple[int, int],
    node: Node,
    text: str,
    after: str = "",
) -> Source:
    """The join as a source, with a copy of each side's struct under the side's name.

    Spark itself then resolves `a.sensor`; a star does not mean these copies.
    span : of the join in the text;  node : what to point at;  after : what follows it in the text
    """
    df, copies, place = joined.df, [], node.keyword if isinstance(node, SimilarityJoin) else node
    for name, column in zip(names, SIDES, strict=True):
        if name.lower() == column:
            continue
        if found(name, df.columns) is not None:
            reason = f"{name} is a column of the join as well: give the table another alias"
            raise at(text, place, reason)
        df = df.withColumn(name, F.col(column))
        copies.append(name)
    return Source(
        *span,
        Frame(df, joined.step),
        tuple(names),
        after,
        node,
        sides=dict(zip(names, SIDES, strict=True)),
        extra=copies,
        changed=True,
    )
