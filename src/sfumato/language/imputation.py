"""`IMPUTE (temperature) FROM history BY 'humidity -> temperature : 0.05 -> 0.1'` after a table."""

import re
from typing import Any

from lark import Token

from sfumato.api.imputation import Dependency, Imputation
from sfumato.api.impute import impute, impute_frame
from sfumato.language.block import Block
from sfumato.language.brackets import NAMED
from sfumato.language.errors import SqlError, at
from sfumato.language.options import Options, words_of
from sfumato.language.parse import Word
from sfumato.language.steps import Lines, Step
from sfumato.language.syntax import Impute, Relation, plain, start_of
from sfumato.language.tables import PlannedFrame, column, name_of

IMPUTE_WORDS = (
    *words_of(impute, "joint", "max_alternatives", "fallback"),
    Word("SCALING", "name number number", "scaling", repeated=True),
    *words_of(impute, "method", "least_donors", "name"),
)


def imputed_frame(frame: PlannedFrame, relation: Relation, block: Block) -> PlannedFrame:
    """Return a table with its IMPUTE; `frame` where the relation has none."""
    node = relation.imputation
    if node is None:
        return frame
    imputation, lines = read_imputation(node, frame, name_of(relation), block)
    given = Options(node.options, IMPUTE_WORDS, node, block.text, name_of(relation), frame)
    named = given.value(NAMED)
    df = given.call(lambda: impute_frame(frame.df, imputation, named))
    title = f"impute {', '.join(imputation.attributes)}"
    lines.append(("state", "none; every worker keeps the prepared repository"))
    return PlannedFrame(
        df, Step(title, lines, {"": frame.step}, frame.step.facts, named=named or "")
    )


def read_imputation(
    node: Impute, frame: PlannedFrame, of: str, block: Block
) -> tuple[Imputation, Lines]:
    """Return what an IMPUTE over a frame asks for, and what EXPLAIN says of it.

    Raises SqlError for what is wrong in it.
    """
    text = block.text
    given = Options(node.options, IMPUTE_WORDS, node, text, of, frame)
    attributes = tuple(column(name, frame.df.columns, of, text) for name in node.attributes)
    dependencies = [_dependency(token, text) for token in node.dependencies]
    repository = block.stored(node.repository).df
    how = {**given.arguments("SCALING", NAMED.word), **_scaling(given)}
    imputation = given.call(lambda: Imputation(repository, dependencies, attributes, **how))
    reject = how.get("fallback") == "reject"
    without = (
        "the row is unimputable" if reject else "the attribute's distribution in the repository"
    )
    method, least = imputation.method, imputation.settings.least_donors
    lines = [
        ("repository", f"{node.repository}, read when the query is made"),
        ("method", method if least is None else f"{method}, at least {least} donors"),
        ("by", "; ".join(map(str, dependencies))),
        ("without donors", without),
    ]
    if how.get("joint"):
        lines.append(("together", "missing attributes from the same rows"))
    if "max_alternatives" in how:
        lines.append(("alternatives", f"at most {how['max_alternatives']}, near values merged"))
    for name, (shift, span) in how.get("scaling", {}).items():
        lines.append(("scaling", f"({name} - {shift:g}) / {span:g}"))
    return imputation, lines


def _scaling(given: Options) -> dict[str, Any]:
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
    """Return the IMPUTE of a join and the side it stands at: one is for both, two must agree."""
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
    """Return the dependency that a text states. Raises SqlError at the place in the text."""
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
    """Return the value of a text in quotes."""
    begin = _opening(token)
    inside = str(token)[begin:-1]
    return inside if begin == 2 else re.sub(r"\\(.)", r"\1", inside, flags=re.DOTALL)


def _opening(token: Token) -> int:
    """Return how many characters open it: a quote, after an r in a raw text."""
    return 2 if token[0] in "rR" else 1
