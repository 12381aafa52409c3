"""Joins of two tables into one source: SIMILARITY JOIN, and JOIN of two RANGE windows."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from sfumato.api.extent_join import extent_join
from sfumato.api.joins import similarity_join
from sfumato.api.window_aggregate import window_aggregate
from sfumato.duration import microseconds
from sfumato.language.blocks import Block
from sfumato.language.brackets import (
    FORGET,
    IDLE_TIMEOUT,
    NAMED,
    DeltaOptions,
    RowsOptions,
    TableOptions,
    bracket_of,
    refuse_aggregate_words,
)
from sfumato.language.construct_options import Options, words_of
from sfumato.language.impute_clause import IMPUTE_WORDS, joint_imputation, read_imputation
from sfumato.language.parse import Word
from sfumato.language.steps import SIDES, Step, argument_lines, join_lines, per_key
from sfumato.language.syntax import (
    Name,
    Node,
    Option,
    Relation,
    Similarity,
    at,
    is_word,
    name_in,
    span_of,
    split,
)
from sfumato.language.tables import (
    PlannedFrame,
    Source,
    describe_existence,
    match_name,
    resolve_column,
)
from sfumato.spark.model.estimates import window_pair
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.runtime.fuse import Selection, describe_fusion, remember_selected
from sfumato.sql_tokens import double_braces
from sfumato.windows import Range

JOIN_WORDS = (
    replace(words_of(similarity_join, "within")[0], shape="distance"),  # or a radius column
    *words_of(similarity_join, "probability", "metric", "strategy", "output", "how", "tasks"),
    IDLE_TIMEOUT,
    NAMED,
    Word("AND", "column EQUAL column", repeated=True),
)
OUTER_SIDES, INNER = ("LEFT", "RIGHT", "FULL"), "inner"
TUPLES_COLUMN = "__tuples"  # the aggregate required to emit a window's rows; it is dropped


def join_tables(block: Block, place: int) -> Source | None:
    """Return tables `place` and `place + 1` as one source, or None if Spark joins them."""
    left, right = block.relations[place : place + 2]
    others = block.relations if place == 0 and len(block.relations) > 2 else ()
    windows = [relation for relation in others if _has_extents(block, relation)]
    if len(windows) > 1:  # Spark would not join them by extent
        reason = (
            "a join of two windows cannot contain a third table: put the two windows in a subquery"
        )
        raise at(windows[1], reason)
    extents = _extent_join(block, left, right) if len(block.relations) == 2 else None
    if extents is not None or right.join is None:
        return extents
    return _similarity_join(block, left, right, right.join)


# ---- SIMILARITY JOIN -----------------------------------------------------------------------------

Sides = Sequence[tuple[Relation, PlannedFrame]]


def _similarity_join(block: Block, left: Relation, right: Relation, join: Similarity) -> Source:
    relations = left, right
    if left.join is not None:
        raise at(
            join.keyword,
            "a SIMILARITY JOIN cannot have three streams: put the first two in a subquery",
        )
    given = join_words(join)
    if left.rest:
        raise at(left.rest[0], "the left side of SIMILARITY JOIN must be one table")
    names = _side_names(left, right)
    frames = [block.required_frame(relation) for relation in relations]
    sides = list(zip(relations, frames, strict=True))
    brackets = _brackets(sides, join)
    on = [_shared_name(name, name, sides, attributes=True) for name in join.on]
    for bracket in brackets:
        refuse_aggregate_words(bracket.options)
    bounds = brackets[0].join_window(), brackets[-1].join_window()
    windows = brackets[0].call(lambda: window_pair(bounds, on))
    arguments: dict[str, Any] = {"on": on, **given.arguments()}
    if isinstance(within := arguments["within"], list):  # one per attribute
        if len(within) != len(on):
            reason = f"WITHIN has {len(within)} distances, but ON has {len(on)} attributes"
            option = given.get("WITHIN") or join
            raise at(option, reason, "a number", "one per attribute")
        arguments["within"] = dict(zip(on, within, strict=True))
    arguments["order"] = _order_columns(brackets, sides)
    arguments["key"] = _key_columns(join, frames, names) or None
    arguments["forget_after"] = brackets[0].value(FORGET)
    imputation, imputed = None, None
    if (found := joint_imputation(relations)) is not None:
        side, node = found
        _refuse_name(node.options)
        options = Options(node.options, node, relations[side], frames[side], IMPUTE_WORDS)
        imputation, imputed = read_imputation(options, node, block.tables.find_table)
    dfs, existence = [frame.df for frame in frames], dict.fromkeys(map(describe_existence, frames))
    said = [*existence]
    known = [SparkFrame(df) for df in dfs]
    if not any(frame.certain or frame.worlds for frame in known):
        said.append("readings of the two sides are treated as independent")
    lines = join_lines(arguments, windows, dfs, "; ".join(said), imputed)
    df = given.call(lambda: similarity_join(*dfs, window=windows, impute=imputation, **arguments))
    title = "similarity join of two uncertain windows"
    if imputation is not None:
        title = "similarity join of two incomplete windows, imputed during the join"
    inputs = {side: frame.step for side, frame in zip(SIDES, frames, strict=True)}
    step = Step(title, lines, inputs, runs=describe_fusion(df), named=arguments.get("name", ""))
    place = span_of([join.keyword])
    return _joined_source(PlannedFrame(df, step), names, Node(left.start, join.end), place)


def join_words(join: Similarity) -> Options:
    """Return a join's words. Raises SqlError for missing words and qualified columns."""
    for name in join.on:
        if len(name.words) > 1:
            raise at(name, "ON must name attributes of both sides, without a table", name.parts[-1])
    for option in join.options:
        if option.word == "WITHIN" and option.names and len(option.names[0].parts) > 1:
            radius = option.names[0]
            reason = "WITHIN must name a radius column of one or both sides, without a table"
            raise at(radius, reason, radius.parts[-1])
    return Options(join.options, join, words=JOIN_WORDS)


