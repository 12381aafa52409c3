"""One SELECT block while its text for Spark is built, and the measures in it.

Spark resolves names, so references to an uncertain attribute become columns of its table: `x` is
the distribution (an array of struct<prob, x>), `expected_x` the expected value.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    BooleanType,
    NullType,
    NumericType,
    StringType,
    StructType,
    TimestampType,
)

from sfumato.api.rows import where
from sfumato.language import syntax
from sfumato.language.steps import Step, one_line
from sfumato.language.syntax import (
    Clause,
    Items,
    Name,
    Node,
    Reference,
    Relation,
    Token,
    alias_of,
    at,
    is_word,
    list_items,
    name_in,
    nested_queries,
    number_in,
    references,
    span_of,
    split,
    stars,
)
from sfumato.language.tables import PlannedFrame, Source, Tables, match_name
from sfumato.near_misses import near
from sfumato.spark.model import alternatives as model
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.rows import clip_existence
from sfumato.spark.runtime.fuse import Condition, Selection
from sfumato.sql_tokens import double_braces, free_name, quote_name, unquote_name


class ResultField(NamedTuple):
    """A column of an operator's answers, or a field of one. name : its name in the result"""

    path: tuple[str, ...]
    name: str = ""


class Rewriting:
    """Non-overlapping replacements of spans of one script, added in any order.

    `spark.sql(text, name=df)` finds its frames by braces, so the user's braces are doubled, except
    in the replacements.

    inputs : the frames that appear in the text as `{d0}`, `{d1}`, ...
    fields : spans that are replaced with a field of the answers; None for other expressions
    narrows_stars : whether a star includes fewer columns than its table has
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.inputs: list[PlannedFrame] = []
        self.fields: dict[tuple[int, int], ResultField | None] = {}
        self.narrows_stars = False
        self._edits: list[tuple[int, int, str | Node]] = []

    def put(self, source: Source) -> None:
        self.replace(source, f"{{d{len(self.inputs)}}}{source.written}")
        self.inputs.append(source.frame)

    def replace(self, node: Node | Token | Source, by: str | Node) -> None:
        """Replace a node with a text, or with another node in parentheses and its replacements."""
        self._edits.append((node.start, node.end, by))

    def insert(self, place: int, text: str) -> None:
        self._edits.append((place, place, text))

    def remove(self, start: int, end: int) -> None:
        """Remove the text in [start, end), and every edit within it."""
        self._edits = [e for e in self._edits if not (start <= e[0] and e[1] <= end)]
        self._edits.append((start, end, ""))

    def changes_within(self, node: Node) -> bool:
        """Return whether a proper part of a node's text is replaced."""
        whole = node.start, node.end
        return any(whole[0] <= s and e <= whole[1] and (s, e) != whole for s, e, _ in self._edits)

    def render(self, node: Node, *, braces: bool = False) -> str:
        """Return the text of a node with its replacements. braces : whether to double braces"""
        parts, place = [], node.start
        inside = [e for e in self._edits if node.start <= e[0] and e[1] <= node.end]
        for start, end, by in [*sorted(inside, key=lambda e: e[:2]), (node.end, node.end, "")]:
            kept = self.text[place:start]
            put = by if isinstance(by, str) else f"({self.render(by, braces=braces)})"
            parts += [double_braces(kept) if braces else kept, put]
            place = end
        return "".join(parts)


