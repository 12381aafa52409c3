"""What a query asks of our operators: plan nodes that refuse to be built wrong.

The options of a window or a join become the arguments of the function that does the work, with
the same names and defaults; what they have wrong is said here, at the word that says it. Column
names are as written; the planner resolves them when it knows the tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

from lark import Token

from sfumato.duration import SHORT, UNITS, microseconds
from sfumato.sql.errors import SqlError, near
from sfumato.sql.syntax import (
    Measure,
    Node,
    Option,
    SimilarityJoin,
    Window,
    end_of,
    start_of,
    words,
)
from sfumato.windows import Delta, Range, Rows

ESTIMATORS = ("normal", "conformal")
STRATEGIES = ("auto", "nested", "index", "sort")
OUTPUTS = ("append", "changes")
UNIT_WORDS = tuple(f"{unit}s" for unit in UNITS)

# Which options go together; the first word of each family asks for it.
DISORDER_WORDS = words("RANGE SLIDE WATTR ARRIVAL KEY SLACK DRATIO MAX ESTIMATOR BSIZE IDLE")
ROWS_WORDS = words("ROWS CONFIDENCE MAX_TUPLES ORDER")
DELTA_WORDS = words("DELTA THRESHOLD MAX_TUPLES ORDER")
KINDS = {"RANGE": DISORDER_WORDS, "ROWS": ROWS_WORDS, "DELTA": DELTA_WORDS}
CONTROLS = ("SLACK", "DRATIO", "MAX")

T = TypeVar("T")


class PlanError(ValueError):
    """An argument that cannot be; `word` is the option that gave it."""

    def __init__(self, word: str, reason: str) -> None:
        super().__init__(reason)
        self.word, self.reason = word, reason


def require(holds: bool, word: str, reason: str) -> None:
    """Raise PlanError about an option unless it holds."""
    if not holds:
        raise PlanError(word, reason)


# ---- arguments of the operators ------------------------------------------------------------------


@dataclass(frozen=True)
class Extent:
    """Time extents: `length` and `slide` in microseconds. Source: C, section 6."""

    length: int
    slide: int

    def __post_init__(self) -> None:
        require(self.length > 0, "RANGE", "a RANGE must be longer than nothing")
        require(self.slide > 0, "SLIDE", "a SLIDE must be longer than nothing")


@dataclass(frozen=True)
class Disorder:
    """The arguments of `sf.reorder`, and the extents the rows are for, if there are any.

    `arrival` is None while it is not known: the planner then takes a column of that name.
    """

    event_time: str
    arrival: str | None = None
    key: tuple[str, ...] = ()
    drop_ratio: float | None = None
    slack: int | None = None
    estimator: str = "normal"
    max_buffer: int | None = None
    idle_timeout: str | None = None
    extent: Extent | None = None

    def __post_init__(self) -> None:
        ratio, slack = self.drop_ratio, self.slack
        require(ratio is None or slack is None, "SLACK", "SLACK and DRATIO exclude each other")
        require(
            ratio is None or 0 < ratio <= 0.5,
            "DRATIO",
            "DRATIO is the share of rows that may come too late: above 0 and at most 0.5 (or 50%)",
        )
        require(slack is None or slack >= 0, "SLACK", "SLACK is a number of rows, 0 or more")
        require(
            self.max_buffer is None or self.max_buffer > 0,
            "BSIZE",
            "BSIZE is a number of rows, 1 or more",
        )
        require(
            self.estimator in (*ESTIMATORS, "max"),
            "ESTIMATOR",
            f"the estimator {self.estimator} is unknown",
        )


@dataclass(frozen=True)
class Count:
    """A window over arrivals and the columns that give their order (None: `arrival`)."""

    window: Rows | Delta
    order: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Join:
    """The arguments of `sf.similarity_join` that do not depend on the tables."""

    on: tuple[str, ...]
    within: float
    probability: float
    strategy: str = "auto"
    output: str = "append"

    def __post_init__(self) -> None:
        require(
            self.within > 0 and math.isfinite(self.within),
            "WITHIN",
            "WITHIN is the greatest distance of a match: a number above 0",
        )
        require(
            0 < self.probability <= 1,
            "PROBABILITY",
            "PROBABILITY is the least probability of a match: above 0 and at most 1 (or 100%)",
        )
        require(self.strategy in STRATEGIES, "USING", f"the strategy {self.strategy} is unknown")
        require(self.output in OUTPUTS, "OUTPUT", f"the output {self.output} is unknown")
        require(
            self.strategy != "sort" or len(self.on) == 1,
            "USING",
            "SORT compares one attribute; for several take INDEX",
        )


# ---- what is done, for the planner and for explain -----------------------------------------------


@dataclass(frozen=True)
class Table:
    """A table or view of the session."""

    name: str
    streaming: bool
    columns: tuple[tuple[str, str], ...]  # name and Spark type
    received: bool = False  # with a column `arrival` added: when Spark received the row


@dataclass(frozen=True)
class Reorder:
    """`sf.reorder` over its input."""

    input: Step
    arguments: Disorder
    row_bytes: int


@dataclass(frozen=True)
class JoinStep:
    """`sf.similarity_join` over two inputs."""

    left: Step
    right: Step
    arguments: Join
    window: Rows
    order: tuple[str, ...]
    key: tuple[str, ...]
    imputation: ImputeArguments | None = None


@dataclass(frozen=True)
class ExtentJoin:
    """`sf.extent_join` over two inputs."""

    left: Step
    right: Step
    key: tuple[str, ...]


@dataclass(frozen=True)
class Aggregated:
    """`sf.window_aggregate` over its input."""

    input: Step
    window: Rows | Range | Delta
    aggregates: tuple[str, ...]
    order: tuple[str, ...]
    key: tuple[str, ...]
    members: bool


@dataclass(frozen=True)
class ImputeArguments:
    """What IMPUTE says: attributes, repository and dependencies, as written, and its options."""

    attributes: tuple[str, ...]
    repository: str
    dependencies: tuple[str, ...]
    joint: bool = False
    max_alternatives: int | None = None
    fallback: str = "marginal"
    scaling: tuple[tuple[str, float, float], ...] = ()


@dataclass(frozen=True)
class Imputed:
    """`sf.impute` over its input."""

    input: Step
    arguments: ImputeArguments


@dataclass(frozen=True)
class Ranked:
    """`sf.top_k` over its input: all queries, as (name, k, every), and which of them is meant."""

    input: Step
    window: Range | Rows
    queries: tuple[tuple[str, int, int], ...]
    name: str
    by: str
    ascending: bool
    semantics: str
    rules: str | None
    order: tuple[str, ...]
    key: tuple[str, ...]


@dataclass(frozen=True)
class Where:
    """`sf.where` over its input: the filter on alternatives."""

    input: Step
    condition: str


@dataclass(frozen=True)
class Select:
    """Text handed to Spark; `{d0}`, `{d1}`, ... in it stand for the inputs."""

    text: str
    inputs: tuple[Step, ...] = field(default=())


Step: TypeAlias = (
    Table | Reorder | JoinStep | ExtentJoin | Aggregated | Imputed | Ranked | Where | Select
)


# ---- from the syntax tree ------------------------------------------------------------------------


def at(text: str, node: Node | Token, reason: str, **more: Any) -> SqlError:
    """A SqlError about a node or word."""
    return SqlError(reason, text=text, start=start_of(node), end=end_of(node), **more)


def window_plan(window: Window, text: str, event_time: str | None = None) -> Disorder | Count:
    """What a window bracket asks for: reordering (with or without extents) or a count window.

    event_time : the column to order by where there is no WATTR
    Raises SqlError for options that contradict each other, are given twice or out of range.
    """
    for i, option in enumerate(window.options):
        if any(other.word == option.word for other in window.options[:i]):
            raise at(text, option, f"{option.word} is given twice")
    kinds = [kind for word in KINDS if (kind := window.get(word)) is not None]
    if len(kinds) > 1:
        words_given = " and ".join(kind.word for kind in kinds[:2])
        raise at(
            text,
            max(kinds[:2], key=lambda kind: kind.start),
            f"a window is by time, by count or by a value: {words_given} exclude each other",
        )
    family = kinds[0].word if kinds else "RANGE"
    for option in window.options:
        if option.word not in KINDS[family]:
            raise at(text, option, _misplaced(option.word, family))
    if family == "RANGE":
        return _disorder(window, text, event_time)
    return _count(window, text) if family == "ROWS" else _moved(window, text)


def is_uncontrolled(window: Window) -> bool:
    """Whether no word of a time window asks for disorder control: rows are taken in order."""
    return not any(window.get(word) for word in (*CONTROLS, "BSIZE"))


def _misplaced(word: str, kind: str) -> str:
    if kind == "RANGE" or word not in DISORDER_WORDS:
        home = "DELTA" if word == "THRESHOLD" else "ROWS"
        return f"{word} belongs to a {home} window, and this one has no {home}"
    hint = f"reorder in a subquery first, FROM (SELECT * FROM s [WATTR ...]) [{kind} ...]"
    return f"{word} orders by time and has no meaning in a {kind} window: {hint}"


def _disorder(window: Window, text: str, event_time: str | None) -> Disorder:
    get = window.get
    given = [option for word in CONTROLS if (option := get(word)) is not None]
    if len(given) > 1:
        first, second = sorted(given, key=lambda option: option.start)[:2]
        raise at(text, second, f"{second.word} and {first.word} exclude each other: keep one")
    estimator, slide = get("ESTIMATOR"), get("SLIDE")
    if estimator is not None and get("DRATIO") is None:
        raise at(text, estimator, "an ESTIMATOR says how a DRATIO is kept, and there is none")
    if slide is not None and get("RANGE") is None:
        raise at(text, slide, "SLIDE needs the RANGE of the extents that slide")
    wattr = get("WATTR")
    if wattr is None and event_time is None:
        raise at(text, window, "the window lacks its event time", expected=("WATTR column",))
    slack = _whole(get("SLACK"), text)
    if not given:
        slack = 0  # no disorder control: rows are taken to come in order
    arrival, key = get("ARRIVAL"), get("KEY")
    length = duration_of(get("RANGE"), text)
    named = str(estimator.names[0]).lower() if estimator is not None else "normal"

    def build() -> Disorder:
        extent = None
        if length is not None:
            extent = Extent(length, length if slide is None else duration_of(slide, text) or 0)
        return Disorder(
            event_time=str(wattr.names[0]) if wattr is not None else str(event_time),
            arrival=str(arrival.names[0]) if arrival is not None else None,
            key=tuple(str(name) for name in key.names) if key is not None else (),
            drop_ratio=_value(get("DRATIO")),
            slack=slack,
            estimator="max" if get("MAX") is not None else named,
            max_buffer=_whole(get("BSIZE"), text),
            idle_timeout=_idle(get("IDLE"), text),
            extent=extent,
        )

    expected = {"ESTIMATOR": tuple(e.upper() for e in ESTIMATORS)}
    if named == "max":  # `ESTIMATOR MAX DRATIO 1%`: the maximum keeps no ratio
        assert estimator is not None
        raise at(text, estimator, "MAX keeps no drop ratio", expected=expected["ESTIMATOR"])
    return _placed(build, window, text, expected)


def _count(window: Window, text: str) -> Count:
    order = window.get("ORDER")
    rows, bound = _whole(window.get("ROWS"), text), _whole(window.get("MAX_TUPLES"), text)
    confidence = _value(window.get("CONFIDENCE"))

    def build() -> Count:
        assert rows is not None
        require(rows > 0, "ROWS", "ROWS is a number of tuples, 1 or more")
        require(
            confidence is None or 0 < confidence <= 1,
            "CONFIDENCE",
            "CONFIDENCE is a probability: above 0 and at most 1 (or 100%)",
        )
        require(
            bound is None or bound >= rows,
            "MAX_TUPLES",
            f"MAX_TUPLES must leave room for the {rows} ROWS",
        )
        default = Rows(rows, max_tuples=bound)
        made = default if confidence is None else Rows(rows, confidence, bound)
        columns = None if order is None else tuple(str(name) for name in order.names)
        return Count(made, columns)

    return _placed(build, window, text, {})


def _moved(window: Window, text: str) -> Count:
    delta, order = window.get("DELTA"), window.get("ORDER")
    assert delta is not None
    distance, bound = _value(delta), _whole(window.get("MAX_TUPLES"), text)
    threshold = _value(window.get("THRESHOLD"))

    def build() -> Count:
        assert distance is not None
        require(distance >= 0, "DELTA", "DELTA is the greatest distance allowed: 0 or more")
        require(
            threshold is None or 0 < threshold <= 1,
            "THRESHOLD",
            "THRESHOLD is a probability: above 0 and at most 1 (or 100%)",
        )
        require(
            bound is None or bound > 0, "MAX_TUPLES", "MAX_TUPLES is a number of tuples, 1 or more"
        )
        default = Delta(distance, str(delta.names[0]), max_tuples=bound)
        made = default if threshold is None else replace(default, threshold=threshold)
        columns = None if order is None else tuple(str(name) for name in order.names)
        return Count(made, columns)

    return _placed(build, window, text, {})


def join_plan(join: SimilarityJoin, text: str) -> Join:
    """The arguments of a similarity join. Raises SqlError for what is missing or out of range."""
    once: dict[str, tuple[Measure, ...] | tuple[Token, ...]] = {
        "WITHIN": join.within,
        "PROBABILITY": join.probability,
        "USING": join.using,
        "OUTPUT": join.output,
    }
    for word, found in once.items():
        if len(found) > 1:
            raise at(text, found[1], f"{word} is given twice")
        if not found and word in ("WITHIN", "PROBABILITY"):
            raise at(text, join, f"the join lacks {word}", expected=(f"{word} number",))
    for name in join.on:
        if len(name.words) > 1:
            raise at(text, name, "ON names attributes of both sides", expected=(name.parts[-1],))
    within = join.within[0]
    if within.percent:
        raise at(text, within, "WITHIN is a distance, not a percentage")

    def build() -> Join:
        return Join(
            on=tuple(str(name) for name in join.on),
            within=within.value,
            probability=join.probability[0].value,
            strategy=join.using[0].lower() if join.using else "auto",
            output=join.output[0].lower() if join.output else "append",
        )

    try:
        return build()
    except PlanError as error:
        place = once[error.word][0]
        choices = {"USING": STRATEGIES, "OUTPUT": OUTPUTS}.get(error.word, ())
        known = isinstance(place, Token) and place.lower() in choices
        expected = () if known else tuple(choice.upper() for choice in choices)
        likely = near(place, expected) if isinstance(place, Token) else None
        raise at(text, place, error.reason, expected=expected, suggestion=likely) from None


def _placed(
    build: Callable[[], T], window: Window, text: str, expected: dict[str, tuple[str, ...]]
) -> T:
    """Build a plan; what it refuses is said at the option that gave it."""
    try:
        return build()
    except PlanError as error:
        option = window.get(error.word)
        place: Node = window if option is None else option.measure or option
        choices = expected.get(error.word, ())
        likely = near(str(option.names[0]), choices) if option and option.names else None
        raise at(text, place, error.reason, expected=choices, suggestion=likely) from None


# ---- numbers and durations -----------------------------------------------------------------------


def _value(option: Option | None) -> float | None:
    return None if option is None or option.measure is None else option.measure.value


def _whole(option: Option | None, text: str) -> int | None:
    if option is None or option.measure is None:
        return None
    if option.measure.whole is None:
        raise at(text, option.measure, f"{option.word} is a whole number of rows")
    return option.measure.whole


def _idle(option: Option | None, text: str) -> str | None:
    length = duration_of(option, text)
    if option is None or length is None:
        return None
    if length <= 0:
        raise at(text, option.measure or option, "IDLE must be longer than nothing")
    return f"{length} microseconds"


def duration_of(option: Option | None, text: str) -> int | None:
    """Microseconds of `300 SECONDS` or `1 hour 30 mins`; 0 or less where it is not positive."""
    if option is None or option.measure is None:
        return None
    measure: Measure = option.measure
    if len(measure.units) < len(measure.numbers):
        reason = f"{option.word} lacks its unit of time"
        raise at(text, measure, reason, expected=UNIT_WORDS)
    total = 0.0
    for number, unit in zip(measure.numbers, measure.units, strict=True):
        word = unit.lower()
        singular = word.removesuffix("s")
        if singular not in UNITS and word not in SHORT and singular not in SHORT:
            raise at(
                text,
                unit,
                f"{unit} is no unit of time",
                expected=UNIT_WORDS,
                suggestion=near(unit, (*UNIT_WORDS, *DISORDER_WORDS)),
            )
        if float(number) > 0:
            total += microseconds(option.word, f"{float(number)} {word}")
    return -1 if measure.negative else round(total)
