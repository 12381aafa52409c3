"""Aggregates over a window: the answers of `sf.window_aggregate` replace the block's table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, pairwise
from typing import Any

from pyspark.sql import DataFrame

from sfumato.api.window_aggregate import EARLY_COLUMNS, aggregate, parse_aggregates, quantile_name
from sfumato.language.blocks import Block, ResultField, Rewriting, parse_level
from sfumato.language.brackets import NAMED, WINDOW_OPERATOR
from sfumato.language.construct_options import Options, with_located_errors
from sfumato.language.steps import OVER_TIME, Lines, Step, one_line, per_key, window_lines
from sfumato.language.syntax import (
    Clause,
    Items,
    Name,
    Node,
    Reference,
    SqlError,
    alias_of,
    at,
    is_type,
    is_word,
    list_items,
    name_in,
    references,
    span_of,
    split,
    stars,
)
from sfumato.language.syntax_errors import misplaced_word
from sfumato.language.tables import (
    PlannedFrame,
    Source,
    describe_existence,
    match_name,
    resolve_column,
)
from sfumato.limits import HOW_TO_RAISE
from sfumato.near_misses import near
from sfumato.spark.model.alternatives import total_probability
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.runtime.fuse import describe_fusion
from sfumato.sql_tokens import free_name, quote_name, unquote_name
from sfumato.windows import Range


class WindowedBlock:
    """A block with aggregates or a ranking over a window. handled : see `Block`"""

    def __init__(self, block: Block, source: Source) -> None:
        self.block, self.source, self.text = block, source, block.text
        self.handled = block.handled
        where = (source.node, "the stream", source.frame)
        self.options = Options(source.operator_options, *where, words=WINDOW_OPERATOR)
        self.early = self.options.get("EARLY")
        self.error_options = self.options  # the words that errors point at

    def keys(self) -> list[str]:
        """Return the GROUP BY columns in the frame's spelling. Raises SqlError for expressions."""
        clause, keys = self.block.clause("GROUP_BY"), list[str]()
        for items in split(clause.items) if clause is not None else ():
            name = name_in(items)
            if name is None or len(name.words) > 2:
                reason = (
                    "over a window, GROUP BY accepts only columns: compute expressions in a "
                    "subquery"
                )
                place = items[0] if items else clause or self.source.node
                script = self.block.tables.script
                misplaced = misplaced_word(script, span_of(items)) if items else None
                raise misplaced or at(place, reason)
            last = Name(name.start, name.end, name.words[-1:])
            columns = self.source.frame.df.columns
            if str(last).lower() == "window" and match_name("window", columns) is None:
                raise at(name, "leave `window` out of GROUP BY: the bracket already groups by it")
            keys.append(resolve_column(last, columns, "the stream"))
        if self.source.unused_key is not None:
            option, names = self.source.unused_key
            if any(name not in keys for name in names):
                reason = (
                    "KEY gives each value a disorder controller, and this bracket has no word that "
                    "requests one, such as MAX_DELAY. To group the rows, leave KEY out and write "
                    f"GROUP BY {', '.join(map(quote_name, names))}"
                )
                raise at(option, reason)
        return keys

    def answer(
        self, title: str, make: Callable[[], DataFrame], node: Node, lines: Lines, **facts: Any
    ) -> PlannedFrame:
        """Return the frame built by `make`, with its step; errors point at `node`."""
        frame = self.source.frame
        df = self.block.build_frame(lambda: self.error_options.call(make), node, frame)
        named, runs = self.options.value(NAMED) or "", describe_fusion(df)
        return PlannedFrame(df, Step(title, lines, {"": frame.step}, facts, runs, named))


# ---- aggregates ----------------------------------------------------------------------------------

