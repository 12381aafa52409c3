"""IMPUTE (...) FROM ... BY '...': what it asks for, and the frame it makes of a table."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lark import Token

from sfumato.sql.plan.nodes import ImputeArguments, Imputed, at
from sfumato.sql.plan.sources import Frame, called, column, ours
from sfumato.sql.text.errors import SqlError
from sfumato.sql.text.syntax import Impute, Name, Relation, plain, start_of

if TYPE_CHECKING:
    from sfumato.spark.model.imputation import Imputation


def imputed(
    frame: Frame, relation: Relation, repository_of: Callable[[Name], Frame], text: str
) -> Frame:
    """The frame of a relation with its missing attributes imputed, if it says so."""
    from sfumato.spark.impute import impute_frame

    node = relation.imputation
    if node is None:
        return frame
    imputation, arguments = imputation_plan(node, frame, called(relation), repository_of, text)
    df = ours(lambda: impute_frame(frame.df, imputation), node, text)
    return Frame(df, Imputed(frame.step, arguments))


def imputation_plan(
    node: Impute, frame: Frame, of: str, repository_of: Callable[[Name], Frame], text: str
) -> tuple[Imputation, ImputeArguments]:
    """The arguments of an IMPUTE over a frame. Raises SqlError for what is wrong in them."""
    from sfumato.spark.model.imputation import Imputation

    attributes = tuple(column(name, frame, of, text) for name in node.attributes)
    dependencies = [_dependency(token, text) for token in node.dependencies]
    repository = repository_of(node.repository).df
    how = _options(node, text)
    try:
        imputation = Imputation(repository, dependencies, attributes, **how)
    except (ValueError, TypeError) as error:
        raise at(text, node, str(error)) from error
    texts = tuple(str(dependency) for dependency in dependencies)
    how["scaling"] = tuple((name, *units) for name, units in how.get("scaling", {}).items())
    return imputation, ImputeArguments(attributes, str(node.repository), texts, **how)


def _options(node: Impute, text: str) -> dict[str, Any]:
    """The options in brackets as arguments of `sf.Imputation`; each at most once."""
    how: dict[str, Any] = {}
    for option in node.options:
        word = option.word.lower()
        if word == "scaling":
            assert option.name is not None
            scaling, name = how.setdefault("scaling", {}), str(plain(option.name.parts[-1]))
            if name in scaling:
                raise at(text, option, f"SCALING of {name} is given twice")
            shift, span = (number.value for number in option.numbers)
            scaling[name] = (shift, span)
            continue
        if word in how:
            raise at(text, option, f"{option.word} is given twice")
        if word == "joint":
            how[word] = True
        elif word == "fallback":
            assert option.name is not None
            how[word] = str(plain(option.name.parts[-1])).lower()
            if how[word] not in ("marginal", "reject"):
                raise at(text, option.name, "no such fallback", expected=("marginal", "reject"))
        else:
            value = option.numbers[0].value
            if not value.is_integer() or value < 1:
                raise at(
                    text, option.numbers[0], "MAX_ALTERNATIVES is a whole number of at least 1"
                )
            how[word] = int(value)
    return how


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
        (o.word, str(o.name).lower(), [number.value for number in o.numbers]) for o in node.options
    )
    texts = tuple(unquoted(token) for token in node.dependencies)
    return names, node.repository.parts, texts, str(options)


def _dependency(token: Token, text: str) -> Any:
    """The dependency a text states; what is wrong in it is pointed at where it stands."""
    from sfumato.spark.model.imputation import parse_dependency

    try:
        return parse_dependency(unquoted(token))
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
