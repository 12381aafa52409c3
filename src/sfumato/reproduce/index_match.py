"""A's Index-Match: tuples whose regions of all samples are near are paired sample by sample."""

from __future__ import annotations

from typing import Any

from sfumato.kernels.uncertain_tuples import Tuples, Windows
from sfumato.operators.join_strategy import Batch, Floats, Ints, Match, Nested, Strategy
from sfumato.operators.similarity_join import SimilarityJoin
from sfumato.reproduce.papers_kernels import bound, join_bounded


class IndexMatchJoin(SimilarityJoin):
    """`SimilarityJoin` in one dimension, its candidates found as the paper's index finds them.

    The library's own "index" prunes by quantiles of the samples instead, which is what makes it
    faster. Answers are the same.
    """

    def __init__(
        self, within: float, probability: float, rows: int, confidence: float, **options: Any
    ) -> None:
        super().__init__(1, within, probability, rows, confidence, strategy="index", **options)

    def _strategy(self) -> Strategy:
        return _Bounded(self._match)


class _Bounded(Nested):
    def __init__(self, match: Match) -> None:
        super().__init__(match)
        self.columns = 2

    def written(self, tuples: Tuples, slots: Ints) -> None:
        bound(tuples, slots)

    def join(
        self, tuples: Tuples, windows: Windows, batch: Batch, counters: Ints
    ) -> tuple[Ints, Floats]:
        m = self.match
        result: tuple[Ints, Floats] = join_bounded(
            tuples, windows, batch.code, batch.slots, batch.begins,
            m.within, m.limit, m.least, m.probability, counters,
        )  # fmt: skip
        return result
