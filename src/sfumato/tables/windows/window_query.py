"""The arguments of `window_aggregate`, and the configuration derived from them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from typing import Any, ClassVar

import pyarrow as pa

from sfumato.limits import check_alternatives
from sfumato.near_misses import did_you_mean
from sfumato.operators.arguments import flag
from sfumato.operators.distributions.aggregate import FUNCTIONS, OVER_TIME
from sfumato.operators.distributions.discrete_distributions import DistributionOptions
from sfumato.tables.disorder.released import ARRIVAL
from sfumato.tables.reading.exact import EXACT_FUNCTIONS, ExactNumber, exact_number
from sfumato.tables.reading.extents import unplaced_reason
from sfumato.tables.reading.frame import (
    ADDED_COLUMN,
    CONTROLLER_COLUMNS,
    EARLY_COLUMN,
    EXISTENCE,
    GROUPED_BY,
    NUMERIC_KINDS,
    SEVERAL_ROWS,
    TIME_KINDS,
    Frame,
    ReadExpression,
    forget_after_of,
    number_tuple,
    order_metadata,
)
from sfumato.tables.reading.job import Input
from sfumato.tables.reading.results import (
    Output,
    OutputField,
    Struct,
    alternatives_type,
    extent_type,
    mark_repeated,
    mark_shared,
    passthrough_outputs,
    row_of,
)
from sfumato.tables.reading.rows import (
    BooleanColumn,
    Column,
    ColumnReader,
    Probabilities,
    Reading,
    Rule,
    Ties,
    controller_readers,
)
from sfumato.tables.reading.tuples import ALTERNATIVES
from sfumato.tables.reading.user_warnings import (
    AVERAGES,
    GAPS,
    UNCERTAIN_TIMES,
    WINDOW_ROWS,
    WINDOWS,
    warn_of_digits,
    warn_user,
)
from sfumato.tables.scope import check_order, scope_of
from sfumato.tables.windows.table_extents import ROW_VERSION, ExtentTableConfig
from sfumato.tables.windows.table_windows import (
    PICKED_RESULT,
    RowWindowTableConfig,
    distribution_names,
)
from sfumato.windows import Delta, Range, Rows, Session, duration_us

MIN_UNIT_US = {"day": 23 * 3_600_000_000, "month": 28 * 86_400_000_000}  # shortest calendar units
TIME_WINDOWS = (Range, Session)  # time windows
AGGREGATE_CALL = re.compile(r"\s*(\w+)\s*\((.*)\)\s*", re.DOTALL)
FILTER_CLAUSE = re.compile(r"\)\s*filter\s*\(\s*where\b(.*)\)\s*", re.DOTALL | re.IGNORECASE)
DISTINCT_VALUE = re.compile(r"distinct(?:\s+|(?=\())(.+)", re.IGNORECASE | re.DOTALL)
QUANTILE_SHARE = re.compile(r"\s*(\d*\.?\d+(?:e-?\d+)?)\s*(%?)\s*")
FUNCTION_HINTS = {  # for function names from other libraries
    "median": ". Write quantile(x, 0.5)",
    "percentile": ". Write quantile(x, 0.9)",
    "nunique": ". Write count_distinct(x)",
    **dict.fromkeys(
        ("collect_list", "collect_set", "array_agg"),
        ". Write with_rows=True, which returns the rows of each window",
    ),
}
COUNT_IF = "count_if"  # count_if(c) is count(*) FILTER (WHERE c)
AGGREGATE_ALIASES = {
    "mean": "avg",
    **dict.fromkeys(("stddev_samp", "stdev", "std"), "stddev"),
    **dict.fromkeys(("variance", "var_samp"), "var"),
    "first_value": "first",
    "last_value": "last",
}
WIDE_INTEGERS = ("bigint", "int64", "uint64")  # integer types that a double may round
EARLY_COLUMNS = ["final", "revision", "completeness", "interval"]
NOT_TOGETHER = (  # pairs of arguments
    *(("early", name) for name in ("shared", "distribution", "missed", "version")),
    *(("early", name) for name in ("with_rows", "quantiles", "forget_after")),
    ("shared", "version"),
    ("missed", "with_rows"),
)
DRAWN_TIMES = ": draw possible worlds with sf.draw_worlds, whose times are certain"
DEFAULT_LEVEL = 0.9  # level of the intervals of early answers
PICKED = ("text", "date")  # kinds of values that are picked, not computed
VALUE_PAIRS = alternatives_type([OutputField("value", pa.float64())])  # type of a distribution
# Functions whose results have the type of the values
VALUE_FUNCTIONS = ("min", "max", "first", "last")


@dataclass(frozen=True)
class AggregateSpec:
    """One result column: its name, function and SQL expression, and how it is computed.

    expression : None for count(*)    argument : q of a quantile
    condition : selects the rows, or alternatives, that are aggregated; None for all
    kind, type : of the results of certain rows; see `WindowTableConfig`
    cast : the type of the result column, if it is not `type`
    hashed : whether values are read as hashes, because doubles may not distinguish them
    """

    name: str
    function: str
    expression: str | None
    argument: float | None = None
    condition: str | None = None
    kind: str | ExactNumber = "whole"
    type: Any = field(default_factory=pa.int64)
    cast: Any = None
    hashed: bool = False

    @property
    def place(self) -> str:
        return f"aggregates[{self.name!r}]" if self.name else "by"

    @property
    def entry(self) -> str:
        return f"{self.function} in `aggregates[{self.name!r}]`"

    def in_frame(self, frame: Frame) -> AggregateSpec:
        """Return the aggregate of one checked expression, which is NULL for unselected rows."""
        text = self.expression and frame.quoted_name(self.expression)
        if self.condition is not None:
            frame.check_expression(self.place, self.condition)
            value = "1" if text is None else in_brackets(text)
            text = f"CASE WHEN {in_brackets(self.condition)} THEN {value} END"
        if text is not None:
            frame.check_expression(self.place, text)
        return replace(self, expression=text)


def parse_aggregates(aggregates: Mapping[str, str]) -> list[AggregateSpec]:
    """Parse aggregates such as ``{"n": "count(*)"}``, by result name."""
    if not isinstance(aggregates, Mapping) or not aggregates:
        raise TypeError(
            "`aggregates` must map at least one result name to an aggregate, like "
            f"{{'total': 'sum(temperature)'}}; got {aggregates!r}"
        )
    return [_parse_aggregate(name, text) for name, text in aggregates.items()]


def _parse_aggregate(name: str, text: str) -> AggregateSpec:
    entry = f"`aggregates[{name!r}]`"
    if not isinstance(name, str) or not name:
        raise TypeError(f"`aggregates` must name each result, like 'total'; got the name {name!r}")
    if not isinstance(text, str):
        raise TypeError(f"{entry} must be a string like 'sum(temperature)'; got {text!r}")
    given, condition = _split_filter(text)
    call = AGGREGATE_CALL.fullmatch(given)
    known = ", ".join((*FUNCTIONS, "mean", COUNT_IF))
    if call is None:
        name = text.strip().lower()
        calls = {"count": "count(*) or count(x)", "quantile": "quantile(x, 0.9)"}
        calls |= {COUNT_IF: "count_if(x > 0)"}
        is_known = AGGREGATE_ALIASES.get(name, name) in (*FUNCTIONS, COUNT_IF)
        hint = f". Write {calls.get(name, f'{name}(x)')}" if is_known else ""
        raise ValueError(f"{entry} must be one of {known} of an expression; got {text!r}{hint}")
    function, expression = call[1].lower(), call[2].strip()
    if any(_end_of_call(of) is not None for of in (expression, condition or "")):
        raise ValueError(
            f"{entry} must be one function of one expression, such as sum(x) or "
            f"sum(x) FILTER (WHERE y > 0); got {text!r}. Name a result for each function and "
            "combine the results afterwards"
        )
    if condition == "" or (function == COUNT_IF and not expression):
        raise ValueError(f"{entry} needs a condition, such as x > 0; got {text!r}")
    if function == COUNT_IF:
        both = expression
        if condition is not None:
            both = f"{in_brackets(expression)} AND {in_brackets(condition)}"
        return AggregateSpec(name, "count", None, None, both)
    function = AGGREGATE_ALIASES.get(function, function)
    if function not in FUNCTIONS:
        hint = FUNCTION_HINTS.get(function, did_you_mean(function, [*FUNCTIONS, COUNT_IF]))
        raise ValueError(f"{entry} must be one of {known}; got {call[1]!r}{hint}")
    distinct = DISTINCT_VALUE.match(expression)
    if distinct and function == "count":
        function, expression = "count_distinct", distinct[1]
    elif distinct:
        raise ValueError(f"{entry} can use DISTINCT only in count(DISTINCT x); got {text!r}")
    if function == "count" and expression in ("*", "1"):
        return AggregateSpec(name, function, None, None, condition)
    if not expression or expression == "*":
        raise ValueError(f"{function} in {entry} needs an attribute; got {text!r}")
    if function != "quantile":
        return AggregateSpec(name, function, expression, None, condition)
    inner, _, share = expression.rpartition(",")
    found = QUANTILE_SHARE.fullmatch(share)
    q = float(found[1]) / (100 if found[2] else 1) if found else -1.0
    if not inner.strip() or not 0 <= q <= 1:
        raise ValueError(
            f"{entry} must be quantile(expression, share) with a share from 0 to 1; got {text!r}"
        )
    return AggregateSpec(name, function, inner.strip(), q, condition)


def in_brackets(expression: str) -> str:
    """Return an expression in parentheses, the last of them on a new line after a comment."""
    return f"({expression}\n)" if "--" in expression else f"({expression})"


def _kept_apart(specs: list[AggregateSpec]) -> list[AggregateSpec]:
    """Return aggregates in which the same text is never read in two forms.

    Expressions are known by their texts, so hashed and picked values get further parentheses.
    """
    forms = {w.name: (w.hashed, w.kind == PICKED_RESULT) for w in specs}
    found, taken = dict[str, AggregateSpec](), dict[str, tuple[bool, bool]]()
    for w in sorted(specs, key=lambda w: forms[w.name]):
        text = w.expression
        while text is not None and taken.setdefault(text, forms[w.name]) != forms[w.name]:
            text = f"({text})"
        found[w.name] = replace(w, expression=text)
    return [found[w.name] for w in specs]


def _split_filter(text: str) -> tuple[str, str | None]:
    """Return an aggregate without its FILTER clause, and the clause's condition or None."""
    _, opening, inside = text.partition("(")
    end = _end_of_call(inside) if opening else None
    found = None if end is None else FILTER_CLAUSE.fullmatch(inside, end)
    if found is None:
        return text, None
    return text[: len(text) - len(inside) + end + 1], found[1].strip()  # type: ignore[operator]


