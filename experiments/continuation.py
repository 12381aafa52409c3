"""A join that continues from another join's state, so that windows are filled only once."""

from dataclasses import replace
from typing import Any

from sfumato.operators.joins.similarity_join import SimilarityJoin
from sfumato.operators.state.snapshot import SavedState


def continued(join: SimilarityJoin, kind: type[SimilarityJoin], **changed: Any) -> SimilarityJoin:
    """Return a join with the windows of another one, with a different class or arguments."""
    after, saved = kind.from_config(replace(join.config, **changed)), SavedState()
    join.save_state(saved)
    after.load_state(saved)
    return after
