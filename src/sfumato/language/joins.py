"""Joins that make one source of two tables: SIMILARITY JOIN, and JOIN of two RANGE windows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lark import Token
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sfumato.api.extent_join import extent_join
from sfumato.api.similarity_join import similarity_join
from sfumato.api.window_aggregate import window_aggregate
from sfumato.duration import microseconds
from sfumato.language import syntax
from sfumato.language.block import Block
from sfumato.language.brackets import FORGET, NAMED, RowsBracket, bracket_of, join_window
from sfumato.language.errors import at
from sfumato.language.imputation import agreed, read_imputation
from sfumato.language.options import Options, words_of
from sfumato.language.parse import Word
from sfumato.language.steps import Lines, Step, held, newest, per_key, percent, span, typical_bytes
from sfumato.language.syntax import (
    FromClause,
    Name,
    Node,
    Option,
    Relation,
    SimilarityJoinClause,
    end_of,
    is_name,
    is_word,
    plain,
    split,
    start_of,
)
from sfumato.language.tables import PlannedFrame, Source, column, existence_said, found, name_of
from sfumato.spark.model.figures import join_confidence, join_sharing
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.runtime.lineage import Selection, remember_selected, steps_of
from sfumato.windows import JoinWindow, Range

JOIN_WORDS = (
    *words_of(similarity_join, "within", "probability", "metric", "strategy", "output", "tasks"),
    NAMED,
    Word("AND", "column EQUAL column", repeated=True),
)
SIDES = ("left", "right")
OUTER = ("LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI", "CROSS", "NATURAL")
TUPLES_COLUMN = "__tuples"  # a window's rows come out with an aggregate; this one is not wanted


def joined_tables(block: Block, clause: FromClause, place: int) -> Source | None:
    """Return the source of the tables `place` and `place + 1`, if they are joined by us."""
    if place + 1 == len(clause.sources):
        return None
    extents = _extent_join(block, clause) if len(clause.sources) == 2 else None
    return _similarity_join(block, clause, place) if extents is None else extents


# ---- SIMILARITY JOIN -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Side:
    """One side of the join: where it is written, its frame, and the name its columns go by."""

    relation: Relation
    frame: PlannedFrame
    name: str


def _similarity_join(block: Block, clause: FromClause, place: int) -> Source | None:
    left, join = clause.sources[place : place + 2]
    if not isinstance(join, SimilarityJoinClause):
        return None
    text = block.text
    if isinstance(left, SimilarityJoinClause):
        reason = "a join of three streams: put the first two in a subquery"
        raise at(text, join.keyword, reason)
    given = join_words(join, text)
    if left.rest:
        raise at(text, left.rest[0], "what comes before SIMILARITY JOIN must be one table")
    names = _side_names(left, join.side, text)
    relations = (left, join.side)
    sides = [Side(r, block.needed(r), name) for r, name in zip(relations, names, strict=True)]
    windows, brackets = _windows(sides, join, text)
    after = brackets[0].value(FORGET)
    on = [_shared(name, name, sides, text, attributes=True) for name in join.on]
    arguments = {
        **given.arguments(),
        **({} if after is None else {"forget_after": after}),
        "on": on,
        "within": _within(given, on),
        "order": _order(brackets, sides, text),
        "key": _keys(join, sides, text) or None,
    }
    imputation, imputed = None, None
    if (imputing := agreed(relations, text)) is not None:
        side, node = sides[imputing[0]], imputing[1]
        _refuse_name(node.options, text)
        imputation, imputed = read_imputation(node, side.frame, name_of(side.relation), block)
    frames = [side.frame.df for side in sides]
    lines = _join_lines(arguments, windows, sides, imputed)
    arguments |= {"window": windows, "impute": imputation}
    df = given.call(lambda: similarity_join(*frames, **arguments))
    title = "similarity join of two uncertain windows"
    if imputation is not None:
        title = "similarity join of two incomplete windows, imputed as they meet"
    inputs = {side: of.frame.step for side, of in zip(SIDES, sides, strict=True)}
    step = Step(title, lines, inputs, runs=steps_of(df), named=arguments.get("name", ""))
    return _joined_source(PlannedFrame(df, step), names, (left.start, join.end), join, text)


def join_words(join: SimilarityJoinClause, text: str) -> Options:
    """Return the words of a join. Raises SqlError for what is missing or not of both sides."""
    for name in join.on:
        if len(name.words) > 1:
            raise at(text, name, "ON names attributes of both sides", expected=(name.parts[-1],))
    return Options(join.options, JOIN_WORDS, join, text)


def _within(given: Options, on: list[str]) -> Any:
    """Return the greatest distance, or that of each attribute."""
    within = given.arguments()["within"]
    if not isinstance(within, list):
        return within
    if len(within) != len(on):
        option = given.get("WITHIN") or given.node
        reason = f"WITHIN has {len(within)} distances, and ON {len(on)} attributes"
        raise at(given.text, option, reason, expected=("a number", "one for each attribute"))
    return dict(zip(on, within, strict=True))


def _shared(
    name: Name | str, place: Node, sides: list[Side], text: str, *, attributes: bool = False
) -> str:
    """Return a column, or attribute, as both sides spell it. Raises SqlError at `place`."""
    spelled = []
    for side in sides:
        columns = side.frame.df.columns
        known = side.frame.attributes or columns if attributes else columns
        if isinstance(name, Name):
            spelled.append(column(name, known, name_of(side.relation), text, qualified=attributes))
        elif (match := found(name, known)) is not None:
            spelled.append(match)
        else:
            reason = f"{name_of(side.relation)} has no column {name} to order it by"
            raise at(text, place, reason, expected=("ORDER column in the window",))
    if spelled[0] != spelled[1]:
        reason = f"the sides spell {name} differently: {spelled[0]} and {spelled[1]}"
        raise at(text, place, reason)
    return spelled[0]


def _windows(
    sides: list[Side], join: SimilarityJoinClause, text: str
) -> tuple[tuple[JoinWindow, JoinWindow], list[Options]]:
    """Return the windows of both sides, and their words: one bracket holds for both."""
    brackets: list[Options] = []
    for side in sides:
        asked = bracket_of(side.relation, text, side.frame)
        if asked is None:
            continue
        bracket, given = asked
        if not isinstance(bracket, RowsBracket):
            word = "WATTR" if bracket.kind else bracket.word
            hint = f"what comes first, join from (SELECT * FROM stream [{word} ...])"
            reason = f"a SIMILARITY JOIN compares windows of ROWS or SPAN; {hint}"
            raise at(text, given.node, reason)
        _refuse_name(given.options, text)
        brackets.append(given)
    if not brackets:
        reason = "the join has no window after a table's name"
        raise at(text, join.keyword, reason, expected=("[ROWS number]", "[SPAN duration]"))
    windows = [join_window(given) for given in brackets]
    orders = [list(map(str, option.names)) for o in brackets if (option := o.get("ORDER"))]
    forgets = [given.value(FORGET) for given in brackets]
    if forgets[0] != forgets[-1] or (orders and orders[0] != orders[-1]):
        raise at(text, brackets[-1].node, "both sides must have the same ORDER and FORGET")
    return (windows[0], windows[-1]), brackets


def _refuse_name(options: Sequence[Option], text: str) -> None:
    """Raise SqlError for NAMED of a side: there is one operator."""
    for option in options:
        if option.word == NAMED.word:
            reason = "the join is named, not a side of it: NAMED stands behind PROBABILITY"
            raise at(text, option, reason)


def _order(brackets: list[Options], sides: list[Side], text: str) -> list[str]:
    """Return the columns that order both sides, `arrival` if none are named."""
    option = next((option for given in brackets if (option := given.get("ORDER"))), None)
    if option is None:
        return [_shared("arrival", brackets[0].node, sides, text)]
    return [_shared(name, name, sides, text) for name in option.names]


def _keys(join: SimilarityJoinClause, sides: list[Side], text: str) -> list[str]:
    """Return the columns that `AND a.key = b.key` equates."""
    aliases = [side.name.lower() for side in sides]
    keys = []
    for pair in equated(join):
        columns: dict[int, str] = {}
        for name in pair:
            if len(name.parts) != 2 or name.parts[0].lower() not in aliases:
                wanted = tuple(f"{side.name}.{name.parts[-1]}" for side in sides)
                raise at(text, name, f"{name} must say whose column it is", expected=wanted)
            which = aliases.index(name.parts[0].lower())
            known = sides[which].frame.df.columns
            columns[which] = column(name, known, sides[which].name, text, qualified=True)
        if len(columns) < 2:
            raise at(text, pair[1], "a key equates a column of one side with the other's")
        if columns[0] != columns[1]:
            reason = "a key has one name on both sides: rename one column in a subquery"
            raise at(text, pair[1], reason)
        keys.append(columns[0])
    return keys


def equated(join: SimilarityJoinClause) -> list[tuple[Name, ...]]:
    """Return the pairs of columns that `AND a.key = b.key` equates."""
    return [option.names for option in join.options if option.word == "AND"]


# ---- JOIN of two windows by time -----------------------------------------------------------------


def _extent_join(block: Block, clause: FromClause) -> Source | None:
    """Return `sf.extent_join` of two tables, if that is what joins them.

    Either side may be a query or view whose column `window` is that of extents. Inner joins only:
    what has no partner in its extent does not come out. Equal columns in ON are keys; the whole of
    ON is a filter.
    """
    left, second = clause.sources
    if not isinstance(left, Relation):
        return None
    right = second.side if isinstance(second, SimilarityJoinClause) else second
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
    names = _side_names(left, right, block.text)
    if isinstance(second, SimilarityJoinClause):
        given = join_words(second, block.text)
        on = [str(name) for name in second.on]
        similar: dict[str, Any] = {"on": on, **given.arguments("USING", "OUTPUT", NAMED.word)}
        name = given.value(NAMED) or name
        pairs = [tuple(name.parts for name in pair) for pair in equated(second)]
        condition = ""
    else:
        given, similar = Options((), (), right, block.text), {}
        pairs = _equated(right.rest, block.text)
        rest = right.rest
        condition = block.text[start_of(rest[1]) : end_of(rest[-1])] if len(rest) > 1 else ""
    key = _extent_keys(pairs, names, frames)
    one, other = (frame.df for frame in frames)
    how: dict[str, Any] = {"key": key or None, "forget_after": after, "name": name}
    df = given.call(lambda: extent_join(one, other, **how, **similar))
    block.joined.add(right.start)
    step = Step(
        "join of two windowed streams, extent by extent",
        [
            ("pairs", "rows whose extents end at the same time, once both are complete"),
            ("keys", per_key(key, "none, in one task")),
            ("state", "the rows of extents that only one side has completed"),
        ],
        {side: frame.step for side, frame in zip(SIDES, frames, strict=True)},
        runs=steps_of(df),
        named=name or "",
    )
    span, after = (left.start, clause.end), _written(block, condition)
    return _joined_source(PlannedFrame(df, step), names, span, given.node, block.text, after)


def _refuse_outer(block: Block, left: syntax.Relation, right: syntax.Relation) -> None:
    """Raise SqlError for a join that keeps rows without a partner: they would wait forever."""
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
    asked = bracket_of(relation, block.text)
    return asked is not None and asked[0].kind == "time" and asked[1].get("RANGE") is not None


def _extents(block: Block, relation: syntax.Relation) -> tuple[PlannedFrame, Any, str | None]:
    """Return the extents of a table (the rows of its window, or the answers that it is), and its
    FORGET and NAMED, or None."""
    frame = block.needed(relation)
    asked = bracket_of(relation, block.text, frame)
    if asked is None:
        return frame, None, None
    bracket, given = asked
    ordered = bracket.frame(given, answered=True)
    window, order = bracket.window(given)
    assert isinstance(window, Range)
    key = ordered.step.facts.get("key", []) if ordered is not frame else []
    count, after = {TUPLES_COLUMN: "count(*)"}, given.value(FORGET)
    df = given.call(
        lambda: window_aggregate(
            ordered.df, count, window=window, order=order, key=key or None, with_rows=True,
            forget_after=after, name=given.value(NAMED),
        )
    )  # fmt: skip
    wanted = df.drop(TUPLES_COLUMN)
    remember_selected(wanted, df, Selection(None))
    return PlannedFrame(wanted, ordered.step), after, given.value(NAMED)


def _equated(rest: tuple[syntax.Item, ...], text: str) -> list[tuple[tuple[str, ...], ...]]:
    """Return the pairs of columns that ON equates, `a.key = b.key`, between its ANDs."""
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


def _extent_keys(
    pairs: list[tuple[tuple[str, ...], ...]],
    names: list[str],
    frames: tuple[PlannedFrame, PlannedFrame],
) -> list[str]:
    """Return the equated columns that have one name on both sides: by these rows meet."""
    keys = []
    for (one, first), (other, second) in pairs:
        sides = {one.lower(), other.lower()} == {name.lower() for name in names}
        spelled = [found(first, frame.df.columns) for frame in frames]
        same = spelled[0] is not None and spelled[0] == spelled[1]
        if sides and first.lower() == second.lower() and same and first.lower() != "window":
            keys.append(str(spelled[0]))
    return keys


def _written(block: Block, condition: str) -> str:
    """Return ON's condition as a WHERE; next to a WHERE both hold."""
    if not condition:
        return ""
    condition = condition.replace("{", "{{").replace("}", "}}")
    where = block.clause("WHERE")
    if where is None:
        return f" WHERE ({condition}\n)"
    block.edits.insert(end_of(where.place), f" ({condition}\n) AND (")
    block.edits.insert(end_of(where.items[-1]), ")")
    return ""


