"""The columns of a result: fixed names in an operator's answers, user names in the result.

Fixed names prevent conflicts between user names and the operator's own names.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.operators.arrays import offsets_of
from sfumato.tables.arrow import as_array
from sfumato.tables.reading.frame import EXISTENCE, Frame
from sfumato.tables.reading.tuples import ALTERNATIVES
from sfumato.tables.reading.types import is_list, lengths_of
from sfumato.tables.reading.user_warnings import ASSUMED_KEY, REPEATED_KEY, SHARED_KEY


@dataclass(frozen=True)
class OutputField:
    """A struct field, see `Output`. fixed : its name in the answers, if it differs from `name`"""

    name: str
    kind: Any
    fixed: str | None = None
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Struct:
    parts: tuple[OutputField, ...]


@dataclass(frozen=True)
class ListOf:
    kind: Any


@dataclass(frozen=True)
class Output:
    """A column of a result.

    name : name in the result
    source : fixed name in the answers, optionally followed by struct fields
    kind : its type: an Arrow type, a type of the frame, `Struct` or `ListOf`
    default : replaces NULL    cast : the frame's type in the result; None for `kind`
    """

    name: str
    source: tuple[str, ...]
    kind: Any
    metadata: Mapping[str, Any] | None = None
    default: Any = None
    cast: Any = None


def passthrough_outputs(
    frame: Frame,
    names: Sequence[str],
    of: str | None = None,
    *,
    prefix: str = "c",
    taken: Sequence[str] = (),
) -> list[Output]:
    """Return the outputs for columns that pass through an operator.

    of : the struct in the answers that contains them; None if they are columns of the answers
    prefix : prefix of their numbered fixed names
    taken : names of other result columns, see `rename_taken`
    """
    outer = () if of is None else (of,)
    return [
        Output(title, (*outer, f"{prefix}{i}"), frame.type(name), frame.metadata(name))
        for i, (title, name) in enumerate(zip(rename_taken(names, taken), names, strict=True))
    ]


def row_of(frame: Frame, names: Sequence[str]) -> Struct:
    """Return the struct type of a frame's columns; without columns, it has one constant field."""
    parts = [
        OutputField(name, frame.type(name), f"c{i}", frame.metadata(name))
        for i, name in enumerate(names)
    ]
    return Struct(tuple(parts) or (OutputField("col1", pa.int32(), "c0"),))


def row_marks(frame: Frame) -> dict[str, str]:
    """Return the marks of a frame's columns, for the struct of its columns in a result.

    Rows that are assumed to be independent have no marks.
    """
    found: dict[str, str] = {}
    for key in () if frame.is_assumed_independent else (SHARED_KEY, REPEATED_KEY):
        rows = [of[key] for of in frame.all_metadata if of.get(key)]
        found |= {key: max(rows)} if rows else {}
    return found


def extent_type(time: Any, order: Mapping[str, Any] | None = None) -> Struct:
    """Return the type of extents. order : the metadata of both ends, as users may select them"""
    return Struct(tuple(OutputField(name, time, metadata=order) for name in ("start", "end")))


def mark_shared(
    outputs: Sequence[Output], shared: str | None, own: Collection[str | None] = (EXISTENCE,)
) -> list[Output]:
    """Mark a result's rows as sharing tuples, in every column, because users may drop columns.

    shared : describes the rows, "" for certain rows; None for rows that share no tuples
    own : columns that get an empty mark, because they describe the uncertainty of their row alone
    """
    if shared is None:
        return [*outputs]
    return [with_metadata(of, {SHARED_KEY: "" if of.name in own else shared}) for of in outputs]


def mark_repeated(outputs: Sequence[Output], rows: str, once: Collection[str] = ()) -> list[Output]:
    """Mark the columns of a result whose values may be in several of its rows.

    rows : describes the rows    once : columns without a mark, such as keys
    """
    return [of if of.name in once else with_metadata(of, {REPEATED_KEY: rows}) for of in outputs]


