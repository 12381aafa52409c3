"""Constructs in brackets after a table, and which of them a bracket is.

A new one is one file in `constructs` and its line in `constructs/registered.py`; the grammar, the
errors about misplaced words and the dispatch follow from what is here.
"""

from abc import ABC
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pyspark.sql import DataFrame

from sfumato.sql.plan.given import Given
from sfumato.sql.plan.nodes import Lines, Operation, at
from sfumato.sql.plan.sources import Frame, called
from sfumato.sql.text import syntax
from sfumato.sql.text.syntax import Relation
from sfumato.sql.text.words import Word
from sfumato.windows import Delta, Range, Rows

Window: TypeAlias = Rows | Range | Delta
FORGET = Word("FORGET", "duration", "forget_after")
"""After how long without a row a key begins anew."""
NAMED = Word("NAMED", "choice", "name")
"""What the operators of a construct are called in metrics."""
OF_OPERATORS = (FORGET.word, NAMED.word)
"""Words of a bracket that say nothing of its window."""


class Bracket(ABC):
    """A construct in brackets after a table, `s [ROWS 500 CONFIDENCE 95%]`.

    words : those it takes; the first asks for it
    kind : "time", "count" or "value" for a window, "" for what is none
    """

    words: Sequence[Word]
    kind = ""

    @property
    def word(self) -> str:
        """The word that asks for it."""
        return self.words[0].word

    @property
    def asked_by(self) -> Sequence[str]:
        """All words that do."""
        return (self.word,)

    def frame(self, given: Given, *, answered: bool) -> Frame:
        """What the rows become; `given.frame` as it is where they stay the same.

        answered : whether an aggregate, a ranking or a join follows, which takes rows in order
        """
        assert given.frame is not None
        return given.frame

    def window(self, given: Given) -> tuple[Window | None, list[str]]:
        """The window over the frame, and the columns it goes by."""
        return None, []


@dataclass(frozen=True)
class FunctionBracket(Bracket):
    """A bracket that is one call of a function from frame to frame.

    function : called with the frame and the words' arguments by name
    title : what EXPLAIN calls it, of the arguments;  lines : what EXPLAIN says, of the arguments
    """

    words: Sequence[Word]
    function: Callable[..., DataFrame]
    title: Callable[[dict[str, Any]], str]
    lines: Callable[[dict[str, Any]], Lines] = field(default=lambda arguments: [])

    def frame(self, given: Given, *, answered: bool) -> Frame:
        frame = given.frame
        assert frame is not None
        arguments = given.arguments()
        df = given.call(lambda: self.function(frame.df, **arguments))
        said = tuple(self.lines(arguments))
        step = Operation(frame.step, self.title(arguments), said, named=arguments.get("name", ""))
        return Frame(df, step)


@dataclass
class Brackets:
    """All of them. The first is meant where no word asks for another."""

    listed: list[Bracket]

    def given(
        self, relation: Relation, text: str, frame: Frame | None = None
    ) -> tuple[Bracket, Given] | None:
        """The construct of a relation's bracket, and its words; None where it has no bracket.

        Raises SqlError for words that do not belong together.
        """
        node = relation.bracket
        if node is None:
            return None
        bracket = self._asked(node, text)
        return bracket, Given(node.options, bracket.words, node, text, called(relation), frame)

    def _asked(self, node: syntax.Bracket, text: str) -> Bracket:
        """The construct that a bracket is. Raises SqlError for words of several."""
        asked = [b for b in self.listed if any(map(node.get, b.asked_by))]
        if len(asked) > 1:
            words = {word for b in asked[:2] for word in b.asked_by}
            later = max((o for o in node.options if o.word in words), key=lambda o: o.start)
            raise at(text, later, _exclusive(*asked[:2]))
        bracket = asked[0] if asked else self.listed[0]
        own = {word.word for word in bracket.words}
        for option in node.options:
            if option.word not in own:
                raise at(text, option, self._misplaced(option.word, bracket))
        return bracket

    def _misplaced(self, word: str, bracket: Bracket) -> str:
        homes = [b for b in self.listed if word in [w.word for w in b.words]]
        home = homes[0].word
        if not bracket.kind:
            hint = f"FROM (SELECT * FROM s [{bracket.word} ...]) [{home} ...]"
            return f"{word} belongs to a window: take {bracket.word} in a subquery first, {hint}"
        if homes[0] is self.listed[0]:
            hint = "reorder in a subquery first, FROM (SELECT * FROM s [WATTR ...]) "
            hint += f"[{bracket.word} ...]"
            return f"{word} orders by time and has no meaning in a {bracket.word} window: {hint}"
        return f"{word} belongs to a {home} window, and this one has no {home}"


def _exclusive(one: Bracket, other: Bracket) -> str:
    plain = next((b for b in (one, other) if not b.kind), None)
    if plain is None:
        words = f"{one.word} and {other.word}"
        return f"a window is by time, by count or by a value: {words} exclude each other"
    subquery = f"FROM (SELECT * FROM s [{plain.word} ...]) [...]"
    return f"{plain.word} is no window: take it in a subquery first, {subquery}"
