"""The text for Spark in the making: spans that are replaced, and measures that become columns.

All of a query that is not replaced stays letter by letter. Measures are EXPECTED, EXISTENCE,
STDDEV, QUANTILE and distributions. Spark resolves names, so what a query says about an uncertain
attribute becomes a column of its table: `x` the distribution of x (an array of struct<prob, x>),
`expected_x` its expected value.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from lark import Token
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType

from sfumato.language import syntax
from sfumato.language.errors import SqlError, at
from sfumato.language.syntax import (
    Clause,
    Item,
    Node,
    Reference,
    alias_of,
    end_of,
    is_measure,
    is_name,
    is_type,
    is_word,
    list_items,
    plain,
    quoted,
    references,
    split,
    start_of,
)
from sfumato.language.tables import ALTERNATIVES, PlannedFrame, Source, found, free
from sfumato.near_misses import near
from sfumato.spark.model import alternatives as model
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.model.validity import clipped
from sfumato.spark.runtime.lineage import Condition, Selection


@dataclass(frozen=True)
class ResultField:
    """A column of an operator's answers, or a field of one, in place of a call.

    name : what it is called in the result
    """

    path: tuple[str, ...]
    name: str = ""


class Rewriting:
    """Replacements of spans of one script, none of which overlap, in any order.

    Braces are what `spark.sql(text, name=df)` finds its frames by, so those of the user are
    doubled while our own, in the replacements, are not.

    inputs : the frames that stand in the text as `{d0}`, `{d1}`, ...
    fields : what has been replaced by a field of answers, by its span
    spared : whether a star means fewer columns than its table has
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.inputs: list[PlannedFrame] = []
        self.fields: dict[tuple[int, int], ResultField] = {}
        self.spared = False
        self._edits: list[tuple[int, int, str]] = []

    def put(self, source: Source) -> None:
        """Let the source's frame stand where its table stood."""
        name = f"{{d{len(self.inputs)}}}"
        self.inputs.append(source.frame)
        self.replace(source.start, source.end, name + source.written)

    def replace(self, start: int, end: int, by: str) -> None:
        """Put `by` in place of the text from `start` to just before `end`."""
        self._edits.append((start, end, by))

    def insert(self, place: int, what: str) -> None:
        """Put `what` before the character at `place`."""
        self._edits.append((place, place, what))

    def remove(self, start: int, end: int) -> None:
        """Leave the text from `start` to just before `end` out, and every edit within it."""
        self._edits = [e for e in self._edits if not (start <= e[0] and e[1] <= end)]
        self._edits.append((start, end, ""))

    def changes_within(self, start: int, end: int) -> bool:
        """Whether a part of the text from `start` to `end`, and not all of it, is replaced."""
        return any(start <= s and e <= end and (s, e) != (start, end) for s, e, _ in self._edits)

    def render(self, start: int, end: int, *, braces: bool) -> str:
        """Return the text from `start` to `end` with its replacements; braces doubled if asked."""
        parts, place = [], start
        inside = [edit for edit in self._edits if start <= edit[0] and edit[1] <= end]
        for first, last, by in sorted(inside, key=lambda edit: edit[:2]):
            parts += [self._kept(place, first, braces), by]
            place = last
        return "".join([*parts, self._kept(place, end, braces)])

    def _kept(self, start: int, end: int, braces: bool) -> str:
        kept = self.text[start:end]
        return kept.replace("{", "{{").replace("}", "}}") if braces else kept


