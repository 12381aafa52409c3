"""A user's table as an Arrow table: its schema, expressions, and uncertain event times.

The metadata of Arrow schemas contains the order of a table's rows and the counters of operators. A
pandas frame stores the metadata in `attrs`, which pandas keeps through selections and filters. For
a Polars frame, this module stores the metadata as long as the frame exists.
"""

from __future__ import annotations

import base64
import json
import sys
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.limits import alternatives_bound_in_memory
from sfumato.tables.arrow import as_array, as_numbers
from sfumato.tables.reading.expressions import ColumnRef, Expression, parse_expression
from sfumato.tables.reading.extents import spread_over_extents
from sfumato.tables.reading.frame import (
    EXISTENCE,
    GROUPED_BY,
    PAIR_COLUMNS,
    SEVERAL_ROWS,
    Frame,
    ReadExpression,
)
from sfumato.tables.reading.results import cast_renamed
from sfumato.tables.reading.rows import Values
from sfumato.tables.reading.ties import ties_of
from sfumato.tables.reading.tuples import ALTERNATIVES, UncertainTable
from sfumato.tables.reading.types import (
    has_more_digits,
    is_bytes,
    is_list,
    is_text,
    spark_type,
)
from sfumato.tables.reading.user_warnings import (
    ASSUMED_KEY,
    EQUAL_EXTENTS,
    GAPS_KEY,
    PAIRS,
    REPEATED_KEY,
    SHARED_KEY,
    UNMARKED,
    warn_user,
)
from sfumato.tables.reading.worlds import WORLD
from sfumato.windows import Range

ATTRS = "sfumato"  # key of the result's Arrow schema (in base64) in the attrs of a pandas frame
_SCHEMAS_OF_POLARS: dict[int, pa.Schema] = {}  # by the id of a frame that this package returned


def convert_like(given: Any, found: Any) -> Any:
    """Convert an Arrow table, or a tuple of tables, to the library of the table `given`."""
    back = {"pandas": as_pandas, "Polars": as_polars}.get(library_of(given))
    if back is None:
        return found
    return tuple(map(back, found)) if isinstance(found, tuple) else back(found)


def library_of(given: Any) -> str:
    """Return "pandas" or "Polars" for a frame of this library, otherwise ""; imports neither."""
    for library in ("pandas", "Polars"):
        loaded = sys.modules.get(library.lower())
        if loaded is not None and isinstance(given, loaded.DataFrame):
            return library
    return ""


def as_pandas(table: pa.Table) -> Any:
    pandas = sys.modules["pandas"]
    # Objects instead of float64 for integers with NULL, so that integers above 2^53 stay exact
    frame = table.to_pandas(ignore_metadata=True, integer_object_nulls=True)
    for name, column in zip(table.column_names, table.columns, strict=True):
        whole = pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)
        if whole and column.null_count:
            kind = "boolean" if pa.types.is_boolean(column.type) else "Int64"
            frame[name] = pandas.array(column.to_pylist(), dtype=kind)
    frame.attrs[ATTRS] = base64.b64encode(table.schema.serialize().to_pybytes()).decode()
    return frame


def as_polars(table: pa.Table) -> Any:
    frame = sys.modules["polars"].from_arrow(table)
    _SCHEMAS_OF_POLARS[id(frame)] = table.schema
    weakref.finalize(frame, _SCHEMAS_OF_POLARS.pop, id(frame), None)
    return frame


def schema_of(given: Any) -> pa.Schema | None:
    """Return the schema of a table, or of the result from which a frame was converted, or None."""
    library = library_of(given)
    if library == "Polars":
        return _SCHEMAS_OF_POLARS.get(id(given))
    if not library:
        return given.schema
    text = given.attrs.get(ATTRS)
    return None if text is None else pa.ipc.read_schema(pa.BufferReader(base64.b64decode(text)))