# ---- the two sides ----------------------------------------------------------------------------


def _side_names(left: Relation, right: Relation, text: str) -> list[str]:
    """Return what qualifies the columns of each side. Raises SqlError if both are the same."""
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


def _joined_source(
    joined: PlannedFrame,
    names: Sequence[str],
    span: tuple[int, int],
    node: Node,
    text: str,
    after: str = "",
) -> Source:
    """Return the join as a source, with a copy of each side's struct under the side's name.

    Spark itself then resolves `a.sensor`; a star does not mean these copies.
    span : of the join in the text;  node : what to point at;  after : what follows it in the text
    """
    df, copies, place = (
        joined.df,
        [],
        node.keyword if isinstance(node, SimilarityJoinClause) else node,
    )
    for name, side in zip(names, SIDES, strict=True):
        if name.lower() == side:
            continue
        if found(name, df.columns) is not None:
            reason = f"{name} is a column of the join as well: give the table another alias"
            raise at(text, place, reason)
        df = df.withColumn(name, F.col(side))
        copies.append(name)
    return Source(
        *span,
        PlannedFrame(df, joined.step),
        tuple(names),
        after,
        node,
        sides=dict(zip(names, SIDES, strict=True)),
        extra=copies,
        changed=True,
    )


# ---- EXPLAIN of a SIMILARITY JOIN ----------------------------------------------------------------


