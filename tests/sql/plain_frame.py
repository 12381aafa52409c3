"""A frame of which only the names of its columns are known: what parsing needs, without Spark."""

from __future__ import annotations

from types import SimpleNamespace


def plain_frame(*columns):
    return SimpleNamespace(df=SimpleNamespace(columns=list(columns)), attributes=[], step=None)
