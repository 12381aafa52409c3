"""The word that a wrong one most likely stands for."""

import difflib
from collections.abc import Iterable


def near(word: str, words: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The one of `words` that `word` most likely stands for, or None if none is close.

    cutoff : how close, from 0 to 1 for the same. Case does not count.
    O(number of words); for error messages only.
    """
    by_lower = {w.lower(): w for w in words}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[close[0]] if close else None


def did_you_mean(word: str, words: Iterable[str], cutoff: float = 0.6) -> str:
    """The end of an error about `word`: the likely one of `words`, if there is one."""
    likely = near(word, words, cutoff)
    return f"; did you mean `{likely}`?" if likely else ""
