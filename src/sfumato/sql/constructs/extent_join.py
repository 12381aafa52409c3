"""`a [RANGE ...] JOIN b [RANGE ...] ON ...`: two windowed tables as one source, by extents."""

from dataclasses import dataclass
from typing import Any

from lark import Token

from sfumato.api.extent_join import extent_join
from sfumato.api.window_aggregate import window_aggregate
from sfumato.duration import microseconds
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.runtime.lineage import Selection, remember_selected, steps_of
from sfumato.sql.constructs.join_sides import joined_source, side_names
from sfumato.sql.constructs.reorder import Reordered
from sfumato.sql.constructs.similarity_join import equated, join_words
from sfumato.sql.explanation.wording import per_key
from sfumato.sql.plan.block import Block
from sfumato.sql.plan.bracket import FORGET, NAMED
from sfumato.sql.plan.construct import Join
from sfumato.sql.plan.given import Given
from sfumato.sql.plan.nodes import Lines, Step, at
from sfumato.sql.plan.sources import Frame, Source, found
from sfumato.sql.text import syntax
from sfumato.sql.text.references import is_name, is_word, split
from sfumato.sql.text.syntax import end_of, plain, start_of
from sfumato.windows import Range

OUTER = ("LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI", "CROSS", "NATURAL")
COUNTED = "__tuples"  # a window's rows come out with an aggregate; this one is not wanted


@dataclass(frozen=True)
class ExtentJoined(Step):
    """`sf.extent_join` over two inputs."""

    left: Step
    right: Step
    key: tuple[str, ...]

    def title(self) -> str:
        return "join of two windowed streams, extent by extent"

    def lines(self) -> Lines:
        return [
            ("pairs", "rows whose extents end at the same time, once both are complete"),
            ("keys", per_key(self.key, "none, in one task")),
            ("state", "the rows of extents that only one side has completed"),
        ]


class ExtentJoining(Join):
    """`sf.extent_join` of two tables.

    Either side may be a query or view whose column `window` is that of extents. Inner joins only:
    what has no partner in its extent does not come out. Equal columns in ON are keys; the whole of
    ON is a filter.
    """

    def source(self, block: Block, clause: syntax.FromClause, place: int) -> Source | None:
        if len(clause.sources) != 2:
            return None
        left, second = clause.sources
        if not isinstance(left, syntax.Relation):
            return None
        right = second.side if isinstance(second, syntax.SimilarityJoin) else second
        if left.rest and is_word(left.rest[0], *OUTER) and left.imputation is None:
            _refuse_outer(block, left, right)
        if left.rest or left.imputation is not None or right.imputation is not None:
            return None
        if not (_has_extents(block, left) and _has_extents(block, right)):
            return None
        sides = _extents(block, left), _extents(block, right)
        frames, forgets, called = zip(*sides, strict=True)
        name = next(filter(None, called), None)
        known = [after for after in forgets if after is not None]
        after = max(known, key=lambda after: microseconds("FORGET", after), default=None)
        names = side_names(left, right, block.text)
        if isinstance(second, syntax.SimilarityJoin):
            given = join_words(second, block.text)
            on = [str(name) for name in second.on]
            similar: dict[str, Any] = {"on": on, **given.arguments("USING", "OUTPUT", NAMED.word)}
            name = given.value(NAMED) or name
            pairs = [tuple(name.parts for name in pair) for pair in equated(second)]
            condition = ""
        else:
            given, similar = Given((), (), right, block.text), {}
            pairs = _equated(right.rest, block.text)
            rest = right.rest
            condition = block.text[start_of(rest[1]) : end_of(rest[-1])] if len(rest) > 1 else ""
        key = _keys(pairs, names, frames)
        one, other = (frame.df for frame in frames)
        how: dict[str, Any] = {"key": key or None, "forget_after": after, "name": name}
        df = given.call(lambda: extent_join(one, other, **how, **similar))
        block.joined.add(right.start)
        left_step, right_step = (frame.step for frame in frames)
        step = ExtentJoined(left_step, right_step, tuple(key), runs=steps_of(df), named=name or "")
        joined = Frame(df, step)
        span, after = (left.start, clause.end), _written(block, condition)
        return joined_source(joined, names, span, given.node, block.text, after)


def _refuse_outer(block: Block, left: syntax.Relation, right: syntax.Relation) -> None:
    """A join that keeps rows without partner: they would have to wait for ever."""
    if _has_extents(block, left) and _has_extents(block, right):
        word = left.rest[0]
        reason = f"{str(word).upper()} JOIN of windows: rows meet in their extents, and one that "
        reason += "meets none does not come out"
        raise at(block.text, word, reason, expected=("JOIN",))


def _has_extents(block: Block, relation: syntax.Relation) -> bool:
    """Whether a table has a window by time, or is the answers over one."""
    if relation.bracket is None:
        frame, _ = block.frame(relation, needed=False)
        return frame is not None and SparkFrame(frame.df).is_extents
    asked = block.brackets.given(relation, block.text)
    return asked is not None and asked[0].kind == "time" and asked[1].get("RANGE") is not None


def _extents(block: Block, relation: syntax.Relation) -> tuple[Frame, Any, str | None]:
    """The extents of a table: the rows of its window, or the answers that it is; when its keys are
    forgotten, or None; and its NAMED, or None."""
    frame = block.needed(relation)
    asked = block.brackets.given(relation, block.text, frame)
    if asked is None:
        return frame, None, None
    bracket, given = asked
    ordered = bracket.frame(given, answered=True)
    window, order = bracket.window(given)
    assert isinstance(window, Range)
    key = ordered.step.key if isinstance(ordered.step, Reordered) else []
    count, after = {COUNTED: "count(*)"}, given.value(FORGET)
    df = given.call(
        lambda: window_aggregate(
            ordered.df, count, window=window, order=order, key=key or None, with_rows=True,
            forget_after=after, name=given.value(NAMED),
        )
    )  # fmt: skip
    wanted = df.drop(COUNTED)
    remember_selected(wanted, df, Selection(None))
    return Frame(wanted, ordered.step), after, given.value(NAMED)


def _equated(rest: tuple[syntax.Item, ...], text: str) -> list[tuple[tuple[str, ...], ...]]:
    """The pairs of columns that ON equates, `a.key = b.key`, between its ANDs."""
    if not rest:
        return []
    if not is_word(rest[0], "ON"):
        raise at(text, rest[0], "two windowed streams are joined ON a condition", expected=("ON",))
    pairs: list[tuple[tuple[str, ...], ...]] = []
    for items in split(rest[1:], lambda item: is_word(item, "AND")):
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


def _written(block: Block, condition: str) -> str:
    """ON's condition as a WHERE; beside a WHERE both hold."""
    if not condition:
        return ""
    condition = condition.replace("{", "{{").replace("}", "}}")
    where = block.clause("WHERE")
    if where is None:
        return f" WHERE ({condition}\n)"
    block.edits.insert(end_of(where.place), f" ({condition}\n) AND (")
    block.edits.insert(end_of(where.items[-1]), ")")
    return ""
