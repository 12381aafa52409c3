"""The reference of public names, made of their signatures and docstrings.

```{api} reorder split_late
```

gives each name's signature and its docstring: paragraphs, the sections of numpydoc, arguments also
as `name : meaning`, and examples after `>>>`. `References:` (authors and year) and `Source:` (a
letter) link to the page of papers.
"""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

ARGUMENT = re.compile(r"^(?!Source)([a-z_][\w, .]*?) : (.*)$")
SECTIONS = ("Parameters", "Returns", "Raises", "Notes", "References", "Examples")
PAPERS = "/papers.md"


def described(name: str, home: str = "sfumato") -> str:
    """Markdown of one public name: a directive of the Python domain with its docstring."""
    of = getattr(importlib.import_module(home), name)
    of = getattr(of, name) if inspect.ismodule(of) else of  # sf.sql is a package, too
    inner = "\n".join(markdown(inspect.getdoc(of) or ""))
    if not inspect.isclass(of):
        return _directive("function", f"{home}.{name}{signature(of)}", inner)
    methods = [
        _directive("method", f"{method}{signature(member)}", "\n".join(markdown(doc)), ":::::")
        for method, member in vars(of).items()
        if not method.startswith("_") and (doc := inspect.getdoc(member)) and callable(member)
    ]
    return _directive("class", f"{home}.{name}{signature(of)}", "\n\n".join([inner, *methods]))


def _directive(kind: str, what: str, inside: str, fence: str = "::::::") -> str:
    return f"{fence}{{py:{kind}}} {what}\n\n{inside}\n{fence}\n"


def signature(of: Any) -> str:
    """The arguments with their defaults; types are said in the docstring."""
    try:
        found = inspect.signature(of)
    except (TypeError, ValueError):
        return "()"
    arguments = [
        p.replace(annotation=inspect.Parameter.empty)
        for p in found.parameters.values()
        if p.name not in ("self", "cls")
    ]
    plain = found.replace(parameters=arguments, return_annotation=inspect.Signature.empty)
    return re.sub(r"<function (\w+) at [^>]*>|<[^>]*>", r"...", str(plain))


def markdown(doc: str) -> list[str]:
    """Return a docstring as lines of Markdown.

    Titles of sections become rubrics, arguments and errors definitions, and `>>>` code.
    """
    lines: list[str] = []
    argument = code = False
    section = ""
    given = [*doc.splitlines(), ""]
    for line, following in zip(given, [*given[1:], ""], strict=True):
        text = line.strip()
        if section and text == "-" * len(section):
            continue
        if line in SECTIONS and following == "-" * len(line):
            section, argument = line, False
            lines += ["", f"```{{rubric}} {line}", "```", ""]
            continue
        if text.startswith(">>>") and not code:
            code = True
            lines += ["", "```pycon"]
        if code:
            if text:
                lines.append(text if text.startswith((">>>", "...")) else line)
                continue
            code = False
            lines += ["```", ""]
            continue
        found = ARGUMENT.match(line)
        is_listed = section in ("Parameters", "Raises") and following.startswith("    ")
        if found:
            lines += ["", f"`{found[1]}`", f": {linked(found[2])}"]
            argument = True
        elif is_listed and line[:1].strip():
            lines += ["", f"`{line}`"]
            argument = True
        elif argument and line.startswith(" ") and lines[-1].startswith("`"):
            lines.append(f": {linked(text)}")
        elif argument and line.startswith(" "):
            lines.append(f"  {linked(text)}")
        else:
            if argument:
                lines.append("")
            argument = False
            lines.append(linked(line))
    return lines


def linked(line: str) -> str:
    """Link `References:` and `Source:` to the page of papers, and escape stars."""
    line = re.sub(r"(?<![`*])\*(?!`)", r"\\*", line) if "`" not in line else line
    return re.sub(r"^(References|Source):|(?<= )(Source):", _to_papers, line)


def _to_papers(found: re.Match[str]) -> str:
    return f"[{found[1] or found[2]}]({PAPERS}):"


class Api(SphinxDirective):
    """The names that follow, each with signature and docstring."""

    required_arguments = 1
    final_argument_whitespace = True
    option_spec = {"module": str}

    def run(self) -> list[nodes.Node]:
        home = self.options.get("module", "sfumato")
        text = "\n".join(described(name, home) for name in self.arguments[0].split())
        box = nodes.container()
        self.state.nested_parse(StringList(text.splitlines(), source="api"), 0, box)
        return box.children


def setup(app: Any) -> dict[str, Any]:
    app.add_directive("api", Api)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
