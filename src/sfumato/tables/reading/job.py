"""Jobs (an operator, its input frames, and the columns of its result), unions, and their origins.

A frame of uncertain rows that no operator created is a source. An operator writes the sources of
its answers to the metadata of their columns. Selections and filters keep this metadata, so a join
recognises readings that both of its sides contain. Filters of rows are not recorded: two selections
of one source may have different rows, so they are not known to share readings. Filters of
alternatives are recorded, because two of them may keep parts of the same tuples.
"""

from __future__ import annotations

import json
import re
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations, count
from typing import Any
from uuid import uuid4

from sfumato.tables.operator import TableConfig
from sfumato.tables.reading.frame import (
    ADDED_COLUMN,
    FILTERED,
    WEIGHTED,
    WORLDS,
    Frame,
    require_same_worlds,
)
from sfumato.tables.reading.results import Output, with_metadata
from sfumato.tables.reading.rows import Reading
from sfumato.tables.reading.tuples import ALTERNATIVES
from sfumato.tables.reading.user_warnings import (
    ASSUMED_KEY,
    GAPS_KEY,
    REPEATED_KEY,
    SHARED_KEY,
)

# Functions that return rows of their input, with other columns
ROW_FUNCTIONS = ("reorder", "impute", "earlier_values")
KEPT_METADATA = (ADDED_COLUMN, WEIGHTED, WORLDS)  # of a union's column that has it in both frames
NO_TYPE = {"null", "void"}  # types of columns without values
ORIGINS_KEY = "sfumato.origins"  # metadata: the `Origins` of a result's rows
DRAWS_KEY = "sfumato.draws"  # metadata: JSON object with the `Origins` of each draw of the rows
_PROCESS = uuid4().hex
_FRAME_NUMBERS = count()
_FRAME_NAMES: dict[int, str] = {}  # of frames that still exist, by the id of the object
_ANSWERS: set[int] = set()  # ids of the objects that an operator returned and that still exist


@dataclass(frozen=True)
class Origins:
    """The sources of a frame's rows.

    combined_by : the operator call whose answers combine several readings; "" if there is none
    sources : by name of a source, whether all of its rows are known to be included
    """

    combined_by: str
    sources: Mapping[str, bool]

    @property
    def metadata(self) -> dict[str, str]:
        return {ORIGINS_KEY: json.dumps(asdict(self))}


def _new_name() -> str:
    return f"{_PROCESS}.{next(_FRAME_NUMBERS)}"


def _name_of(given: Any) -> str:
    """Return the name of a frame's object; the name stays the same as long as the object exists."""
    if id(given) not in _FRAME_NAMES:
        _FRAME_NAMES[id(given)] = _new_name()
        weakref.finalize(given, _FRAME_NAMES.pop, id(given), None)
    return _FRAME_NAMES[id(given)]


def remember_answers(given: Any) -> None:
    """Remember, as long as the object exists, that it contains all answers of an operator."""
    if id(given) not in _ANSWERS:
        _ANSWERS.add(id(given))
        weakref.finalize(given, _ANSWERS.discard, id(given))


def remember_converted(answers: Any, converted: Any) -> None:
    """Remember `converted`, a conversion of `answers`, if the answers are remembered."""
    if id(answers) in _ANSWERS:
        remember_answers(converted)


def _source_name(frame: Frame) -> str:
    same = frame.semantic_hash
    return _name_of(frame.user_object) if same is None else f"{_PROCESS}.plan {same}"


def _read_origins(text: str) -> Origins:
    """Read the metadata. Raises ValueError for other text, such as text in a damaged file."""
    try:
        found = Origins(**json.loads(text))
        return replace(found, sources={str(name): bool(of) for name, of in found.sources.items()})
    except (TypeError, ValueError, AttributeError):
        raise ValueError(
            f"the metadata `{ORIGINS_KEY}` of a column must name the sources of its rows; got "
            f"{text!r:.80}. Remove this metadata from the column"
        ) from None


def origins_of(frame: Frame) -> Origins | None:
    """Return the origins of a frame's rows; None for certain rows of a source."""
    texts = (of.get(ORIGINS_KEY) for of in frame.all_metadata)
    text = next((text for text in texts if text is not None), None)
    if text is None:
        return None if frame.certain else Origins("", {_source_name(frame): True})
    found = _read_origins(text)
    if found.combined_by or id(frame.user_object) in _ANSWERS:
        return found
    # Its rows were perhaps filtered, so the frame is also a separate source.
    return replace(
        found, sources={**dict.fromkeys(found.sources, False), _source_name(frame): True}
    )


