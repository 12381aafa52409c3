"""JOIN of two tables windowed by time: extent by extent, as one source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lark import Token

from sfumato.sql.constructs.join import named, side_name
from sfumato.sql.plan.brackets import ranged, reordered
from sfumato.sql.plan.nodes import Disorder, ExtentJoin, at
from sfumato.sql.plan.options import is_uncontrolled, join_plan, window_plan
from sfumato.sql.plan.sources import Frame, Source, found, ours
from sfumato.sql.text.names import is_name, is_word
from sfumato.sql.text.syntax import (
    FromClause,
    Item,
    Relation,
    SimilarityJoin,
    end_of,
    plain,
    start_of,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sfumato.sql.plan.block import Block

SIDES = ("left", "right")
COUNTED = "__tuples"  # a window's rows come out with an aggregate; this one is not wanted


def extent_join_source(block: Block, clause: FromClause) -> Source | None:
    """The source of `a [RANGE ...] JOIN b [RANGE ...] ON ...`; None for anything else.

    Either side may be a query or view whose column `window` is that of extents. The structs `left`
    and `right` are there under the sides' names as well. Inner joins only: what has no partner in
    its extent does not come out. Equal columns in ON are keys; the whole of ON is a filter.
    """
    if len(clause.sources) != 2:
        return None
    left, second = clause.sources
    if not isinstance(left, Relation) or left.rest:
        return None
    join = second if isinstance(second, SimilarityJoin) else None
    right = second.side if isinstance(second, SimilarityJoin) else second
    relations = (left, right)
    if any(relation.imputation is not None for relation in relations):
        return None
    found_ = [_extents(block, relation) for relation in relations]
    frames = [frame for frame in found_ if frame is not None]
    if len(frames) < 2:
        return None
    names = [side_name(r, default) for r, default in zip(relations, SIDES, strict=True)]
    if names[0].lower() == names[1].lower():
        reason = f"both sides are called {names[1]}: give them aliases"
        raise at(block.text, right, reason)
    similar: dict[str, Any] = {}
    if join is not None:
        plan = join_plan(join, block.text)
        similar = {"on": list(plan.on), "within": plan.within, "probability": plan.probability}
        pairs = [tuple(name.parts for name in pair) for pair in join.keys]
        condition = ""
    else:
        pairs = _equated(right.rest, block.text)
        condition = _condition(right.rest, block.text)
    keys = _keys(pairs, names, (frames[0], frames[1]))
    place = join or right
    df = ours(lambda: _joined(frames[0], frames[1], keys, similar), place, block.text)
    df, copies = named(df, names, right, block.text)
    block.joined.add(right.start)
    return Source(
        left.start,
        clause.end,
        Frame(df, ExtentJoin(frames[0].step, frames[1].step, tuple(keys))),
        tuple(names),
        _written(block, condition),
        node=place,
        sides=dict(zip(names, SIDES, strict=True)),
        extra=copies,
        changed=True,
    )


def _joined(left: Frame, right: Frame, keys: list[str], similar: dict[str, Any]) -> DataFrame:
    from sfumato.spark.extent_join import extent_join

    return extent_join(left.df, right.df, key=keys or None, **similar)


def _extents(block: Block, relation: Relation) -> Frame | None:
    """The extents of a table: the rows of its window, or the answers that it is."""
    from sfumato.spark.extent_join import is_extents
    from sfumato.spark.window_aggregate import window_aggregate

    if relation.window is not None:
        plan = window_plan(relation.window, block.text)
        if not isinstance(plan, Disorder) or plan.extent is None:
            return None
        table = block.needed(relation)
        frame = reordered(table, plan, relation, block.text)
        window, order = ranged(frame, plan)
        assert window is not None
        key = list(frame.step.arguments.key)  # type: ignore[union-attr]
        if is_uncontrolled(relation.window):
            frame, key = table, []
        df = ours(
            lambda: window_aggregate(
                frame.df,
                {COUNTED: "count(*)"},
                window=window,
                order=order,
                key=key or None,
                members=True,
            ).drop(COUNTED),
            relation.window,
            block.text,
        )
        return Frame(df, frame.step)
    frame_, _ = block.frame(relation, needed=False)
    return frame_ if frame_ is not None and is_extents(frame_.df) else None


def _equated(rest: tuple[Item, ...], text: str) -> list[tuple[tuple[str, ...], ...]]:
    """The pairs of columns that ON equates, `a.key = b.key`, between its ANDs."""
    if not rest:
        return []
    if not is_word(rest[0], "ON"):
        raise at(text, rest[0], "two windowed streams are joined ON a condition", expected=("ON",))
    conjuncts: list[list[Item]] = [[]]
    for item in rest[1:]:
        if is_word(item, "AND"):
            conjuncts.append([])
        else:
            conjuncts[-1].append(item)
    pairs: list[tuple[tuple[str, ...], ...]] = []
    for items in conjuncts:
        names = [plain(item) for item in items if is_name(item)]
        signs = [str(item) for item in items if isinstance(item, Token) and not is_name(item)]
        if len(items) == 7 and len(names) == 4 and signs == [".", "=", "."]:
            pairs.append(((names[0], names[1]), (names[2], names[3])))
    return pairs


def _keys(
    pairs: list[tuple[tuple[str, ...], ...]], names: list[str], frames: tuple[Frame, Frame]
) -> list[str]:
    """Columns of one name on both sides among the equated ones: by these rows meet."""
    keys = []
    for (one, first), (other, second) in pairs:
        sides = {one.lower(), other.lower()} == {name.lower() for name in names}
        spelled = [found(first, frame.df.columns) for frame in frames]
        same = spelled[0] is not None and spelled[0] == spelled[1]
        if sides and first.lower() == second.lower() and same and first.lower() != "window":
            keys.append(str(spelled[0]))
    return keys


def _condition(rest: tuple[Item, ...], text: str) -> str:
    return text[start_of(rest[1]) : end_of(rest[-1])] if len(rest) > 1 else ""


def _written(block: Block, condition: str) -> str:
    """ON's condition as a WHERE; beside a WHERE both hold."""
    if not condition:
        return ""
    condition = condition.replace("{", "{{").replace("}", "}}")
    where = next((c for c in block.clauses if c.word == "WHERE"), None)
    if where is None or where.keyword is None:
        return f" WHERE ({condition}\n)"
    block.edits.insert(end_of(where.keyword), f" ({condition}\n) AND (")
    block.edits.insert(end_of(where.items[-1]), ")")
    return ""