def _shared_name(name: Name | str, place: Node, sides: Sides, *, attributes: bool = False) -> str:
    """Return the spelling of a name that both sides have. Raises SqlError for two spellings."""
    spelled = []
    for relation, frame in sides:
        known = (attributes and frame.attributes) or frame.df.columns
        if isinstance(name, Name):
            spelled.append(resolve_column(name, known, relation, qualified=attributes))
        elif (match := match_name(name, known)) is not None:
            spelled.append(match)
        else:
            reason = f"{relation} has no column {name}, by which the join orders its rows"
            raise at(place, reason, "ORDER column in the window")
    if spelled[0] != spelled[1]:
        reason = f"both sides must spell {name} in the same way; got {spelled[0]} and {spelled[1]}"
        raise at(place, reason)
    return spelled[0]


def _brackets(sides: Sides, join: Similarity) -> list[RowsOptions | DeltaOptions]:
    """Return the sides' window words; a single bracket applies to both sides."""
    brackets: list[RowsOptions | DeltaOptions] = []
    for relation, frame in sides:
        given = bracket_of(relation, frame)
        if isinstance(given, RowsOptions | DeltaOptions):
            _refuse_name(given.options)
            brackets.append(given)
        elif given is not None:
            word = "WATTR" if given.kind else given.words[0].word
            hint = f"write this bracket in a subquery, (SELECT * FROM stream [{word} ...])"
            raise at(given.node, f"a SIMILARITY JOIN needs ROWS, SPAN or DELTA windows; {hint}")
    if not brackets:
        reason = "the join needs a window after a table name"
        raise at(join.keyword, reason, "[ROWS number]", "[SPAN duration]", "[DELTA number ON x]")
    orders = [list(map(str, option.names)) for o in brackets if (option := o.get("ORDER"))]
    forgets = [given.value(FORGET) for given in brackets]
    if forgets[0] != forgets[-1] or (orders and orders[0] != orders[-1]):
        raise at(brackets[-1].node, "both sides must have the same ORDER and FORGET")
    return brackets


def _refuse_name(options: Sequence[Option]) -> None:
    """Raise SqlError for NAMED on one side: there is only one operator."""
    for option in options:
        if option.word == "NAMED":
            raise at(option, "NAMED applies to the join, not to a side: write it after PROBABILITY")


def _order_columns(brackets: Sequence[TableOptions], sides: Sides) -> list[str]:
    option = next((option for given in brackets if (option := given.get("ORDER"))), None)
    names: Sequence[Name | str] = ["arrival"] if option is None else option.names
    return [
        _shared_name(name, name if isinstance(name, Name) else brackets[0].node, sides)
        for name in names
    ]