@dataclass
class Block:
    """One SELECT block.

    rankings : the script's `RankingGroups`
    clauses : all clauses except FROM, whose tables are `relations`
    plan : function that plans a query in parentheses or a table function; it returns None if Spark
        resolves the relation
    sources : the planned tables;  unknown : tables that the session does not have
    answered : the words of answered clauses, which are removed from the text
    handled : spans that aggregates or a ranking over a window answer
    """

    tables: Tables
    rankings: Any
    clauses: tuple[Clause, ...]
    relations: tuple[Relation, ...]
    edits: Rewriting
    plan: Callable[[Relation, Tables], PlannedFrame | None]
    sources: list[Source] = field(default_factory=list)
    unknown: list[Name] = field(default_factory=list)
    answered: set[str] = field(default_factory=set)
    handled: list[Node] = field(default_factory=list)
    _planned: dict[int, PlannedFrame | None] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return self.tables.text

    def frame(self, relation: Relation) -> PlannedFrame | None:
        """Return a relation's frame, or None if Spark resolves the relation."""
        if relation.table is not None:
            frame = self.tables.frame(relation.table)
            self.unknown += [relation.table] if frame is None else []
            return frame
        if relation.start not in self._planned:
            self._planned[relation.start] = self.plan(relation, self.tables)
        return self._planned[relation.start]

    def required_frame(self, relation: Relation) -> PlannedFrame:
        """Return a relation's frame. Raises SqlError if there is none."""
        if (frame := self.frame(relation)) is not None:
            return frame
        if relation.table is not None:
            raise self.tables.unknown(relation.table)
        place = relation.bracket or relation
        raise at(place, "a window must follow a table, a view or a query in parentheses")

    def build_frame(
        self, make: Callable[[], DataFrame], node: Node, frame: PlannedFrame
    ) -> DataFrame:
        """Return the analysed result of `make` for a frame; see `Tables.build_frame`."""
        return self.tables.build_frame(make, node, [*frame.attributes, *frame.df.columns])

    def clause(self, word: str) -> Clause | None:
        return next((clause for clause in self.clauses if clause.word == word), None)

    def remove(self, *words: str) -> None:
        """Remove answered clauses from the text."""
        for clause in (clause for clause in self.clauses if clause.word in words):
            self.edits.remove(clause.start, clause.end)
            self.answered.add(clause.word)

    def conditions(self) -> list[Items]:
        """Return the items after each table of FROM, unless they are part of a planned join."""
        joins = [source for source in self.sources if source.sides]
        return [r.rest for r in self.relations if not any(j.start < r.start < j.end for j in joins)]

    def word_lists(self) -> list[Items]:
        return [clause.items for clause in self.clauses] + self.conditions()

    def references(self) -> Iterator[Reference]:
        return (reference for items in self.word_lists() for reference in references(items))

    def names(self, items: Items) -> Iterator[Reference]:
        """Yield the names in an expression, but not in the arguments of a measure."""
        return references(items, enter=lambda reference: not self.is_measure(reference))

    def is_measure(self, reference: Reference) -> bool:
        """Return whether a call is a measure; STDDEV of a certain value is a Spark aggregate."""
        is_spread = is_word(reference.word, "STDDEV")
        return reference.is_measure and not (is_spread and self.attribute_of(reference) is None)

    def attribute_of(self, call: Reference) -> str | None:
        """Return the uncertain attribute that is a call's entire first argument, or None."""
        first = next(iter(call.arguments), ())
        name = _short_name(tuple(i for i in first if not is_word(i, "DISTINCT")))
        return next((a for s in self.sources if name and (a := s.attribute(name.parts))), None)

    def is_handled(self, place: int) -> bool:
        return any(node.start <= place < node.end for node in self.handled)

    def pipe(self) -> Token | None:
        """Return the first `|>`, or None."""
        for items in self.word_lists():
            for one, other in pairwise(items):
                if one == "|" and other == ">" and one.end == other.start:
                    return one
        return None

    def unqualified(self, items: Items, source: Source) -> Rewriting:
        """Return edits that remove table aliases, because functions accept only column names."""
        edits = Rewriting(self.text)
        for reference in self.names(items):
            parts, words = reference.parts, reference.words
            if len(parts) > 1 and source.has_alias(parts[0]):
                if not source.sides:
                    edits.remove(words[0].start, words[1].start)
                elif (attribute := source.attribute(parts[:2])) is not None:
                    edits.replace(span_of(words[:2]), quote_name(attribute))
        return edits

    def filter_alternatives(self, *, always: bool) -> Clause | None:
        """Move a WHERE on uncertain attributes from the text to the source, and return it.

        always : whether to move any WHERE; otherwise, Spark applies a WHERE on certain columns
        """
        clause = self.clause("WHERE")
        if clause is None:
            return None
        uncertain = [
            (reference, source)
            for reference in self.names(clause.items)
            for source in self.sources
            if reference.call is None and source.leading_attribute(reference.parts)
        ]
        reference, source = next(iter(uncertain), (None, self.sources[0] if always else None))
        if source is None:
            return None
        for reference, table in uncertain:
            own = match_name(reference.parts[-1], table.frame.df.columns)
            if own is not None and is_word(reference.after, "IS"):
                reason = (
                    f"{own} is both a certain column and an uncertain attribute, which has a value "
                    f"in imputed rows: for gaps, write imputed_by IS NOT NULL, or rename the column"
                )
                raise at(reference.word, reason)
        is_alone = len(self.relations) == 1 + any(r.join for r in self.relations)
        obstacles = {
            "a pipe |>": self.pipe() is not None,
            "several tables": not is_alone,
            "other words after the table": bool(self.relations[0].rest),
            "a nested query": any(nested_queries(clause.items)),
        }
        obstacle = next((what for what, is_there in obstacles.items() if is_there), None)
        if obstacle is not None:
            what = "before a window's aggregates"
            what = f"on the uncertain {reference.parts[-1]}" if reference is not None else what
            reason = (
                f"a filter {what} is not supported together with {obstacle}: filter in a subquery, "
                "FROM (SELECT ... WHERE ...)"
            )
            raise at(clause if reference is None else reference.word, reason)
        local = self.unqualified(clause.items, source)
        measures = Measures(self, local)
        measures.replace_in(clause.items, named=False, distributions=False)
        before = list(source.extra)
        measures.add()
        condition = local.render(Node(clause.items[0].start, clause.end))
        frame = source.frame
        df = self.build_frame(lambda: where(frame.df, condition), clause, frame)
        added = [name for name in source.extra if name not in before]
        title = f"filter on alternatives: {one_line(condition)}"
        step = Step(title, inputs={"": frame.step}, facts=frame.step.facts)
        source.frame = PlannedFrame(df.drop(*added), step)
        source.extra, source.changed = before, True
        self.remove("WHERE")
        return clause

    def name_columns(self, select: Clause) -> None:
        """Name result columns after the user's expressions where the text was replaced."""
        for item in list_items(select.items):
            if not item or any(stars(item)) or any(is_word(i, "AS") for i in item):
                continue
            place = span_of(item)
            is_replaced = self.edits.changes_within(place) or self.is_handled(place.start)
            if is_replaced and alias_of(item)[0] is None:
                name = one_line(self.text[place.start : place.end])
                self.edits.insert(place.end, f" AS {quote_name(name)}")

    def exclude_from_stars(self, items: Items) -> None:
        """Exclude from stars the columns that were added for this query."""
        several = len(self.conditions()) > 1
        for star in stars(items):
            spared = []
            for source in self.sources:
                mine = star.qualifier is None or (
                    not source.sides and source.has_alias(star.qualifier)
                )
                prefix = f"{quote_name(source.aliases[0])}." if several and source.written else ""
                spared += [prefix + quote_name(name) for name in source.extra if mine]
            if spared:
                self.edits.narrows_stars, names = True, ", ".join(spared)
                if star.except_list is not None:
                    self.edits.insert(star.except_list.start + 1, f"{names}, ")
                else:
                    self.edits.insert(star.token.end, f" EXCEPT ({names})")