def _end_of_call(inside: str) -> int | None:
    """Return the position of the first `)` whose parenthesis was opened before the text."""
    depth = 0
    for sign in re.finditer(r"'[^']*'|\"[^\"]*\"|`[^`]*`|[()]", inside):
        depth += {"(": 1, ")": -1}.get(sign[0], 0)
        if depth < 0:
            return sign.start()
    return None


@dataclass(eq=False)
class WindowQuery:
    """The validated arguments of `window_aggregate`, which documents the other arguments.

    specs : the aggregates
    placed : the window whose extents the rows belong to, if they come from `Frame.by_extent`
    structs : whether certain rows also give structs, and distributions have no size limit
    bounded : further results by name: (result, most) repeats a result with at most `most` values

    existence_column : the probability column of a frame without alternatives
    certain : whether all rows are certain    plain : whether results are plain values
    ids : the columns that identify a row within a key
    expressions : the distinct expressions that the operator reads, see `cells`
    time : the type of the order: "timestamp", "timestamp_ntz" or "long"
    marks_late : whether a count or delta window drops rows that a controller flags as late
    in_order_within : the keys of the upstream controller, or all keys if they are unknown
    scope : the positions of the controller's keys in `keys`; None without a controller
    one_controller : whether out-of-order rows are an error; they are not with an idle timeout
    """

    function_name: ClassVar[str] = "window_aggregate"  # the function's name in messages
    picks: ClassVar[bool] = True  # whether results may be strings or dates
    scored: ClassVar[bool] = False  # whether a NULL value makes its row invalid
    ties_by_arrival: ClassVar[bool] = True  # whether arrival orders a controller's ties

    frame: Frame
    specs: list[AggregateSpec]
    window: Rows | Range | Delta | Session
    order: str | Sequence[str]
    key: str | Sequence[str] | None
    existence: str | None
    distribution: int | None
    placed: Range | None = field(default=None, kw_only=True)
    missed: bool = field(default=False, kw_only=True)
    early: str | timedelta | None = field(default=None, kw_only=True)
    level: float | None = field(default=None, kw_only=True)
    unique: str | Sequence[str] | None = field(default=None, kw_only=True)
    version: str | None = field(default=None, kw_only=True)
    shared: str | None = field(default=None, kw_only=True)
    with_rows: bool = field(default=False, kw_only=True)
    forget_after: str | timedelta | float | None = field(default=None, kw_only=True)
    quantiles: Sequence[float] = field(default=(), kw_only=True)
    seed: int = field(default=0, kw_only=True)
    samples: int = field(default=1000, kw_only=True)
    structs: bool = field(default=False, kw_only=True)
    bounded: Mapping[str, tuple[str, int]] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        frame, window = self.frame, self.window
        self.quantiles = number_tuple("quantiles", self.quantiles)
        self.timed = isinstance(window, TIME_WINDOWS)
        frame.require_late(metadata=not self.timed)
        frame.require_tuples(self.existence)
        self.specs = [w.in_frame(frame) for w in self.specs]
        self.existence_column = EXISTENCE if EXISTENCE in frame.columns else None
        if self.existence is not None:
            self.existence_column = frame.single_column("existence", self.existence)
            frame.require_numbers("existence", [self.existence_column])
        self.certain = not frame.uncertain and self.existence_column is None
        self.plain = self.certain and not self.structs
        self.specs = _kept_apart([*map(self._plan, self.specs)])
        read = [w.expression for w in self.specs if w.expression is not None]
        read += [window.on] if isinstance(window, Delta) else []
        self.expressions = list(dict.fromkeys(read))
        exact = (
            w for w in self.specs if isinstance(w.kind, ExactNumber) or w.kind == PICKED_RESULT
        )
        self._exact = {w.expression for w in exact}
        self._over_time = {w.entry: w.function for w in self.specs if w.function in OVER_TIME}
        if not isinstance(window, Rows | Range | Delta | Session):
            raise TypeError(
                f"`window` must be sf.Rows, sf.Range, sf.Session or sf.Delta, or a duration like "
                f'"5 minutes"; got {window!r}'
            )
        if isinstance(window, Rows) and window.within is not None:
            raise ValueError(
                "`within` of sf.Rows is allowed only in joins: write window=sf.Rows(500) for the "
                f'newest rows, or window=sf.Range("10 minutes") for extents of time; got {window!r}'
            )
        if isinstance(window, Rows) and window.lockstep:
            raise ValueError(
                f"`lockstep` of sf.Rows is allowed only in joins; got {window!r}. Leave `lockstep` "
                "out"
            )
        self._check_order()
        if isinstance(window, Delta) and window.on not in frame.attributes:
            frame.single_column("window.on", window.on)
        self._check_rows()
        if self.early is not None:
            self._check_early()
        elif self.level is not None:
            raise ValueError('`level` needs `early`: add early="10 seconds", or leave `level` out')
        for one, other in NOT_TOGETHER:
            given = getattr(self, one), getattr(self, other)
            if all(of is not None and of is not False and of != () for of in given):
                raise ValueError(f"`{one}` and `{other}` cannot be combined: leave one of them out")
        self._check_over_time()
        for w in self.specs:
            if w.function in ("first", "last"):
                self._require_certain_times(w.entry, DRAWN_TIMES)
        self._check_versions()
        self._check_shared()
        self._check_distributions()
        self._check_results()
        frame.require_independent(self.function_name, self.existence_column)
        if frame.has_imputed_gaps and self.shared is None:
            self._warn_of_gaps()
        has_copies = self.timed and frame.duplicate_column is not None
        if has_copies and frame.remembered_us < self._needed_us:
            bound = " and sf.Session a `max_length`" if self._needed_us == math.inf else ""
            warn_user(
                f"{self.function_name}: a duplicate that arrives after sf.reorder has forgotten "
                "its id is a late row, and is counted again while its window is open. Give "
                f"sf.reorder a `remember` of at least the length of the window{bound}"
            )

    def _check_order(self) -> None:
        frame, window = self.frame, self.window
        self.orders = self._resolve_orders()
        if not self.orders:
            raise ValueError("`order` must name the column(s) that give the order; got none")
        if self.existence is not None and frame.uncertain:
            raise ValueError(
                f"`existence` is not allowed, because the {frame.noun} has alternatives with "
                "their own probabilities: leave `existence` out"
            )
        frame.require_orders("order", self.orders)
        if self.placed is None:
            frame.require_event_time("order", self.orders)
        kind = frame.kind(self.orders[0])
        self.time = kind if kind in ("timestamp", "timestamp_ntz") else "long"
        self.time_type = pa.int64() if self.time == "long" else frame.type(self.orders[0])
        if self.timed:
            self._check_time()
        self.keys = frame.keys("key", self.key)
        known = frame.ordered_by_keys("punctuation") if self.controlled else None
        self.in_order_within = self.keys if known is None else known
        self.scope = scope_of(self.keys, self.in_order_within) if self.controlled else None
        if frame.streams and not self.controlled:  # static frames are sorted as a whole
            check_order(self.keys, frame.in_order_for)
        self.marks_late = not self.timed and frame.marks_late(self.orders)
        self.idle_timeout_us = window.idle_timeout_us if isinstance(window, TIME_WINDOWS) else None
        ordered = frame.is_strictly_ordered(self.orders, self.keys)
        self.one_controller = ordered and self.idle_timeout_us is None

    def _warn_of_gaps(self) -> None:
        attributes = "|".join(map(re.escape, self.frame.attributes))
        for w in self.specs:
            read = re.search(rf"\b({attributes})\b", w.expression or "", re.IGNORECASE)
            if read and (w.function in ("sum", "avg") or w.condition is not None):
                warn_user(
                    f"{self.function_name}: {w.entry if w.name else '`by`'} combines several "
                    f"values of one gap, and {GAPS}, so ranges are too narrow. Let values of one "
                    "gap share their error: sf.impute(..., gap_values=20), then a time window with "
                    'shared="gap_ATTR"; or accept this with sf.assume_independent(df)'
                )
                return

    @property
    def _needed_us(self) -> float:
        """Return the time for which windows need a row; a calendar unit counts as MIN_UNIT_US."""
        if isinstance(self.window, Session):
            longest = self.window.max_length_us
            return math.inf if longest is None else longest
        if not isinstance(self.window, Range):
            return 0.0
        unit = self.window.calendar_unit
        return self.window.grid[0] * (1 if unit is None else MIN_UNIT_US[unit])

    def _plan(self, w: AggregateSpec) -> AggregateSpec:
        """Return an aggregate with the fields that define how it is computed."""
        text = w.expression
        if text is None:
            return w
        own = self.frame.expression_type(text, w.place)
        known, shown = self.frame.kind_of(own), self.frame.text_of(own)
        is_number = known in NUMERIC_KINDS
        if w.function == "count":
            known_value = f"CASE WHEN {in_brackets(text)} IS NOT NULL THEN 1 END"
            return w if is_number else replace(w, expression=known_value)
        is_text = known in PICKED and "collate" not in shown
        others = (self.placed, self.early, self.version, self.shared)
        picks = self.picks and self.plain and self.timed and others == (None,) * len(others)
        if is_text and w.function in VALUE_FUNCTIONS and picks:
            return replace(w, kind=PICKED_RESULT, type=own)
        if w.function == "count_distinct" and is_text:
            return replace(w, hashed=True)
        argument, of = f"`{w.place}`", w.name and f" for {w.function}"
        if not is_number:
            of_text = w.name and known == "text"
            hint = "only count and count(distinct ...) take strings" if of_text else "cast it first"
            if self.picks and of_text:
                hint = "only count, count(distinct ...), min, max, first and last take strings"
            if self.picks and w.function in VALUE_FUNCTIONS and known in PICKED:
                hint = f"{w.function} of strings and dates needs certain rows and a time window"
            raise TypeError(
                f"{argument} needs a numeric expression{of}; `{text}` is {shown}: {hint}"
            )
        plain = self.plain and not self.scored and self.early is None
        if plain and w.function in EXACT_FUNCTIONS:
            exact = exact_number(w.function, self.frame.arrow_type(own))
            if exact is not None:
                precise: Any = pa.int64()
                if exact.precision:
                    precise = pa.decimal128(exact.precision, exact.scale)
                cast = None if w.function == "sum" else own
                return replace(w, kind=exact, type=precise, cast=cast)
        digits = self.frame.rounded_type(text)
        if w.function == "count_distinct":
            wide = shown in WIDE_INTEGERS or digits is not None
            return replace(w, hashed=wide)
        if digits is not None:
            warn_of_digits(argument, text, digits)
        if w.function in VALUE_FUNCTIONS and known in ("timestamp", "timestamp_ntz"):
            return replace(w, kind=known, type=own)
        cast = own if w.function in VALUE_FUNCTIONS else None
        is_sum = w.function == "sum" and self.early is None
        if known == "whole" and (is_sum or w.function in VALUE_FUNCTIONS):
            return replace(w, cast=cast)
        return replace(w, kind="number", type=pa.float64(), cast=cast)

    def _check_time(self) -> None:
        kind = type(self.window).__name__
        if len(self.orders) != 1:
            raise ValueError(
                f"`order` must be one event-time column for sf.{kind}; got {self.orders}"
            )
        self.frame.require_time("order", self.orders[0], f" for sf.{kind}")
        zone = self.window.zone if isinstance(self.window, Range) else None
        if self.time == "timestamp_ntz" and zone not in (None, "UTC"):
            raise ValueError(
                "`order` must be a timestamp with a time zone, because the window has "
                f"zone={zone}; `{self.orders[0]}` has no time zone: convert it to instants, for "
                "example with dt.tz_localize in pandas or CAST(... AS TIMESTAMP) in Spark"
            )

    def _check_rows(self) -> None:
        for argument in ("missed", "with_rows"):
            if not flag(argument, getattr(self, argument)):
                continue
            if not self.timed:
                raise ValueError(
                    f"`{argument}` needs a time window: write window=sf.Range(...) or "
                    f"sf.Session(...); got {self.window!r}"
                )
            self._require_certain_times(f"`{argument}`")
        if self.missed:
            self.frame.require_free(["reason"])
        for w in self.specs:
            if self.missed and w.kind == PICKED_RESULT:
                raise ValueError(
                    f"`missed` and {w.function} of strings or dates in `aggregates[{w.name!r}]` "
                    "cannot be combined: leave one of them out"
                )

    def _require_fixed_length(self, asked: str, or_else: str = "", calendar: bool = True) -> None:
        """Raise ValueError unless the window is a Range over certain times. or_else : a hint"""
        window = self.window
        if not isinstance(window, Range) or not (calendar or window.calendar_unit is None):
            hint = or_else and f", or {or_else}"
            raise ValueError(
                f'{asked} needs a window of fixed length: write window=sf.Range("1 minute"){hint}; '
                f"got {window!r}"
            )
        self._require_certain_times(asked, or_else and f": {or_else}")

    def _require_certain_times(self, asked: str, hint: str = "") -> None:
        if self.placed is not None:
            raise ValueError(f"{asked} needs certain event times, but `order` is uncertain{hint}")

    def _check_early(self) -> None:
        from sfumato.operators.windows.early_answers import EARLY_FUNCTIONS

        self._require_fixed_length("`early`", calendar=False)
        for w in self.specs:
            if w.function not in EARLY_FUNCTIONS:
                raise ValueError(
                    f"`early` allows only {', '.join(EARLY_FUNCTIONS)}; `aggregates[{w.name!r}]` "
                    f"is {w.function}: compute it in a second window_aggregate, without `early`"
                )
        if self.controlled and self.frame.early_column is None:
            raise ValueError(
                "`early` needs rows at their arrival, but sf.reorder holds them: write "
                "sf.reorder(..., early=True) upstream"
            )

    def _check_over_time(self) -> None:
        for entry in self._over_time:
            if not isinstance(self.window, Range):
                raise ValueError(
                    f'{entry} needs sf.Range: write window=sf.Range("1 minute"); got '
                    f"{self.window!r}"
                )
            if self.window.has_gaps:
                raise ValueError(
                    f"{entry} needs windows without gaps between them: write a `slide` of at most "
                    f"`length`; got {self.window!r}"
                )
            self._require_certain_times(entry, DRAWN_TIMES)

    def _check_versions(self) -> None:
        self.ids: list[str] = []
        if self.version is None:
            if self.unique is not None:
                raise ValueError(
                    "`unique` needs `version`, the column whose larger value corrects a row: add "
                    'version="...", or drop duplicates with sf.reorder(..., unique=...)'
                )
            return
        self.ids = self.frame.group_columns("unique", self.unique)
        if not self.ids:
            raise ValueError(
                "`version` needs `unique`, the columns that identify a row: add unique=..., or "
                "leave `version` out"
            )
        name = self.frame.single_column("version", self.version)
        if self.frame.kind(name) not in TIME_KINDS:
            raise TypeError(
                "`version` must be a column of integers or timestamps; "
                f"`{name}` is {self.frame.type_name(name)}"
            )
        self._require_fixed_length("`version`")
        for entry in self._over_time:
            raise ValueError(
                f"{entry} cannot follow corrections, because its values hold beyond their extents: "
                "leave this aggregate or `version` out"
            )

    def _check_shared(self) -> None:
        if self.shared is None:
            return
        self.frame.single_column("shared", self.shared)
        if self.certain:
            raise ValueError(
                f"`shared` needs uncertain rows, but this {self.frame.noun} has neither "
                "`alternatives` nor `existence`: leave `shared` out"
            )
        if self.frame.filtered_by:
            raise ValueError(
                "`shared` matches alternatives by their number, but sf.where or sf.prune has "
                "removed some of them: aggregate the rows before this filter, or draw possible "
                "worlds of these rows with sf.draw_worlds"
            )
        drawn = (
            'draw possible worlds with sf.draw_worlds(df, 1000, source="...", '
            f'id="{self.shared}"), in which rows with the same id take the same alternative'
        )
        self._require_fixed_length("`shared`", drawn)
        for entry in self._over_time:
            raise ValueError(
                f"{entry} cannot have shared errors: leave this aggregate or `shared` out, or "
                f"{drawn}"
            )

    def _check_distributions(self) -> None:
        asked = {"quantiles": bool(self.quantiles), "distribution": self.distribution is not None}
        for argument in (name for name, given in asked.items() if given):
            if self.plain:
                raise ValueError(
                    f"`{argument}` needs uncertain rows, but this {self.frame.noun} has neither "
                    "`alternatives` nor `existence`, so results are plain values. Leave "
                    f"`{argument}` out"
                )
            for function in self._over_time.values():
                raise ValueError(
                    f"`{argument}` needs a distribution, but {function} has only an exact mean "
                    f"and standard deviation: leave `{argument}` out, or draw possible worlds with "
                    f"sf.draw_worlds, compute {function} in each world, and collect the results "
                    "with sf.merge_worlds"
                )

    def _check_results(self) -> None:
        apart = self.frame.is_case_sensitive()
        columns = [*self.emitted_columns, *self.added_columns]
        taken = set(columns if apart else map(str.lower, columns))
        for w in self.specs:
            name = w.name if apart else w.name.lower()
            if name == ALTERNATIVES and not self.certain:
                raise ValueError(
                    "`aggregates` names a result `alternatives`, the column of a tuple's "
                    'alternatives: choose a different name, such as "total", and pass its '
                    'distribution on with sf.alternatives("total.distribution")'
                )
            if w.name and name in taken:
                raise ValueError(
                    f"`aggregates` names a result `{w.name}`, but the answer already has a column "
                    "with this name: choose a different name"
                )
            taken.add(name)

    def _resolve_orders(self) -> list[str]:
        found, arrival = self.frame.resolve("order", self.order), self.frame.arrival_column
        if not self.ties_by_arrival or self.timed or len(found) > 1 or arrival in (None, *found):
            return found
        # A stream releases rows with equal event times in order of arrival.
        return [*found, str(arrival)] if self.frame.marks_late(found) else found

    @cached_property
    def controlled(self) -> bool:
        """Return whether a controller's punctuations complete extents."""
        return self.timed and self.frame.has_punctuations

    @property
    def unchanged_columns(self) -> dict[str, str]:
        """Map fixed names to other columns that the operator reads unchanged."""
        if self.shared is not None:
            return {"id0": self.frame.single_column("shared", self.shared)}
        if self.version is None:
            return {}
        ids = {f"id{i}": name for i, name in enumerate(self.ids)}
        return ids | {ROW_VERSION: self.frame.single_column("version", self.version)}

    # ---- inputs of the operator

    @property
    def emits_rows(self) -> bool:
        return self.with_rows or not self.timed

    @property
    def row_columns(self) -> list[str]:
        frame, dropped = self.frame, {ALTERNATIVES}
        if self.missed:
            dropped = set()
        elif self.with_rows:  # the columns of extents replace the upstream columns
            of_controller = {*CONTROLLER_COLUMNS} if frame.has_punctuations else set()
            of_extents = {*CONTROLLER_COLUMNS, "window", "held"} if frame.has_extents else set()
            dropped = (of_controller | of_extents) - {*self.keys}
        return [name for name in frame.columns if name not in dropped]

    @property
    def emitted_columns(self) -> list[str]:
        """Return the input columns that are emitted: columns of rows, or keys of extents."""
        return self.row_columns if self.emits_rows else self.keys

    def number_of(self, expression: str | None) -> Any:
        return None if expression is None else self.expressions.index(expression)

    @cached_property
    def computation(self) -> tuple[Sequence[Any], Mapping[str, Any]]:
        hashed = {w.expression for w in self.specs if w.hashed}
        places, exact = {w.expression: w.place for w in self.specs}, self._exact
        return self.frame.computation(
            [ReadExpression(x, places.get(x), x in exact, x in hashed) for x in self.expressions]
        )

    @property
    def cells(self) -> list[tuple[str, ColumnReader]]:
        values = ((f"value{i}", cells) for i, cells in enumerate(self.computation[0]))
        return [("prob", Probabilities(self.existence_column)), *values]

    @property
    def bounded_values(self) -> tuple[str, ...]:
        """Return the fixed names of the values that must be within ±MAX_ABS_VALUE."""
        return tuple(f"value{i}" for i, x in enumerate(self.expressions) if x not in self._exact)

    @property
    def input(self) -> Input:
        values = self.cells
        reordered = self.controlled or self.marks_late
        values += controller_readers() if reordered else []
        if self.early is not None and self.controlled:
            values += [(EARLY_COLUMN, BooleanColumn(self.frame.early_column or EARLY_COLUMN))]
            if (arrival := self.frame.arrival_column) is not None:
                values += [(ARRIVAL, Column(arrival))]
        values += [(fixed, Column(name)) for fixed, name in self.unchanged_columns.items()]
        rule = Rule(
            probabilities=True,
            existence=self.existence_column,
            complete=(
                *(f"order{i}" for i in range(len(self.orders))),
                *([ROW_VERSION] if self.version is not None else []),
            ),
            bounded_values=self.bounded_values,
            scored=self.scored,
            without_order="" if self.placed is None else unplaced_reason(self.placed),
            max_alternatives=self.frame.max_alternatives,
            duplicate=self.frame.duplicate_column if self.controlled else None,
            early_copy=self.frame.early_column if self.controlled else None,
            keeps_absent=self.version is not None,
            arrival=self.frame.arrival_column if reordered else None,
        )
        carried = self.row_columns if self.missed or self.emits_rows else []
        passed, orders, keys = map(tuple, (carried, self.orders, self.keys))
        tie = Ties(self.frame.tie_columns)
        reading = Reading(passed, orders, keys, tuple(values), rule, tie, self.missed, True)
        about: dict[str, Any] = {"values": self.expressions}
        if self.version is not None:
            about |= {"unique": self.ids, "version": self.version}
        if self.shared is not None:
            about |= {"shared": self.shared}
        return Input(self.frame, reading, about, self.computation[1], bucket=self.scope)

    # ---- the columns of the result

    @property
    def _added_types(self) -> dict[str, Any]:
        """Return the types of the answers' columns other than rows, results and `missed`."""
        if not self.timed:
            return {"held": pa.int64()}
        time = self.time_type
        kinds = {"window": extent_type(time), "held": pa.int64()}
        kinds |= {"punctuation": time, "late": pa.int64()}
        if self.early is not None:
            ends = (OutputField("low", pa.float64()), OutputField("high", pa.float64()))
            named = enumerate(self.specs)
            intervals = (OutputField(w.name, Struct(ends), f"result{i}") for i, w in named)
            shares = Struct((OutputField("share", pa.float64()), *ends))
            of_early = (pa.bool_(), pa.int64(), shares, Struct((*intervals,)))
            kinds |= dict(zip(EARLY_COLUMNS, of_early, strict=True))
        return kinds

    @property
    def added_columns(self) -> list[str]:
        return [*self._added_types, *(["missed"] if self.missed else [])]

    @property
    def outputs(self) -> list[Output]:
        prefix = "c" if self.emits_rows else "key"
        names = self.emitted_columns
        found = passthrough_outputs(self.frame, names, prefix=prefix, taken=self.added_columns)
        titles = {name: of.name for name, of in zip(names, found, strict=True)}
        scope = [titles.get(name, name) for name in self.in_order_within]
        forgets = self.forget_after is not None or self.frame.forgets
        order = order_metadata(scope, forgets=forgets)
        groups = [SEVERAL_ROWS] if self.emits_rows else [titles[name] for name in self.keys]
        window = {**order, GROUPED_BY: json.dumps(groups)}
        metadata = {"held": {ADDED_COLUMN: "true"}, "window": window}
        types = self._added_types
        if self.timed:
            types["window"] = extent_type(self.time_type, order)
        found += [Output(name, (name,), kind, metadata.get(name)) for name, kind in types.items()]
        found += self.result_outputs
        if self.missed:
            row = row_of(self.frame, self.row_columns).parts
            parts = (
                *(replace(of, metadata=None) for of in row),
                OutputField("reason", pa.string()),
            )
            found.append(Output("missed", ("missed",), Struct(parts)))
        if self.with_rows and self.certain and self._overlaps:
            return mark_repeated(found, WINDOWS, [*self.keys, *self.orders])
        own: list[str | None] = [] if self.timed else [EXISTENCE]
        if self._shared == WINDOW_ROWS:
            own = [ALTERNATIVES, self.existence_column]
        return mark_shared(found, self._shared, own)

    @property
    def result_outputs(self) -> list[Output]:
        names = distribution_names(self.quantiles, self.distribution is not None)
        kinds = {"distribution": VALUE_PAIRS}
        struct = Struct(tuple(OutputField(name, kinds.get(name, pa.float64())) for name in names))
        types = [(w.type, w.cast) if self.plain else (struct, None) for w in self.specs]
        found = [
            Output(w.name, (f"result{i}",), kind, {ADDED_COLUMN: "true"}, cast=cast)
            for i, (w, (kind, cast)) in enumerate(zip(self.specs, types, strict=True))
        ]
        for i, name in enumerate(self.bounded):
            found.append(Output(name, (f"bounded{i}",), struct, {ADDED_COLUMN: "true"}))
        return found

    @property
    def _shared(self) -> str | None:
        """Describe the answers if they may share uncertain tuples."""
        if self.certain:
            return None
        if self.shared is not None:
            return "answers of windows over shared errors"
        if self.early is not None:
            return "early answers of a window"
        if self.placed is not None:
            return UNCERTAIN_TIMES
        if self._overlaps:
            return WINDOWS
        if self._over_time:
            return AVERAGES
        return WINDOW_ROWS if self.with_rows else None

    @property
    def _overlaps(self) -> bool:
        return not self.timed or (isinstance(self.window, Range) and self.window.overlaps)

    # ---- the configuration

    @cached_property
    def settings(self) -> RowWindowTableConfig | ExtentTableConfig:
        window = self.window
        if not self.structs:
            check_alternatives("distribution", self.distribution, self.frame.max_alternatives)
        shared = self.scope is not None and len(self.scope) < len(self.keys)
        if self.forget_after is not None and shared and self._over_time:
            raise ValueError(
                "`forget_after` with time_avg or integral needs one controller per key: also "
                f"write key={self.keys} in sf.reorder, or leave `forget_after` out"
            )
        numbers = {w.name: i for i, w in enumerate(self.specs)}
        common: dict[str, Any] = {
            "results": tuple(
                (f"result{i}", w.function, self.number_of(w.expression), w.argument)
                for i, w in enumerate(self.specs)
            ),
            "kinds": tuple(w.kind for w in self.specs) if self.plain else (),
            "bounded": tuple(
                (f"bounded{i}", numbers[result], most)
                for i, (result, most) in enumerate(self.bounded.values())
            ),
            "options": DistributionOptions(
                tuple(self.quantiles), self.distribution, self.seed, self.samples
            ),
            "attributes": len(self.expressions),
            "orders": len(self.orders),
            "keys": len(self.keys),
            "forget_after": forget_after_of(
                self.frame, self.orders[0], self.keys, self.forget_after
            ),
            "one_controller": self.one_controller,
        }
        if self.early is not None:
            level = DEFAULT_LEVEL if self.level is None else self.level
            common |= {"early": duration_us("early", self.early), "level": level}
        if isinstance(window, TIME_WINDOWS):
            config_class: type[ExtentTableConfig] = ExtentTableConfig
            if self.early is not None:
                from sfumato.tables.windows.table_early import EarlyTableConfig

                config_class = EarlyTableConfig
            if self.unchanged_columns:
                from sfumato.tables.windows.table_identified import (
                    SharedTableConfig,
                    VersionedTableConfig,
                )

                config_class = VersionedTableConfig if self.ids else SharedTableConfig
                common |= {"unique": len(self.ids) or 1}
            return config_class(
                window=window,
                scope=self.scope,
                members=self.with_rows,
                missed=self.missed,
                time=self.time,
                by_source=self.controlled and self.frame.by_source,
                **common,
            )
        on = self.number_of(window.on) if isinstance(window, Delta) else 0
        return RowWindowTableConfig(
            window=window, on_attribute=on, controlled=self.marks_late, **common
        )
