"""Railroad diagrams of the language, drawn from the grammar that parses it.

```{railroad} bracket
```

draws one of the diagrams of `drawn()`. The words of brackets, joins and imputation are read from
the constructs, so that new words appear in the diagrams automatically.
"""

import io
import re
from typing import Any

import railroad
from docutils import nodes
from railroad import Choice, Diagram, NonTerminal, OneOrMore, Optional, Sequence, Stack, Terminal
from sphinx.util.docutils import SphinxDirective

SHAPES = {
    "number": "number",
    "numbers": "numbers",
    "fraction": "ratio",
    "duration": "duration",
    "name": "column",
    "names": "columns",
    "choice": "name",
}
"""Names, for readers, of the values that follow a word."""


def words(place: str) -> Any:
    """Return a loop over the words that are allowed at a place."""
    from sfumato.language.planner import VOCABULARY

    found: dict[str, str] = {}
    for word in VOCABULARY.get(place, ()):
        found.setdefault(word.word, word.shape)
    items = [
        Sequence(Terminal(word), *(NonTerminal(of) for of in shaped(shape)))
        for word, shape in sorted(found.items())
    ]
    return OneOrMore(Choice(0, *items))


def shaped(shape: str) -> list[str]:
    return [SHAPES.get(part, part) for part in re.findall(r"[a-z_]+", shape)]


def name(text: str) -> Any:
    return NonTerminal(text)


def word(text: str) -> Any:
    return Terminal(text)


def drawn() -> dict[str, Any]:
    """Return the diagrams by name."""
    return {
        "table": Stack(
            Sequence(
                Choice(0, name("name"), name("(query)")),
                Optional(name("bracket"), "skip"),
                Optional(Sequence(Optional(word("AS"), "skip"), name("alias")), "skip"),
            ),
            Sequence(Optional(name("bracket"), "skip"), Optional(name("imputation"), "skip")),
        ),
        "bracket": Sequence(word("["), words("bracket"), word("]")),
        "join": Stack(
            Sequence(name("table"), word("SIMILARITY JOIN"), name("table")),
            Sequence(word("ON"), word("("), OneOrMore(name("attribute"), word(",")), word(")")),
            words("join"),
        ),
        "imputation": Stack(
            Sequence(word("IMPUTE"), word("("), OneOrMore(name("attribute"), word(",")), word(")")),
            Sequence(word("FROM"), name("repository"), word("BY")),
            OneOrMore(name("'dependency'"), word(",")),
            Optional(Sequence(word("["), words("impute"), word("]")), "skip"),
        ),
        "ranking": Stack(
            Sequence(
                word("SELECT"), word("TOP"), name("k"), OneOrMore(name("column"), word(",")),
                word("FROM"), name("table"),
            ),
            Sequence(
                word("RANK BY"), name("score"),
                Optional(Choice(0, word("DESC"), word("ASC")), "skip"),
                Optional(Sequence(word("USING"), name("semantics")), "skip"),
            ),
            Sequence(
                Optional(Sequence(word("RULES"), name("column")), "skip"),
                word("FREQUENCY"), name("duration"),
            ),
        ),
    }  # fmt: skip


def svg(what: str) -> str:
    """Return a diagram as SVG, in the colours of the page."""
    out = io.StringIO()
    Diagram(drawn()[what], type="complex").writeSvg(out.write)
    return f'<div class="railroad">{out.getvalue()}</div>'


class Railroad(SphinxDirective):
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        railroad.INTERNAL_ALIGNMENT = "left"
        return [nodes.raw("", svg(self.arguments[0]), format="html")]


def setup(app: Any) -> dict[str, Any]:
    app.add_directive("railroad", Railroad)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