# ---- plain SELECTs -------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlainSelect:
    """`SELECT list FROM table [WHERE condition]` and nothing else.

    items : the selected items;  where : the WHERE, or a HAVING that became WHERE
    on : whether the source is a join with a condition, which acts as a filter
    """

    items: tuple[Items, ...]
    where: Clause | None
    on: bool
    source: Source
    edits: Rewriting

    def selection(self) -> Selection | None:
        """Return the selection to run within the operator's step, or None if it cannot run there.

        Only syntax that means the same in Spark and in the operators is accepted: columns, result
        fields, and comparisons of a field with a number.
        """
        parts = split(self.where.items, lambda i: is_word(i, "AND")) if self.where else []
        conditions = tuple(c for c in map(self._condition, parts) if c is not None)
        if self.on or len(conditions) < len(parts):
            return None
        if len(self.items) == 1 and [str(item) for item in self.items[0]] == ["*"]:
            return None if self.edits.narrows_stars else Selection(None, conditions)
        columns: dict[str, tuple[tuple[str, ...], str]] = {}
        for items in self.items:
            alias, value = alias_of(items)
            field = self._field(value)
            name = "" if field is None else field.name if alias is None else unquote_name(alias)
            if field is None or not name or name in columns:
                return None
            columns[name] = field.path, ""
        return Selection(columns, conditions)

    def _field(self, items: Items) -> ResultField | None:
        if not items:
            return None
        place, name = span_of(items), name_in(items)
        if (place.start, place.end) in self.edits.fields:
            return self.edits.fields[place.start, place.end]
        if name is None:
            return None
        qualified = len(name.parts) > 1 and self.source.has_alias(name.parts[0])
        return ResultField(name.parts[qualified:], name=name.parts[-1])

    def _condition(self, items: Items) -> Condition | None:
        signs = [i for i, item in enumerate(items) if str(item) in ("<", ">", "=")]
        if not signs or signs != list(range(signs[0], signs[-1] + 1)):
            return None
        sign, number = "".join(str(items[i]) for i in signs), number_in(items[signs[-1] + 1 :])
        field = self._field(items[: signs[0]])
        if field is None or sign not in ("<", "<=", ">", ">=") or number is None:
            return None
        return Condition(field.path, sign, float(number))