@dataclass(frozen=True)
class PlainSelect:
    """`SELECT list FROM table [WHERE condition]` and nothing else.

    items : the parts of the list;  where : the WHERE, or the HAVING that has become one
    on : whether the table is a join of ours with a condition, which is a filter
    """

    items: tuple[tuple[Item, ...], ...]
    where: Clause | None
    on: bool
    source: Source
    edits: Rewriting

    def selection(self) -> Selection | None:
        """Return it as a selection, which need not end the step of an operator; else None.

        Only what is sure to mean the same to Spark and to the operators: columns, fields of
        results, and comparisons of a field with a number.
        """
        conditions = []
        if self.on:
            return None
        for items in split(self.where.items, lambda i: is_word(i, "AND")) if self.where else ():
            condition = self._condition(items)
            if condition is None:
                return None
            conditions.append(condition)
        if len(self.items) == 1 and [str(item) for item in self.items[0]] == ["*"]:
            return None if self.edits.spared else Selection(None, tuple(conditions))
        columns: dict[str, tuple[tuple[str, ...], str]] = {}
        for items in self.items:
            alias, value = alias_of(items)
            field = self._field(value)
            name = plain(alias) if alias is not None else field.name if field is not None else ""
            if field is None or not name or name in columns:
                return None
            columns[name] = field.path, ""
        return Selection(columns, tuple(conditions))

    def _field(self, items: tuple[Item, ...]) -> ResultField | None:
        if not items:
            return None
        field = self.edits.fields.get((start_of(items[0]), end_of(items[-1])))
        if field is not None:
            return field
        dotted = [is_type(i, "DOT") if n % 2 else is_name(i) for n, i in enumerate(items)]
        if not all(dotted) or len(items) % 2 == 0:
            return None
        path = tuple(plain(item) for item in items[::2] if isinstance(item, Token))
        if len(path) > 1 and self.source.goes_by(path[0]):
            path = path[1:]
        return ResultField(path, name=path[-1])

    def _condition(self, items: tuple[Item, ...]) -> Condition | None:
        """Return `value < 40` or the like, or None."""
        signs = [i for i, item in enumerate(items) if str(item) in ("<", ">", "=")]
        if not signs or signs != list(range(signs[0], signs[-1] + 1)):
            return None
        sign, number = "".join(str(items[i]) for i in signs), items[signs[-1] + 1 :]
        field = self._field(items[: signs[0]])
        negative = len(number) == 2 and is_type(number[0], "MINUS")
        if field is None or sign not in ("<", "<=", ">", ">="):
            return None
        if len(number) != 1 + negative or not is_type(number[-1], "NUMBER"):
            return None
        return Condition(field.path, sign, float(number[-1]) * (-1 if negative else 1))


def plain_select(
    body: syntax.Body, gone: set[str], sources: list[Source], edits: Rewriting
) -> PlainSelect | None:
    """Return a query as a plain SELECT, or None for one that does anything else.

    gone : the words of the clauses that are answered and no longer in the text
    """
    clauses = [c for c in body.clauses if isinstance(c, Clause) and c.word not in gone]
    relations = list(body.relations)
    words, joined = [clause.word for clause in clauses], len(sources) == 1 and sources[0].sides
    plain_words = words[:1] == ["SELECT"] and words[1:] in ([], ["WHERE"], ["HAVING"])
    on = any(relation.rest for relation in relations)
    if len(sources) != 1 or not plain_words or (not joined and (on or len(relations) > 1)):
        return None
    select = clauses[0].items
    items = tuple(list_items(select))
    if not select or is_word(select[0], "DISTINCT") or not all(items):
        return None
    where = clauses[1] if len(clauses) > 1 else None
    return PlainSelect(items, where, on, sources[0], edits)


# ---- measures ------------------------------------------------------------------------------------


class Wanted(NamedTuple):
    """A column to add: of which source, the function, its attribute and, of a quantile, q."""

    source: int
    function: str
    attribute: str | None
    q: float | None = None

    @property
    def name(self) -> str:
        """The name the function itself gives its column."""
        return self.function if self.attribute is None else f"{self.function}_{self.attribute}"


def nowhere(place: int) -> bool:
    """Return that no place of the text has got another meaning."""
    return False


