"""Write a picture to a file."""

from pathlib import Path
from typing import Any

KINDS: dict[str, dict[str, Any]] = {".html": {"inline": True}, ".png": {"ppi": 144}, ".svg": {}}
"""How a picture is written, by the file's ending."""


def save(chart: Any, path: str | Path) -> Path:
    """Write a chart to `path`; its ending says how.

    .html : a page on its own, which needs no network;  .png, .svg : an image
    Returns the path. Raises ValueError for other endings.
    """
    path = Path(path)
    if path.suffix not in KINDS:
        raise ValueError(f"`path` must end in {', '.join(KINDS)}; got {path.name!r}")
    chart.save(str(path), **KINDS[path.suffix])
    return path