DEFAULT_DISTRIBUTION_VALUES = 64  # default number of values of DISTRIBUTION(x)
DISTRIBUTION_VALUES_OF_PROB = 1_000_000  # for PROB: merged values would change the probability
CALLS = {
    **{name: name for name in ("count", "count_distinct", "count_if", "sum", "avg")},
    **{name: name for name in ("min", "max")},
    "boundary_sum": "boundary_sum",
    **{name: name for name in OVER_TIME},
    "mean": "avg",
    "percentile": "quantile",
    **dict.fromkeys(("first", "first_value"), "first"),
    **dict.fromkeys(("last", "last_value"), "last"),
    **dict.fromkeys(("stddev", "stddev_samp", "std"), "stddev"),
    **dict.fromkeys(("variance", "var_samp"), "var"),
}
"""Aggregate functions by their lower-case names in a query."""
FIELDS = {
    "EXPECTED": "mean",
    "EXISTENCE": "existence",
    "STDDEV": "stddev",
    "QUANTILE": "",
    "DISTRIBUTION": "distribution",
}
"""Result field per measure of an aggregate; a QUANTILE's field depends on its level."""
CERTAIN_MEASURE_SQL = {
    "EXISTENCE": "CAST({0} IS NOT NULL AS DOUBLE)",
    "STDDEV": "CASE WHEN {0} IS NOT NULL THEN 0D END",
    "DISTRIBUTION": "CASE WHEN {0} IS NOT NULL THEN array(named_struct('prob', 1D, 'value', "
    "CAST({0} AS DOUBLE))) ELSE array() END",
}
"""SQL for measures of an aggregate over certain rows; other measures are the value itself."""
CLAUSES_WITH_CALLS = ("SELECT", "HAVING", "ORDER_BY", "")


def is_aggregate(reference: Reference) -> bool:
    """Return whether a reference calls an aggregate of this language, without OVER."""
    is_called = reference.call is not None and len(reference.words) == 1
    known = is_called and reference.parts[0].lower() in CALLS
    return known and not is_word(reference.after, "OVER")


def aggregate_in(items: Items) -> Reference | None:
    """Return the aggregate that is an entire expression, or None."""
    found = entire_reference(items)
    return found if found is not None and is_aggregate(found) else None


def entire_reference(items: Items) -> Reference | None:
    """Return the name or call that is an entire expression, or None."""
    found = next(references(items), None)
    if found is None or (found.start, found.end) != (items[0].start, items[-1].end):
        return None
    return found


