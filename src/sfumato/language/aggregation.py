"""Answers over a window stand for its table: aggregates here, rankings in `ranking`.

GROUP BY, HAVING and the calls of a block become one operator.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from sfumato.api.window_aggregate import aggregated, parse_aggregates, quantile_name
from sfumato.language.block import Block
from sfumato.language.brackets import FORGET, NAMED, Window
from sfumato.language.errors import at
from sfumato.language.measures import ResultField, Rewriting
from sfumato.language.measures import level as level_of
from sfumato.language.options import Options
from sfumato.language.steps import (
    Lines,
    Step,
    held,
    newest,
    one_line,
    per_key,
    percent,
    span,
    typical_bytes,
)
from sfumato.language.syntax import (
    AGGREGATES,
    Clause,
    Item,
    Name,
    Node,
    Reference,
    end_of,
    is_measure,
    is_name,
    is_type,
    is_word,
    operator_of,
    quoted,
    references,
    split,
    stars,
    start_of,
)
from sfumato.language.tables import PlannedFrame, Source, column, existence_said, found, free
from sfumato.limits import HOW_TO_RAISE
from sfumato.near_misses import near
from sfumato.spark.model.alternatives import total_probability
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.runtime.lineage import steps_of
from sfumato.windows import Range, Rows

MOST = 64  # values of a distribution that DISTRIBUTION(x) gives by default
UNBOUNDED = 1_000_000  # values of a distribution: merging would change a probability
CALLS = {
    "count": "count",
    "sum": "sum",
    "avg": "avg",
    "mean": "avg",
    "min": "min",
    "max": "max",
    **dict.fromkeys(("first", "first_value"), "first"),
    **dict.fromkeys(("last", "last_value"), "last"),
    "percentile": "quantile",
    **dict.fromkeys(("stddev", "stddev_samp", "std"), "stddev"),
    **dict.fromkeys(("variance", "var_samp"), "var"),
    "boundary_sum": "boundary_sum",
}
"""What a query calls our aggregates."""
FIELDS = {
    "EXPECTED": "mean",
    "EXISTENCE": "existence",
    "STDDEV": "stddev",
    "QUANTILE": "",
    "DISTRIBUTION": "distribution",
}
"""What can be asked of an aggregate, and the field of its results that says it."""
OF_CERTAIN = {
    "EXISTENCE": "CAST({0} IS NOT NULL AS DOUBLE)",
    "STDDEV": "CASE WHEN {0} IS NOT NULL THEN 0D END",
    "DISTRIBUTION": "CASE WHEN {0} IS NOT NULL THEN array(named_struct('prob', 1D, 'value', "
    "CAST({0} AS DOUBLE))) ELSE array() END",
}
"""The same over certain rows, whose results are values; the others are the value itself."""
HAVE_CALLS = ("SELECT", "HAVING", "ORDER_BY", "")


class WindowedBlock(ABC):
    """Aggregates or a ranking over a window.

    beside_attributes : whether the table's attributes can be named beside its answers
    """

    beside_attributes = True

    def __init__(self, block: Block, source: Source) -> None:
        self.block, self.source, self.text = block, source, block.text
        self.clauses = {clause.word: clause for clause in block.clauses}
        self.handled: list[tuple[int, int]] = []  # spans that mean something else now

    @classmethod
    @abstractmethod
    def wanted(cls, clauses: Sequence[Clause], text: str) -> bool:
        """Whether the words ask for it, before any table is looked at."""

    @classmethod
    @abstractmethod
    def of(cls, block: Block) -> WindowedBlock | None:
        """Return what a block asks for; None where its tables give no occasion."""

    @abstractmethod
    def read(self) -> None:
        """Check the clauses; raises SqlError."""

    @abstractmethod
    def apply(self) -> None:
        """Let the answers stand for the table, and enter the edits of the text."""

    def of_operator(self, place: Node) -> Options:
        """Return FORGET and NAMED of the table's bracket; other errors point at `place`."""
        return Options(self.source.of_operator, (FORGET, NAMED), place, self.text)

    def covers(self, place: int) -> bool:
        """Whether a place in the text has got its meaning from `read`."""
        return any(start <= place < end for start, end in self.handled)