def draw_metadata(frame: Frame, source: str, ids: Sequence[str]) -> dict[str, str]:
    """Return the metadata of rows drawn from a frame. source, ids : the arguments of the draw"""
    origins = origins_of(frame)
    if origins is None:
        return {}
    draw = json.dumps([source, *ids, origins.combined_by])
    return {DRAWS_KEY: json.dumps({draw: origins.metadata[ORIGINS_KEY]})}


def _draws_of(frame: Frame) -> dict[str, str]:
    """Return the origins of a frame's draws, as in its metadata; empty for rows without a draw."""
    texts = (of.get(DRAWS_KEY) for of in frame.all_metadata)
    return json.loads(next((text for text in texts if text is not None), "{}"))


def _common_draws(frames: Sequence[Frame]) -> dict[str, str]:
    """Return the metadata about all draws of several frames."""
    draws = {draw: origins for frame in frames for draw, origins in _draws_of(frame).items()}
    return {DRAWS_KEY: json.dumps(draws)} if draws else {}


def draw_readings_apart(one: Frame, other: Frame) -> bool:
    """Return whether two frames are known to contain the same readings, drawn independently."""
    draws = _draws_of(one), _draws_of(other)
    return any(
        a != b and _contain_same_sources(_read_origins(x), _read_origins(y))
        for a, x in draws[0].items()
        for b, y in draws[1].items()
    )


def imputed_origins(frame: Frame) -> Origins:
    """Return the origins of a frame's rows, which are uncertain once their gaps are imputed."""
    return origins_of(frame) or Origins("", {_source_name(frame): True})


def filtered_metadata(frame: Frame, by: str) -> dict[str, str]:
    """Return the metadata of a frame's alternatives after a filter. by : describes the filter"""
    origins = origins_of(frame)
    assert origins is not None, "uncertain rows have a source"
    return {
        **frame.metadata(ALTERNATIVES),
        FILTERED: by if frame.filtered_by is None else f"{frame.filtered_by}; {by}",
        **origins.metadata,
    }


@dataclass(frozen=True)
class Input:
    """A frame, and how an operator reads it.

    about : other parts of the query that the fingerprint includes, as JSON values
    computed : by name in `reading`, columns that only the frame's engine computes, with their types
    bucket : positions of the keys that assign rows to operators; None for all keys
    light : whether the operator is cheap enough to use the coarser buckets of upstream operators
    """

    frame: Frame
    reading: Reading
    about: Mapping[str, Any] = field(default_factory=dict)
    computed: Mapping[str, Any] = field(default_factory=dict)
    bucket: Sequence[int] | None = None
    light: bool = False


@dataclass(frozen=True)
class Job:
    """An operator over frames.

    function : name of the public function in messages
    metrics : the part of metric names between `sfumato_` and `name`
    name : the user's name in metric names; None for a number
    idle_timeout : microseconds without rows after which `idle` is called; streams only
    order : the columns of the single frame that order answers, for a later operator in the same
        step; () if answers have no order; None if no later operator can run in the same step
    has_late_rows : whether answers include late rows, which are out of order
    imputes : whether the operator imputes missing values, so that certain rows become uncertain
    """

    function: str
    metrics: str
    name: str | None
    inputs: Sequence[Input]
    config: TableConfig
    outputs: Sequence[Output]
    idle_timeout: int | None = None
    order: Sequence[str] | None = None
    has_late_rows: bool = False
    imputes: bool = False

    def with_origins(self) -> Job:
        """Return the job with the sources of its uncertain input rows in its outputs' metadata."""
        frames = [one.frame for one in self.inputs]
        origins = _combined(
            [imputed_origins(of) if self.imputes else origins_of(of) for of in frames]
        )
        metadata = _common_draws(frames)
        if origins is not None and self.function not in ROW_FUNCTIONS:
            origins = replace(origins, combined_by=_new_name())
        metadata |= {} if origins is None else origins.metadata
        return replace(self, outputs=[with_metadata(of, metadata) for of in self.outputs])

    @property
    def shares_readings(self) -> bool:
        frames = [one.frame for one in self.inputs]
        return any(_share_readings(*pair, self.imputes) for pair in combinations(frames, 2))

    @property
    def draws_readings_apart(self) -> bool:
        frames = [one.frame for one in self.inputs]
        return any(draw_readings_apart(*pair) for pair in combinations(frames, 2))


def _combined(given: Sequence[Origins | None]) -> Origins | None:
    """Return the origins of the rows of several frames; None if all are None."""
    found = [of for of in given if of is not None]
    if not found:
        return None
    sources: dict[str, bool] = {}
    for origins in found:
        for name, whole in origins.sources.items():
            sources[name] = whole or sources.get(name, False)
    calls = {of.combined_by for of in found}
    return Origins(calls.pop() if len(calls) == 1 else _new_name(), sources)


