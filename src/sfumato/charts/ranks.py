"""A picture of rank probabilities: how probable is every rank, for every tuple."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.charts.style import altair, styled, theme_of
from sfumato.operators.ranking.top_k import rank_probabilities

MOST_TUPLES = 25
LEAST = 0.0005  # below this a chance is not drawn
CELL = 34


def rank_chart(
    *ranked: npt.ArrayLike,
    k: int,
    labels: Sequence[str] | None = None,
    what: str = "tuple",
    theme: str = "light",
    **options: Any,
) -> Any:
    """An Altair chart of Pr(rank = j), j = 1 ... k, and of their sum Pr_k, for the tuples of
    highest Pr_k (25 at most, and above 0.0005), the highest first.

    ranked, options : scores, prob, rules, tuples, ascending as rank_probabilities takes them
    labels : a text for each tuple; by default its number;  what : what a tuple is, for the axis
    theme : "light" or "dark"
    Raises ImportError without Altair, ValueError for other arguments out of range.
    """
    alt, colours = altair(), theme_of(theme)
    chances = rank_probabilities(*ranked, k=k, **options)
    total = chances.sum(axis=1)
    if labels is not None and len(labels) != total.size:
        raise ValueError(f"`labels` must be {total.size}, as there are tuples; got {len(labels)}")
    best = np.argsort(-total, kind="stable")[:MOST_TUPLES]
    best = best[total[best] >= LEAST]
    texts = [str(labels[i]) if labels is not None else str(i) for i in best]
    names = {
        int(i): text if texts.count(text) == 1 else f"{text} (number {i})"
        for i, text in zip(best, texts, strict=True)
    }
    order = list(names.values())
    cells = [
        {"tuple": name, "rank": j + 1, "chance": float(chances[i, j])}
        for i, name in names.items()
        for j in range(k)
    ]
    sums = [{"tuple": name, "sum": float(total[i])} for i, name in names.items()]
    rows = alt.Y("tuple:N", title=what, sort=order)
    heat = (
        alt.Chart(alt.Data(values=cells), width=max(CELL * k, 120), height=alt.Step(24))
        .mark_rect()
        .encode(
            x=alt.X("rank:O", title="rank", axis=alt.Axis(labelAngle=0)),
            y=rows,
            color=alt.Color(
                "chance:Q",
                title="Pr(rank)",
                scale=alt.Scale(scheme="viridis", domainMin=0),
                legend=alt.Legend(format=".2f"),
            ),
            tooltip=["tuple:N", "rank:O", "chance:Q"],
        )
    )
    bars = alt.Chart(alt.Data(values=sums), width=220, height=alt.Step(24)).encode(
        x=alt.X("sum:Q", title=f"Pr(among the top {k})", scale=alt.Scale(domain=[0, 1])),
        y=alt.Y("tuple:N", title=None, sort=order, axis=alt.Axis(labels=False, ticks=False)),
    )
    marks = bars.mark_bar(color=colours.main)
    text = bars.mark_text(align="left", dx=4, fontSize=11, color=colours.ink).encode(
        text=alt.Text("sum:Q", format=".3f")
    )
    hidden = int(np.count_nonzero(total > 0.0)) - len(order)
    more = f"{hidden:,} more have a smaller chance" if hidden else "all that have a chance"
    return styled(
        alt.hconcat(heat, marks + text, spacing=14),
        f"Who is among the top {k}, and at which rank",
        f"over all possible worlds; {more}",
        theme=theme,
    )