def with_metadata(table: pa.Table, earlier: pa.Schema) -> pa.Table:
    """Restore the earlier types and metadata of columns; other columns are unchanged.

    A column whose values now have a different kind of type was replaced by the user.
    """
    columns, fields = [], []
    for field, column in zip(table.schema, table.columns, strict=True):
        known = earlier.field(field.name) if field.name in earlier.names else field
        known = known if _is_kept(field.type, known.type) else field
        cells = column
        if not known.type.equals(field.type, check_metadata=True):
            try:
                cells = column.cast(known.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                known = field  # a different column with this name
        columns.append(cells)
        fields.append(known)
    return pa.table(columns, schema=pa.schema(fields, earlier.metadata))


SCALAR_KINDS: Sequence[Callable[[pa.DataType], bool]] = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_duration,
    lambda kind: pa.types.is_timestamp(kind) and kind.tz is None,
    lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None,
    is_text,
    is_bytes,
)


def _is_form_of(found: pa.DataType, known: pa.DataType) -> bool:
    """Return whether a library may have returned values of the type `known` with type `found`."""
    if found == known or pa.types.is_null(found) or pa.types.is_map(known):
        return True
    if is_list(known) and is_list(found):
        return _is_form_of(found.value_type, known.value_type)
    if pa.types.is_struct(known) and pa.types.is_struct(found):
        parts, same = {part.name: part.type for part in found}, {part.name for part in known}
        return {*parts} == same and all(_is_form_of(parts[of.name], of.type) for of in known)
    return any(of(found) and of(known) for of in SCALAR_KINDS)


def _is_kept(found: pa.DataType, known: pa.DataType) -> bool:
    """Return whether a column may be unchanged; libraries keep the width of floating numbers.

    Numbers inside lists of dicts have no width.
    """
    floating = pa.types.is_floating(found) and pa.types.is_floating(known)
    return _is_form_of(found, known) and not (floating and found.bit_width > known.bit_width)


PLAUSIBLE_SECONDS = (946_684_800, 4_102_444_800)  # 2000-01-01 and 2100-01-01, seconds since 1970
PANDAS = b"pandas"  # key of the metadata that pandas adds to a schema