def grouped_by(clause: Clause | None, source: Source, text: str) -> list[str]:
    """Return the columns of a GROUP BY, as the frame spells them. Raises SqlError for others."""
    keys: list[str] = []
    if clause is None:
        return keys
    for items in split(clause.items):
        parts = [item for item in items if is_name(item)]
        dotted = [is_name(item) or item == "." for item in items] == [True] * len(items)
        if not parts or not dotted or len(items) > 3:
            reason = "over a window, GROUP BY takes columns: compute others in a subquery"
            raise at(text, items[0] if items else clause, reason)
        name = Name(start_of(items[0]), end_of(items[-1]), (parts[-1],))
        keys.append(column(name, source.frame.df.columns, "the stream", text))
    return keys


@dataclass(frozen=True)
class Call:
    """A call of one of our aggregates: `text` as `sf.window_aggregate` takes it."""

    reference: Reference
    text: str
    function: str


def is_aggregate(reference: Reference) -> bool:
    """Whether a reference is a call of one of our aggregates."""
    return (
        reference.call is not None
        and len(reference.words) == 1
        and reference.parts[0].lower() in CALLS
        and not is_word(reference.after, "OVER", "FILTER")
    )


def _is_sparks(reference: Reference) -> bool:
    """Whether a call is of an aggregate that only Spark knows."""
    return reference.parts[-1].lower() in AGGREGATES and not is_measure(reference.words)


def _arguments_of(call: Reference) -> tuple[Item, ...]:
    """Return all the words of a call's arguments."""
    return tuple(item for part in call.arguments for item in part)


def _most_values(given: list[tuple[Item, ...]], text: str) -> int:
    """Return how many values DISTRIBUTION(aggregate, most) may give; `given` : its arguments."""
    if len(given) < 2:
        return MOST
    number = given[1][0] if len(given[1]) == 1 else None
    if is_type(number, "NUMBER") and float(number).is_integer():
        return int(float(number))
    reason = "DISTRIBUTION takes an aggregate and how many values it may have"
    place = given[1][0] if given[1] else given[0][0]
    raise at(text, place, reason, expected=("DISTRIBUTION(SUM(x), 16)",))


