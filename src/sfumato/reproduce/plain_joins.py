"""A's own joins, in plain loops: nested, and Index-Match by the regions of all samples."""

from __future__ import annotations

from sfumato.kernels.uncertain_tuples import Tuples, Windows
from sfumato.operators.join_strategy import Batch, Floats, Ints, Match, Nested, Strategy
from sfumato.operators.similarity_join import KIND, VERSION, SimilarityJoin
from sfumato.operators.snapshot import Snapshot, pack, unpack
from sfumato.reproduce.papers_kernels import bound, join_plainly


class PlainNestedJoin(SimilarityJoin):
    """`SimilarityJoin` in one dimension whose arrivals are held against every tuple, pair by pair.

    The library's own "nested" does the same four samples at a time.
    """

    def _strategy(self) -> Strategy:
        return _Plain(self._match, bounded=False)


class IndexMatchJoin(SimilarityJoin):
    """The same, but for tuples whose region of all samples is too far away.

    The library's own "index" prunes by quantiles of the samples instead.
    """

    def _strategy(self) -> Strategy:
        return _Plain(self._match, bounded=True)


def continued(join: SimilarityJoin, kind: type[SimilarityJoin], strategy: str) -> SimilarityJoin:
    """A join that goes on from where another stands, as another kind or by another strategy."""
    saved = unpack(join.snapshot(), KIND, VERSION)
    values = {**saved.values, "strategy": strategy}
    return kind.restore(pack(KIND, VERSION, Snapshot(values=values, arrays=dict(saved.arrays))))


class _Plain(Nested):
    def __init__(self, match: Match, bounded: bool) -> None:
        super().__init__(match)
        self.bounded = bounded
        self.columns = 2

    def written(self, tuples: Tuples, slots: Ints) -> None:
        bound(tuples, slots)

    def join(
        self, tuples: Tuples, windows: Windows, batch: Batch, counters: Ints
    ) -> tuple[Ints, Floats]:
        result: tuple[Ints, Floats] = join_plainly(
            tuples, windows, batch.code, batch.slots, batch.begins,
            self.match.within, self.match.probability, self.bounded, counters,
        )  # fmt: skip
        return result
