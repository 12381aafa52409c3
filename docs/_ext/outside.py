"""Links to Markdown files outside the folder of pages.

README.md is the site's first page; other files are offered as downloads. GitHub follows
`../README.md` and `../CONTRIBUTING.md`, but the site has no such pages.
"""

import os
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

ROOT = Path(__file__).resolve().parents[2]


class OutsideLinks(SphinxTransform):
    """A transform of references to Markdown files outside the folder of pages."""

    default_priority = 8  # before references are resolved and broken ones are reported

    def apply(self, **_: Any) -> None:
        for node in list(self.document.findall(addnodes.pending_xref)):
            if node.get("refdomain") != "doc":
                continue
            path = Path(self.env.srcdir, f"{node['reftarget'].lstrip('/')}.md")
            outside = Path(f"{node['reftarget']}.md")
            path = outside if outside.is_file() else path
            if path == ROOT / "README.md":
                node["reftarget"] = "index"
            elif path.is_file() and not path.is_relative_to(self.env.srcdir):
                node.replace_self(self._download(node, path))

    def _download(self, node: addnodes.pending_xref, path: Path) -> nodes.Node:
        here = Path(self.env.doc2path(self.env.docname)).parent
        name = os.path.relpath(path, here)
        return addnodes.download_reference(
            "", "", *node.children, refdoc=self.env.docname, reftarget=name, refexplicit=True
        )


def setup(app: Any) -> dict[str, Any]:
    app.add_transform(OutsideLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
