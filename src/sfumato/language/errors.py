"""What is wrong with a query, and where: the line, the column, the word, the likely word."""

from collections.abc import Iterable
from typing import Any

from lark import Token

from sfumato.language.syntax import Node, end_of, start_of

SHOWN = 8  # names listed in full before a message only counts the rest


class SqlError(ValueError):
    """A query that cannot be understood or run; nothing has been executed.

    The message shows the line with the offending words underlined. The same facts are attributes:
    `line` and `column` (both from 1), `word` (the offending text), `text_line` (its whole line),
    `reason`, `expected` (the words or values that would have been right, perhaps empty) and
    `suggestion` (the likely word of a near miss, or None).
    """

    def __init__(
        self,
        reason: str,
        *,
        text: str,
        start: int,
        end: int,
        expected: Iterable[str] = (),
        suggestion: str | None = None,
    ) -> None:
        self.reason = reason
        self.expected = tuple(expected)
        self.suggestion = suggestion
        start = min(start, len(text))
        line_start = text.rfind("\n", 0, start) + 1
        line_end = text.find("\n", start)
        line_end = len(text) if line_end < 0 else line_end
        self.line = text.count("\n", 0, start) + 1
        self.column = start - line_start + 1
        self.text_line = text[line_start:line_end].rstrip("\r")
        self.word = text[start:end]
        width = max(1, min(end, line_end) - start)
        super().__init__(self._message(width))

    def _message(self, width: int) -> str:
        # Tabs stay tabs, so that the marks stand under the word in any terminal.
        before = "".join("\t" if c == "\t" else " " for c in self.text_line[: self.column - 1])
        lines = [
            f"line {self.line}, column {self.column}: {self.reason}",
            f"    {self.text_line}",
            f"    {before}{'^' * width}",
        ]
        if self.expected:
            lines.append(f"expected {listed(self.expected)}")
        if self.suggestion is not None:
            lines.append(f"did you mean {self.suggestion}?")
        return "\n".join(lines)


def listed(words: Iterable[str]) -> str:
    """Return `a`, `a or b` or `a, b or c`; a long list is cut and counted."""
    shown = list(words)
    if len(shown) > SHOWN:
        return f"{', '.join(shown[:SHOWN])} or one of {len(shown) - SHOWN} more"
    if len(shown) < 2:
        return "".join(shown)
    return f"{', '.join(shown[:-1])} or {shown[-1]}"


def at(text: str, node: Node | Token, reason: str, **more: Any) -> SqlError:
    """Return a SqlError about a node or word."""
    return SqlError(reason, text=text, start=start_of(node), end=end_of(node), **more)
