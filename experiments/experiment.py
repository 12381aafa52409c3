"""What an experiment is: a claim of a paper, how it is measured, drawn and judged."""

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
    """A data set is not in the folder given; the message says which files are looked for."""


@dataclass(frozen=True)
class Verdict:
    """What the numbers say of the claim: `reproduced`, `refuted`, or `differs` with the reason."""

    status: Status
    because: str  # a sentence with the numbers measured


def verdict(
    said: str, *, met: bool, refuted: bool, because: str = "", allowing: str = ""
) -> Verdict:
    """The verdict of what is said of the numbers; refuted only where the claim is not met."""
    if met:
        return Verdict("reproduced", f"{said} {allowing}".strip())
    return Verdict("refuted", said) if refuted else Verdict("differs", f"{said} {because}".strip())


@dataclass(frozen=True)
class Experiment:
    """One figure or table of a paper.

    `measure` returns the raw numbers, one row a point; columns that end in `_seconds` are timings,
    all others are the same in every run. `draw` makes an Altair chart of them; `judge` holds them
    against the claim.
    """

    name: str  # the paper's letter and the figure's number: A10; a table is DT9, a variant C7R
    title: str
    claim: str  # what the paper reports, in our words, with its numbers
    source: str  # paper, section, figure
    measure: Callable[[Setting], pd.DataFrame]
    draw: Callable[[pd.DataFrame], Any]
    judge: Callable[[pd.DataFrame], Verdict]
    # Data, sizes and parameters that differ from the paper's, one sentence each.
    substitutions: tuple[str, ...] = ()

    def chart(self, rows: pd.DataFrame, note: str = "") -> Any:
        """The chart with its title, and a note below it."""
        title = f"{self.name}: {self.title}"
        return self.draw(rows).properties(
            title={"text": title, "subtitle": note} if note else title
        )


@dataclass
class Setting:
    """How an experiment is run.

    `quick` asks for sizes and repetitions that fit in a few seconds.
    """

    quick: bool = False
    data: Path | None = None
    seed: int = 1

    def pick(self, quick: Any, full: Any) -> Any:
        """`quick` in a quick run, else `full`."""
        return quick if self.quick else full

    def rng(self, *of: int) -> np.random.Generator:
        """Return a separate generator for the part of the experiment numbered `of`."""
        return np.random.default_rng([self.seed, *of])

    def steps(self, todo: Iterable[Step]) -> Iterator[Step]:
        """Go through `todo`, and show the progress on a terminal."""
        return iter(track(list(todo), transient=True, disable=not sys.stdout.isatty()))
