"""Suggestions for misspelled words."""

import difflib
from collections.abc import Iterable


def near(word: str, words: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the closest element of `words`, or None if none is close enough."""
    by_lower = {w.lower(): w for w in words}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[close[0]] if close else None


def did_you_mean(word: str, words: Iterable[str], cutoff: float = 0.6) -> str:
    """Return a suggestion to append to an error about the unknown name `word`, or ""."""
    if word.lower() == "null":
        return "; a condition tests for NULL with IS NULL"
    likely = near(word, words, cutoff)
    return f"; did you mean `{likely}`?" if likely else ""
