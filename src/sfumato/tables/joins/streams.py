"""Several streams that are joined, each with each: what they must be."""

from __future__ import annotations

from collections.abc import Mapping

from sfumato.tables.reading.frame import Frame

STREAMS = ("left_stream", "right_stream")  # columns: the names of the two


def check_streams(streams: object, kind: str) -> None:
    """Raise TypeError for anything but a mapping of two streams or more; `kind` : what they are."""
    if isinstance(streams, Mapping) and len(streams) >= 2:
        return
    shape = f"a {type(streams).__name__}: give each a name"  # what came, without its rows
    if isinstance(streams, Mapping):
        shape = f"{len(streams)}: {', '.join(map(repr, streams))}"
    raise TypeError(
        f"`streams` must be a dict {{name: {kind}}} of at least two streams; got {shape}"
    )


def check_alike(streams: Mapping[str, Frame]) -> None:
    """Raise ValueError for streams of different columns."""
    first, one = next(iter(streams.items()))
    kinds = [(name, one.type(name)) for name in one.columns]
    for stream, other in streams.items():
        if [(name, other.type(name)) for name in other.columns] != kinds:
            raise ValueError(
                f"`streams` must have the same columns: `{first}` has {one.described}, "
                f"`{stream}` has {other.described}"
            )