class ArrowFrame(Frame):
    """A table with the types that Spark would have, and unique names.

    dropped_by : the library of the frame, if it dropped the metadata; otherwise ""
    earlier : the schema of the result from which a pandas or Polars frame was converted; the
        frame's columns may have changed since
    """

    noun, filtered = "table", "a filter on it"
    ungroupable = "rows cannot be grouped by column {}: convert it to text or to a struct"
    of_text = ": convert text with pandas.to_datetime"

    def __init__(
        self,
        table: pa.Table,
        dropped_by: str = "",
        given: Any = None,
        earlier: pa.Schema | None = None,
    ) -> None:
        self.table = table
        self.dropped_by, self.earlier = dropped_by, earlier
        self.user_object = table if given is None else given
        self.schema: pa.Schema = table.schema
        self.columns: list[str] = table.column_names

    def with_mark(self, key: str, rows: str) -> ArrowFrame:
        """Return the frame with a mark in the metadata of its columns, unless one has the key."""
        if any(key in of for of in self.all_metadata):
            return self
        fields = [of.with_metadata({**(of.metadata or {}), key: rows}) for of in self.schema]
        return self._with_fields(fields)

    def _with_fields(self, fields: Sequence[pa.Field]) -> ArrowFrame:
        table = pa.table(self.table.columns, schema=pa.schema(fields, self.schema.metadata))
        return ArrowFrame(table, self.dropped_by, self.user_object, self.earlier)

    def with_lost_marks(self) -> ArrowFrame:
        """Return the frame with the marks of earlier columns, so that later answers have them."""
        marks = {}
        for key in (SHARED_KEY, REPEATED_KEY, ASSUMED_KEY, GAPS_KEY):
            rows = max((of[key] for of in self._lost_metadata if key in of), default="")
            if rows and not any(self.metadata(name).get(key) for name in self.columns):
                marks[key] = rows
        if not marks:
            return self
        fields = []
        for of in self.schema:
            added = dict(marks)
            if pa.types.is_floating(of.type) or is_list(of.type):
                added.pop(REPEATED_KEY, None)  # perhaps new probabilities, which are not repeated
            fields.append(of.with_metadata({**(of.metadata or {}), **added} or None))
        return self._with_fields(fields)

    def shares_rows_with(self, other: Any) -> bool:
        names = [name for name in self.tie_columns if name in other.tie_columns]
        names = [name for name in names if self.type(name) == other.type(name)]
        if self.filtered_by or other.filtered_by:
            names = [name for name in names if name != ALTERNATIVES]
            if not names:
                return True
        elif len(names) < 2 or not (self.certain or {ALTERNATIVES, EXISTENCE} & {*names}):
            return False
        hashes = [as_numbers(ties_of(frame.table.select(names))) for frame in (self, other)]
        few, many = sorted(hashes, key=len)
        # A few rows of two sources may be equal by chance.
        return few.size > 0 and np.isin(few, many).mean() >= 0.5

    def shares_extents_with(self, other: Any) -> bool:
        both = self.has_extents and other.has_extents
        return both and bool(np.isin(_extent_hashes(self), _extent_hashes(other)).any())

    @property
    def max_alternatives(self) -> int:
        return alternatives_bound_in_memory()

    def attribute_type(self, name: str, column: str = ALTERNATIVES) -> pa.DataType:
        return self.type(column).value_type.field(name).type

    def type(self, name: str) -> pa.DataType:
        return self.schema.field(name).type

    def arrow_type(self, kind: pa.DataType) -> pa.DataType:
        return kind

    def text_of(self, kind: pa.DataType) -> str:
        return str(kind)

    def metadata(self, name: str) -> dict[str, str]:
        return _decoded(self.schema.field(name))

    @property
    def all_metadata(self) -> list[Mapping[str, str]]:
        return [*super().all_metadata, *self._lost_metadata]

    @property
    def _lost_metadata(self) -> list[Mapping[str, str]]:
        """Return the metadata of earlier columns that the frame no longer has."""
        now = {name: self.type(name) for name in self.columns}
        return [_decoded(of) for of in self.earlier or () if now.get(of.name) != of.type]

    def _own_metadata(self, column: str) -> Mapping[str, str]:
        return self.metadata(column) if self.earlier is None else {}

    def has_more_digits(self, name: str) -> bool:
        return has_more_digits(self.table.column(name))

    def warn_of_time_unit(self, argument: str, name: str) -> None:
        if self.kind(name) != "whole":
            return
        seen = pc.min_max(self.table.column(name)).as_py()
        for unit, per_second in (("seconds", 1), ("milliseconds", 1_000)):
            first, last = (time * per_second for time in PLAUSIBLE_SECONDS)
            if seen["min"] is not None and first <= seen["min"] <= seen["max"] < last:
                factor = 1_000_000 // per_second
                warn_user(
                    f"column `{name}`, given as `{argument}`, is read as microseconds since 1970, "
                    f"but its values look like {unit} between 2000 and 2100: multiply them by "
                    f"{factor:,}, or convert the column to timestamps"
                )

    def keys(self, argument: str, given: str | Sequence[str] | None) -> list[str]:
        """Return the key columns; warn about drawn worlds that lost their metadata."""
        found = super().keys(argument, given)
        named_so = WORLD in self.columns and self.type(WORLD) == pa.int32()
        if self.dropped_by and named_so and WORLD not in found:
            warn_user(
                f"`{argument}` does not contain the column `{WORLD}`. If sf.draw_worlds created "
                f"this column, {self.dropped_by} has dropped its metadata: write "
                f"key={[*found, WORLD]}, because rows from different worlds never occur together"
            )
        return found

    def require_late(self, metadata: bool = True) -> None:
        """Raise ValueError even for a controller's flags if a library has dropped the metadata."""
        if self.dropped_by and self.has_punctuations and not self.has_controller_metadata:
            raise ValueError(
                "the rows have the columns `late` and `punctuation` of reorder, but not the "
                f"metadata that describes them: {self.dropped_by} dropped the metadata. "
                "Pass the result of reorder unchanged (sf.where keeps the metadata), use an Arrow "
                "table, or drop both columns"
            )
        super().require_late(metadata)

    def check_expression(self, argument: str, expression: str) -> None:
        self._parse(argument, expression)

    def expression_type(self, expression: str, argument: str = "") -> pa.DataType:
        values = self._values(expression, self.table.slice(0, 0))
        return pa.float64() if values is None or pa.types.is_null(values.type) else values.type

    def rounded_type(self, expression: str) -> str | None:
        values = self._values(expression, self.table)
        return str(values.type) if values is not None and has_more_digits(values) else None

    def computation(
        self, expressions: Sequence[ReadExpression]
    ) -> tuple[list[Values], dict[str, Any]]:
        parsed = ((of, self._parse(of.argument, of.text)) for of in expressions)
        return [Values(each, of.exact, of.hashed) for of, each in parsed], {}

    def _parse(self, argument: str | None, text: str) -> Expression:
        """Parse an expression. argument : its name in errors; None for a plain name"""
        named = text in (*self.attributes, *self.columns) and text.isidentifier()
        if argument is None or (named and text.lower() not in ("true", "false")):
            return ColumnRef((text,))  # without loading the parser
        return parse_expression(argument, text, self.quoting_hint(text))

    def _values(self, expression: str, rows: pa.Table) -> pa.Array | None:
        """Return the values of an expression; None if they cannot be computed."""
        try:
            return UncertainTable(rows).evaluate(self._parse("", expression))
        except (TypeError, ValueError):
            return None

    def by_extent(self, attribute: str, order: str, window: Range) -> ArrowFrame:
        row, last, lists = spread_over_extents(self.table, attribute, window)
        place = self.columns.index(ALTERNATIVES)
        rows = self.table.take(pa.array(row))
        rows = rows.set_column(place, pa.field(ALTERNATIVES, lists.type), lists)
        return ArrowFrame(rows.append_column(order, last), self.dropped_by)

    def with_true_extents(self, answers: pa.Table, window: Range) -> pa.Table:
        place = answers.column_names.index("window")
        field = answers.schema.field(place)
        end = as_array(answers.column("window")).field("end")
        whole = end.cast(pa.int64()).to_numpy(zero_copy_only=False)
        start = pa.array(whole - window.length_us, pa.int64()).cast(end.type)
        both = pa.StructArray.from_arrays([start, end], fields=list(field.type))
        return answers.set_column(place, field, both)


