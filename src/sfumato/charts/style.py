"""What all pictures have in common: colours that colour-blind readers can tell apart, and fonts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import ModuleType
from typing import Any

# Okabe and Ito (2008): Color universal design.
BLUE, ORANGE, GREEN, RED, PINK = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7"
SKY, BLACK, YELLOW = "#56B4E9", "#000000", "#F0E442"
PALETTE = (BLUE, ORANGE, GREEN, RED, PINK, SKY, BLACK, YELLOW)


@dataclass(frozen=True)
class Theme:
    """Colours of paper, ink and grid, those of one series and of a second, and the palette."""

    paper: str | None
    ink: str
    faint: str
    grid: str
    main: str
    second: str
    palette: tuple[str, ...]
    heat: str
    steps: tuple[float, float]  # the part of a ramp of blues that can be told from the paper


THEMES = {
    "light": Theme(
        None, "#1a1a1a", "#666666", "#dddddd", BLUE, RED, PALETTE, "viridis", (0.35, 1.0)
    ),
    # Lighter inks: dark blue and black are lost on a dark page.
    "dark": Theme(
        "#16181d", "#e8e8e8", "#a0a4ab", "#33373f", SKY, ORANGE,
        (SKY, ORANGE, "#2fc79b", "#ff8a4c", "#e3a3c8", YELLOW, "#ffffff", "#9aa5ff"), "viridis",
        (0.0, 0.65),
    ),
}  # fmt: skip


def altair() -> ModuleType:
    """The module. Raises ImportError that says how to get it."""
    try:
        import altair
    except ImportError:
        raise ImportError("pictures need Altair: pip install 'sfumato[charts]'") from None
    return altair


def theme_of(name: str) -> Theme:
    """The theme of that name. Raises ValueError for another."""
    if name not in THEMES:
        raise ValueError(f"`theme` must be one of {', '.join(THEMES)}; got {name!r}")
    return THEMES[name]


def number_text(value: float, digits: int = 4) -> str:
    """Return a number of so many significant digits, without an exponent where people read it."""
    short = f"{value:.{digits}g}"
    if "e" not in short and abs(value) < 1e4:
        return short
    size = abs(value)
    if not 1e-6 <= size < 1e15:
        return short
    decimals = max(0, digits - 1 - math.floor(math.log10(size)))
    text = f"{float(short):,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text


def time_axis(times: Sequence[str]) -> Any:
    """An axis of times, ISO texts: hours of 24, and dates where they cover days."""
    span = datetime.fromisoformat(max(times)) - datetime.fromisoformat(min(times))
    if span >= timedelta(days=2):
        return altair().Axis()
    return altair().Axis(format="%H:%M" if span >= timedelta(minutes=10) else "%H:%M:%S")


def styled(chart: Any, title: str, *under: str, theme: str = "light") -> Any:
    """A chart with its title, what is said under it, and type large enough to read.

    theme : "light" or "dark", of the page around it
    """
    colours = theme_of(theme)
    inks = {} if theme == "light" else {"color": colours.ink, "subtitleColor": colours.faint}
    text = altair().TitleParams(
        title, subtitle=list(under), anchor="start", fontSize=16, subtitleFontSize=13, offset=12,
        **inks,
    )  # fmt: skip
    axis = {"labelFontSize": 12, "titleFontSize": 13, "titleFontWeight": "normal"}
    legend = {"labelFontSize": 12, "titleFontSize": 13, "titleFontWeight": "normal"}
    if theme != "light":
        of_text = {"labelColor": colours.ink, "titleColor": colours.ink}
        axis |= {**of_text, "gridColor": colours.grid, "tickColor": colours.faint}
        axis |= {"domainColor": colours.faint}
        legend |= of_text
        chart = chart.configure(background=colours.paper)
        chart = chart.configure_header(labelColor=colours.ink, titleColor=colours.ink)
    return (
        chart.properties(title=text, padding=16)
        .configure_view(stroke=None)
        .configure_axis(**axis, labelLimit=480, maxExtent=520)
        .configure_legend(labelLimit=480, titleLimit=480, **legend)
        .configure_title(limit=0)
    )
