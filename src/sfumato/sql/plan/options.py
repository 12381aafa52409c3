"""From the options of a window or a join, as written, to the arguments of our operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from lark import Token

from sfumato.duration import SHORT, UNITS, microseconds
from sfumato.sql.plan.nodes import (
    ESTIMATORS,
    OUTPUTS,
    STRATEGIES,
    Count,
    Disorder,
    Earlier,
    Extent,
    Join,
    PlanError,
    at,
    require,
)
from sfumato.sql.text.errors import near
from sfumato.sql.text.syntax import (
    Measure,
    Node,
    Option,
    SimilarityJoin,
    Window,
    words,
)
from sfumato.windows import Delta, Rows

UNIT_WORDS = tuple(f"{unit}s" for unit in UNITS)

# Which options go together; the first word of each family asks for it.
DISORDER_WORDS = words("RANGE SLIDE WATTR ARRIVAL KEY SLACK DRATIO MAX ESTIMATOR BSIZE IDLE")
ROWS_WORDS = words("ROWS CONFIDENCE MAX_TUPLES ORDER")
DELTA_WORDS = words("DELTA THRESHOLD MAX_TUPLES ORDER")
EARLIER_WORDS = words("EARLIER ORDER KEY")
KINDS = {
    "RANGE": DISORDER_WORDS,
    "ROWS": ROWS_WORDS,
    "DELTA": DELTA_WORDS,
    "EARLIER": EARLIER_WORDS,
}
SUBQUERY = "FROM (SELECT * FROM s [EARLIER ...]) [...]"
CONTROLS = ("SLACK", "DRATIO", "MAX")

T = TypeVar("T")


def window_plan(
    window: Window, text: str, event_time: str | None = None
) -> Disorder | Count | Earlier:
    """What a bracket asks for: reordering (with or without extents), a window over arrivals, or
    earlier values.

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
            f"a window is by time, by count or by a value: {words_given} exclude each other"
            if "EARLIER" not in words_given
            else f"EARLIER is no window: take it in a subquery first, {SUBQUERY}",
        )
    family = kinds[0].word if kinds else "RANGE"
    for option in window.options:
        if option.word not in KINDS[family]:
            raise at(text, option, _misplaced(option.word, family))
    if family == "RANGE":
        return _disorder(window, text, event_time)
    if family == "EARLIER":
        return _earlier(window, text)
    return _count(window, text) if family == "ROWS" else _moved(window, text)


def is_uncontrolled(window: Window) -> bool:
    """Whether no word of a time window asks for disorder control: rows are taken in order."""
    return not any(window.get(word) for word in (*CONTROLS, "BSIZE"))


def _misplaced(word: str, kind: str) -> str:
    if kind == "EARLIER":
        return f"{word} belongs to a window: take EARLIER in a subquery first, {SUBQUERY}"
    if kind == "RANGE" or word not in DISORDER_WORDS:
        home = "DELTA" if word == "THRESHOLD" else "ROWS"
        return f"{word} belongs to a {home} window, and this one has no {home}"
    hint = f"reorder in a subquery first, FROM (SELECT * FROM s [WATTR ...]) [{kind} ...]"
    return f"{word} orders by time and has no meaning in a {kind} window: {hint}"


def _earlier(window: Window, text: str) -> Earlier:
    order, key = window.get("ORDER"), window.get("KEY")
    attributes = window.get("EARLIER")
    assert attributes is not None
    if order is not None and len(order.names) > 1:
        raise at(text, order.names[1], "EARLIER goes by one column: a time or a number")
    return Earlier(
        tuple(str(name) for name in attributes.names),
        None if order is None else str(order.names[0]),
        () if key is None else tuple(str(name) for name in key.names),
    )


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
