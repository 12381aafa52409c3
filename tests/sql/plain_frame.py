"""A frame with known column names only, which is enough for parsing without Spark."""

from types import SimpleNamespace


def plain_frame(*columns):
    return SimpleNamespace(df=SimpleNamespace(columns=list(columns)), attributes=[], step=None)
