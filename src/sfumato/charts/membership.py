"""A picture of an uncertain count window: which of the newest tuples are in it, how probably."""

from typing import Any

import numpy as np

from sfumato.charts.style import altair, styled, theme_of
from sfumato.operators.windows.uncertain_window import UncertainWindow

WIDTH, HEIGHT = 560, 240


def membership_chart(
    window: UncertainWindow, *, title: str | None = None, theme: str = "light"
) -> Any:
    """An Altair chart of the tuples that a window holds: the probability of each to exist, and that
    it is one of the window's newest existing ones if it exists (T_j).

    The older a tuple, the more existing ones may be newer. Raises ValueError for a window that
    holds none.
    """
    alt, colours = altair(), theme_of(theme)
    saved = window.saved
    if not len(saved.indices):
        raise ValueError("the window holds no tuple yet: there is nothing to draw")
    inside = np.asarray(window.in_window(saved.indices))
    rows = [
        {"tuple": int(j), "exists": float(p), "inside": float(t), "both": float(p * t)}
        for j, p, t in zip(saved.indices, saved.existence, inside, strict=True)
    ]
    first, last = rows[0]["tuple"] - 0.5, rows[-1]["tuple"] + 0.5
    along = alt.Scale(domain=[first, last], nice=False, zero=False)
    share = alt.Y("share:Q", title="probability", scale=alt.Scale(domain=[0, 1]))
    names = ["exists", "exists, and is in the window"]
    inks = alt.Scale(domain=names, range=[colours.faint, colours.main])
    bars = [
        {"low": r["tuple"] - 0.42, "high": r["tuple"] + 0.42, "share": r[of], "what": name, **r}
        for name, of in zip(names, ("exists", "both"), strict=True)
        for r in rows
    ]
    base = alt.Chart(alt.Data(values=bars), width=WIDTH, height=HEIGHT)
    drawn = base.mark_rect().encode(
        x=alt.X(
            "low:Q", title="tuple of the stream, oldest left", scale=along,
            axis=alt.Axis(tickMinStep=1, format="d"),
        ),
        x2="high:Q",
        y=share,
        y2=alt.Y2Datum(0),
        color=alt.Color("what:N", title=None, scale=inks, legend=alt.Legend(orient="top")),
        opacity=alt.condition(f"datum.what == '{names[0]}'", alt.value(0.35), alt.value(0.9)),
        tooltip=["tuple:Q", "exists:Q", "inside:Q", "both:Q"],
    )  # fmt: skip
    line = base.mark_line(color=colours.second, strokeWidth=2).encode(
        x=alt.X("tuple:Q", scale=along), y=alt.Y("inside:Q")
    )
    certain = int(np.count_nonzero(inside >= 1.0 - 1e-12))
    about = (
        f"{len(rows):,} tuples held so that {window.rows:,} exist with probability "
        f"{window.config.confidence:g}; {certain:,} are in it for sure, if they exist"
    )
    under = f"{rows[0]['tuple']:,} to {rows[-1]['tuple']:,}; the line: in the window, if it exists"
    return styled(drawn + line, title or "Who is in the window", about, under, theme=theme)
