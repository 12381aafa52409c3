"""EXPECTED, EXISTENCE, STDDEV, QUANTILE and distributions as columns that the rest can name.

Spark resolves names, so what a query says about an uncertain attribute becomes a column of its
table: `x` the distribution of x (an array of struct<prob, x>), `expected_x` its expected value.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lark import Token
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType

from sfumato.near_misses import near
from sfumato.spark.model import alternatives as model
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.model.validity import clipped
from sfumato.sql.plan.nodes import at
from sfumato.sql.plan.sources import ALTERNATIVES, Frame, Source, found, free
from sfumato.sql.text.edits import Edits
from sfumato.sql.text.errors import SqlError
from sfumato.sql.text.references import Reference, is_measure, is_name, is_word, references
from sfumato.sql.text.syntax import Item, end_of, plain, quoted, start_of


@dataclass(frozen=True)
class Wanted:
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
    """No place of the text has got another meaning."""
    return False


class Measures:
    """Finds what is asked of uncertain attributes, puts names in its place, adds the columns."""

    def __init__(
        self,
        text: str,
        sources: list[Source],
        edits: Edits,
        done: Callable[[int], bool] = nowhere,
    ) -> None:
        """done : whether what stands at a place of the text has got its meaning already"""
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
            if reference.call is not None and is_measure(reference.words):
                self._measure(reference, named)
            elif reference.call is None and distributions:
                self._distribution(reference, named)

    # ---- finding

    def _measure(self, reference: Reference, named: bool) -> None:
        if not is_measure_of(reference, self.sources):
            return
        assert reference.call is not None
        function, given = reference.parts[0].lower(), reference.arguments
        if function == "existence":
            wanted = Wanted(self._whose_existence(reference, given), function, None)
        else:
            takes = 2 if function == "quantile" else 1
            if len(given) != takes:
                example = "QUANTILE(x, 0.9)" if takes == 2 else f"{function.upper()}(x)"
                reason = f"{function.upper()} takes {takes} argument{'s' * (takes > 1)}"
                raise at(self.text, reference.call, reason, expected=(example,))
            place, attribute = self._attribute(function, given[0], reference)
            q = level(given[1], self.text) if function == "quantile" else None
            wanted = Wanted(place, function, attribute, q)
        name = self._name_for(wanted)
        by = self._qualified(wanted.source, name)
        if named and reference.whole and name != wanted.name:
            by += f" AS {quoted(wanted.name)}"
        self.edits.replace(reference.start, reference.end, by)

    def _distribution(self, reference: Reference, named: bool) -> None:
        for count in (2, 1):
            parts = reference.parts[:count]
            hits = [i for i, s in enumerate(self.sources) if s.attribute(parts)]
            if len(parts) == count and hits:
                break
        else:
            return
        # A name of several tables is Spark's to call ambiguous: give it to all of them.
        for place in hits:
            source = self.sources[place]
            attribute = source.attribute(parts)
            assert attribute is not None
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
        """The source and attribute that a measure is about."""
        parts = _name(given)
        start = start_of(given[0]) if given else reference.start
        end = end_of(given[-1]) if given else reference.end
        if parts is None:
            reason = f"{function.upper()} takes the name of an uncertain attribute"
            raise self._error(reason, start, end, expected=self._known())
        hits = [(i, a) for i, s in enumerate(self.sources) if (a := s.attribute(parts))]
        if not hits:
            hits = [(i, c) for i, s in enumerate(self.sources) if (c := _plain_column(s, parts))]
        if len(hits) > 1:
            names = [f"{alias}.{parts[-1]}" for i, _ in hits for alias in self.sources[i].aliases]
            reason = f"{parts[-1]} is an attribute of several tables"
            raise self._error(reason, start, end, expected=names)
        if not hits:
            known = self._known()
            reason = f"there is no uncertain attribute {'.'.join(parts)}"
            likely = near(parts[-1], [name.split(".")[-1] for name in known])
            raise self._error(reason, start, end, expected=known, suggestion=likely)
        self._check_numbers(function, hits[0], start, end)
        return hits[0]

    def _check_numbers(self, function: str, hit: tuple[int, str], start: int, end: int) -> None:
        """Raise SqlError for a measure of texts: Spark would cast them and fail while it runs."""
        place, name = hit
        frame = SparkFrame(self.sources[place].frame.df)
        kind = frame.attribute_type(name) if frame.uncertain else frame.type(name)
        if isinstance(kind, StringType):
            reason = f"{function.upper()} needs numbers, and {name} is {kind.simpleString()}"
            raise self._error(reason, start, end, expected=("COUNT, or a condition in WHERE",))

    def _known(self) -> list[str]:
        return [name for source in self.sources for name in source.frame.attributes]

    def _whose_existence(self, reference: Reference, given: list[tuple[Item, ...]]) -> int:
        uncertain = [i for i, s in enumerate(self.sources) if s.frame.attributes]
        candidates = uncertain or list(range(len(self.sources)))
        if given:
            parts = _name(given[0])
            named = [
                i
                for i, s in enumerate(self.sources)
                if parts is not None and parts[0].lower() in [a.lower() for a in s.aliases]
            ]
            candidates = named if len(given) == 1 and len(parts or ()) == 1 else []
        if len(candidates) != 1:
            aliases = [alias for source in self.sources for alias in source.aliases]
            wanted = [f"EXISTENCE({alias})" for alias in aliases] or ["EXISTENCE()"]
            reason = "EXISTENCE must say of which table"
            raise self._error(reason, reference.start, reference.end, expected=wanted)
        return candidates[0]

    def _error(self, reason: str, start: int, end: int, **more: Any) -> SqlError:
        return SqlError(reason, text=self.text, start=start, end=end, **more)

    # ---- adding

    def _name_for(self, wanted: Wanted) -> str:
        """A column name that its source does not have yet; the same for the same wish."""
        if wanted not in self.names:
            taken = [*self.sources[wanted.source].frame.df.columns, *self.names.values()]
            self.names[wanted] = free(wanted.name, taken)
        return self.names[wanted]

    def _qualified(self, place: int, name: str) -> str:
        source = self.sources[place]
        several = len(self.sources) > 1 and source.written
        return f"{quoted(source.aliases[0])}.{quoted(name)}" if several else quoted(name)

    def add(self) -> None:
        """Add the columns to the sources' frames."""
        for wanted, name in self.names.items():
            source = self.sources[wanted.source]
            df = source.frame.df.withColumn(name, _column(wanted, source))
            source.frame = Frame(df, source.frame.step)
            source.extra.append(name)