class Measures:
    """Finds what is asked of uncertain attributes, puts names in its place, adds the columns.

    done : whether what stands at a place of the text has got its meaning already
    """

    def __init__(
        self,
        text: str,
        sources: list[Source],
        edits: Rewriting,
        done: Callable[[int], bool] = nowhere,
    ) -> None:
        self.text, self.sources, self.edits, self.done = text, sources, edits, done
        self.names: dict[Wanted, str] = {}

    def replace_in(
        self, items: tuple[Item, ...], *, named: bool, distributions: bool = True
    ) -> None:
        """Enter the edits of one clause.

        named : its items become columns of the result, which are to have a good name
        distributions : attributes in plain use stand for their distribution
        """
        for reference in references(items, enter=outside_measures(self.sources)):
            if self.done(reference.start):
                continue
            if reference.call is None and distributions:
                self._distribution(reference, named)
            elif is_measure_of(reference, self.sources):
                self._measure(reference, named)

    def add(self) -> None:
        """Add the columns to the sources' frames."""
        for wanted, name in self.names.items():
            source = self.sources[wanted.source]
            df = source.frame.df.withColumn(name, _column(wanted, source.frame))
            source.frame = PlannedFrame(df, source.frame.step)
            source.extra.append(name)

    # ---- finding

    def _measure(self, reference: Reference, named: bool) -> None:
        assert reference.call is not None
        function, given = reference.parts[0].lower(), reference.arguments
        takes = {"existence": None, "quantile": 2}.get(function, 1)
        if takes is None:
            wanted = Wanted(self._whose_existence(reference, given), function, None)
        elif len(given) != takes:
            example = "QUANTILE(x, 0.9)" if takes == 2 else f"{function.upper()}(x)"
            reason = f"{function.upper()} takes {takes} argument{'s' * (takes > 1)}"
            raise at(self.text, reference.call, reason, expected=(example,))
        else:
            place, attribute = self._attribute(function, given[0], reference)
            q = level(given[1], self.text) if takes == 2 else None
            wanted = Wanted(place, function, attribute, q)
        if wanted not in self.names:
            taken = [*self.sources[wanted.source].frame.df.columns, *self.names.values()]
            self.names[wanted] = free(wanted.name, taken)
        name, source = self.names[wanted], self.sources[wanted.source]
        several = len(self.sources) > 1 and source.written
        by = f"{quoted(source.aliases[0])}.{quoted(name)}" if several else quoted(name)
        if named and reference.whole and name != wanted.name:
            by += f" AS {quoted(wanted.name)}"
        self.edits.replace(reference.start, reference.end, by)

    def _distribution(self, reference: Reference, named: bool) -> None:
        for parts in (reference.parts[:2], reference.parts[:1]):
            # A name of several tables is Spark's to call ambiguous: give it to all of them.
            hits = [(i, s, a) for i, s in enumerate(self.sources) if (a := s.attribute(parts))]
            if hits:
                break
        for place, source, attribute in hits:
            wanted = Wanted(place, "distribution", attribute)
            if wanted not in self.names:
                if found(attribute, source.frame.df.columns) is not None:
                    reason = f"{attribute} is a certain column and an uncertain attribute as well"
                    hint = f"take alternatives.{attribute}, or rename the column"
                    raise at(self.text, reference.words[0], f"{reason}: {hint}")
                self.names[wanted] = attribute
            if source.sides and len(parts) == 2:
                by = quoted(attribute)
                if named and reference.whole and len(reference.parts) == 2:
                    by += f" AS {quoted(reference.parts[1])}"
                self.edits.replace(reference.start, end_of(reference.words[1]), by)

    def _attribute(
        self, function: str, given: tuple[Item, ...], reference: Reference
    ) -> tuple[int, str]:
        """Return the source and attribute that a measure is about."""
        parts, node = _name(given), Node(reference.start, reference.end)
        if given:
            node = Node(start_of(given[0]), end_of(given[-1]))
        known = [name for source in self.sources for name in source.frame.attributes]
        if parts is None:
            reason = f"{function.upper()} takes the name of an uncertain attribute"
            raise at(self.text, node, reason, expected=known)
        hits = [(i, a) for i, s in enumerate(self.sources) if (a := s.attribute(parts))]
        if not hits:
            hits = [(i, c) for i, s in enumerate(self.sources) if (c := _plain_column(s, parts))]
        if len(hits) > 1:
            names = [f"{alias}.{parts[-1]}" for i, _ in hits for alias in self.sources[i].aliases]
            reason = f"{parts[-1]} is an attribute of several tables"
            raise at(self.text, node, reason, expected=names)
        if not hits:
            reason = f"there is no uncertain attribute {'.'.join(parts)}"
            likely = near(parts[-1], [name.split(".")[-1] for name in known])
            raise at(self.text, node, reason, expected=known, suggestion=likely)
        place, name = hits[0]
        frame = SparkFrame(self.sources[place].frame.df)
        kind = frame.attribute_type(name) if frame.uncertain else frame.type(name)
        if isinstance(kind, StringType):  # Spark would cast them and fail while it runs
            reason = f"{function.upper()} needs numbers, and {name} is {kind.simpleString()}"
            raise at(self.text, node, reason, expected=("COUNT, or a condition in WHERE",))
        return hits[0]

    def _whose_existence(self, reference: Reference, given: list[tuple[Item, ...]]) -> int:
        uncertain = [i for i, s in enumerate(self.sources) if s.frame.attributes]
        candidates = uncertain or list(range(len(self.sources)))
        if given:
            parts = (_name(given[0]) or ()) if len(given) == 1 else ()
            candidates = [
                i for i, s in enumerate(self.sources) if len(parts) == 1 and s.goes_by(parts[0])
            ]
        if len(candidates) != 1:
            aliases = [alias for source in self.sources for alias in source.aliases]
            wanted = [f"EXISTENCE({alias})" for alias in aliases] or ["EXISTENCE()"]
            node = Node(reference.start, reference.end)
            raise at(self.text, node, "EXISTENCE must say of which table", expected=wanted)
        return candidates[0]