def frame_of(given: Any, argument: str = "df") -> ArrowFrame:
    """Return the frame of a pandas, Polars or Arrow table.

    Raises TypeError for other types, and ValueError for duplicate column names.
    """
    table, dropped_by, earlier = _as_table(given, argument)
    _check_names(table.column_names, argument)
    metadata = {k: v for k, v in (table.schema.metadata or {}).items() if k != PANDAS}
    known = [_as_in_spark(*of) for of in zip(table.schema, table.columns, strict=True)]
    schema = pa.schema([field for field, _ in known], metadata or None)
    table = pa.table([column for _, column in known], schema=schema)
    # Other objects with a stream of Arrow data may not support weak references.
    is_frame = isinstance(given, pa.Table) or library_of(given)
    frame = ArrowFrame(table, dropped_by, given if is_frame else None, earlier).with_lost_marks()
    uncertain = not frame.certain
    if dropped_by and _has_answers(schema):
        rows = PAIRS if {*frame.columns} >= PAIR_COLUMNS else UNMARKED
        return frame.with_mark(SHARED_KEY if uncertain else REPEATED_KEY, rows)
    if uncertain and frame.has_extents and _has_equal_extents(frame):
        return frame.with_mark(SHARED_KEY, EQUAL_EXTENTS)
    return frame


def _has_answers(schema: pa.Schema) -> bool:
    """Return whether there are columns of pairs, neighbours, rankings, windows or their results.

    Fields of structs may have become columns, such as `window.start`.
    """
    structs = defaultdict(set)
    for field in schema:
        if pa.types.is_struct(field.type):
            structs[field.name] = {part.name for part in field.type}
        name, _, part = field.name.partition(".")
        if part:
            structs[name].add(part)
    return (
        structs.keys() >= {"left", "right"}
        or {*schema.names} >= {"time", "rank", "score"}
        or structs.get("window") == {"start", "end"}
        or structs.get("neighbours", set()) >= {"mean", "stddev"}
        or any(fields >= {"mean", "stddev", "existence"} for fields in structs.values())
    )