def with_metadata(output: Output, added: Mapping[str, str]) -> Output:
    """Add metadata to a column of a result and to its fields, because users may select fields.

    A new mark of shared rows replaces an assumption about the rows from which they were computed.
    """

    def add(part: Any) -> Any:
        kept = dict(part.metadata or {})
        if {SHARED_KEY, REPEATED_KEY} & {*added}:
            kept.pop(ASSUMED_KEY, None)
        return replace(part, metadata={**kept, **added})

    kind = output.kind
    if isinstance(kind, Struct):
        kind = Struct(tuple(map(add, kind.parts)))
    return add(replace(output, kind=kind))


def world_outputs(frame: Frame, side: str) -> list[Output]:
    """Return the world column from the struct of a side's columns; empty without drawn worlds."""
    if frame.worlds is None:
        return []
    name = frame.worlds[0]
    columns = [column for column in frame.columns if column != ALTERNATIVES]
    source = (side, f"c{columns.index(name)}")
    return [Output(name, source, frame.type(name), frame.metadata(name))]


def alternatives_type(*sides: Iterable[OutputField]) -> ListOf:
    """Return the type of alternatives: `prob`, and the attributes of a row or of both sides."""
    return ListOf(
        Struct((OutputField("prob", pa.float64()), *(part for side in sides for part in side)))
    )


def rename_taken(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Append the smallest free number to each name that is `taken`, ignoring case.

    >>> rename_taken(["a", "Held", "held_1"], ["held"])
    ['a', 'Held_2', 'held_1']
    """
    known = {name.lower() for name in taken}
    used = known | {name.lower() for name in names}
    out = []
    for name in names:
        free = name
        if name.lower() in known:
            numbered = (f"{name}_{n}" for n in range(1, len(used) + 2))
            free = next(other for other in numbered if other.lower() not in used)
            used.add(free.lower())
        out.append(free)
    return out


ResultColumn = tuple[tuple[str, ...], pa.Field]  # source, see `Output`, and field of the result


def result_table(answers: Sequence[pa.Table], columns: Sequence[ResultColumn]) -> pa.Table:
    schema = pa.schema([field for _, field in columns])
    parts = [
        pa.table([cast_renamed(at_path(table, of), field.type) for of, field in columns], schema)
        for table in answers
        if table.num_rows
    ]
    return pa.concat_tables(parts) if parts else schema.empty_table()


def at_path(table: pa.Table, path: Sequence[str]) -> pa.Array:
    array = as_array(table.column(path[0]))
    for name in path[1:]:
        array = pc.struct_field(array, name)
    return array


def cast_renamed(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast an array to a type of the same shape, whose fields may have different names."""
    if array.type.equals(kind, check_metadata=True):
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), kind)
    if pa.types.is_run_end_encoded(array.type):
        return cast_renamed(pc.run_end_decode(array), kind)
    mask = array.is_null() if array.null_count else None
    if pa.types.is_struct(kind):
        fields = zip(array.flatten(), kind, strict=True)
        cells = [cast_renamed(cell, field.type) for cell, field in fields]
        return pa.StructArray.from_arrays(cells, fields=list(kind), mask=mask)
    if is_list(kind):
        offsets = pa.array(offsets_of(lengths_of(array)), pa.int32())
        flat = cast_renamed(array.flatten(), kind.value_type)
        return pa.ListArray.from_arrays(offsets, flat, type=kind, mask=mask)
    if pa.types.is_dictionary(array.type):
        values = cast_renamed(array.dictionary, kind)
        return pa.DictionaryArray.from_arrays(array.indices, values).dictionary_decode()
    if pa.types.is_decimal(kind) and pa.types.is_floating(array.type):
        array = array.cast(pa.string())  # decimals of 15 digits are exact, as in Spark
    # Times are truncated to microseconds, as in Spark.
    return array.cast(kind, safe=not (pa.types.is_timestamp(kind) or pa.types.is_duration(kind)))