def level(given: tuple[Item, ...], text: str) -> float:
    """Return the level of a QUANTILE. Raises SqlError for anything but a number from 0 to 1."""
    kinds = [item.type for item in given if isinstance(item, Token)]
    if kinds in (["NUMBER"], ["NUMBER", "PERCENT"]):
        share = float(str(given[0])) / (100 if len(kinds) == 2 else 1)
        if share <= 1:
            return share
    start, end = (start_of(given[0]), end_of(given[-1])) if given else (0, 0)
    reason = "the level of a QUANTILE is a number from 0 to 1, or 0% to 100%"
    raise SqlError(reason, text=text, start=start, end=end)


def is_measure_of(reference: Reference, sources: list[Source]) -> bool:
    """Whether a call is of a measure: STDDEV of anything certain is Spark's aggregate."""
    if reference.call is None or not is_measure(reference.words):
        return False
    named_stddev = reference.parts[0].upper() == "STDDEV"
    return not named_stddev or attribute_argument(reference, sources) is not None


def outside_measures(sources: list[Source]) -> Callable[[Reference], bool]:
    """Return whether what a call is of is looked at by itself, and not the call's own affair."""
    return lambda reference: not is_measure_of(reference, sources)


def attribute_argument(reference: Reference, sources: list[Source]) -> str | None:
    """Return the uncertain attribute that is all of a call's first argument, or None."""
    given = reference.arguments
    parts = _name(tuple(i for i in given[0] if not is_word(i, "DISTINCT"))) if given else None
    return next((a for s in sources if parts and (a := s.attribute(parts))), None)


def _name(items: tuple[Item, ...]) -> tuple[str, ...] | None:
    """Return the parts of `x` or `s.x`; None for anything else."""
    dotted = [is_name(item) if n % 2 == 0 else item == "." for n, item in enumerate(items)]
    if len(items) not in (1, 3) or not all(dotted):
        return None
    return tuple(plain(str(item)) for item in items[::2])


def _plain_column(source: Source, parts: tuple[str, ...]) -> str | None:
    """Return the column of a table without alternatives, whose rows are one alternative each."""
    if source.frame.attributes:
        return None
    mine = len(parts) == 1 or source.goes_by(parts[0])
    return found(parts[-1], source.frame.df.columns) if mine else None


def _column(wanted: Wanted, frame: PlannedFrame) -> Column:
    attribute = wanted.attribute
    column: Any = ALTERNATIVES
    if not frame.attributes:
        existence = found("existence", frame.df.columns)
        prob = F.lit(1.0) if existence is None else clipped(F.col(quoted(existence)))
        values = [] if attribute is None else [F.col(quoted(attribute)).alias(attribute)]
        column = F.array(F.struct(prob.alias("prob"), *values))
    if attribute is None:
        return model.existence(column)
    if wanted.function == "distribution":
        return F.transform(
            column, lambda a: F.struct(a["prob"].alias("prob"), a[attribute].alias(attribute))
        )
    if wanted.q is not None:
        return model.quantile(attribute, wanted.q, column)
    measure = model.expected if wanted.function == "expected" else model.stddev
    return measure(attribute, column)