def _has_equal_extents(frame: ArrowFrame) -> bool:
    """Return whether several answers have the same extent and key, as in a union of answers."""
    hashes = _extent_hashes(frame)
    return len(np.unique(hashes)) < len(hashes)


def _extent_hashes(frame: ArrowFrame) -> np.ndarray:
    """Return a hash of each answer's extent and key; empty if they are not known."""
    keys = json.loads(frame.metadata("window").get(GROUPED_BY, json.dumps([SEVERAL_ROWS])))
    if not {*keys} <= {*frame.columns}:
        return np.empty(0)
    ends = as_array(frame.table.column("window"))
    rows = frame.table.select(keys).append_column("", ends.field("start"))
    return as_numbers(ties_of(rows.append_column(" ", ends.field("end"))))


def _decoded(field: pa.Field) -> dict[str, str]:
    given = (field.metadata or {}).items()
    return {k.decode("utf-8", "replace"): v.decode("utf-8", "replace") for k, v in given}


def _as_table(given: Any, argument: str) -> tuple[pa.Table, str, pa.Schema | None]:
    """Return the table, the library if it dropped the metadata, and the schema of kept metadata.

    The schema belongs to the result from which a pandas frame was converted.
    """
    if isinstance(given, pa.Table):
        return given, "", None
    if library := library_of(given):
        _check_names(given.columns, argument)
        earlier, plain = schema_of(given), library == "pandas"
        table = _arrow_of(given, library, argument)
        if earlier is None:
            return table, library, None
        # A Polars frame with a known schema is unchanged.
        return with_metadata(table, earlier), "", earlier if plain else None
    if hasattr(given, "__arrow_c_stream__"):
        return pa.table(given), "", None
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given]), "", None
    hint = ". Collect it first" if type(given).__name__ == "LazyFrame" else ""
    raise TypeError(
        f"`{argument}` must be a Spark DataFrame, or a pandas, Polars or Arrow table (anything "
        f"with `__arrow_c_stream__`); got {type(given).__name__}{hint}"
    )


def _arrow_of(given: Any, library: str, argument: str) -> pa.Table:
    """Convert a pandas or Polars frame. Raises TypeError that names the column if it cannot be."""
    if library == "pandas":
        convert = partial(pa.Table.from_pandas, preserve_index=False)
    else:
        convert = type(given).to_arrow
    try:
        table = convert(given)
    except (pa.ArrowException, TypeError) as error:
        for name in given.columns:
            try:
                convert(given[[name]])
            except (pa.ArrowException, TypeError) as of_column:
                raise TypeError(_unusable(name, given[name].dtype, argument)) from of_column
        raise TypeError(f"`{argument}` cannot be converted to an Arrow table: {error}") from error
    for name in given.columns if library == "Polars" else ():
        if str(given[name].dtype) == "Object":
            raise TypeError(_unusable(name, "Object", argument))
    return table


def _unusable(name: str, kind: Any, argument: str) -> str:
    return (
        f"column `{name}` of `{argument}` cannot be used, because Arrow cannot store its values "
        f"(type {kind}): convert or drop the column"
    )


def _check_names(names: Iterable[Any], argument: str) -> None:
    counts = Counter(names)
    if wrong := [name for name in counts if not isinstance(name, str)]:
        raise TypeError(f"column names of `{argument}` must be strings; got {wrong[0]!r}")
    if twice := sorted(name for name, count in counts.items() if count > 1):
        raise ValueError(
            f"`{argument}` has several columns called {', '.join(twice)}: rename or drop some"
        )


def _as_in_spark(field: pa.Field, column: pa.ChunkedArray) -> tuple[pa.Field, pa.ChunkedArray]:
    """Return a column with a type that Spark has, without the metadata of categories."""
    name, given = field.name, column.type
    try:
        kind = spark_type(given)
    except TypeError as error:
        raise TypeError(
            f"column `{name}` cannot be used ({error}): convert or drop the column"
        ) from None
    if given != kind:
        try:
            column = pa.chunked_array([cast_renamed(as_array(column), kind)])
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise TypeError(
                f"column `{name}` is {given}, which cannot be converted to {kind}: {error}"
            ) from None
    coded = pa.types.is_dictionary(given)
    return (field.remove_metadata() if coded else field).with_type(kind), column
