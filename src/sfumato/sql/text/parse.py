"""From text to syntax tree. Parsing only reads: nothing is resolved and nothing can run."""

from collections.abc import Callable
from typing import Any, NamedTuple

from lark import Token, Transformer, v_args
from lark.exceptions import UnexpectedInput, VisitError
from lark.tree import Meta

from sfumato.sql.text import syntax
from sfumato.sql.text.errors import SqlError
from sfumato.sql.text.grammar import parser
from sfumato.sql.text.parse_errors import explained
from sfumato.sql.text.syntax import end_of, words
from sfumato.sql.text.words import Vocabulary, fragment

Span = tuple[int, int]

# Words that follow a table name without AS and are not its alias: they begin something else.
NO_ALIAS = frozenset(
    words(
        "ANTI ASOF CROSS EXCEPT FOR FULL IMPUTE INNER INTERSECT LATERAL LEFT MINUS NATURAL ON "
        "OUTER PIVOT RIGHT SEMI SETMINUS TABLESAMPLE TIMESTAMP UNION UNPIVOT USING VERSION "
        "WATERMARK"
    )
)


def parse(text: str, vocabulary: Vocabulary) -> syntax.Script:
    """The statements of a script, separated by `;`.

    Linear time. Raises SqlError where a bracket or a similarity join is not written as it should
    be, where a quote, parenthesis or bracket is not closed, or where there is no statement. What
    is Spark's own is not judged.
    """
    try:
        statements = ToSyntax().transform(parser(fragment(vocabulary)).parse(text))
    except UnexpectedInput as error:
        raise explained(error, text, vocabulary) from None
    except (VisitError, RecursionError) as error:
        if isinstance(error, VisitError) and not isinstance(error.orig_exc, RecursionError):
            raise
        raise SqlError("parentheses are nested too deeply", text=text, start=0, end=0) from None
    if not statements:
        raise SqlError("there is no query here", text=text, start=0, end=0, expected=("SELECT",))
    return syntax.Script(text, tuple(statements))


class _With(NamedTuple):
    word: Token | None
    ctes: tuple[syntax.Cte, ...]
    recursive: bool


class _Alias(NamedTuple):
    token: Token
    explicit: bool  # written with AS


class _Rest(NamedTuple):
    items: tuple[syntax.Item, ...]


def _with_span(rule: Callable[..., Any], data: str, children: list[Any], meta: Meta) -> Any:
    span = (0, 0) if meta.empty else (meta.start_pos, meta.end_pos)
    return rule(span, children)


