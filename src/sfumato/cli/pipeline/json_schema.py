"""The JSON schema of a pipeline file, for editors, from the keys that the reader knows."""

from typing import Any

from sfumato.cli.pipeline import keys
from sfumato.cli.pipeline.keys import Key
from sfumato.cli.pipeline.section import NAME


def json_schema() -> dict[str, Any]:
    """What an editor offers, explains and checks; `sfumato check` checks more."""
    properties = {key.name: _key(key) for key in keys.TOP}
    properties["spark"] = _table(keys.SPARK, "the session that runs the pipeline")
    for kind, variants in keys.TABLES.items():
        tables = [_table(variant, "", keys.NEEDED.get(kind, ())) for variant in variants]
        one = tables[0] if len(tables) == 1 else {"anyOf": tables}
        properties[kind] = {
            "type": "object",
            "patternProperties": {f"^{NAME.pattern}$": one},
            "additionalProperties": False,
        }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "sfumato pipeline",
        "type": "object",
        "properties": properties,
        "required": ["sources", "sinks"],
        "additionalProperties": False,
    }


def _table(allowed: tuple[Key, ...], about: str, needed: tuple[str, ...] = ()) -> dict[str, Any]:
    table: dict[str, Any] = {
        "type": "object",
        "properties": {key.name: _key(key) for key in allowed},
        "additionalProperties": False,
    }
    if about:
        table["description"] = about
    if needed:
        table["required"] = list(needed)
    return table


def _key(key: Key) -> dict[str, Any]:
    chosen = {"enum": list(key.choices)} if key.choices else {}
    return {"description": key.about, **key.kind.schema, **chosen}
