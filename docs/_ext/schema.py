"""Tables of keys, built from the JSON schema of pipeline files.

```{schema} sources
```

lists the keys of one part of the file; without a name, the keys of the file itself.
"""

import json
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

SCHEMA = Path(__file__).resolve().parents[1] / "pipeline.schema.json"


def section(schema: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the table of keys of a part."""
    part = schema["properties"][name] if name else schema
    part = part.get("additionalProperties") or part  # [sources.NAME], ...
    reference = part.get("$ref", "").rpartition("/")[2]
    return schema["$defs"][reference] if reference else part


def kind(of: dict[str, Any]) -> str:
    """Describe a key's value."""
    if "enum" in of:
        return " or ".join(f'`"{value}"`' for value in of["enum"])
    found = of.get("type", "")
    if found == "array":
        return f"list of {kind(of['items'])}s"
    words = {"string": "text", "integer": "integer", "object": "table", "boolean": "`true`"}
    if isinstance(found, list):
        return ", ".join(words.get(one, one) for one in found)
    return words.get(found, found)


def markdown(part: dict[str, Any]) -> str:
    needed = set(part.get("required", ()))
    lines = ["| key | value | meaning |", "|---|---|---|"]
    for key, of in part["properties"].items():
        said = of.get("description", "see below").replace("|", "\\|")
        mark = " (needed)" if key in needed else ""
        lines.append(f"| `{key}`{mark} | {kind(of)} | {said} |")
    return "\n".join(lines)


class Schema(SphinxDirective):
    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(SCHEMA))
        name = self.arguments[0] if self.arguments else ""
        text = markdown(section(json.loads(SCHEMA.read_text()), name))
        box = nodes.container()
        self.state.nested_parse(StringList(text.splitlines(), source="schema"), 0, box)
        return box.children


def setup(app: Any) -> dict[str, Any]:
    app.add_directive("schema", Schema)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