def plain_select(
    body: syntax.Body, answered: set[str], sources: list[Source], edits: Rewriting
) -> PlainSelect | None:
    """Return a query as a plain SELECT, or None if it contains anything else."""
    clauses = [c for c in body.clauses if c.word != "FROM" and c.word not in answered]
    relations, words = list(body.relations), [clause.word for clause in clauses]
    on = any(relation.rest for relation in relations)
    is_one = len(sources) == 1 and (bool(sources[0].sides) or not (on or len(relations) > 1))
    if not is_one or words not in (["SELECT"], ["SELECT", "WHERE"], ["SELECT", "HAVING"]):
        return None
    items = tuple(list_items(clauses[0].items))
    if not all(items) or is_word(clauses[0].items[0], "DISTINCT"):
        return None
    return PlainSelect(items, clauses[1] if clauses[1:] else None, on, sources[0], edits)


# ---- measures: EXPECTED, EXISTENCE, STDDEV, QUANTILE and distributions ---------------------------


WITHOUT_ALTERNATIVES = (
    "these rows are answers without alternatives: write {0}(SUM(x)) for an aggregate, or select "
    "{0}(...) in a subquery before the window or join"
)


class AddedColumn(NamedTuple):
    """A measure to add as a column of a source. q : level of a quantile"""

    source: Source
    function: str
    attribute: str | None
    q: float | None = None

    @property
    def name(self) -> str:
        return self.function if self.attribute is None else f"{self.function}_{self.attribute}"