def level(given: tuple[Item, ...], text: str) -> float:
    """The level of a QUANTILE. Raises SqlError for anything but a number from 0 to 1."""
    start, end = (start_of(given[0]), end_of(given[-1])) if given else (0, 0)
    kinds = [item.type for item in given if isinstance(item, Token)]
    if kinds in (["NUMBER"], ["NUMBER", "PERCENT"]):
        share = float(str(given[0])) / (100 if len(kinds) == 2 else 1)
        if share <= 1:
            return share
    reason = "the level of a QUANTILE is a number from 0 to 1, or 0% to 100%"
    raise SqlError(reason, text=text, start=start, end=end)


def is_measure_of(reference: Reference, sources: list[Source]) -> bool:
    """Whether a call is of a measure: STDDEV of anything certain is Spark's aggregate."""
    if reference.call is None or not is_measure(reference.words):
        return False
    if reference.parts[0].upper() != "STDDEV":
        return True
    return attribute_argument(reference, sources) is not None


def outside_measures(sources: list[Source]) -> Callable[[Reference], bool]:
    """Whether what a call is of is looked at by itself, and not the call's own affair."""
    return lambda reference: not is_measure_of(reference, sources)


def attribute_argument(reference: Reference, sources: list[Source]) -> str | None:
    """The uncertain attribute that is all of a call's first argument, or None."""
    given = reference.arguments
    named = tuple(item for item in given[0] if not is_word(item, "DISTINCT")) if given else ()
    parts = _name(named)
    return next((a for s in sources if parts and (a := s.attribute(parts))), None)


def _name(items: tuple[Item, ...]) -> tuple[str, ...] | None:
    """`x` or `s.x`; None for anything else."""
    if [is_name(item) for item in items] == [True]:
        return (plain(str(items[0])),)
    if [is_name(item) or item == "." for item in items] == [True] * 3 and items[1] == ".":
        return plain(str(items[0])), plain(str(items[2]))
    return None


def _plain_column(source: Source, parts: tuple[str, ...]) -> str | None:
    """The column of a table without alternatives, whose rows are one alternative each."""
    if source.frame.attributes:
        return None
    mine = len(parts) == 1 or source.goes_by(parts[0])
    return found(parts[-1], source.frame.df.columns) if mine else None


def _column(wanted: Wanted, source: Source) -> Column:
    frame, attribute = source.frame, wanted.attribute
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
    if wanted.function == "quantile":
        assert wanted.q is not None
        return model.quantile(attribute, wanted.q, column)
    measure = model.expected if wanted.function == "expected" else model.stddev
    return measure(attribute, column)
