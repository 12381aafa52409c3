"""Differential dependencies: rows close in some attributes are close in another attribute."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

# Blanks around tokens are skipped. A name is plain, or any string in backquotes.
TOKEN = re.compile(r"\s*(?:(?P<mark>->|,|:)|`(?P<quoted>(?:[^`]|``)*)`|(?P<plain>[^\s,:`>-]"
                   r"(?:(?!->)[^,:`])*))")  # fmt: skip
PLAIN_ATTRIBUTE = re.compile(r"[^\s,:`>-](?:(?!->)[^,:`])*(?<!\s)\Z")
SYNTAX = "A,B -> C : 0.05, 0.1 -> 0.2"


class DependencyError(ValueError):
    """Error in a dependency string. `position` : place of the error in the string, from 0."""

    def __init__(self, message: str, text: str, position: int) -> None:
        line = re.sub(r"\s", " ", text)  # the caret is below the error
        super().__init__(f"{message} at position {position}, in\n  {line}\n  {' ' * position}^")
        self.position = position


@dataclass(frozen=True)
class Dependency:
    """Differential dependency X -> A: rows close on every x of X are close on A.

    Parameters
    ----------
    determinants
        ((name, epsilon), ...), at least one; each constraint is |s[x] - o[x]| <= epsilon
    dependent
        Name of the attribute A that is inferred
    epsilon
        float >= 0, the bound on A
    confidence
        Among the pairs of rows close on X, the share within epsilon on A, or None
    support
        Share of all pairs of rows that are close on X, or None
    spread
        The largest difference on A among pairs close on X, or None
    score
        Mean score of held-out values of A imputed by this dependency alone (continuous ranked
        probability score, in the unit of A, smaller is better), or None

    Raises
    ------
    ValueError
        For names that repeat or are empty, and for epsilons that are negative or not finite.

    Notes
    -----
    Distances are measured on scaled attributes: by default, 1 is an attribute's whole range in the
    repository (see `Imputer`). Determinants are sorted by name, so that equal dependencies compare
    equal. The statistics (the last four fields) are not compared. Cost: see `Imputer`.

    References
    ----------
    Ren et al. (2019), definition 2.3, with intervals [0, epsilon]. CIKM.

    Examples
    --------
    >>> print(Dependency.parse("humidity, voltage -> temperature : 0.05, 0.1 -> 0.2"))
    humidity, voltage -> temperature : 0.05, 0.1 -> 0.2
    """

    determinants: tuple[tuple[str, float], ...]
    dependent: str
    epsilon: float
    confidence: float | None = field(default=None, compare=False)
    support: float | None = field(default=None, compare=False)
    spread: float | None = field(default=None, compare=False)
    score: float | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        pairs = tuple(
            sorted((_checked_name(n), _checked_epsilon(n, e)) for n, e in self.determinants)
        )
        if not pairs:
            raise ValueError(f"`determinants` must name at least one attribute, as in {SYNTAX!r}")
        names = [name for name, _ in pairs] + [_checked_name(self.dependent)]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"a dependency must not name an attribute twice; got {repeated} twice")
        object.__setattr__(self, "determinants", pairs)
        object.__setattr__(self, "epsilon", _checked_epsilon(self.dependent, self.epsilon))

    @property
    def is_discovered(self) -> bool:
        """Return whether a search found and measured the dependency."""
        return self.confidence is not None or self.score is not None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.determinants)

    def __str__(self) -> str:
        names = ", ".join(_quote(name) for name in self.names)
        bounds = ", ".join(_format_number(epsilon) for _, epsilon in self.determinants)
        return f"{names} -> {_quote(self.dependent)} : {bounds} -> {_format_number(self.epsilon)}"

    @classmethod
    def parse(cls, text: str) -> Dependency:
        """Parse a string like `A,B -> C : 0.05, 0.1 -> 0.2`, as returned by `str`.

        Names with a comma, a colon, an arrow or a backquote must be in backquotes, with backquotes
        doubled. Raises DependencyError with the position and the expected token.
        """
        if not isinstance(text, str):
            raise TypeError(f"a dependency must be a string like {SYNTAX!r}; got {text!r:.80}")
        return _DependencyReader(text).dependency()


def as_dependencies(given: Dependency | Iterable[Dependency | str]) -> list[Dependency]:
    """Return a list of dependencies; strings are parsed. Raises TypeError for other types."""
    if isinstance(given, str | Dependency):
        given = [given]
    if not isinstance(given, Iterable):
        raise TypeError(
            "`dependencies` must be a string like 'humidity -> temperature : 0.05 -> 0.1', or a "
            f"list of such strings; got {given!r:.80}"
        )
    return [item if isinstance(item, Dependency) else Dependency.parse(item) for item in given]


def check_dependencies(
    given: Iterable[Dependency], attributes: Sequence[str], names: Sequence[str]
) -> None:
    """Raise ValueError for dependents outside `attributes` or determinants outside `names`."""
    for dependency in given:
        unknown = [name for name in dependency.names if name not in names]
        if unknown or dependency.dependent not in attributes:
            raise ValueError(
                f"in the dependency `{dependency}`, the dependent must be one of the attributes "
                f"{list(attributes)}, and the determinants must be columns of the repository "
                f"{list(names)}"
            )


class _DependencyReader:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def dependency(self) -> Dependency:
        begin = self.at
        names = self._read_list(self._read_name)
        self._expect("->", "`,` or `->` after a determinant")
        dependent = self._read_name()
        self._expect(":", "`:` after the dependent attribute")
        place = self._next_position()
        bounds = self._read_list(self._read_number)
        if len(bounds) != len(names):
            raise self._error(
                f"expected {len(names)} epsilons, one per determinant; got {len(bounds)}", place
            )
        self._expect("->", "`,` or `->` after an epsilon")
        epsilon = self._read_number()
        if self.text[self.at :].strip():
            expected = "expected the end of the dependency (pass several dependencies as a list)"
            raise self._error(expected, self._next_position())
        try:
            return Dependency(tuple(zip(names, bounds, strict=True)), dependent, epsilon)
        except ValueError as error:
            raise self._error(str(error), begin) from None

    def _read_list(self, item: Any) -> list[Any]:
        items = [item()]
        while (match := TOKEN.match(self.text, self.at)) and match["mark"] == ",":
            self.at = match.end()
            items.append(item())
        return items

    def _read_name(self) -> str:
        match = TOKEN.match(self.text, self.at)
        if not match or match["mark"]:
            raise self._error("expected the name of an attribute", self._next_position())
        self.at = match.end()
        if match["quoted"] is not None:
            return match["quoted"].replace("``", "`")
        return match["plain"].rstrip()

    def _read_number(self) -> float:
        place = self._next_position()
        match = re.compile(r"[^\s,>:]+?(?=\s|,|->|:|\Z)").match(self.text, place)
        try:
            number = float(match[0]) if match else math.nan
        except ValueError:
            number = math.nan
        if match is None or not (math.isfinite(number) and number >= 0.0):
            raise self._error("expected an epsilon, a finite number of at least 0", place)
        self.at = match.end()
        return number

    def _expect(self, mark: str, expected: str) -> None:
        match = TOKEN.match(self.text, self.at)
        if not match or match["mark"] != mark:
            raise self._error(f"expected {expected}", self._next_position())
        self.at = match.end()

    def _next_position(self) -> int:
        """Return the position of the next token."""
        return len(self.text) - len(self.text[self.at :].lstrip())

    def _error(self, message: str, position: int) -> DependencyError:
        return DependencyError(message, self.text, position)


def _checked_name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise ValueError(f"the name of an attribute must be a non-empty string; got {name!r}")
    return name


def _checked_epsilon(name: str, epsilon: Any) -> float:
    try:
        number = float(epsilon)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number >= 0.0):
        raise ValueError(
            f"the epsilon of `{name}` must be a finite number of at least 0; got {epsilon!r}"
        )
    return number + 0.0  # no -0.0


def _quote(name: str) -> str:
    return name if PLAIN_ATTRIBUTE.match(name) else "`" + name.replace("`", "``") + "`"


def _format_number(value: float) -> str:
    return repr(int(value)) if value.is_integer() and value < 1e15 else repr(value)
