"""The class of experiments: a paper's claim, and how it is measured, drawn and judged."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import pandas as pd
from rich.progress import track

Step = TypeVar("Step")
Status = Literal["reproduced", "refuted", "differs"]


class AbsentDataError(Exception):
    """A data set is not in the given folder; the message names the expected files."""


@dataclass(frozen=True)
class Verdict:
    """The judgment of a claim: `reproduced`, `refuted`, or `differs` with the reason."""

    status: Status
    because: str  # a sentence with the measured numbers


def verdict(
    said: str, *, met: bool, refuted: bool, because: str = "", allowing: str = ""
) -> Verdict:
    """Build a verdict about measured numbers; `refuted` applies only if the claim is not met."""
    if met:
        return Verdict("reproduced", f"{said} {allowing}".strip())
    return Verdict("refuted", said) if refuted else Verdict("differs", f"{said} {because}".strip())


@dataclass(frozen=True)
class Experiment:
    """One figure or table of a paper.

    `measure` returns the raw numbers, one row per point; columns that end in `_seconds` are
    timings, all others are the same in every run. `draw` makes an Altair chart of them; `judge`
    compares them with the claim.
    """

    name: str  # the paper's letter and the figure's number: A10; DT9 is a table, C7R a variant
    title: str
    claim: str  # the paper's report, in our words, with its numbers
    source: str  # paper, section, figure
    measure: Callable[[Setting], pd.DataFrame]
    draw: Callable[[pd.DataFrame], Any]
    judge: Callable[[pd.DataFrame], Verdict]
    # Data, sizes and parameters that differ from the paper's, in one sentence each.
    substitutions: tuple[str, ...] = ()

    def chart(self, rows: pd.DataFrame, note: str = "") -> Any:
        """Return the chart with its title, and a note below it."""
        title = f"{self.name}: {self.title}"
        return self.draw(rows).properties(
            title={"text": title, "subtitle": note} if note else title
        )


@dataclass
class Setting:
    """The settings of a run.

    With `quick`, sizes and repetitions are reduced so that it takes a few seconds.
    """

    quick: bool = False
    data: Path | None = None
    seed: int = 1

    def pick(self, quick: Any, full: Any) -> Any:
        """Return `quick` in a quick run; otherwise `full`."""
        return quick if self.quick else full

    def rng(self, *of: int) -> np.random.Generator:
        """Return a separate generator for the part of the experiment numbered `of`."""
        return np.random.default_rng([self.seed, *of])

    def steps(self, todo: Iterable[Step]) -> Iterator[Step]:
        """Iterate over `todo`, and show the progress on a terminal."""
        return iter(track(list(todo), transient=True, disable=not sys.stdout.isatty()))
