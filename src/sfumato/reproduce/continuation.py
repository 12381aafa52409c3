"""A join that goes on from where another stands, so that full windows are made once or cheaply."""

from __future__ import annotations

from typing import Any

from sfumato.operators.joins.similarity_join import KIND, VERSION, SimilarityJoin
from sfumato.operators.state.snapshot import Snapshot, pack, unpack


def continued(join: SimilarityJoin, kind: type[SimilarityJoin], **changed: Any) -> SimilarityJoin:
    """A join with the windows of another, of another kind or with other arguments."""
    saved = unpack(join.snapshot(), KIND, VERSION)
    values = {**saved.values, **changed}
    return kind.restore(pack(KIND, VERSION, Snapshot(values=values, arrays=dict(saved.arrays))))