class Aggregation(WindowedBlock):
    """What a block asks of its one windowed table, and how it is answered.

    The table becomes the answers of `sf.window_aggregate`; in the text for Spark, calls become
    fields of these answers, HAVING becomes WHERE, and GROUP BY, whose work is done, goes.
    """

    def __init__(self, block: Block, source: Source) -> None:
        super().__init__(block, source)
        self.names: dict[str, str] = {}  # result columns by aggregate
        self.levels: set[float] = set()  # quantiles wanted of results
        self.most: int | None = None  # values of a distribution
        columns = source.frame.df.columns
        self.certain = not source.frame.attributes and found("existence", columns) is None

    @classmethod
    def wanted(cls, clauses: Sequence[Clause], text: str) -> bool:
        return any(clause.word in ("GROUP_BY", "HAVING") for clause in clauses) or any(
            is_aggregate(reference) or _is_sparks(reference)
            for clause in clauses
            if clause.word in HAVE_CALLS
            for reference in references(clause.items)
        )

    @classmethod
    def of(cls, block: Block) -> Aggregation | None:
        windowed = [source for source in block.sources if source.window is not None]
        if not windowed:
            return None
        if not cls.wanted(block.clauses, block.text):
            waiting = next((s for s in windowed if not isinstance(s.window, Range)), None)
            if waiting is not None:
                reason = "a ROWS or DELTA window serves an aggregate or a SIMILARITY JOIN, and "
                reason += "there is none"
                raise at(block.text, waiting.node, reason, expected=("SELECT AVG(x)",))
            return None
        if len(block.sources) > 1:
            other = next(s for s in block.sources if s is not windowed[0])
            reason = "aggregates over a window beside another table: aggregate in a subquery"
            raise at(block.text, other.node, reason)
        return cls(block, windowed[0])

    # ---- reading

    def read(self) -> None:
        """Find the calls, the keys and what else is selected; raise SqlError for what is wrong."""
        self.keys = grouped_by(self.clauses.get("GROUP_BY"), self.source, self.text)
        for clause in self.block.clauses:
            if clause.word in HAVE_CALLS:
                self._read(clause.items, named=clause.word == "SELECT", clause=clause.word)
        if not self.names:  # groups alone: their extents come out once there is something to count
            self._name("count(*)")

    def _read(self, items: tuple[Item, ...], *, named: bool, clause: str) -> None:
        for reference in references(items):
            if reference.call is None or self.covers(reference.start):
                continue
            word = reference.parts[-1].upper()
            if len(reference.words) == 1 and word == "PROB":
                self._put(reference, self._probability(reference), named)
            elif len(reference.words) == 1 and word in FIELDS and not self._is_spread(reference):
                self._wrapped(reference, word, named)
            elif is_aggregate(reference):
                call = self._call(reference)
                if clause == "SELECT" and not self.certain and (sign := operator_of(reference)):
                    self._refuse_operand(reference, sign)
                whole = clause == "SELECT" or self.certain
                self._put_field(reference, call, "" if whole else "EXPECTED", named)
            elif _is_sparks(reference):
                self._refuse(reference)

    def _is_spread(self, reference: Reference) -> bool:
        """Whether a call is STDDEV of values of certain rows, and no measure."""
        inner = references(_arguments_of(reference))
        is_measure_of = any(is_aggregate(one) for one in inner)
        return self.certain and reference.parts[-1].upper() == "STDDEV" and not is_measure_of

    def _refuse_operand(self, reference: Reference, sign: str) -> None:
        """Raise SqlError for an uncertain aggregate, a struct, where a number is needed."""
        said = self._written(reference)
        reason = f"{said} is uncertain, and {sign} takes a number: its expected value, or the "
        expected = (f"EXPECTED({said})", f"PROB({said} > ...)")
        reason += "probability of a condition"
        raise at(self.text, reference.words[0], reason, expected=expected)

    def _written(self, reference: Reference) -> str:
        return one_line(self.text[reference.start : reference.end])

    def _refuse(self, reference: Reference) -> None:
        known = [name.upper() for name in CALLS]
        word = reference.parts[-1].upper()
        reason, likely = f"{word} is not computed over windows", near(word, known)
        if word == "MEDIAN" and reference.call is not None:
            inside = self.text[reference.call.start + 1 : reference.call.end - 1]
            likely = f"PERCENTILE({inside}, 0.5)"
        elif is_word(reference.after, "OVER"):
            reason = f"{word}(...) OVER is not computed over windows: leave OVER out and GROUP BY"
            likely = None
        elif is_word(reference.after, "FILTER"):
            reason = "FILTER is not computed over windows: filter with WHERE"
            likely = None
        raise at(self.text, reference.words[0], reason, expected=known, suggestion=likely)

    def _put(self, reference: Reference, by: str, named: bool) -> None:
        if named and reference.whole:
            by += f" AS {quoted(self._written(reference))}"
        self.block.edits.replace(reference.start, reference.end, by)
        self.handled.append((reference.start, reference.end))

    def _call(self, reference: Reference) -> Call:
        body = reference.call
        assert body is not None
        function = CALLS[reference.parts[-1].lower()]
        first = next(iter(_arguments_of(reference)), None)
        if is_word(first, "DISTINCT") and function != "count":
            reason = f"DISTINCT in {reference.parts[-1].upper()} is not computed over windows"
            raise at(self.text, first, reason)
        for inner in references(_arguments_of(reference)):
            if inner.call is not None and (is_measure(inner.words) or is_aggregate(inner)):
                reason = f"{inner.parts[-1].upper()} inside {reference.parts[-1].upper()}: "
                raise at(self.text, inner.words[0], reason + "compute it in a subquery")
        local = Rewriting(self.text)
        for items in reference.arguments:
            self.block.unqualify(items, self.source, local)
        inside = local.render(body.start + 1, body.end - 1, braces=False)
        text = f"{function}({inside})"
        try:
            parse_aggregates({"result": text})
        except (TypeError, ValueError) as error:
            reason = str(error).replace("`aggregates['result']`", self._written(reference))
            raise at(self.text, reference.words[0], reason) from None
        return Call(reference, text, function)

    def _name(self, text: str) -> str:
        if text not in self.names:
            # Spark's errors name the column, so it is called as the user wrote it.
            self.names[text] = free(one_line(text), self.source.frame.df.columns)
        return self.names[text]

    def _put_field(
        self, reference: Reference, call: Call, word: str, named: bool, level: float | None = None
    ) -> None:
        """Put what a word says of an aggregate in its place; "" : all its results."""
        name = self._name(call.text)
        column = by = quoted(name)
        path: tuple[str, ...] | None = (name,)
        if self.certain and word in OF_CERTAIN:
            by, path = OF_CERTAIN[word].format(column), None
        elif word and not self.certain:
            field = FIELDS[word] if level is None else quantile_name(level)
            by, path = f"{column}.{field}", (name, field)
        if path is not None:
            place, result = (reference.start, reference.end), self._written(reference)
            self.block.edits.fields[place] = ResultField(path, result * (named and reference.whole))
        self._put(reference, by, named)

    def _wrapped(self, reference: Reference, word: str, named: bool) -> None:
        given = reference.arguments
        inner = [r for r in references(given[0]) if is_aggregate(r)] if given else []
        whole = inner and inner[0].start == start_of(given[0][0])
        if not whole or inner[0].end != end_of(given[0][-1]):
            return  # a measure of an attribute
        call = self._call(inner[0])
        if word == "DISTRIBUTION":
            asked = _most_values(given, self.text)
            bound = SparkFrame(self.source.frame.df).max_alternatives
            if asked > bound:
                reason = f"DISTRIBUTION of {asked} values, more than {bound} ({HOW_TO_RAISE})"
                expected = (f"at most {bound}",)
                raise at(self.text, given[1][0], reason, expected=expected)
            self.most = max(self.most or 0, asked)
        level = None
        if word == "QUANTILE":
            level = level_of(given[1] if len(given) > 1 else (), self.text)
            self.levels.add(level)
        self._put_field(reference, call, word, named, level)

    def _probability(self, reference: Reference) -> str:
        """Return PROB(condition on one aggregate): the mass of the values that satisfy it.

        The aggregate may stand in it several times.
        """
        body = reference.call
        assert body is not None
        inner = [r for r in references(_arguments_of(reference)) if is_aggregate(r)]
        calls = [self._call(each) for each in inner]
        different = {
            _without_spelling(call.text): each for call, each in zip(calls, inner, strict=True)
        }
        if len(different) != 1:
            reason = "PROB takes a condition on one aggregate"
            if different:
                said = [self._written(each) for each in different.values()]
                reason += f", and {', '.join(said)} are {len(said)}: their joint distribution is "
                reason += "not computed"
            expected = ("PROB(AVG(x) > 80)", "PROB(AVG(x) > 80 AND AVG(x) < 90)")
            raise at(self.text, body, reason, expected=expected)
        name = quoted(self._name(calls[0].text))
        self.most = UNBOUNDED
        local = Rewriting(self.text)
        for each in inner:
            local.replace(each.start, each.end, name if self.certain else "`:v`.value")
        condition = local.render(body.start + 1, body.end - 1, braces=False)
        if self.certain:
            return f"CASE WHEN ({condition}\n) THEN 1D ELSE 0D END"
        values = f"{name}.distribution"
        kept = f"filter({values}, `:v` -> ({condition}\n))"
        return total_probability(kept)

    # ---- answering

    def apply(self) -> None:
        """Let the answers stand for the table, and enter the edits of the text."""
        source, window = self.source, self.source.window
        assert window is not None
        members = isinstance(window, Range) and self._selects_rows()
        frame, rows = source.frame, SparkFrame(source.frame.df)
        uncertain = isinstance(window, Range) and rows.is_uncertain_time(source.order[0])
        if uncertain and members:
            reason = f"{source.order[0]} is an uncertain event time: a row may be in several "
            reason += "extents, and only answers of extents can be selected"
            expected = ("the columns of GROUP BY", "window", "held", "aggregates")
            raise at(self.text, source.node, reason, expected=expected)
        given = self.of_operator(source.node)
        keeping = given.arguments()

        def build() -> DataFrame:
            asked = {name: text for text, name in self.names.items()}
            how: dict[str, Any] = {"with_rows": members, **keeping}
            if not self.certain:
                how |= {"quantiles": tuple(sorted(self.levels)), "structs": True}
            most = None if self.certain else self.most
            answers: DataFrame = aggregated(
                frame.df, asked, window, source.order, self.keys, None, most, **how
            )
            return answers

        clauses = self.block.clauses
        asked = Node(min(c.start for c in clauses), max(c.end for c in clauses))
        df = self.block.checked(lambda: given.call(build), asked, frame)
        step = Step(
            f"aggregates over windows: {', '.join(self.names)}",
            self._lines(window, members),
            {"": frame.step},
            runs=steps_of(df),
            named=keeping.get("name", ""),
        )
        source.frame = PlannedFrame(df, step)
        source.changed = True
        source.extra += list(self.names.values())
        grouping, having = self.clauses.get("GROUP_BY"), self.clauses.get("HAVING")
        if grouping is not None:
            self.block.edits.remove(grouping.start, grouping.end)
            self.block.gone.add("GROUP_BY")
        if having is not None:
            self.block.edits.replace(start_of(having.place), end_of(having.place), "WHERE")

    def _selects_rows(self) -> bool:
        """Whether a column is selected that belongs to a row, not to an extent and its group."""
        of_extents = {"window", "held", "punctuation", "late"}
        keys = {key.lower() for key in self.keys}
        columns = [*self.source.frame.df.columns, *self.source.frame.attributes]
        for clause in self.block.clauses:
            if clause.word not in HAVE_CALLS:
                continue
            if any(not self.covers(start_of(star.token)) for star in stars(clause.items)):
                return True
            for reference in references(clause.items):
                if self.covers(reference.start) or reference.call is not None:
                    continue
                for part in reference.parts[:2]:
                    match = found(part, columns)
                    if match is not None and match.lower() not in keys | of_extents:
                        return True
        return False

    # ---- EXPLAIN

    def _lines(self, window: Window, members: bool) -> Lines:
        if isinstance(window, Range):
            said = _extent_lines(window, members)
        elif isinstance(window, Rows):
            said = _rows_lines(window, tuple(self.names))
        else:
            broken = f"differs by more than {window.delta:g} from another's"
            below = f"with probability below {percent(window.threshold)}"
            said = [
                ("window", f"the newest tuples, while the oldest's {window.on} {broken} {below}"),
                ("answers", "one for each tuple that arrives"),
                ("state", "the tuples held: as many as the values stay close for"),
            ]
        return [
            *said,
            ("existence", existence_said(self.source.frame)),
            ("order", ", ".join(self.source.order)),
            ("groups", per_key(self.keys, "one, in one task")),
            (
                "guarantee",
                "means and standard deviations exact over the tuples held; quantiles and "
                "distributions while values are few, else sampled with a stated error",
            ),
        ]


