"""The sources of uncertain rows, by which joins recognise readings that both sides contain.

A frame that no operator created is a source. An operator writes the sources of its answers to the
metadata of their columns, which selections and filters keep. A filter cannot be seen, so two
selections of one source are not known to share readings: they may select different rows.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count
from typing import Any
from uuid import uuid4

from sfumato.tables.reading.frame import Frame
from sfumato.tables.reading.results import Output

ORIGINS_KEY = "sfumato.origins"
_PROCESS = uuid4().hex
_NUMBERS = count()
_NAMES: dict[int, str] = {}  # of sources and answers that still exist, by the id of the frame


@dataclass(frozen=True)
class Origins:
    """The sources of a frame's rows.

    combined_by : the operator call whose answers combine several readings; "" if there is none
    sources : by name of a source, whether all of its rows are known to be included
    """

    combined_by: str
    sources: Mapping[str, bool]


def remember_frame(given: Any) -> str:
    """Return the name of a frame's object, which it keeps as long as it exists."""
    if id(given) not in _NAMES:
        _NAMES[id(given)] = f"{_PROCESS}.{next(_NUMBERS)}"
        weakref.finalize(given, _NAMES.pop, id(given), None)
    return _NAMES[id(given)]


def remember_converted(answers: Any, converted: Any) -> None:
    """Remember a frame as the answers that it was converted from, if these are remembered."""
    if id(answers) in _NAMES and converted is not answers:
        remember_frame(converted)


def _source_name(frame: Frame) -> str:
    same = frame.semantic_hash
    return remember_frame(frame.given) if same is None else f"{_PROCESS}.plan {same}"


def origins_of(frame: Frame) -> Origins | None:
    """Return the origins of a frame's rows; None for certain rows of a source."""
    texts = (frame.metadata(name).get(ORIGINS_KEY) for name in frame.columns)
    text = next((text for text in texts if text is not None), None)
    if text is None:
        return None if frame.certain else Origins("", {_source_name(frame): True})
    found = Origins(**json.loads(text))
    if found.combined_by or id(frame.given) in _NAMES:
        return found
    return replace(found, sources=dict.fromkeys(found.sources, False))  # perhaps filtered


def with_origins(
    outputs: Sequence[Output], frames: Sequence[Frame], combines: bool
) -> list[Output]:
    """Return an operator's outputs with the sources of its uncertain input frames.

    combines : whether an answer may combine several input rows
    """
    found = [origins for origins in map(origins_of, frames) if origins is not None]
    if not found:
        return [*outputs]
    sources: dict[str, bool] = {}
    for one in found:
        for name, whole in one.sources.items():
            sources[name] = whole or sources.get(name, False)
    by = f"{_PROCESS}.{next(_NUMBERS)}" if combines else found[0].combined_by
    mark = {ORIGINS_KEY: json.dumps(asdict(Origins(by, sources)))}
    return [replace(of, metadata={**(of.metadata or {}), **mark}) for of in outputs]


def share_readings(one: Frame, other: Frame) -> bool:
    """Return whether two frames of uncertain rows are known to contain the same readings."""
    if one.certain or other.certain or one.is_assumed_independent or other.is_assumed_independent:
        return False
    a, b = (origins_of(frame) for frame in (one, other))
    assert a is not None, "uncertain rows have a source"
    assert b is not None, "uncertain rows have a source"
    if a.combined_by == b.combined_by and one.has_rows_of(other):
        return True
    if a.combined_by and a.combined_by == b.combined_by:
        return False  # different answers of one operator, as far as is known
    both = [(whole, b.sources[name]) for name, whole in a.sources.items() if name in b.sources]
    # All rows of a source share readings with each of its answers, but not with each of its rows.
    known = any if a.combined_by or b.combined_by else all
    return any(known(pair) for pair in both)
