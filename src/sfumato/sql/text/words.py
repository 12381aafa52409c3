"""The words of our constructs, and the grammar that follows from them.

A word gives one argument of a function: `CONFIDENCE 95%` is `confidence=0.95`. `grammar.lark` says
where words can stand (in a bracket, after SIMILARITY JOIN, in the options of IMPUTE); which they
are, the registered constructs say.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

PLACES = {"bracket": "window_option", "join": "join_option", "impute": "impute_option"}
"""Where words can stand, and the grammar's rule of what stands there."""
PATTERNS = {
    "ORDER": r'"order"i /\b/ (_GAP /by\b/i)?',  # ORDER BY is the same word
    "NOTHING": r"/(?!)x/",  # stands for words where only the rest of the grammar is wanted
}
OWN = re.compile(r"\b(numbers?|fraction|duration|choice)\b")  # rules that joins have their own of


@dataclass(frozen=True)
class Word:
    """One word of a construct.

    word : as messages spell it, upper case
    shape : what follows it, in rules of `grammar.lark`: "number", "numbers" (one, or several in
        parentheses), "fraction", "duration", "name" (a column), "names" (columns), "choice" (a word
        that the function knows), "" for nothing, ...
    argument : the function's argument that it gives; "": the construct itself reads it
    constant : the argument's value where nothing follows
    default : for a column, the one that is taken without the word, if the table has it
    needed : whether the construct must have it
    repeated : whether it may be given several times
    """

    word: str
    shape: str = ""
    argument: str = ""
    constant: Any = None
    default: str | None = None
    needed: bool = False
    repeated: bool = False


Vocabulary: TypeAlias = Mapping[str, Sequence[Word]]
"""The words that can stand at each of `PLACES`."""


def fragment(vocabulary: Vocabulary) -> str:
    """The rules and terminals of all words, to follow `grammar.lark`.

    Raises ValueError for a word that two constructs at one place let different things follow.
    """
    lines, terminals = [], set()
    for place, rule in PLACES.items():
        shapes: dict[str, str] = {}
        for word in vocabulary.get(place, ()) or [Word("NOTHING")]:
            if shapes.setdefault(word.word, word.shape) != word.shape:
                raise ValueError(
                    f"{word.word} is followed by {shapes[word.word]!r} in one construct and by "
                    f"{word.shape!r} in another: choose another word"
                )
        if place == "join":
            shapes = {word: OWN.sub(r"join_\1", shape) for word, shape in shapes.items()}
        alternatives = [
            f"{word} {shape} -> option".replace("  ", " ") for word, shape in shapes.items()
        ]
        lines.append(f"{rule}: " + "\n    | ".join(alternatives))
        terminals |= set(shapes)
    for name in sorted(terminals):
        lines.append(f"{name}.5: " + PATTERNS.get(name, rf"/{name.lower()}\b/i"))
    return "\n".join(lines) + "\n"