def _extent_lines(window: Range, members: bool) -> Lines:
    overlap = window.length_us / window.slide_us
    kind = "overlap" if overlap > 1 else "tumble" if overlap == 1 else "leave gaps"
    rows, length = ", with its rows" if members else "", span(window.length_us)
    return [
        (
            "window",
            f"extents of {span(window.length_us)} every {span(window.slide_us)}: they {kind}",
        ),
        ("answers", f"each extent once, when the punctuation has passed it{rows}"),
        (
            "state",
            f"the tuples of {length} and the buffer; a tuple is in "
            f"{math.ceil(overlap)} extent{'s' * (overlap > 1)} and stored once",
        ),
    ]


def _rows_lines(window: Rows, aggregates: tuple[str, ...]) -> Lines:
    level = window.confidence
    needed = f"Pr(the n newest hold ≥ {window.rows}) ≥ {level:g}"
    # Of `sum(x)`, `avg(x)` and `count(*)` one thing is aggregated.
    operands = len({text.partition("(")[2] for text in aggregates} - {"*)"})
    each = 10 * 8 * (1 + operands)
    tuples, total = typical_bytes(window.rows, level, each)
    return [
        ("window", newest(window)),
        ("tuples held", f"w' = least n with {needed}; {held(window.rows, level)}"),
        ("answers", "one for each tuple that arrives"),
        (
            "state",
            f"stored, with 10 alternatives and {tuples}: w' × {each} bytes{total} a group; "
            "in a worker's memory about 1 kB a tuple more for each aggregate",
        ),
    ]


def _without_spelling(call: str) -> str:
    """Return the text of a call as all its spellings have it, unless something in it is quoted."""
    return call if set(call) & set("'\"`") else "".join(call.split()).lower()