class Measures:
    """Replacement of a block's uncertain attributes and their measures with added columns."""

    def __init__(self, block: Block, edits: Rewriting) -> None:
        self.block, self.sources, self.edits = block, block.sources, edits
        self.names: dict[AddedColumn, str] = {}

    def replace_in(self, items: Items, *, named: bool, distributions: bool = True) -> None:
        """Add the edits for one clause.

        named : whether its items become result columns, which need readable names
        distributions : whether an attribute without a measure denotes its distribution
        """
        for reference in self.block.names(items):
            if self.block.is_handled(reference.start):
                continue
            if reference.call is None and distributions:
                self._distribution(reference, named)
            elif self.block.is_measure(reference):
                self._measure(reference, named)

    def add(self) -> None:
        for wanted, name in self.names.items():
            source = wanted.source
            df = source.frame.df.withColumn(name, _column(wanted, source.frame))
            source.frame = PlannedFrame(df, source.frame.step)
            source.extra.append(name)

    def _measure(self, reference: Reference, named: bool) -> None:
        function, given = reference.parts[0].lower(), reference.arguments
        takes = 2 if function == "quantile" else 1
        if function == "existence":
            wanted = AddedColumn(self._whose_existence(reference, given), function, None)
        elif len(given) != takes:
            example = "QUANTILE(x, 0.9)" if takes == 2 else f"{function.upper()}(x)"
            reason = f"{function.upper()} needs {takes} argument{'s' * (takes > 1)}"
            raise at(reference.call or reference, reason, example)
        else:
            source, attribute = self._attribute(function, given[0], reference)
            q = parse_level(given[1]) if takes == 2 else None
            wanted = AddedColumn(source, function, attribute, q)
        source = wanted.source
        if wanted not in self.names:
            taken = [*source.frame.df.columns, *self.names.values()]
            self.names[wanted] = free_name(wanted.name, taken)
        name, several = self.names[wanted], len(self.sources) > 1 and source.written
        by = f"{quote_name(source.aliases[0])}.{quote_name(name)}" if several else quote_name(name)
        if named and reference.whole and name != wanted.name:
            by += f" AS {quote_name(wanted.name)}"
        self.edits.replace(reference, by)

    def _distribution(self, reference: Reference, named: bool) -> None:
        for parts in (reference.parts[:2], reference.parts[:1]):
            # Add a name that is in several tables to all of them: Spark reports the ambiguity.
            hits = [(s, a) for s in self.sources if (a := s.attribute(parts))]
            if hits:
                break
        for source, attribute in hits:
            if match_name(attribute, source.frame.df.columns) is not None:
                reason = (
                    f"{attribute} is both a certain column and an uncertain attribute: write "
                    f"EXPECTED({attribute}) or QUANTILE({attribute}, 0.9) for the attribute, "
                    f"alternatives.{attribute} for the list of its values, or rename the column"
                )
                raise at(reference.word, reason)
            self.names[AddedColumn(source, "distribution", attribute)] = attribute
            if source.sides and len(parts) == 2:
                by = quote_name(attribute)
                if named and reference.whole and len(reference.parts) == 2:
                    by += f" AS {quote_name(reference.parts[1])}"
                self.edits.replace(span_of(reference.words[:2]), by)

    def _attribute(self, function: str, given: Items, reference: Reference) -> tuple[Source, str]:
        name, node = _short_name(given), span_of(given) if given else reference
        known = [name for source in self.sources for name in source.frame.attributes]
        if name is None:
            raise at(node, f"{function.upper()} needs the name of an uncertain attribute", *known)
        parts = name.parts
        hits = [(s, a) for s in self.sources if (a := s.attribute(parts))]
        hits = hits or [(s, c) for s in self.sources if (c := _plain_column(s, parts))]
        if len(hits) > 1:
            names = [f"{alias}.{parts[-1]}" for source, _ in hits for alias in source.aliases]
            raise at(node, f"{parts[-1]} is an attribute of several tables", *names)
        if not hits:
            likely = near(parts[-1], [name.split(".")[-1] for name in known])
            reason = f"there is no uncertain attribute {name}"
            if not known and any(s.has_answers for s in self.sources):
                reason += f", because {WITHOUT_ALTERNATIVES.format(function.upper())}"
            raise at(node, reason, *known, suggestion=likely)
        source, attribute = hits[0]
        frame = SparkFrame(source.frame.df)
        kind = frame.attribute_type(attribute) if frame.uncertain else frame.type(attribute)
        is_time = isinstance(kind, TimestampType | BooleanType)  # only their quantiles are defined
        if not isinstance(kind, NumericType | NullType) and (function != "quantile" or not is_time):
            written, instead = self.block.text[node.start : node.end], [*known]
            if isinstance(kind, StructType):
                instead = [f"{written}.{field}" for field in kind.names]
            elif is_time or isinstance(kind, StringType):
                instead = [
                    f"QUANTILE({written}, 0.5)" if is_time else "COUNT, or a condition in WHERE"
                ]
            reason = f"{function.upper()} needs numbers, but {attribute} is {kind.simpleString()}"
            raise at(node, reason, *instead)
        return hits[0]

    def _whose_existence(self, reference: Reference, given: list[Items]) -> Source:
        candidates = [s for s in self.sources if s.frame.attributes] or self.sources
        if given:
            name = _short_name(given[0]) if len(given) == 1 else None
            alias = name.parts[0] if name is not None and len(name.parts) == 1 else ""
            candidates = [source for source in self.sources if source.has_alias(alias)]
        if any(source.has_answers for source in candidates or self.sources):
            reason = "the existence of these rows is not known, because "
            raise at(reference.word, reason + WITHOUT_ALTERNATIVES.format("EXISTENCE"))
        if len(candidates) != 1:
            aliases = [f"EXISTENCE({a})" for source in self.sources for a in source.aliases]
            reason = "EXISTENCE must name its table, EXISTENCE(t)"
            place = Node(reference.start, reference.end)
            raise at(place, reason, *(aliases or ["EXISTENCE()"]))
        return candidates[0]


def parse_level(given: Items) -> float:
    """Return a QUANTILE's level. Raises SqlError unless it is a number from 0 to 1."""
    share = number_in(given)
    if share is not None and 0 <= share <= 1:
        return abs(float(share))  # -0 is 0
    reason = "the level of a QUANTILE must be a number from 0 to 1, or 0% to 100%"
    raise at(span_of(given) if given else Node(0, 0), reason)


def _short_name(items: Items) -> Name | None:
    return name_in(items) if len(items) in (1, 3) else None


def _plain_column(source: Source, parts: tuple[str, ...]) -> str | None:
    """Return the matching column of a table without alternatives (one per row), or None."""
    mine = not source.frame.attributes and (len(parts) == 1 or source.has_alias(parts[0]))
    return match_name(parts[-1], source.frame.df.columns) if mine else None


def _column(wanted: AddedColumn, frame: PlannedFrame) -> Column:
    attribute, column = wanted.attribute, F.col("alternatives")
    if not frame.attributes:
        existence = match_name("existence", frame.df.columns)
        prob = F.lit(1.0) if existence is None else clip_existence(F.col(quote_name(existence)))
        values = [] if attribute is None else [F.col(quote_name(attribute)).alias(attribute)]
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
