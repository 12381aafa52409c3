"""IMPUTE after a table, as a call of `sf.impute`."""

from collections.abc import Callable
from typing import Any

from sfumato.api.imputation import Dependency, Imputation, impute, impute_frame
from sfumato.language import syntax
from sfumato.language.brackets import NAMED
from sfumato.language.construct_options import Options, opening, string_value, words_of
from sfumato.language.parse import Word
from sfumato.language.steps import Lines, Step, argument_lines
from sfumato.language.syntax import Node, Relation, Token, at
from sfumato.language.tables import PlannedFrame, resolve_column
from sfumato.sql_tokens import unquote_name

IMPUTE_WORDS = (
    *words_of(impute, "joint", "max_alternatives", "fallback"),
    Word("SCALING", "name number number", "scaling", repeated=True),
    *words_of(impute, "method", "least_donors", "key", "least_rows", "name"),
)


def imputed_frame(
    frame: PlannedFrame,
    relation: Relation,
    node: syntax.Impute,
    repository: Callable[..., PlannedFrame],
) -> PlannedFrame:
    """Return a table after its IMPUTE. repository : function that returns a table by name"""
    given = Options(node.options, node, relation, frame, IMPUTE_WORDS)
    imputation, lines = read_imputation(given, node, repository)
    name = given.value(NAMED)
    df = given.call(lambda: impute_frame(frame.df, imputation, name))
    title = f"impute {', '.join(imputation.attributes)}"
    lines.append(("state", "none; every worker keeps the prepared repository"))
    inputs = {"": frame.step}
    return PlannedFrame(df, Step(title, lines, inputs, frame.step.facts, named=name or ""))


def read_imputation(
    given: Options, node: syntax.Impute, repository: Callable[..., PlannedFrame]
) -> tuple[Imputation, Lines]:
    """Return an IMPUTE's imputation, and its lines for EXPLAIN. Raises SqlError."""
    columns = given.table.df.columns
    attributes = tuple(resolve_column(name, columns, given.table_name) for name in node.attributes)
    dependencies = [_dependency(token) for token in node.dependencies]
    table, how = repository(node.repository).df, given.arguments("SCALING", "NAMED")
    for option in given.options:
        if option.word == "SCALING":
            name, scaling = unquote_name(option.names[0].parts[-1]), how.setdefault("scaling", {})
            if name in scaling:
                raise at(option, f"SCALING is given twice for {name}")
            scaling[name] = tuple(float(measure.value) for measure in option.measures)
    imputation = given.call(lambda: Imputation(table, dependencies, attributes, **how))
    known = {"method": imputation.method, "fallback": "marginal"}
    lines = [
        ("repository", f"{node.repository}, read when the query is created"),
        ("by", "; ".join(map(str, dependencies))),
        *argument_lines(known | how),
    ]
    return imputation, lines


def joint_imputation(relations: tuple[Relation, Relation]) -> tuple[int, syntax.Impute] | None:
    """Return a join's IMPUTE and its side, or None. Raises SqlError if two differ."""
    given = [(i, r.imputation) for i, r in enumerate(relations) if r.imputation is not None]
    if len({_clause_text(node) for _, node in given}) > 1:
        raise at(given[1][1], "both sides must have the same IMPUTE: write it once")
    return given[0] if given else None


def _clause_text(node: syntax.Impute) -> str:
    options = sorted(
        (o.word, [str(name).lower() for name in o.names], [number.value for number in o.measures])
        for o in node.options
    )
    texts, names = [string_value(token) for token in node.dependencies], [*node.attributes]
    return str(([n.parts for n in names], node.repository.parts, texts, options))


def _dependency(token: Token) -> Any:
    """Parse a dependency. Raises SqlError at the position of an error."""
    try:
        return Dependency.parse(string_value(token))
    except ValueError as error:
        place = token.start + len(opening(token)) + getattr(error, "position", 0)
        reason = str(error).partition(" at position")[0]
        hint = "write a dependency like 'humidity -> temperature : 0.05 -> 0.1' after BY"
        raise at(Node(place, place + 1), f"{reason}: {hint}") from error
