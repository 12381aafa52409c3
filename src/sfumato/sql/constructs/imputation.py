"""`IMPUTE (temperature) FROM history BY 'humidity -> temperature : 0.05 -> 0.1'` after a table."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lark import Token

from sfumato.api.imputation import Dependency, Imputation
from sfumato.api.impute import impute_frame
from sfumato.sql.plan.block import Block
from sfumato.sql.plan.bracket import NAMED
from sfumato.sql.plan.construct import TableClause
from sfumato.sql.plan.given import Given
from sfumato.sql.plan.nodes import Lines, Step, at
from sfumato.sql.plan.sources import Frame, called, column
from sfumato.sql.text.errors import SqlError
from sfumato.sql.text.syntax import Impute, Relation, plain, start_of
from sfumato.sql.text.words import Word

WORDS = (
    Word("JOINT", "", "joint"),
    Word("MAX_ALTERNATIVES", "number", "max_alternatives"),
    Word("FALLBACK", "choice", "fallback"),
    Word("SCALING", "name number number", "scaling", repeated=True),
    Word("METHOD", "choice", "method"),
    Word("LEAST_DONORS", "number", "least_donors"),
    NAMED,
)


@dataclass(frozen=True)
class Imputed(Step):
    """`sf.impute` over its input. `repository` : its name in the query;  how : what words gave"""

    input: Step
    imputation: Imputation
    repository: str
    dependencies: tuple[str, ...]
    how: Mapping[str, Any]

    def title(self) -> str:
        return f"impute {', '.join(self.imputation.attributes)}"

    def lines(self) -> Lines:
        kept = "none; every worker keeps the prepared repository"
        return [*imputation_lines(self), ("state", kept)]


def imputation_lines(step: Imputed) -> Lines:
    """What there is to say of an imputation, whether rows are joined at once or not."""
    how = step.how
    reject = how.get("fallback") == "reject"
    without = (
        "the row is unimputable" if reject else "the attribute's distribution in the repository"
    )
    method, least = step.imputation.method, step.imputation.settings.least_donors
    lines = [
        ("repository", f"{step.repository}, read when the query is made"),
        ("method", method if least is None else f"{method}, at least {least} donors"),
        ("by", "; ".join(step.dependencies)),
        ("without donors", without),
    ]
    if how.get("joint"):
        lines.append(("together", "missing attributes from the same rows"))
    if "max_alternatives" in how:
        most = how["max_alternatives"]
        lines.append(("alternatives", f"at most {most}, near values merged"))
    for name, (shift, span) in how.get("scaling", {}).items():
        lines.append(("scaling", f"({name} - {shift:g}) / {span:g}"))
    return lines


class Imputing(TableClause):
    """`sf.impute` of a table."""

    words = WORDS

    def frame(self, frame: Frame, relation: Relation, block: Block) -> Frame:
        node = relation.imputation
        if node is None:
            return frame
        step = imputed(node, frame, called(relation), block)
        given = Given(node.options, WORDS, node, block.text, called(relation), frame)
        named = given.value(NAMED)
        df = given.call(lambda: impute_frame(frame.df, step.imputation, named))
        return Frame(df, replace(step, named=named or ""))


def imputed(node: Impute, frame: Frame, of: str, block: Block) -> Imputed:
    """What an IMPUTE over a frame asks for. Raises SqlError for what is wrong in it."""
    text = block.text
    given = Given(node.options, WORDS, node, text, of, frame)
    attributes = tuple(column(name, frame.df.columns, of, text) for name in node.attributes)
    dependencies = [_dependency(token, text) for token in node.dependencies]
    repository = block.stored(node.repository).df
    how = {**given.arguments("SCALING", NAMED.word), **_scaling(given)}
    imputation = given.call(lambda: Imputation(repository, dependencies, attributes, **how))
    texts = tuple(str(dependency) for dependency in dependencies)
    return Imputed(frame.step, imputation, str(node.repository), texts, how)


def _scaling(given: Given) -> dict[str, Any]:
    scaling: dict[str, tuple[float, float]] = {}
    for option in given.options:
        if option.word == "SCALING":
            name = plain(option.names[0].parts[-1])
            if name in scaling:
                raise at(given.text, option, f"SCALING of {name} is given twice")
            shift, span = (measure.value for measure in option.measures)
            scaling[name] = (shift, span)
    return {"scaling": scaling} if scaling else {}


def agreed(relations: tuple[Relation, Relation], text: str) -> tuple[int, Impute] | None:
    """The IMPUTE of a join's sides and the side it stands at: one is for both, two must agree."""
    given = [(i, r.imputation) for i, r in enumerate(relations) if r.imputation is not None]
    if not given:
        return None
    if len({_said(node) for _, node in given}) > 1:
        raise at(text, given[1][1], "the IMPUTE of both sides must be the same: one is for both")
    return given[0]


def _said(node: Impute) -> tuple[Any, ...]:
    names = tuple(name.parts for name in node.attributes)
    options = sorted(
        (o.word, [str(name).lower() for name in o.names], [number.value for number in o.measures])
        for o in node.options
    )
    texts = tuple(unquoted(token) for token in node.dependencies)
    return names, node.repository.parts, texts, str(options)


def _dependency(token: Token, text: str) -> Any:
    """The dependency a text states; what is wrong in it is pointed at where it stands."""
    try:
        return Dependency.parse(unquoted(token))
    except ValueError as error:
        place = start_of(token) + _opening(token) + getattr(error, "position", 0)
        reason = str(error).partition(" at position")[0]
        hint = "a dependency like 'humidity -> temperature : 0.05 -> 0.1'"
        raise SqlError(
            f"{reason}: BY takes {hint}", text=text, start=place, end=place + 1
        ) from error


def unquoted(token: Token) -> str:
    """What a text in quotes says."""
    begin = _opening(token)
    inside = str(token)[begin:-1]
    return inside if begin == 2 else re.sub(r"\\(.)", r"\1", inside, flags=re.DOTALL)


def _opening(token: Token) -> int:
    """How many characters open it: a quote, after an r in a raw text."""
    return 2 if token[0] in "rR" else 1