def _join_lines(
    given: Mapping[str, Any],
    windows: tuple[JoinWindow, JoinWindow],
    sides: Sequence[Side],
    imputed: Lines | None,
) -> Lines:
    """Return what EXPLAIN says; imputed : the lines of an imputation, or None."""
    key, probability = given["key"], given["probability"]
    a_key = " a key" if key else ""
    leaving = "; a pair that leaves its window comes out again with change -"
    changes = leaving if given.get("output") == "changes" else ""
    left, right = (existence_said(side.frame) for side in sides)
    lines = [
        ("pairs", f"{_distance(given)} with probability at least {probability:g}{changes}"),
        ("order", ", ".join(given["order"])),
        ("windows", per_key(key, f"one a side, in {_tasks(given, windows, imputed)}")),
        ("pace", _pace([side.frame.df for side in sides], given)),
        ("existence", left if left == right else f"left: {left}; right: {right}"),
    ]
    held_rows: list[str] = []
    for side, window in zip(SIDES, windows, strict=True):
        rows = newest(window) if window.rows is not None else "all tuples"
        if imputed is not None and window.rows is not None:
            rows = f"the newest {window.rows} rows of each side{' and key' if key else ''}"
        if window.span_us is not None:
            age = f"the tuples of the last {span(window.span_us)}"
            rows = age if window.rows is None else f"{rows}, of {age}"
        if windows[0] != windows[1]:
            lines.append((f"{side} window", rows))
        elif side == SIDES[0]:
            lines.append(("window", rows))
        if window.rows is not None:
            level = join_confidence(window.confidence, probability)
            most = "" if window.max_tuples is None else f"; at most {window.max_tuples}, the rest "
            held_rows.append(
                f"w' = least n with Pr(the n newest hold ≥ {window.rows}) ≥ {level:g} = min("
                f"{window.confidence:g}, 1 - {probability:g}); {held(window.rows, level)}"
                + (most and f"{most}counted")
            )
    if imputed is not None:
        state = "the rows of both windows, and their numbers; not the repository"
        promise = "the pairs of imputing every row first; rows in no reach are not imputed"
        lines += [*imputed, ("state", state), ("guarantee", promise)]
    else:
        chosen = given.get("strategy", "auto")
        chosen += ": index, or a scan where that is cheaper" if chosen == "auto" else ""
        lines += [("tuples held", said) for said in dict.fromkeys(held_rows)]
        lines.append(("strategy", f"{chosen}; the answers are the same for all"))
        lines.append(("state", _state(windows, 8 * (len(given["on"]) + 1), probability, a_key)))
        lines.append(("guarantee", _exact(windows, probability)))
    return [(heading, said) for heading, said in lines if said]


