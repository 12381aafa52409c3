"""What all pictures have in common: colours that colour-blind readers can tell apart, and fonts."""

from types import ModuleType
from typing import Any

# Okabe and Ito (2008): Color universal design.
BLUE, ORANGE, GREEN, RED, PINK = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7"
SKY, BLACK, YELLOW = "#56B4E9", "#000000", "#F0E442"
PALETTE = (BLUE, ORANGE, GREEN, RED, PINK, SKY, BLACK, YELLOW)


def altair() -> ModuleType:
    """The module. Raises ImportError that says how to get it."""
    try:
        import altair
    except ImportError:
        raise ImportError("pictures need Altair: pip install 'sfumato[charts]'") from None
    return altair


def styled(chart: Any, title: str, *under: str) -> Any:
    """A chart with its title, what is said under it, and type large enough to read."""
    text = altair().TitleParams(
        title, subtitle=list(under), anchor="start", fontSize=16, subtitleFontSize=13, offset=12
    )
    axis = {"labelFontSize": 12, "titleFontSize": 13, "titleFontWeight": "normal"}
    return (
        chart.properties(title=text, padding=16)
        .configure_view(stroke=None)
        .configure_axis(**axis, labelLimit=320, maxExtent=360)
        .configure_legend(
            labelLimit=320, labelFontSize=12, titleFontSize=13, titleFontWeight="normal"
        )
    )