def _share_readings(one: Frame, other: Frame, imputed: bool = False) -> bool:
    """Return whether two frames are known to contain the same uncertain readings.

    imputed : whether the operator imputes the frames' rows
    """
    if one.is_assumed_independent or other.is_assumed_independent:
        return False
    if not imputed and (one.certain or other.certain):
        return False
    a, b = (imputed_origins(frame) for frame in (one, other))
    filtered = one.filtered_by or other.filtered_by
    alike = a.combined_by == b.combined_by and (not filtered or {*a.sources} & {*b.sources})
    if alike and one.shares_rows_with(other):
        return True
    if a.combined_by and a.combined_by == b.combined_by:
        return one.shares_extents_with(other)
    return _contain_same_sources(a, b)


def _contain_same_sources(a: Origins, b: Origins) -> bool:
    """Return whether rows with these origins are known to contain the same readings."""
    if a.combined_by and a.combined_by == b.combined_by:
        return False  # different answers of one operator, as far as is known
    both = [(whole, b.sources[name]) for name, whole in a.sources.items() if name in b.sources]
    # All rows of a source share readings with each of its answers, but not with each of its rows.
    known = any if a.combined_by or b.combined_by else all
    return any(known(pair) for pair in both)


def check_union(df: Frame, other: Frame) -> None:
    for argument, frame in (("df", df), ("other", other)):
        if frame.has_controller_metadata:
            raise ValueError(
                f"`{argument}` is in order of event time, but a union is not: apply sf.reorder to "
                "the union, with a `source` column if the frames arrive at a different pace"
            )
    missing = {*df.columns} ^ {*other.columns}
    if missing:
        name = min(missing)
        side = "df" if name in df.columns else "other"
        raise ValueError(
            f"`df` and `other` must have the same columns; only `{side}` has `{name}`: drop it, or "
            "add it to the other frame"
        )
    for name in df.columns:
        texts = {_type_text(df, name), _type_text(other, name)} - NO_TYPE
        if len(texts) > 1:
            raise TypeError(
                f"column `{name}` must have the same type in both frames; got {df.type_name(name)} "
                f"in `df` and {other.type_name(name)} in `other`: convert one of them"
            )
    require_same_worlds((df, other))


def _type_text(frame: Frame, name: str) -> str:
    """Return a column's type, without the names of elements and whether values may be NULL."""
    return re.sub(r"(list<)\w+: | not null", r"\1", frame.type_name(name))


def union_metadata(
    frames: Sequence[Frame], columns: Iterable[Sequence[str]]
) -> list[dict[str, Any]]:
    """Return the metadata of a union's columns. columns : the name of each in every frame"""
    pairs = list(combinations(frames, 2))
    shared = next((rows for of in frames if (rows := of.describe_shared())), None)
    if shared is None and any(_contain_same_readings(*pair) for pair in pairs):
        shared = "rows of a union whose parts contain the same readings"
    marks = {} if shared is None else {SHARED_KEY: shared}
    for key in (REPEATED_KEY, GAPS_KEY, *(() if shared else (ASSUMED_KEY,))):
        given = (of[key] for frame in frames for of in frame.all_metadata if of.get(key))
        if (value := next(given, None)) is not None:
            marks[key] = value
    if (origins := _combined([*map(origins_of, frames)])) is not None:
        marks |= origins.metadata
    marks |= _common_draws(frames)
    if any(a.certain and b.certain and a.shares_rows_with(b) for a, b in pairs):
        marks.setdefault(REPEATED_KEY, "rows of a union whose parts contain the same rows")
    filters = "; ".join(by for frame in frames if (by := frame.filtered_by))
    found = []
    for names in columns:
        all_of = [frame.metadata(name) for frame, name in zip(frames, names, strict=True)]
        first = all_of[0]
        kept = {key: first[key] for key in KEPT_METADATA if all(key in of for of in all_of)}
        filtered = {FILTERED: filters} if filters and names[0] == ALTERNATIVES else {}
        found.append({**kept, **marks, **filtered})
    return found


def _contain_same_readings(one: Frame, other: Frame) -> bool:
    """Return whether a union of two frames is known to contain parts of one reading twice."""
    if _share_readings(one, other):
        return True
    assumed = one.is_assumed_independent or other.is_assumed_independent
    if assumed or not (one.filtered_by or other.filtered_by):
        return False
    a, b = origins_of(one), origins_of(other)
    return a is not None and b is not None and bool({*a.sources} & {*b.sources})