def _tasks(
    given: Mapping[str, Any], windows: tuple[JoinWindow, JoinWindow], imputed: Lines | None
) -> str:
    """Say how many tasks share the work, and what that rests on."""
    asked = given.get("tasks")
    if asked is not None:
        return "one task" if asked == 1 else f"{asked} tasks that share the work"
    sharing = None if given["key"] or imputed is not None else join_sharing(windows)
    if sharing is None:
        return "one task"
    tasks, alone, others, shared = sharing
    said = "one task" if tasks == 1 else f"{tasks} tasks"
    return (
        f"{said} (an arrival is reckoned at {alone:.3g} us in one, {shared:.3g} us each in "
        f"{others}; TASKS says otherwise: with many alternatives more pay)"
    )


def _distance(given: Mapping[str, Any]) -> str:
    on, within = given["on"], given["within"]
    if isinstance(within, Mapping):
        terms = " + ".join(f"({name} / {limit:g})²" for name, limit in within.items())
        return f"differences with {terms} at most 1"
    if given.get("metric", "euclidean") == "haversine":
        return f"distance on the sphere of ({', '.join(on)}) within {within:g} m"
    return f"distance of ({', '.join(on)}) within {within:g}"


def _state(
    windows: tuple[JoinWindow, JoinWindow], alternative: int, probability: float, a_key: str
) -> str:
    """Return the state; alternative : bytes of one;  a_key : " a key" where there is one."""
    each, window = f"alternatives × {alternative} bytes + row", windows[0]
    if window.rows is None or window != windows[1]:
        return f"the tuples of both windows, ({each}) each{a_key}"
    level = join_confidence(window.confidence, probability)
    tuples, total = typical_bytes(window.rows, level, 2 * 10 * alternative)
    return (
        f"2 × w' × ({each}){a_key}; with 10 "
        f"alternatives and {tuples}: 2 × w' × {10 * alternative} bytes{total} + rows"
    )


def _exact(windows: tuple[JoinWindow, JoinWindow], probability: float) -> str:
    pairs = "exact: a pair comes out if and only if it reaches its probability"
    least = min(window.confidence for window in windows)
    if all(window.rows is None for window in windows):
        return pairs
    if least + probability >= 1:
        return f"{pairs}; none that has left its window could"
    return f"{pairs} among the tuples held; one that has left counts with at most " + percent(
        1 - least
    )


def _pace(frames: Sequence[DataFrame], given: Mapping[str, Any]) -> str:
    """Say what the paces at which the sides are read change; "" for frames that do not stream."""
    if not all(frame.isStreaming for frame in frames):
        return ""
    keys = given["key"] or []
    if all(SparkFrame(frame).controller(given["order"], keys) is not None for frame in frames):
        return "any: rows wait until both sides are complete up to their event time"
    return (
        "the answers depend on it if the sides are two sources: their rows are counted as "
        "unaligned; a controller before both sides (WATTR in a subquery), and ORDER by its event "
        "time, ends it"
    )
