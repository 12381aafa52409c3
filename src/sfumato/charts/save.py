"""Write a picture to a file."""

from pathlib import Path
from typing import Any

PIXELS_PER_INCH = 144
KINDS = (".html", ".png", ".svg")


def save(chart: Any, path: str | Path) -> Path:
    """Write a chart to `path`; its ending says how.

    .html : a page on its own, which needs no network;  .png, .svg : an image
    Returns the path. Raises ValueError for other endings.
    """
    path = Path(path)
    if path.suffix not in KINDS:
        raise ValueError(f"`path` must end in {', '.join(KINDS)}; got {path.name!r}")
    if path.suffix == ".html":
        chart.save(str(path), inline=True)
    elif path.suffix == ".png":
        chart.save(str(path), ppi=PIXELS_PER_INCH)
    else:
        chart.save(str(path))
    return path