@v_args(wrapper=_with_span)
class ToSyntax(Transformer[Token, Any]):
    """One method a grammar rule; children arrive already converted, with the rule's span."""

    def script(self, span: Span, statements: list[syntax.Statement]) -> list[syntax.Statement]:
        return statements

    def statement(self, span: Span, children: list[Any]) -> syntax.Statement:
        return syntax.Statement(*span, len(children) > 1, children[-1])

    def body(self, span: Span, children: list[Any]) -> syntax.Body:
        with_ = children.pop(0) if isinstance(children[0], _With) else _With(None, (), False)
        return syntax.Body(*span, with_.word, with_.ctes, with_.recursive, tuple(children))

    def ctes(self, span: Span, children: list[Any]) -> _With:
        recursive = not isinstance(children[1], syntax.Cte)
        return _With(children[0], tuple(children[1 + recursive :]), recursive)

    def cte(self, span: Span, children: list[Any]) -> syntax.Cte:
        columns = children[1] if isinstance(children[1], syntax.Group) else None
        return syntax.Cte(*span, children[0], columns, children[-1])

    def after_ctes(self, span: Span, children: list[Any]) -> syntax.Clause:
        items = children[1].items if len(children) > 1 else ()
        return syntax.Clause(*span, None, (children[0], *items))

    def clause(self, span: Span, children: list[Any]) -> syntax.Clause:
        items = children[1].items if len(children) > 1 else ()
        return syntax.Clause(*span, children[0], items)

    def items(self, span: Span, children: list[syntax.Item]) -> syntax.Clause:
        return syntax.Clause(*span, None, tuple(children))

    def group(self, span: Span, children: list[syntax.Body]) -> syntax.Group:
        return syntax.Group(*span, children[0] if children else None)

    def index(self, span: Span, children: list[syntax.Body]) -> syntax.Index:
        return syntax.Index(*span, children[0] if children else None)

    # tables

    def from_clause(self, span: Span, children: list[Any]) -> syntax.FromClause:
        return syntax.FromClause(*span, children[0], tuple(children[1:]))

    def joined(self, span: Span, children: list[Any]) -> syntax.Relation:
        return children[1]

    def relation(self, span: Span, children: list[Any]) -> syntax.Relation:
        rest = children.pop().items if isinstance(children[-1], _Rest) else ()
        head = children[0] if children else None
        bracket = next((c for c in children if isinstance(c, syntax.Bracket)), None)
        imputation = next((c for c in children if isinstance(c, syntax.Impute)), None)
        alias = next((c for c in children if isinstance(c, _Alias)), None)
        pieces = [c.token if isinstance(c, _Alias) else c for c in children]
        own_end = end_of(pieces[-1]) if pieces else span[0]
        last = alias is not None and pieces[-1] is alias.token and not alias.explicit
        if alias and last and alias.token.upper() in NO_ALIAS:
            rest, alias, own_end = (alias.token, *rest), None, end_of(pieces[-2])
        token = alias.token if alias else None
        return syntax.Relation(*span, head, token, bracket, rest, own_end, imputation)

    side = relation

    def head(self, span: Span, children: list[Any]) -> syntax.Name | syntax.Group:
        if isinstance(children[0], syntax.Group):
            return children[0]
        return self.column(span, children)

    def column(self, span: Span, children: list[Token]) -> syntax.Name:
        return syntax.Name(*span, tuple(w for w in children if w.type != "DOT"))

    name = column
    choice = column

    def names(self, span: Span, children: list[syntax.Name]) -> tuple[syntax.Name, ...]:
        return tuple(c for c in children if isinstance(c, syntax.Name))

    def alias(self, span: Span, children: list[Token]) -> _Alias:
        return _Alias(children[-1], explicit=len(children) > 1)

    def rest(self, span: Span, children: list[syntax.Item]) -> _Rest:
        return _Rest(tuple(children))

    odd = rest
    after_open = rest

    # constructs

    def bracket(self, span: Span, options: list[syntax.Option]) -> syntax.Bracket:
        return syntax.Bracket(*span, tuple(options))

    def option(self, span: Span, children: list[Any]) -> syntax.Option:
        keyword, *values = children
        lists = [value if isinstance(value, tuple) else (value,) for value in values]
        names = tuple(v for listed in lists for v in listed if isinstance(v, syntax.Name))
        measures = tuple(v for listed in lists for v in listed if isinstance(v, syntax.Measure))
        return syntax.Option(*span, keyword.type, measures, names)

    def number(self, span: Span, children: list[Token]) -> syntax.Measure:
        return syntax.Measure(
            *span,
            tuple(c for c in children if c.type == "NUMBER"),
            negative=children[0].type == "MINUS",
            percent=children[-1].type == "PERCENT",
        )

    fraction = number

    def numbers(self, span: Span, children: list[syntax.Measure]) -> tuple[syntax.Measure, ...]:
        return tuple(children)

    def unit(self, span: Span, children: list[Token]) -> Token:
        return children[0]

    def duration(self, span: Span, children: list[Any]) -> syntax.Measure:
        first, *others = children
        numbers = first.numbers + tuple(c for c in others if c.type == "NUMBER")
        units = tuple(c for c in others if c.type == "NAME")
        return syntax.Measure(*span, numbers, units, first.negative)

    def imputation(self, span: Span, children: list[Any]) -> syntax.Impute:
        *attributes, repository = (c for c in children if isinstance(c, syntax.Name))
        texts = tuple(c for c in children if isinstance(c, Token) and c.type == "STRING")
        options = tuple(c for c in children if isinstance(c, syntax.Option))
        return syntax.Impute(*span, children[0], tuple(attributes), repository, texts, options)

    def similarity_join(self, span: Span, children: list[Any]) -> syntax.SimilarityJoin:
        keyword, side, *more = children
        on = tuple(c for c in more if isinstance(c, syntax.Name))
        options = tuple(c for c in more if isinstance(c, syntax.Option))
        return syntax.SimilarityJoin(*span, keyword, side, on, options)