def _key_columns(
    join: Similarity, frames: Sequence[PlannedFrame], names: Sequence[str]
) -> list[str]:
    aliases, keys = [name.lower() for name in names], []
    for pair in (option.names for option in join.options if option.word == "AND"):
        columns: dict[int, str] = {}
        for name in pair:
            if len(name.parts) != 2 or name.parts[0].lower() not in aliases:
                wanted = [f"{alias}.{name.parts[-1]}" for alias in names]
                raise at(name, f"{name} needs the name of its table", *wanted)
            side = aliases.index(name.parts[0].lower())
            known = frames[side].df.columns
            columns[side] = resolve_column(name, known, names[side], qualified=True)
        if len(columns) < 2:
            raise at(pair[1], "a key must equate a column of one side with a column of the other")
        if columns[0] != columns[1]:
            reason = "a key must have the same name on both sides: rename one column in a subquery"
            raise at(pair[1], reason)
        keys.append(columns[0])
    return keys


# ---- JOIN of two time windows --------------------------------------------------------------------


def _extent_join(block: Block, left: Relation, right: Relation) -> Source | None:
    """Return `sf.extent_join` of two tables, or None for any other join.

    Each side has a RANGE, or is a query or view whose column `window` holds extents. Columns that
    ON equates are keys. In an inner join, the entire ON condition is also a filter; an outer join
    accepts only keys.
    """
    if left.imputation or right.imputation:
        return None
    if not (_has_extents(block, left) and _has_extents(block, right)):
        return None
    kept = _join_type(left)
    sides = _extents(block, left), _extents(block, right)
    frames, brackets = [frame for frame, _ in sides], [bracket for _, bracket in sides]
    names, given, condition = _side_names(left, right), Options((), right), ""
    how: dict[str, Any] = {"how": kept, "nulls_equal": False}
    how["name"] = next((name for of in brackets if (name := of and of.value(NAMED))), None)
    for word in (FORGET, IDLE_TIMEOUT):
        known = [length for of in brackets if of and (length := of.value(word)) is not None]
        longest = max(known, key=lambda length: microseconds(word.word, length), default=None)
        how[word.argument] = longest
    if right.join is not None:
        given = join_words(right.join)
        how |= {"on": list(map(str, right.join.on)), **given.arguments("USING", "OUTPUT")}
        key = _key_columns(right.join, frames, names)
    else:
        key = _equated_keys(right, names, frames, kept)
        if kept == INNER and right.rest[1:]:
            place = span_of(right.rest[1:])
            condition = block.text[place.start : place.end]
    how["key"] = key or None
    df = given.call(lambda: extent_join(frames[0].df, frames[1].df, **how))
    lines = [
        ("pairs", "rows whose extents end at the same time, once both are complete"),
        ("keys", per_key(key, "none, in one task")),
        ("state", "the rows of extents that only one side has completed"),
        *argument_lines({word.argument: how[word.argument] for word in (IDLE_TIMEOUT, FORGET)}),
    ]
    inputs = {side: frame.step for side, frame in zip(SIDES, frames, strict=True)}
    title, named = "join of two windowed streams, extent by extent", how["name"] or ""
    step = Step(title, lines, inputs, runs=describe_fusion(df), named=named)
    node = Node(left.start, right.end if right.join is None else right.join.end)
    written = _filter_text(block, condition)
    return _joined_source(PlannedFrame(df, step), names, node, given.node, written)


def _join_type(left: Relation) -> str:
    """Return INNER, or the side before JOIN in lower case. Raises SqlError for any other join."""
    side, *more = [str(of).upper() for of in left.rest] or [INNER.upper()]
    if (side not in OUTER_SIDES or more not in ([], ["OUTER"])) and (side, more) != ("INNER", []):
        words = " ".join([side, *more])
        reason = (
            f"{words} JOIN of windows is not supported: a join of windows must be inner or outer"
        )
        raise at(left.rest[0], reason, "JOIN", *(f"{word} JOIN" for word in OUTER_SIDES))
    return side.lower()


