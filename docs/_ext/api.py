"""The reference of public names: one page per name, built from its signature and docstring.

```{api} reorder split_late
```

on a page lists the names with their summaries, and links to a page `functions/NAME.md`, which is
written when the site is built. It contains the signature, a table of parameters with their
defaults, returns, errors, notes and examples, followed by the details of `notes/NAME.md` if there
is such a file. A reference to one of the library's papers links to the page of papers.
"""

import importlib
import inspect
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

BLOCK = re.compile(r"^```\{api\} (.*)\n(?::module: (\S+)\n)?```$", re.MULTILINE)
ARGUMENT = re.compile(r"^([a-z_][\w, .]*?) : (.*)$")
SECTIONS = ("Parameters", "Returns", "Raises", "Notes", "References", "Examples")
PAPERS = "/papers.md"
MORE = re.compile(r"^More: page (\S+) of the documentation\.$", re.MULTILINE)
PAPER = re.compile(
    r"(Dallachiesa et al\. \(2015\)|Lian and Chen \(2009\)|Kim et al\. \(2006\)|"
    r"Chen et al\. \(2013\)|Ren et al\. \(2019\))"
)
ENTRY = re.compile(r"[A-Z][^()]*\(\d{4}\)")
NOTES = Path(__file__).resolve().parents[1] / "reference" / "notes"


def public(name: str, home: str) -> Any:
    """Return the object with a public name."""
    found = getattr(importlib.import_module(home), name)
    return getattr(found, name) if inspect.ismodule(found) else found  # sf.sql is also a package


def page(name: str, home: str) -> str:
    """Return the page of one public name: a directive of the Python domain with its docstring."""
    found = public(name, home)
    title = f"{home}.{name}".replace("sfumato.", "sf.", 1)
    kind = "class" if inspect.isclass(found) else "function"
    inner = "\n".join(markdown(inspect.getdoc(found) or "", found))
    if kind == "class":
        methods = [
            _directive(
                "method",
                f"{method}{signature(member)}",
                "\n".join(markdown(inspect.cleandoc(doc))),
                ":::::",
            )
            for method, member in vars(found).items()
            if not method.startswith("_") and callable(member) and (doc := member.__doc__)
        ]
        inner = "\n\n".join([inner, *methods])
    text = _directive(kind, f"{home}.{name}{signature(found)}", inner)
    return f"# {title}\n\n{text}{details(name)}"


def details(name: str) -> str:
    """Return a function's hand-written details without their title.

    Their links stay valid because both folders are at the same depth.
    """
    notes = NOTES / f"{name}.md"
    return notes.read_text("utf-8").partition("\n")[2] if notes.is_file() else ""


def write_pages(app: Any) -> None:
    """Write the pages of the names on the page of functions, and remove other pages."""
    index = Path(app.srcdir) / "reference" / "functions.md"
    folder = index.with_suffix("")
    folder.mkdir(exist_ok=True)
    pages = {
        f"{name}.md": page(name, home or "sfumato")
        for names, home in BLOCK.findall(index.read_text("utf-8"))
        for name in names.split()
    }
    for path in folder.glob("*.md"):
        if path.name not in pages:
            path.unlink()
    for name, text in pages.items():
        path = folder / name
        if not path.is_file() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")


def table_of_parameters(section: list[str], found: Any) -> list[str]:
    """Return a table of a numpydoc section `Parameters`: name, default and meaning."""
    try:
        known = inspect.signature(found).parameters
    except (TypeError, ValueError):
        known = {}
    starts = [i for i, line in enumerate(section) if line[:1].strip()]
    lines = ["| parameter | default | meaning |", "|---|---|---|"]
    for start, end in pairwise([*starts, len(section)]):
        given, _, typed = section[start].partition(" : ")
        names = given.split(", ")
        if "..." in names and {names[0], names[-1]} <= set(known):  # all from the first to the last
            order = list(known)
            names = order[order.index(names[0]) : order.index(names[-1]) + 1]
        defaults = {n: known[n].default for n in names if n in known}
        shown = [
            f"`{default!r}`" if len(names) == 1 else f"`{n}={default!r}`"
            for n, default in defaults.items()
            if default is not inspect.Parameter.empty and not callable(default)
        ]
        meaning = " ".join([typed, *(line.strip() for line in section[start + 1 : end])]).strip()
        cells = [", ".join(f"`{n}`" for n in names), ", ".join(shown), linked(meaning)]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return ["", *lines, ""]


def _directive(kind: str, what: str, inside: str, fence: str = "::::::") -> str:
    return f"{fence}{{py:{kind}}} {what}\n\n{inside}\n{fence}\n"


def signature(of: Any) -> str:
    """Return the arguments with their defaults; types are in the docstring."""
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


def markdown(doc: str, found: Any = None) -> list[str]:
    """Convert a docstring to lines of Markdown.

    Section titles become rubrics, parameters a table, errors definitions, and `>>>` code.
    """
    lines: list[str] = []
    argument = code = False
    section = ""
    parameters: list[str] = []
    given = [*doc.splitlines(), ""]
    for line, following in zip(given, [*given[1:], ""], strict=True):
        text = line.strip()
        if section == "Parameters" and line not in SECTIONS:
            if text and text != "-" * len(section):
                parameters.append(line)
            continue
        if parameters:
            lines += table_of_parameters(parameters, found)
            parameters = []
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
        if section == "References" and text:
            text = re.sub(r"https://\S+", r"<\g<0>>", PAPER.sub(rf"[\g<1>]({PAPERS})", text))
            lines.append(f"- {text}" if ENTRY.match(line) else f"  {text}")
            continue
        listed = ARGUMENT.match(line)
        is_listed = section == "Raises" and following.startswith("    ")
        if listed:
            lines += ["", f"`{listed[1]}`", f": {linked(listed[2])}"]
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
    if parameters:
        lines += table_of_parameters(parameters, found)
    return lines


def linked(line: str) -> str:
    """Link `More:` to its page, and escape stars.

    `More:` is left out if it refers to a function's details, which are on the same page.
    """
    line = re.sub(r"(?<![`*])\*(?!`)", r"\\*", line) if "`" not in line else line
    return MORE.sub(
        lambda m: "" if m[1].startswith("reference/functions/") else f"More: [{m[1]}](/{m[1]}.md)",
        line,
    )


class Api(SphinxDirective):
    """A table of the given names, each with its summary and a link to its page."""

    required_arguments = 1
    final_argument_whitespace = True
    option_spec = {"module": str}

    def run(self) -> list[nodes.Node]:
        home = self.options.get("module", "sfumato")
        names = self.arguments[0].split()
        lines = ["| name | what it does |", "|---|---|"]
        for name in names:
            first = (inspect.getdoc(public(name, home)) or "").partition("\n\n")[0]
            meaning = linked(" ".join(first.split())).replace("|", r"\|")
            lines.append(f"| [`{name}`](functions/{name}.md) | {meaning} |")
        pages = "\n".join(f"functions/{name}" for name in names)
        lines += ["", "```{toctree}", ":hidden:", "", *pages.splitlines(), "```"]
        box = nodes.container()
        self.state.nested_parse(StringList(lines, source="api"), 0, box)
        return box.children


def setup(app: Any) -> dict[str, Any]:
    app.add_directive("api", Api)
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
