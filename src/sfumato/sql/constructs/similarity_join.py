"""`a [ROWS 500] SIMILARITY JOIN b ON (x) WITHIN 0.5 PROBABILITY 0.8`: two tables as one source."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sfumato.api.similarity_join import similarity_join
from sfumato.near_misses import near
from sfumato.spark.runtime.lineage import steps_of
from sfumato.sql.constructs.count_windows import RowsWindow, join_window
from sfumato.sql.constructs.imputation import agreed, imputed
from sfumato.sql.constructs.join_sides import joined_source, side_names
from sfumato.sql.constructs.joined import Joined, pace_of
from sfumato.sql.plan.block import Block
from sfumato.sql.plan.bracket import FORGET, NAMED
from sfumato.sql.plan.construct import Join
from sfumato.sql.plan.given import Given
from sfumato.sql.plan.nodes import at
from sfumato.sql.plan.sources import Frame, Source, called, column, existence_said, found
from sfumato.sql.text.syntax import FromClause, Name, Node, Option, Relation, SimilarityJoin
from sfumato.sql.text.words import Word
from sfumato.windows import JoinWindow

WORDS = (
    Word("WITHIN", "numbers", "within", needed=True),
    Word("PROBABILITY", "fraction", "probability", needed=True),
    Word("METRIC", "choice", "metric"),
    Word("USING", "choice", "strategy"),
    Word("OUTPUT", "choice", "output"),
    Word("TASKS", "number", "tasks"),
    NAMED,
    Word("AND", "column EQUAL column", repeated=True),
)


@dataclass(frozen=True)
class Side:
    """One side of the join: where it is written, its frame, and the name its columns go by."""

    relation: Relation
    frame: Frame
    name: str


class SimilarityJoining(Join):
    """`sf.similarity_join` of two tables."""

    words = WORDS

    def source(self, block: Block, clause: FromClause, place: int) -> Source | None:
        left, join = clause.sources[place : place + 2]
        if not isinstance(join, SimilarityJoin):
            return None
        text = block.text
        if isinstance(left, SimilarityJoin):
            reason = "a join of three streams: put the first two in a subquery"
            raise at(text, join.keyword, reason)
        given = join_words(join, text)
        if left.rest:
            raise at(text, left.rest[0], "what comes before SIMILARITY JOIN must be one table")
        names = side_names(left, join.side, text)
        sides = [
            Side(relation, block.needed(relation), name)
            for relation, name in zip((left, join.side), names, strict=True)
        ]
        step, arguments = _planned(sides, given, join, block)
        frames = [side.frame.df for side in sides]
        df = given.call(lambda: similarity_join(*frames, **arguments))
        step = replace(step, runs=steps_of(df), named=arguments.get("name", ""))
        return joined_source(Frame(df, step), names, (left.start, join.end), join, text)


def join_words(join: SimilarityJoin, text: str) -> Given:
    """The words of a join. Raises SqlError for what is missing, or is not of both sides."""
    for name in join.on:
        if len(name.words) > 1:
            raise at(text, name, "ON names attributes of both sides", expected=(name.parts[-1],))
    return Given(join.options, WORDS, join, text)


def _planned(
    sides: list[Side], given: Given, join: SimilarityJoin, block: Block
) -> tuple[Joined, dict[str, Any]]:
    """The step, and the arguments of the function."""
    windows, brackets = _windows(sides, join, block)
    after = brackets[0].value(FORGET)
    on = [_attribute(name, sides, block.text) for name in join.on]
    arguments = {
        **given.arguments(),
        **({} if after is None else {"forget_after": after}),
        "on": on,
        "within": _within(given, on),
        "order": _order(brackets, sides, block.text),
        "key": _keys(join, sides, block.text) or None,
    }
    imputing = agreed((sides[0].relation, sides[1].relation), block.text)
    imputation = None
    if imputing is not None:
        side = sides[imputing[0]]
        _refuse_name(imputing[1].options, block.text)
        imputation = imputed(imputing[1], side.frame, called(side.relation), block)
    steps = sides[0].frame.step, sides[1].frame.step
    frames = [side.frame.df for side in sides]
    exists = [existence_said(side.frame) for side in sides]
    existence = exists[0] if exists[0] == exists[1] else f"left: {exists[0]}; right: {exists[1]}"
    step = Joined(*steps, windows, arguments, imputation, pace_of(frames, arguments), existence)
    impute = None if imputation is None else imputation.imputation
    return step, {**arguments, "window": windows, "impute": impute}


def _within(given: Given, on: list[str]) -> Any:
    """The greatest distance, or that of each attribute."""
    within = given.arguments()["within"]
    if not isinstance(within, list):
        return within
    if len(within) != len(on):
        option = given.get("WITHIN")
        assert option is not None
        reason = f"WITHIN has {len(within)} distances, and ON {len(on)} attributes"
        raise at(given.text, option, reason, expected=("a number", "one for each attribute"))
    return dict(zip(on, within, strict=True))


def _attribute(name: Name, sides: list[Side], text: str) -> str:
    """The attribute as both sides spell it."""
    spelled = []
    for side in sides:
        known = side.frame.attributes or side.frame.df.columns
        spelled.append(column(name, known, called(side.relation), text, qualified=True))
    if spelled[0] != spelled[1]:
        raise at(text, name, f"the sides spell {name} differently: {spelled[0]} and {spelled[1]}")
    return spelled[0]


def _windows(
    sides: list[Side], join: SimilarityJoin, block: Block
) -> tuple[tuple[JoinWindow, JoinWindow], list[Given]]:
    """The windows of both sides, and their words: one bracket holds for both."""
    brackets: list[Given] = []
    for side in sides:
        asked = block.brackets.given(side.relation, block.text, side.frame)
        if asked is None:
            continue
        bracket, given = asked
        if not isinstance(bracket, RowsWindow):
            word = "WATTR" if bracket.kind else bracket.word
            hint = f"what comes first, join from (SELECT * FROM stream [{word} ...])"
            reason = f"a SIMILARITY JOIN compares windows of ROWS or SPAN; {hint}"
            raise at(block.text, given.node, reason)
        _refuse_name(given.options, block.text)
        brackets.append(given)
    if not brackets:
        reason = "the join has no window after a table's name"
        raise at(block.text, join.keyword, reason, expected=("[ROWS number]", "[SPAN duration]"))
    windows = [join_window(given) for given in brackets]
    orders = [
        [str(name) for name in option.names]
        for given in brackets
        if (option := given.get("ORDER")) is not None
    ]
    forgets = [given.value(FORGET) for given in brackets]
    if forgets[0] != forgets[-1] or (orders and orders[0] != orders[-1]):
        raise at(block.text, brackets[-1].node, "both sides must have the same ORDER and FORGET")
    return (windows[0], windows[-1]), brackets


def _refuse_name(options: Sequence[Option], text: str) -> None:
    """NAMED of a side: there is one operator. Raises SqlError."""
    for option in options:
        if option.word == NAMED.word:
            reason = "the join is named, not a side of it: NAMED stands behind PROBABILITY"
            raise at(text, option, reason)


def _order(windows: list[Given], sides: list[Side], text: str) -> list[str]:
    """The columns that order both sides, `arrival` if none are named."""
    option = next((option for given in windows if (option := given.get("ORDER"))), None)
    names = [] if option is None else option.names
    order = []
    wanted: list[tuple[Node, str]] = [(name, str(name)) for name in names]
    for place, name in wanted or [(windows[0].node, "arrival")]:
        spelled = [found(name, side.frame.df.columns) for side in sides]
        for side, match in zip(sides, spelled, strict=True):
            if match is None:
                reason = f"{called(side.relation)} has no column {name} to order it by"
                likely = near(name, side.frame.df.columns) if names else None
                hint = () if names else ("ORDER column in the window",)
                raise at(text, place, reason, expected=hint, suggestion=likely)
        if spelled[0] != spelled[1]:
            reason = f"the sides spell {name} differently: {spelled[0]} and {spelled[1]}"
            raise at(text, place, reason)
        order.append(str(spelled[0]))
    return order


def _keys(join: SimilarityJoin, sides: list[Side], text: str) -> list[str]:
    """The columns equated by `AND a.key = b.key`."""
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


def equated(join: SimilarityJoin) -> list[tuple[Name, ...]]:
    """The pairs of columns that `AND a.key = b.key` equates."""
    return [option.names for option in join.options if option.word == "AND"]