def _has_extents(block: Block, relation: Relation) -> bool:
    if relation.bracket is None:
        frame = block.frame(relation)
        return frame is not None and SparkFrame(frame.df).has_extents
    given = bracket_of(relation)
    return given is not None and given.kind == "time" and given.get("RANGE") is not None


def _extents(block: Block, relation: Relation) -> tuple[PlannedFrame, TableOptions | None]:
    """Return a table's extents (window rows or answers), and its bracket, if it has one."""
    frame = block.required_frame(relation)
    given = bracket_of(relation, frame)
    if given is None:
        return frame, None
    refuse_aggregate_words(given.options)
    ordered = given.rows(answered=True)
    window, order = given.window()
    assert isinstance(window, Range)
    key = ordered.step.facts.get("key", []) if ordered is not frame else []
    how: dict[str, Any] = {"window": window, "order": order, "key": key or None, "with_rows": True}
    how |= {"forget_after": given.value(FORGET), "name": given.value(NAMED)}
    count = {TUPLES_COLUMN: "count(*)"}
    df = given.call(lambda: window_aggregate(ordered.df, count, **how))
    wanted = df.drop(TUPLES_COLUMN)
    remember_selected(wanted, df, Selection(None))
    return PlannedFrame(wanted, ordered.step), given


def _equated_keys(
    right: Relation, names: list[str], frames: Sequence[PlannedFrame], kept: str
) -> list[str]:
    """Return the join's keys: the columns that ON equates, with the same name on both sides."""
    on = right.rest[0] if right.rest else None
    if on is not None and not is_word(on, "ON"):
        raise at(on, "a join of two windowed streams needs a condition", "ON")
    keys, known = list[str](), {name.lower() for name in names}
    parts = split(right.rest[1:], lambda item: is_word(item, "AND"))
    for part in parts:
        sides = [name_in(items) for items in split(part, lambda item: str(item) == "=")]
        pair = [name.parts for name in sides if name is not None and len(name.parts) == 2]
        if len(sides) == len(pair) == 2:
            (one, first), (other, second) = pair
            spelled = [match_name(first, frame.df.columns) for frame in frames]
            same = spelled[0] is not None and spelled[0] == spelled[1]
            is_pair = {one.lower(), other.lower()} == known and first.lower() == second.lower()
            if is_pair and same and first.lower() != "window":
                keys.append(str(spelled[0]))
    if kept != INNER and len(keys) < len(parts):
        reason = (
            f"{kept.upper()} JOIN of windows accepts only equal keys with the same name on both "
            "sides as its condition; rename a column in a subquery"
        )
        raise at(on or right, reason, "ON a.key = b.key", "a JOIN and a WHERE")
    return keys


def _filter_text(block: Block, condition: str) -> str:
    """Return the ON condition as a WHERE clause; "" if it is added to an existing WHERE."""
    condition = double_braces(condition)
    where = block.clause("WHERE") if condition else None
    if where is None:
        # Spark reads `WHERE (a)` after a table as an alias with a column list.
        return f" WHERE (({condition}\n))" if condition else ""
    block.edits.insert(where.place.end, f" ({condition}\n) AND (")
    block.edits.insert(where.items[-1].end, ")")
    return ""


# ---- the two sides ----------------------------------------------------------------------------


def _side_names(left: Relation, right: Relation) -> list[str]:
    names = [left.name or SIDES[0], right.name or SIDES[1]]
    if names[0].lower() == names[1].lower():
        raise at(right, f"both sides are called {names[1]}: give them aliases")
    return names


def _joined_source(
    joined: PlannedFrame, names: Sequence[str], span: Node, node: Node, after: str = ""
) -> Source:
    """Return the join as a source, with a copy of each side's struct under the side's name.

    Spark can then resolve `a.sensor`. A star does not include these copies.
    span : the join's span in the text;  node : position of errors;  after : the text that follows
    """
    df, sides = joined.df, dict(zip(names, SIDES, strict=True))
    copies = [name for name, side in sides.items() if name.lower() != side]
    for name in copies:
        if match_name(name, df.columns) is not None:
            raise at(node, f"{name} is also a column of the join: give the table a different alias")
        df = df.withColumn(name, F.col(sides[name]))
    frame, where = PlannedFrame(df, joined.step), (span.start, span.end)
    return Source(*where, frame, tuple(names), after, node, sides=sides, extra=copies, changed=True)
