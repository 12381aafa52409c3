"""Aggregates over a window: GROUP BY, HAVING and the calls of a block become one operator."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from sfumato.api.window_aggregate import aggregated, quantile_name, wanted
from sfumato.limits import HOW_TO_RAISE
from sfumato.near_misses import near
from sfumato.spark.model.alternatives import total_probability
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.runtime.lineage import steps_of
from sfumato.sql.constructs.aggregate_calls import (
    CALLS,
    Call,
    arguments_of,
    is_aggregate,
    is_sparks,
    most_values,
)
from sfumato.sql.constructs.aggregated import Aggregated
from sfumato.sql.constructs.grouping import grouped_by
from sfumato.sql.explanation.wording import one_line
from sfumato.sql.plan.block import Block
from sfumato.sql.plan.construct import Answers
from sfumato.sql.plan.measures import level as level_of
from sfumato.sql.plan.nodes import at
from sfumato.sql.plan.sources import Frame, Source, existence_said, found, free
from sfumato.sql.text.edits import Edits
from sfumato.sql.text.references import (
    Reference,
    is_measure,
    is_word,
    operator_of,
    references,
    stars,
)
from sfumato.sql.text.syntax import Clause, Item, Node, end_of, quoted, start_of
from sfumato.windows import Range

WRAPPERS = ("EXPECTED", "EXISTENCE", "STDDEV", "QUANTILE", "DISTRIBUTION")
UNBOUNDED = 1_000_000  # values of a distribution: merging would change a probability
HAVE_CALLS = ("SELECT", "HAVING", "ORDER_BY", "")


class Aggregation(Answers):
    """What a block asks of its one windowed table, and how it is answered.

    The table becomes the answers of `sf.window_aggregate`; in the text for Spark, calls become
    fields of these answers, HAVING becomes WHERE, and GROUP BY, whose work is done, goes.
    """

    def __init__(self, block: Block, source: Source) -> None:
        super().__init__(block, source)
        self.names: dict[str, str] = {}  # result columns by aggregate
        self.levels: list[float] = []  # quantiles wanted of results
        self.most: int | None = None  # values of a distribution
        self.replacements: list[tuple[int, int, str]] = []
        attributes = source.frame.attributes
        columns = source.frame.df.columns
        self.certain = not attributes and found("existence", columns) is None

    @classmethod
    def wanted(cls, clauses: Sequence[Clause], text: str) -> bool:
        return any(clause.word in ("GROUP_BY", "HAVING") for clause in clauses) or any(
            is_aggregate(reference) or is_sparks(reference)
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
            elif len(reference.words) == 1 and word in WRAPPERS and not self._is_spread(reference):
                self._wrapped(reference, word, named)
            elif is_aggregate(reference):
                call = self._call(reference)
                if clause == "SELECT" and not self.certain:
                    self._refuse_operand(reference)
                by = self._field(call, "mean" if self.certain or clause != "SELECT" else None)
                self._put(reference, by, named)
            elif is_sparks(reference):
                self._refuse(reference)

    def _is_spread(self, reference: Reference) -> bool:
        """Whether a call is STDDEV of values of certain rows, and no measure."""
        inner = references(arguments_of(reference))
        is_measure_of = any(is_aggregate(one) for one in inner)
        return self.certain and reference.parts[-1].upper() == "STDDEV" and not is_measure_of

    def _refuse_operand(self, reference: Reference) -> None:
        """An uncertain aggregate is a struct of numbers: which one is meant must be said."""
        sign = operator_of(reference)
        if not sign:
            return
        said = one_line(self.text[reference.start : reference.end])
        raise at(
            self.text,
            reference.words[0],
            f"{said} is uncertain, and {sign} takes a number: its expected value, or the "
            "probability of a condition",
            expected=(f"EXPECTED({said})", f"PROB({said} > ...)"),
        )

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
            by += f" AS {quoted(one_line(self.text[reference.start : reference.end]))}"
        self.replacements.append((reference.start, reference.end, by))
        self.handled.append((reference.start, reference.end))

    def _call(self, reference: Reference) -> Call:
        body = reference.call
        assert body is not None
        function = CALLS[reference.parts[-1].lower()]
        first = next(iter(arguments_of(reference)), None)
        if is_word(first, "DISTINCT"):
            reason = f"DISTINCT in {reference.parts[-1].upper()} is not computed over windows"
            raise at(self.text, first, reason)
        for inner in references(arguments_of(reference)):
            if inner.call is not None and (is_measure(inner.words) or is_aggregate(inner)):
                reason = f"{inner.parts[-1].upper()} inside {reference.parts[-1].upper()}: "
                raise at(self.text, inner.words[0], reason + "compute it in a subquery")
        local = Edits(self.text)
        for items in reference.arguments:
            self.block.unqualify(items, self.source, local)
        inside = local.render(body.start + 1, body.end - 1, braces=False)
        text = f"{function}({inside})"
        try:
            wanted({"result": text})
        except (TypeError, ValueError) as error:
            written = one_line(self.text[reference.start : reference.end])
            reason = str(error).replace("`aggregates['result']`", written)
            raise at(self.text, reference.words[0], reason) from None
        return Call(reference, text, function)

    def _name(self, text: str) -> str:
        if text not in self.names:
            # Spark's errors name the column, so it is called as the user wrote it.
            self.names[text] = free(one_line(text), self.source.frame.df.columns)
        return self.names[text]

    def _field(self, call: Call, field: str | None) -> str:
        name = quoted(self._name(call.text))
        if field is None:
            return name
        by = f"{name}.{field}"
        whole = self.certain and call.function == "count"
        return f"CAST({by} AS BIGINT)" if whole else by

    def _wrapped(self, reference: Reference, word: str, named: bool) -> None:
        given = reference.arguments
        inner = [r for r in references(given[0]) if is_aggregate(r)] if given else []
        whole = inner and inner[0].start == start_of(given[0][0])
        if not whole or inner[0].end != end_of(given[0][-1]):
            return  # a measure of an attribute
        call = self._call(inner[0])
        if word == "DISTRIBUTION":
            asked = most_values(given, self.text)
            bound = SparkFrame(self.source.frame.df).max_alternatives
            if asked > bound:
                reason = f"DISTRIBUTION of {asked} values, more than {bound} ({HOW_TO_RAISE})"
                expected = (f"at most {bound}",)
                raise at(self.text, given[1][0], reason, expected=expected)
            self.most = max(self.most or 0, asked)
            by = f"{self._field(call, None)}.distribution"
        elif word == "QUANTILE":
            level = level_of(given[1] if len(given) > 1 else (), self.text)
            if level not in self.levels:
                self.levels.append(level)
            by = f"{self._field(call, None)}.{quantile_name(level)}"
        else:
            field = {"EXPECTED": "mean", "EXISTENCE": "existence", "STDDEV": "stddev"}[word]
            by = f"{self._field(call, None)}.{field}"
        self._put(reference, by, named)

    def _probability(self, reference: Reference) -> str:
        """PROB(condition on one aggregate): the mass of the values that satisfy it.

        The aggregate may stand in it several times.
        """
        body = reference.call
        assert body is not None
        inner = [r for r in references(arguments_of(reference)) if is_aggregate(r)]
        calls = [self._call(each) for each in inner]
        different = {
            _without_spelling(call.text): each for call, each in zip(calls, inner, strict=True)
        }
        if len(different) != 1:
            reason = "PROB takes a condition on one aggregate"
            if different:
                said = [one_line(self.text[r.start : r.end]) for r in different.values()]
                reason += f", and {', '.join(said)} are {len(said)}: their joint distribution is "
                reason += "not computed"
            expected = ("PROB(AVG(x) > 80)", "PROB(AVG(x) > 80 AND AVG(x) < 90)")
            raise at(self.text, body, reason, expected=expected)
        call = calls[0]
        self.most = UNBOUNDED
        local = Edits(self.text)
        for each in inner:
            local.replace(each.start, each.end, "`:v`.value")
        condition = local.render(body.start + 1, body.end - 1, braces=False)
        values = f"{quoted(self._name(call.text))}.distribution"
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
            reason = (
                f"{source.order[0]} is an uncertain event time: a row may be in several extents"
            )
            raise at(
                self.text, source.node, f"{reason}, and only answers of extents can be selected",
                expected=("the columns of GROUP BY", "window", "held", "aggregates"),
            )  # fmt: skip
        given = self.of_operator(source.node)
        keeping = given.arguments()

        def build() -> DataFrame:
            asked = {name: text for text, name in self.names.items()}
            how: dict[str, Any] = {"quantiles": tuple(sorted(self.levels)), "structs": True}
            how |= {"with_rows": members, **keeping}
            answers: DataFrame = aggregated(
                frame.df, asked, window, source.order, self.keys, None, self.most, **how
            )
            return answers

        clauses = self.block.clauses
        asked = Node(min(c.start for c in clauses), max(c.end for c in clauses))
        df = self.block.checked(lambda: given.call(build), asked, frame)
        step = Aggregated(
            frame.step,
            window,
            tuple(self.names),
            tuple(source.order),
            tuple(self.keys),
            members,
            existence_said(frame),
            runs=steps_of(df),
            named=keeping.get("name", ""),
        )
        source.frame = Frame(df, step)
        source.changed = True
        source.extra += list(self.names.values())
        for start, end, by in self.replacements:
            self.block.edits.replace(start, end, by)
        grouping, having = self.clauses.get("GROUP_BY"), self.clauses.get("HAVING")
        if grouping is not None:
            self.block.edits.remove(grouping.start, grouping.end)
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


def _without_spelling(call: str) -> str:
    """The text of a call as all its spellings have it; what is in quotes stays as it is."""
    return call if re.search("['\"`]", call) else re.sub(r"\s+", "", call).lower()
