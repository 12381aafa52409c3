"""Style shared by all charts: colour-blind-safe colours, fonts, axes, file formats."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

# Okabe and Ito (2008): Color universal design.
BLUE, ORANGE, GREEN, RED, PINK = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7"
SKY, BLACK, YELLOW = "#56B4E9", "#000000", "#F0E442"
PALETTE = (BLUE, ORANGE, GREEN, RED, PINK, SKY, BLACK, YELLOW)
WIDTH, HEIGHT = 560, 260
FILE_OPTIONS: dict[str, dict[str, Any]] = {
    ".html": {"inline": True},
    ".png": {"ppi": 144},
    ".svg": {},
}
"""Options for saving a chart, by file suffix."""


@dataclass(frozen=True)
class Theme:
    """Colours of a theme: paper, ink, grid, first and second series, and the palette."""

    paper: str | None
    ink: str
    faint: str
    grid: str
    main: str
    second: str
    palette: tuple[str, ...]
    steps: tuple[float, float]


THEMES = {
    "light": Theme(None, "#1a1a1a", "#666666", "#dddddd", BLUE, RED, PALETTE, (0.35, 1.0)),
    # Lighter colours, because dark blue and black are hard to see on a dark page
    "dark": Theme(
        "#16181d", "#e8e8e8", "#a0a4ab", "#33373f", SKY, ORANGE,
        (SKY, ORANGE, "#2fc79b", "#ff8a4c", "#e3a3c8", YELLOW, "#ffffff", "#9aa5ff"), (0.0, 0.65),
    ),
}  # fmt: skip


def import_altair() -> ModuleType:
    """Return the module `altair`. Raises ImportError with installation instructions."""
    try:
        import altair
    except ImportError:
        raise ImportError("charts need Altair: pip install 'sfumato[charts]'") from None
    return altair


def theme_of(name: str) -> Theme:
    """Return a theme. Raises ValueError for an unknown name."""
    if name not in THEMES:
        raise ValueError(f"`theme` must be one of {', '.join(THEMES)}; got {name!r}")
    return THEMES[name]


def new_chart(rows: list[dict[str, Any]], height: int = HEIGHT, width: int = WIDTH) -> Any:
    alt = import_altair()
    return alt.Chart(alt.Data(values=rows), width=width, height=height)


def number_text(value: float, digits: int = 4) -> str:
    """Format a number with `digits` significant digits, usually without an exponent."""
    short = f"{value:.{digits}g}"
    size = abs(value)
    if ("e" not in short and size < 1e4) or not 1e-6 <= size < 1e15:
        return short
    decimals = max(0, digits - 1 - math.floor(math.log10(size)))
    text = f"{float(short):,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text


def time_axis(times: Sequence[str]) -> Any:
    """Return a time axis for ISO times: clock times, or dates if they span at least two days."""
    span = datetime.fromisoformat(max(times)) - datetime.fromisoformat(min(times))
    if span >= timedelta(days=2):
        return import_altair().Axis()
    return import_altair().Axis(format="%H:%M" if span >= timedelta(minutes=10) else "%H:%M:%S")


def decorate(chart: Any, title: str, *subtitle: str, theme: str = "light") -> Any:
    colours, is_dark = theme_of(theme), theme != "light"
    inks = {"color": colours.ink, "subtitleColor": colours.faint} if is_dark else {}
    sizes = {"fontSize": 16, "subtitleFontSize": 13, "offset": 12}
    text = import_altair().TitleParams(
        title, subtitle=list(subtitle), anchor="start", **sizes, **inks
    )
    axis: dict[str, Any] = {"labelFontSize": 12, "titleFontSize": 13, "titleFontWeight": "normal"}
    legend = dict(axis)
    if is_dark:
        legend |= {"labelColor": colours.ink, "titleColor": colours.ink}
        lines = {"gridColor": colours.grid, "domainColor": colours.faint}
        axis = legend | lines | {"tickColor": colours.faint}
        chart = chart.configure(background=colours.paper)
        chart = chart.configure_header(labelColor=colours.ink, titleColor=colours.ink)
    return (
        chart.properties(title=text, padding=16)
        .configure_view(stroke=None)
        .configure_axis(**axis, labelLimit=480, maxExtent=520)
        .configure_legend(labelLimit=480, titleLimit=480, **legend)
        .configure_title(limit=0)
    )


def save(chart: Any, path: str | Path) -> Path:
    """Write a chart to `path`, and return the path.

    The suffix determines the format: .html is an offline page, .png and .svg are images. Raises
    ValueError for other suffixes.
    """
    path = Path(path)
    if path.suffix not in FILE_OPTIONS:
        raise ValueError(f"`path` must end in {', '.join(FILE_OPTIONS)}; got {path.name!r}")
    chart.save(str(path), **FILE_OPTIONS[path.suffix])
    return path
