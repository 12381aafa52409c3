"""`sfumato init`: write a first pipeline file for a file, a folder of files or a topic."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from io import BytesIO
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.json import read_json

from sfumato.cli.pipeline.model import PipelineError
from sfumato.cli.pipeline.permissions import CONNECTORS

SUFFIXES = {".json": "json", ".jsonl": "json", ".csv": "csv", ".parquet": "parquet"}
ISO_TIME = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?$"
NULL_KIND = type(None).__name__
SAMPLE_ROWS = 1000  # rows used to infer the columns
DEAD_LETTERS = '# dead_letters = "undecodable"          # a table of undecodable records\n'
TYPES = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_integer, "bigint"),
    (pa.types.is_floating, "double"),
    (pa.types.is_timestamp, "timestamp"),
    (pa.types.is_date, "date"),
    (pa.types.is_binary, "binary"),
)


def first_file(place: str, folder: Path) -> str:
    """Return the text of a pipeline file in `folder` that reads a file, a folder or a topic."""
    if place.startswith("kafka:"):
        return _of_topic(place)
    path = Path(place)
    if not path.exists():
        raise PipelineError(f"no such file or folder: {place}")
    if path.is_file():
        _, columns = _columns(path)
        lines: dict[str, object] = {"replay": str(path.resolve()), "rows_per_batch": 1000}
        times = [name for name, kind in columns.items() if kind == "timestamp"]
        return _file(path.stem, lines | ({"order": times[-1]} if times else {}), columns)
    found = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES)
    if not found:
        raise PipelineError(f"folder {place} has no {', '.join(SUFFIXES)} file")
    form, columns = _columns(found[0], skip_unreadable=True)
    ddl = ", ".join(f"{_quoted(name)} {kind}" for name, kind in columns.items())
    whole = path.resolve()
    place = str(whole.relative_to(folder) if whole.is_relative_to(folder) else whole)
    lines = {"format": form, "path": place, "schema": ddl}
    if form == "csv":
        lines["options"] = {"header": True, "escape": '"'}  # a quote within quotes is doubled
    return _file(path.resolve().name, lines, columns, DEAD_LETTERS if form == "json" else "")


def _of_topic(place: str) -> str:
    parts = urlsplit(place)
    topic = parts.path.strip("/")
    if not parts.netloc or not topic or "/" in topic:
        raise PipelineError(f"a topic must be written as kafka://HOST:PORT/TOPIC; got {place}")
    lines = {
        "format": "kafka",
        "options": {
            "kafka.bootstrap.servers": parts.netloc,
            "subscribe": topic,
            "startingOffsets": "earliest",
        },
    }
    spark = f"\n[spark]\npackages = [{_value(CONNECTORS['kafka'])}]\n"
    hint = (
        '# value = "json"                        # decode values: name their columns\n'
        f'# schema = "id string, t timestamp"\n{DEAD_LETTERS}'
    )
    query = "SELECT CAST(value AS STRING) AS value, partition, timestamp FROM"
    return _file(topic, lines, {}, hint, query) + spark


def _columns(file: Path, skip_unreadable: bool = False) -> tuple[str, dict[str, str]]:
    """Return the format of a file, and its columns with Spark types."""
    form = SUFFIXES.get(file.suffix.lower())
    if form is None:
        raise PipelineError(f"the name of {file} must end with one of {', '.join(SUFFIXES)}")
    try:
        if form == "json" and skip_unreadable:
            sample = _readable_lines(file)
        else:
            sample = ds.dataset(file, format=form).head(SAMPLE_ROWS)
        schema = _with_times(sample)
    except (pa.ArrowInvalid, OSError) as error:
        raise PipelineError(f"cannot read {file} as {form}: {error}") from None
    return form, {field.name: _type(field.type) for field in schema}


def _readable_lines(file: Path) -> pa.Table:
    """Return the JSON objects among the first lines; Spark makes other lines dead letters.

    Objects that have a value of an unusual type are left out.
    """
    with file.open("rb") as lines:
        found = [(line, _object(line)) for line in islice(lines, SAMPLE_ROWS)]
    kinds = Counter((name, _kind(value)) for _, of in found for name, value in of.items())
    usual: dict[str, str] = {}
    for (name, kind), _ in kinds.most_common():
        if kind != NULL_KIND:
            usual.setdefault(name, kind)
    readable = (
        line
        for line, of in found
        if of and all(_kind(of[name]) in (usual.get(name), NULL_KIND) for name in of)
    )
    return read_json(BytesIO(b"".join(readable)))


def _object(line: bytes) -> dict[str, object]:
    """Return the JSON object in a line, or an empty object."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _kind(value: object) -> str:
    return "float" if type(value) is int else type(value).__name__


def _with_times(table: pa.Table) -> pa.Schema:
    """Return the schema; string columns with only ISO 8601 times become timestamps."""
    schema = table.schema
    for i, field in enumerate(schema):
        if pa.types.is_string(field.type):
            texts = table.column(i).drop_null()
            like = pc.match_substring_regex(texts, ISO_TIME)
            if len(texts) and pc.all(like).as_py():
                schema = schema.set(i, field.with_type(pa.timestamp("us")))
    return schema


def _type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"array<{_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        inner = ", ".join(f"{field.name}: {_type(field.type)}" for field in kind)
        return f"struct<{inner}>"
    return next((name for is_it, name in TYPES if is_it(kind)), "string")


def _file(
    name: str,
    lines: Mapping[str, object],
    columns: Mapping[str, str],
    hint: str = "",
    query: str = "SELECT * FROM",
) -> str:
    name = re.sub(r"\W", "_", name)
    name = f"s_{name}" if not name or name[0].isdigit() else name
    written = "".join(f"{key} = {_value(value)}\n" for key, value in lines.items())
    answers = "answers" if name.lower() != "answers" else "answers_2"
    return (
        f'checkpoint = "{name}-state"\n\n[sources.{name}]\n{written}{hint}\n'
        f'[queries.{answers}]\nsql = """\n{_suggestions(name, columns)}{query} {name}\n"""\n\n'
        f"[sinks.screen]                          # add format and path to keep the rows\n"
        f'query = "{answers}"\n'
    )


def _suggestions(name: str, columns: Mapping[str, str]) -> str:
    """Return SQL comments with the next queries to try, if two columns are timestamps."""
    first = {kind: _quoted(column) for column, kind in reversed([*columns.items()])}
    times = [_quoted(column) for column, kind in columns.items() if kind == "timestamp"]
    if len(times) < 2:
        return ""
    order = f"WATTR {times[0]} ARRIVAL {times[1]} DRATIO 1%"
    found = f"-- in order of event time, 1% late:\n-- SELECT * FROM {name} [{order}]\n"
    if "double" in first and "string" in first:
        found += (
            f"-- means of five minutes:\n-- SELECT {first['string']}, window.start, "
            f"AVG({first['double']}) AS mean\n-- FROM {name} [RANGE 5 MINUTES {order}]\n"
            f"-- GROUP BY {first['string']}\n"
        )
    return found


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else f"`{name}`"


def _value(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_value(k)} = {_value(v)}" for k, v in value.items()) + " }"
    return json.dumps(value)