class Aggregation(WindowedBlock):
    """The aggregates that a block computes over its one windowed table.

    In the text for Spark, calls become fields of the answers, HAVING becomes WHERE, and GROUP BY
    is removed.

    names : result columns by aggregate;  calls : where each aggregate is first called
    levels : requested quantile levels
    most : largest requested number of values per distribution, or None
    bounded : further columns with fewer values, as (aggregate's column, most)
    """

    def __init__(self, block: Block, source: Source) -> None:
        super().__init__(block, source)
        self.names: dict[str, str] = {}
        self.calls: dict[str, Reference] = {}
        self.levels: set[float] = set()
        self.most: int | None = None
        self.bounded: dict[str, tuple[str, int]] = {}
        columns = source.frame.df.columns
        self.certain = not source.frame.attributes and match_name("existence", columns) is None

    @classmethod
    def has_aggregates(cls, clauses: Sequence[Clause]) -> bool:
        return any(clause.word in ("GROUP_BY", "HAVING") for clause in clauses) or any(
            is_aggregate(reference) or (reference.is_spark_aggregate and not reference.is_measure)
            for clause in clauses
            if clause.word in CLAUSES_WITH_CALLS
            for reference in references(clause.items)
        )

    @classmethod
    def of(cls, block: Block) -> Aggregation | None:
        """Return a block's aggregates, or None if it aggregates over no window."""
        windowed = [source for source in block.sources if source.window is not None]
        if windowed and not cls.has_aggregates(block.clauses):
            waiting = next((s for s in windowed if not isinstance(s.window, Range)), None)
            if waiting is not None:
                reason = (
                    "a ROWS or DELTA window needs an aggregate or a SIMILARITY JOIN, but the query "
                    "has neither"
                )
                raise at(waiting.node, reason, "SELECT AVG(x)")
            return None
        if windowed and len(block.sources) > 1:
            other = next(s for s in block.sources if s is not windowed[0])
            reason = (
                "a query that aggregates over a window cannot read another table: aggregate in a "
                "subquery"
            )
            raise at(other.node, reason)
        return cls(block, windowed[0]) if windowed else None

    def read(self) -> None:
        """Find the GROUP BY keys and the calls. Raises SqlError for errors in them."""
        self.grouped = self.keys()
        clauses = [of for of in self.block.clauses if of.word in CLAUSES_WITH_CALLS]
        for clause in clauses:
            sizes = (self._values_of(each, clause.word) for each in references(clause.items))
            self.most = max((size for size in (self.most, *sizes) if size), default=None)
        for clause in clauses:
            for reference in references(clause.items):
                if self.block.is_handled(reference.start):
                    continue
                if reference.call is not None:
                    self._read(reference, clause.word)
                elif clause.word == "HAVING" and (value := self._selected_as(reference)):
                    self._put_selected(reference, value)
        if not self.names:  # without aggregates, count rows so that extents are emitted
            self._name("count(*)")

    def _values_of(self, reference: Reference, clause: str) -> int | None:
        """Return the number of values that PROB or DISTRIBUTION of an aggregate needs, or None."""
        if reference.call is None or len(reference.words) > 1:
            return None
        if is_word(reference.word, "PROB"):
            return DISTRIBUTION_VALUES_OF_PROB
        is_measure = is_word(reference.word, "DISTRIBUTION")
        named = self._measured(reference, clause) if is_measure else None
        return None if named is None else self._most_values(reference.arguments)

    def _measured(self, reference: Reference, clause: str) -> Reference | None:
        """Return the aggregate that is the first argument of a measure, or None."""
        given = reference.arguments
        named = entire_reference(given[0]) if given else None
        return None if named is None else self._aggregate(named, clause)

    def _aggregate(self, reference: Reference, clause: str) -> Reference | None:
        """Return the aggregate that a reference calls, or names by an alias in HAVING, or None."""
        if is_aggregate(reference) or clause != "HAVING":
            return reference if is_aggregate(reference) else None
        value = self._selected_as(reference)
        return aggregate_in(value) if value else None

    def _selected_as(self, reference: Reference) -> Items:
        """Return the selected expression that `m` or `m.mean` names by its alias, or ().

        As in Spark, an alias takes precedence over a column, unless rows are grouped by the column.
        """
        (word, *fields), select = reference.parts, self.block.clause("SELECT")
        is_column = match_name(word, self.grouped) is not None
        is_column |= bool(fields) and self.source.has_alias(word)
        if reference.call is not None or select is None or is_column:
            return ()
        for item in list_items(select.items):
            alias, value = alias_of(item)
            if alias is not None and unquote_name(alias).lower() == word.lower():
                has_fields = not self.certain and aggregate_in(value) is not None
                return value if has_fields or not fields else ()
        return ()

    def _put_selected(self, reference: Reference, value: Items) -> None:
        """Replace an alias in HAVING with the selected expression."""
        place, fields = span_of(value), self.block.edits.fields
        if (named := aggregate_in(value)) is not None and len(reference.parts) > 1:
            path = (self._name(self._call(named)), *reference.parts[1:])
            fields[reference.start, reference.end] = None
            self._put(reference, ".".join(map(quote_name, path)))
            return
        if named is not None:
            measure = "" if self.certain else "EXPECTED"
            self._put_field(reference, self._call(named), measure)
            return
        fields[reference.start, reference.end] = fields.get((place.start, place.end))
        self._put(reference, place)

    def _read(self, reference: Reference, clause: str) -> None:
        word = reference.parts[-1].upper()
        is_simple = len(reference.words) == 1
        items = tuple(chain(*reference.arguments))
        found = ((r, self._aggregate(r, clause)) for r in references(items))
        inner = [(r, aggregate) for r, aggregate in found if aggregate is not None]
        # STDDEV over values of certain rows is an aggregate, not a measure.
        is_spread = self.certain and word == "STDDEV" and not inner
        if is_simple and word == "PROB":
            self._put(reference, self._probability(reference, items, inner))
        elif is_simple and word in FIELDS and not is_spread:
            self._wrapped(reference, word, clause)
        elif is_aggregate(reference):
            call = self._call(reference)
            self._check_filter(reference)
            sign = reference.operator if clause == "SELECT" and not self.certain else ""
            if clause == "SELECT" and not self.certain and is_word(reference.after, "IS"):
                sign = "IS"
            if sign:
                said = self._written(reference)
                reason = (
                    f"{said} is uncertain, but {sign} needs a number: use its expected value or "
                    "the probability of a condition"
                )
                expected = (f"EXPECTED({said})", f"PROB({said} > ...)")
                raise at(reference.word, reason, *expected)
            whole = clause == "SELECT" or self.certain
            self._put_field(reference, call, "" if whole else "EXPECTED")
        elif reference.is_spark_aggregate and not reference.is_measure:
            self._refuse(reference, word)

    def _check_filter(self, reference: Reference) -> None:
        """Raise SqlError for FILTER WHERE without parentheses: SQL reads a name and a WHERE."""
        if is_word(word := reference.after, "FILTER"):
            following = self.text[word.end :].split(maxsplit=1)
            if following and following[0].upper() == "WHERE":
                raise at(word, "FILTER needs parentheses", "FILTER (WHERE ...)")

    def _written(self, reference: Reference) -> str:
        return one_line(self.text[reference.start : reference.end])

    def _refuse(self, reference: Reference, word: str) -> None:
        known = [name.upper() for name in CALLS]
        reason, likely = f"{word} is not supported over windows", near(word, known)
        if word == "MEDIAN" and reference.call is not None:
            inside = self.text[reference.call.start + 1 : reference.call.end - 1]
            likely = f"PERCENTILE({inside}, 0.5)"
        elif is_word(reference.after, "OVER"):
            reason = (
                f"{word}(...) OVER is not supported over windows: leave OVER out and write GROUP BY"
            )
            likely = None
        raise at(reference.word, reason, *known, suggestion=likely)

    def _put(self, reference: Reference, by: str | Node) -> None:
        self.block.edits.replace(reference, by)
        self.handled.append(reference)

    def _call(self, reference: Reference) -> str:
        body, called = reference.call, reference.parts[-1]
        assert body is not None
        function, items = CALLS[called.lower()], tuple(chain(*reference.arguments))
        if items and is_word(items[0], "DISTINCT") and function != "count":
            raise at(items[0], f"DISTINCT in {called.upper()} is not supported over windows")
        most = 2 if function == "quantile" else 1
        for further in reference.arguments[most:]:
            accepted = "two arguments" if most == 2 else "one argument"
            raise at(further[0], f"over windows, {called.upper()} accepts {accepted}")
        where = () if reference.filter is None else (reference.filter,)
        for inner in references((*items, *where)):
            if inner.is_measure or is_aggregate(inner):
                reason = (
                    f"{called.upper()} cannot contain {inner.parts[-1].upper()}: compute the inner "
                    "call in a subquery"
                )
                raise at(inner.word, reason)
        edits = self.block.unqualified((*items, *where), self.source)
        text = f"{function}({edits.render(Node(body.start + 1, body.end - 1))})"
        text = " filter ".join([text, *(edits.render(group) for group in where)])
        try:
            parse_aggregates({"result": text})
        except (TypeError, ValueError) as error:
            reason = str(error).replace("`aggregates['result']`", self._written(reference))
            raise at(reference.word, reason) from None
        self.calls.setdefault(text, reference)
        return text

    def _locate_error(self, message: str) -> SqlError:
        """Return an error that points at the aggregate it names, otherwise at the window."""
        for text, call in self.calls.items():
            entry = f"aggregates[{self.names.get(text)!r}]"
            if entry in message:
                said = self.error_options.in_words(message)
                return at(call, said.replace(f"`{entry}`", self._written(call)))
        return self.error_options.locate_error(message)

    def _name(self, text: str) -> str:
        if text not in self.names:
            # Spark's errors name the column, so it gets the name that the user wrote.
            self.names[text] = free_name(one_line(text), self.source.frame.df.columns)
        return self.names[text]

    def _put_field(
        self,
        reference: Reference,
        call: str,
        word: str,
        level: float | None = None,
        most: int | None = None,
    ) -> None:
        """Replace a call with a field of its aggregate.

        word : the measure, or "" for all fields
        most : the number of values of a distribution, if it is not the largest in the query
        """
        name = self._name(call)
        if most is not None and not self.certain:
            aggregate_name, text = name, one_line(f"distribution({call}, {most})")
            name = free_name(text, self.source.frame.df.columns)
            self.bounded[name] = aggregate_name, most
        column = by = quote_name(name)
        path: tuple[str, ...] = (name,)
        if self.certain and word in CERTAIN_MEASURE_SQL:
            by, path = CERTAIN_MEASURE_SQL[word].format(column), ()
        elif word and not self.certain:
            field = FIELDS[word] if level is None else quantile_name(level)
            by, path = f"{column}.{field}", (name, field)
        if path:
            place = reference.start, reference.end
            self.block.edits.fields[place] = ResultField(path, self._written(reference))
        self._put(reference, by)

    def _wrapped(self, reference: Reference, word: str, clause: str) -> None:
        given, measured = reference.arguments, self._measured(reference, clause)
        if measured is None:
            return  # it measures an attribute
        call, level, most = self._call(measured), None, None
        if word == "DISTRIBUTION" and (size := self._most_values(given)) != self.most:
            most = size
        if word == "QUANTILE":
            level = parse_level(given[1] if len(given) > 1 else ())
            self.levels.add(level)
        self._put_field(reference, call, word, level, most)

    def _most_values(self, given: list[Items]) -> int:
        if len(given) < 2:
            return DEFAULT_DISTRIBUTION_VALUES
        number = given[1][0] if len(given[1]) == 1 else None
        if not is_type(number, "NUMBER") or not float(number).is_integer():
            reason = "DISTRIBUTION accepts an aggregate and, optionally, a maximum number of values"
            place = (*given[1], given[0][0])[0]
            raise at(place, reason, "DISTRIBUTION(SUM(x), 16)")
        asked, bound = int(float(number)), SparkFrame(self.source.frame.df).max_alternatives
        if asked < 1:
            reason = "DISTRIBUTION has at least one value"
            raise at(number, reason, "DISTRIBUTION(SUM(x), 16)")
        if asked > bound:
            reason = (
                f"DISTRIBUTION has {asked} values, more than the bound of {bound} ({HOW_TO_RAISE})"
            )
            raise at(number, reason, f"at most {bound}")
        return asked

    def _probability(
        self, reference: Reference, items: Items, inner: list[tuple[Reference, Reference]]
    ) -> str:
        """Return SQL for PROB(condition): the probability that an aggregate satisfies it.

        items : the condition
        inner : references in the condition, and the aggregates that they call or name
        """
        body = reference.call
        assert body is not None
        for equal, after in pairwise(items):
            if (str(equal), str(after)) == ("=", ">") and equal.end == after.start:
                raise at(Node(equal.start, after.end), "=> is not a comparison", suggestion=">=")
        calls = [self._call(aggregate) for _, aggregate in inner]
        different = {_without_spelling(c): each for c, (each, _) in zip(calls, inner, strict=True)}
        if len(different) != 1:
            reason = "PROB needs a condition on one aggregate"
            if different:
                said = [self._written(each) for each in different.values()]
                reason += (
                    f", but this condition has {len(said)} ({', '.join(said)}), whose joint "
                    "distribution is not computed"
                )
            expected = ("PROB(AVG(x) > 80)", "PROB(AVG(x) > 80 AND AVG(x) < 90)")
            for other in references(items) if not different else ():
                likely = near(other.parts[-1], CALLS) if other.call is not None else None
                if likely is not None:
                    unknown = f"{other.parts[-1]} is not an aggregate over windows"
                    raise at(other.word, unknown, suggestion=likely.upper())
            raise at(body, reason, *expected)
        if entire_reference(items) is not None:
            raise at(body, f"PROB needs a condition, such as {self._written(inner[0][0])} > 80")
        name, edits = quote_name(self._name(calls[0])), Rewriting(self.text)
        for each, _ in inner:
            edits.replace(each, name if self.certain else "`:v`.value")
        condition = edits.render(Node(body.start + 1, body.end - 1))
        if self.certain:
            return f"CASE WHEN ({condition}\n) THEN 1D ELSE 0D END"
        undefined = f"named_struct('prob', 1D - {name}.existence, 'value', CAST(NULL AS DOUBLE))"
        outcomes = f"concat({name}.distribution, array({undefined}))"
        return total_probability(f"filter({outcomes}, `:v` -> ({condition}\n))")

    def apply(self) -> None:
        source, window = self.source, self.source.window
        assert window is not None
        members = isinstance(window, Range) and self._selects_rows()
        rows = SparkFrame(source.frame.df)
        if members and self.early is not None:
            reason = "EARLY answers describe extents: the rows of an extent cannot be selected"
            expected = ("the columns of GROUP BY", "window", "held", *EARLY_COLUMNS, "aggregates")
            raise at(self.early, reason, *expected)
        if members and rows.is_uncertain_time(source.order[0]):
            reason = (
                f"{source.order[0]} is an uncertain event time, so a row may be in several "
                "extents: only answers per extent can be selected"
            )
            expected = ("the columns of GROUP BY", "window", "held", "aggregates")
            raise at(source.node, reason, *expected)
        how: dict[str, Any] = {"with_rows": members, **self.options.arguments()}
        if not self.certain:
            how |= {"quantiles": tuple(sorted(self.levels)), "structs": True}
            how |= {"bounded": self.bounded}
        asked = {name: text for text, name in self.names.items()}
        most, given = None if self.certain else self.most, (window, source.order, self.grouped)
        compute = partial(aggregate, source.frame.df, asked, *given, None, most, **how)
        make = partial(with_located_errors, compute, self._locate_error)
        clauses = self.block.clauses
        place = Node(min(c.start for c in clauses), max(c.end for c in clauses))
        lines = [
            *window_lines(window, tuple(self.names), members, how),
            ("existence", describe_existence(source.frame, shared="shared" in how)),
            ("order", ", ".join(source.order)),
            ("groups", per_key(self.grouped)),
            ("guarantee", "means and standard deviations are exact over the held tuples; "
                          "quantiles and distributions are exact for few values, otherwise "
                          "sampled with a stated error"),
        ]  # fmt: skip
        title = f"aggregates over windows: {', '.join(self.names)}"
        source.frame = self.answer(title, make, place, lines)
        source.changed = True
        source.extra += [*self.names.values(), *self.bounded]
        self.block.remove("GROUP_BY")
        if (having := self.block.clause("HAVING")) is not None:
            self.block.edits.replace(having.place, "WHERE")

    def _selects_rows(self) -> bool:
        """Return whether a selected column belongs to a row, not to an extent and its group."""
        frame = self.source.frame
        of_extents = {"window", "held", "punctuation", "late", *map(str.lower, self.grouped)}
        of_extents |= {*EARLY_COLUMNS} if self.early is not None else set()
        columns = [*frame.df.columns, *frame.attributes]
        clauses = [clause for clause in self.block.clauses if clause.word in CLAUSES_WITH_CALLS]
        named = (
            match_name(part, columns)
            for clause in clauses
            for reference in chain(*map(references, clause.values()))
            if reference.call is None and not self.block.is_handled(reference.start)
            if clause.word != "ORDER_BY" or not self._selected_as(reference)
            for part in reference.parts[:2]
        )
        starred = (star for clause in clauses for star in stars(clause.items))
        return any(not self.block.is_handled(star.token.start) for star in starred) or any(
            name is not None and name.lower() not in of_extents for name in named
        )


def _without_spelling(call: str) -> str:
    """Return a call in normalised spelling, or unchanged if part of it is quoted."""
    return call if set(call) & set("'\"`") else "".join(call.split()).lower()
