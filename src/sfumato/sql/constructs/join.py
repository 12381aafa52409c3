"""SIMILARITY JOIN: its two tables, their common window, order and keys, as one source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lark import Token

from sfumato.sql.constructs.imputation import agreed, imputation_plan
from sfumato.sql.plan.nodes import Count, Earlier, JoinStep, at
from sfumato.sql.plan.options import join_plan, window_plan
from sfumato.sql.plan.sources import Frame, Source, called, found, ours, unknown_column
from sfumato.sql.text.errors import near
from sfumato.sql.text.syntax import Name, Node, Relation, SimilarityJoin, Window, plain
from sfumato.windows import Rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SIDES = ("left", "right")


@dataclass(frozen=True)
class Side:
    """One side of the join: where it is written, its frame, and the name its columns go by."""

    relation: Relation
    frame: Frame
    name: str


def similarity_join_source(
    left: Relation,
    join: SimilarityJoin,
    frame_of: Callable[[Relation], Frame],
    text: str,
    repository_of: Callable[[Name], Frame],
) -> Source:
    """The join as a source whose columns are those of `sf.similarity_join`.

    Its structs `left` and `right` are there under the sides' names as well, so that Spark itself
    resolves `a.sensor`; a star does not mean these copies.
    """
    from sfumato.spark.similarity_join import similarity_join

    plan = join_plan(join, text)
    if left.rest:
        raise at(text, left.rest[0], "what comes before SIMILARITY JOIN must be one table")
    sides = [
        Side(relation, frame_of(relation), side_name(relation, default))
        for relation, default in zip((left, join.side), SIDES, strict=True)
    ]
    if sides[0].name.lower() == sides[1].name.lower():
        reason = f"both sides are called {sides[1].name}: give them aliases"
        raise at(text, join.side, reason)
    plan = replace(plan, on=tuple(_attribute(name, sides, text) for name in join.on))
    count = _window(sides, join, text)
    window = count.window
    assert isinstance(window, Rows)
    order, key = _order(count, sides, text), _keys(join, sides, text)
    imputation, imputing = None, agreed((left, join.side), text)
    if imputing is not None:
        which, node = imputing
        side = sides[which]
        imputation = imputation_plan(node, side.frame, called(side.relation), repository_of, text)
    df = ours(
        lambda: similarity_join(
            sides[0].frame.df,
            sides[1].frame.df,
            on=list(plan.on),
            within=plan.within,
            probability=plan.probability,
            window=window,
            order=list(order),
            key=list(key) or None,
            strategy=plan.strategy,
            output=plan.output,
            impute=None if imputation is None else imputation[0],
        ),
        join,
        text,
    )
    steps = sides[0].frame.step, sides[1].frame.step
    arguments = None if imputation is None else imputation[1]
    step = JoinStep(*steps, plan, window, order, key, arguments)
    names = tuple(side.name for side in sides)
    df, copies = named(df, names, join.keyword, text)
    return Source(
        left.start,
        join.end,
        Frame(df, step),
        names,
        "",
        node=join,
        sides=dict(zip(names, SIDES, strict=True)),
        extra=copies,
        changed=True,
    )


def named(
    df: DataFrame, names: Sequence[str], place: Node | Token, text: str
) -> tuple[DataFrame, list[str]]:
    """The join with a copy of each side's struct under the side's name, and those names."""
    from pyspark.sql import functions as F  # noqa: N812

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


def side_name(relation: Relation, default: str) -> str:
    """What the columns of one side of a join go by."""
    if relation.alias is not None:
        return plain(relation.alias)
    return relation.head.parts[-1] if isinstance(relation.head, Name) else default


def _attribute(name: Name, sides: list[Side], text: str) -> str:
    """The attribute as both sides spell it."""
    spelled = []
    for side in sides:
        known = side.frame.attributes or side.frame.df.columns
        match = found(name.parts[-1], known)
        if match is None:
            raise unknown_column(name, known, called(side.relation), text)
        spelled.append(match)
    if spelled[0] != spelled[1]:
        raise at(text, name, f"the sides spell {name} differently: {spelled[0]} and {spelled[1]}")
    return spelled[0]


def _window(sides: list[Side], join: SimilarityJoin, text: str) -> Count:
    """The window of both sides: one bracket holds for both, two must agree."""
    counts = []
    for side in sides:
        window = side.relation.window
        if window is None:
            continue
        plan = window_plan(window, text)
        if not isinstance(plan, Count) or not isinstance(plan.window, Rows):
            word = "EARLIER" if isinstance(plan, Earlier) else "WATTR"
            hint = f"what comes first, join from (SELECT * FROM stream [{word} ...])"
            raise at(text, window, f"a SIMILARITY JOIN compares ROWS windows; {hint}")
        counts.append((plan, window))
    if not counts:
        reason = "the join lacks a window after a table's name"
        raise at(text, join.keyword, reason, expected=("[ROWS number]",))
    (first, _), (last, second) = counts[0], counts[-1]
    both = first.order is not None and last.order is not None
    if first.window != last.window or (both and first.order != last.order):
        raise at(text, second, "the windows of both sides must be the same")
    return replace(first, order=first.order or last.order)


def _order(count: Count, sides: list[Side], text: str) -> tuple[str, ...]:
    """The columns that order both sides, `arrival` if none are named."""
    windows = [side.relation.window for side in sides if side.relation.window is not None]
    options = [option for window in windows if (option := window.get("ORDER")) is not None]
    place: Window | Name = windows[0]
    order = []
    for i, name in enumerate(count.order or ("arrival",)):
        if options:
            place = options[0].names[i]
        spelled = [found(name, side.frame.df.columns) for side in sides]
        for side, match in zip(sides, spelled, strict=True):
            if match is None:
                reason = f"{called(side.relation)} has no column {name} to order it by"
                likely = near(name, side.frame.df.columns) if options else None
                wanted = () if options else ("ORDER column in the window",)
                raise at(text, place, reason, expected=wanted, suggestion=likely)
        if spelled[0] != spelled[1]:
            reason = f"the sides spell {name} differently: {spelled[0]} and {spelled[1]}"
            raise at(text, place, reason)
        order.append(str(spelled[0]))
    return tuple(order)


def _keys(join: SimilarityJoin, sides: list[Side], text: str) -> tuple[str, ...]:
    """The columns equated by `AND a.key = b.key`."""
    aliases = [side.name.lower() for side in sides]
    keys = []
    for pair in join.keys:
        columns: dict[int, str] = {}
        for name in pair:
            if len(name.parts) != 2 or name.parts[0].lower() not in aliases:
                wanted = tuple(f"{side.name}.{name.parts[-1]}" for side in sides)
                raise at(text, name, f"{name} must say whose column it is", expected=wanted)
            which = aliases.index(name.parts[0].lower())
            side = sides[which]
            match = found(name.parts[1], side.frame.df.columns)
            if match is None:
                raise unknown_column(name, side.frame.df.columns, side.name, text)
            columns[which] = match
        if len(columns) < 2:
            raise at(text, pair[1], "a key equates a column of one side with the other's")
        if columns[0] != columns[1]:
            reason = "a key has one name on both sides: rename one column in a subquery"
            raise at(text, pair[1], reason)
        keys.append(columns[0])
    return tuple(keys)
