"""Rewriting a query by replacing spans of the user's text; all else stays letter by letter."""


class Edits:
    """Replacements of spans of one script, none of which overlap, in any order.

    Braces are what `spark.sql(text, name=df)` finds its frames by, so those of the user are
    doubled while our own, in the replacements, are not.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._edits: list[tuple[int, int, str]] = []

    def replace(self, start: int, end: int, by: str) -> None:
        """Put `by` in place of the text from `start` to just before `end`."""
        self._edits.append((start, end, by))

    def insert(self, place: int, what: str) -> None:
        """Put `what` before the character at `place`."""
        self._edits.append((place, place, what))

    def remove(self, start: int, end: int) -> None:
        """Leave the text from `start` to just before `end` out, and every edit within it."""
        self._edits = [e for e in self._edits if not (start <= e[0] and e[1] <= end)]
        self._edits.append((start, end, ""))

    def changes_within(self, start: int, end: int) -> bool:
        """Whether a part of the text from `start` to `end`, and not all of it, is replaced."""
        return any(start <= s and e <= end and (s, e) != (start, end) for s, e, _ in self._edits)

    def render(self, start: int, end: int, *, braces: bool) -> str:
        """The text from `start` to `end` with its replacements; braces doubled if asked for."""
        parts, place = [], start
        inside = [edit for edit in self._edits if start <= edit[0] and edit[1] <= end]
        for first, last, by in sorted(inside, key=lambda edit: edit[:2]):
            parts += [self._kept(place, first, braces), by]
            place = last
        return "".join([*parts, self._kept(place, end, braces)])

    def _kept(self, start: int, end: int, braces: bool) -> str:
        kept = self.text[start:end]
        return kept.replace("{", "{{").replace("}", "}}") if braces else kept
