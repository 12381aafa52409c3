"""`a [ROWS 500] SIMILARITY JOIN b ON (x) WITHIN 0.5 PROBABILITY 0.8`: two tables as one source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from sfumato.near_misses import near
from sfumato.spark.model.controlled import controller_of
from sfumato.spark.model.figures import join_confidence
from sfumato.spark.similarity_join import similarity_join
from sfumato.sql.constructs.count_windows import RowsWindow, rows_window
from sfumato.sql.constructs.imputation import Imputed, agreed, imputation_lines, imputed
from sfumato.sql.constructs.join_sides import joined_source, side_names
from sfumato.sql.explanation.wording import held, newest, per_key, percent, typical_bytes
from sfumato.sql.plan.block import Block
from sfumato.sql.plan.bracket import FORGET
from sfumato.sql.plan.construct import Join
from sfumato.sql.plan.given import Given
from sfumato.sql.plan.nodes import Lines, Step, at
from sfumato.sql.plan.sources import Frame, Source, called, found, unknown_column
from sfumato.sql.text.syntax import FromClause, Name, Node, Relation, SimilarityJoin
from sfumato.sql.text.words import Word
from sfumato.windows import Rows

WORDS = (
    Word("WITHIN", "number", "within", needed=True),
    Word("PROBABILITY", "fraction", "probability", needed=True),
    Word("USING", "choice", "strategy"),
    Word("OUTPUT", "choice", "output"),
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
        return joined_source(Frame(df, step), names, (left.start, join.end), join, text)


def join_words(join: SimilarityJoin, text: str) -> Given:
    """The words of a join. Raises SqlError for what is missing, or is not of both sides."""
    for name in join.on:
        if len(name.words) > 1:
            raise at(text, name, "ON names attributes of both sides", expected=(name.parts[-1],))
    return Given(join.options, WORDS, join, text)


@dataclass(frozen=True)
class Joined(Step):
    """`sf.similarity_join` over two inputs; with `imputation`, of incomplete rows."""

    left: Step
    right: Step
    window: Rows
    arguments: Mapping[str, Any]
    imputation: Imputed | None
    pace: str  # what the paces at which two streams are read change; empty for other frames

    @property
    def inputs(self) -> Mapping[str, Step]:
        return {"left": self.left, "right": self.right}

    def title(self) -> str:
        if self.imputation is None:
            return "similarity join of two uncertain windows"
        return "similarity join of two incomplete windows, imputed as they meet"

    def lines(self) -> Lines:
        key = self.arguments["key"]
        lines = [
            ("pairs", self._pairs()),
            ("order", ", ".join(self.arguments["order"])),
            ("windows", per_key(key, "one a side, in one task")),
            *([("pace", self.pace)] if self.pace else []),
        ]
        if self.imputation is None:
            return lines + self._uncertain()
        rows = f"the newest {self.window.rows} rows of each side{' and key' if key else ''}"
        return [
            *lines,
            ("window", rows),
            *imputation_lines(self.imputation),
            ("state", f"{rows}, and their numbers; not the repository"),
            (
                "guarantee",
                "the pairs of imputing every row first; rows in no reach are not imputed",
            ),
        ]

    def _pairs(self) -> str:
        on, within = ", ".join(self.arguments["on"]), self.arguments["within"]
        leaving = "; a pair that leaves its window comes out again with change -"
        changes = leaving if self.arguments.get("output") == "changes" else ""
        probability = self.arguments["probability"]
        return f"distance of ({on}) within {within:g} with probability at least {probability:g}" + (
            changes
        )

    def _uncertain(self) -> Lines:
        window, probability = self.window, self.arguments["probability"]
        level = join_confidence(window.confidence, probability)
        most = window.max_tuples
        bound = "" if most is None else f"; at most {most}, the rest counted"
        strategy = self.arguments.get("strategy", "auto")
        chosen = "auto: index, or a scan where that is cheaper" if strategy == "auto" else strategy
        return [
            ("window", newest(window)),
            (
                "tuples held",
                f"w' = least n with Pr(the n newest hold ≥ {window.rows}) ≥ {level:g} = min("
                f"{window.confidence:g}, 1 - {probability:g}); {held(window, level)}{bound}",
            ),
            ("strategy", f"{chosen}; the answers are the same for all"),
            ("state", self._state(level)),
            ("guarantee", self._exact()),
        ]

    def _state(self, level: float) -> str:
        alternative = 8 * (len(self.arguments["on"]) + 1)
        tuples, total = typical_bytes(self.window, level, 2 * 10 * alternative)
        a_key = " a key" if self.arguments["key"] else ""
        return (
            f"2 × w' × (alternatives × {alternative} bytes + row){a_key}; with 10 "
            f"alternatives and {tuples}: 2 × w' × {10 * alternative} bytes{total} + rows"
        )

    def _exact(self) -> str:
        pairs = "exact: a pair comes out if and only if it reaches its probability"
        if self.window.confidence + self.arguments["probability"] >= 1:
            return f"{pairs}; none that has left its window could"
        missed = percent(1 - self.window.confidence)
        return f"{pairs} among the tuples held; one that has left counts with at most {missed}"


def _planned(
    sides: list[Side], given: Given, join: SimilarityJoin, block: Block
) -> tuple[Joined, dict[str, Any]]:
    """The step, and the arguments of the function."""
    window, windows = _window(sides, join, block)
    after = windows[0].value(FORGET)
    arguments = {
        **given.arguments(),
        **({} if after is None else {"forget_after": after}),
        "on": [_attribute(name, sides, block.text) for name in join.on],
        "order": _order(windows, sides, block.text),
        "key": _keys(join, sides, block.text) or None,
    }
    imputing = agreed((sides[0].relation, sides[1].relation), block.text)
    imputation = None
    if imputing is not None:
        side = sides[imputing[0]]
        imputation = imputed(imputing[1], side.frame, called(side.relation), block)
    steps = sides[0].frame.step, sides[1].frame.step
    frames = [side.frame.df for side in sides]
    step = Joined(*steps, window, arguments, imputation, _pace(frames, arguments))
    impute = None if imputation is None else imputation.imputation
    return step, {**arguments, "window": window, "impute": impute}


def _pace(frames: Sequence[DataFrame], arguments: Mapping[str, Any]) -> str:
    """What EXPLAIN says of the paces at which the sides are read."""
    if not all(frame.isStreaming for frame in frames):
        return ""
    order, keys = arguments["order"], arguments["key"] or []
    if all(controller_of(frame.schema, order, keys) is not None for frame in frames):
        return "any: rows wait until both sides are complete up to their event time"
    return (
        "the answers depend on it if the sides are two sources: their rows are counted as "
        "unaligned; a controller before both sides (WATTR in a subquery), and ORDER by its event "
        "time, ends it"
    )


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


def _window(sides: list[Side], join: SimilarityJoin, block: Block) -> tuple[Rows, list[Given]]:
    """The window of both sides, and its words: one bracket holds for both, two must agree."""
    windows: list[Given] = []
    for side in sides:
        asked = block.brackets.given(side.relation, block.text, side.frame)
        if asked is None:
            continue
        bracket, given = asked
        if not isinstance(bracket, RowsWindow):
            word = "WATTR" if bracket.kind else bracket.word
            hint = f"what comes first, join from (SELECT * FROM stream [{word} ...])"
            reason = f"a SIMILARITY JOIN compares ROWS windows; {hint}"
            raise at(block.text, given.node, reason)
        windows.append(given)
    if not windows:
        reason = "the join lacks a window after a table's name"
        raise at(block.text, join.keyword, reason, expected=("[ROWS number]",))
    rows = [rows_window(given) for given in windows]
    orders = [
        [str(name) for name in option.names]
        for given in windows
        if (option := given.get("ORDER")) is not None
    ]
    forgets = [given.value(FORGET) for given in windows]
    if rows[0] != rows[-1] or forgets[0] != forgets[-1] or (orders and orders[0] != orders[-1]):
        raise at(block.text, windows[-1].node, "the windows of both sides must be the same")
    return rows[0], windows


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
    return keys


def equated(join: SimilarityJoin) -> list[tuple[Name, ...]]:
    """The pairs of columns that `AND a.key = b.key` equates."""
    return [option.names for option in join.options if option.word == "AND"]
