"""A join that goes on from where another stands, so that full windows are made once or cheaply."""

from dataclasses import replace
from typing import Any

from sfumato.operators.joins.similarity_join import SimilarityJoin
from sfumato.operators.state.declared import Saved


def continued(join: SimilarityJoin, kind: type[SimilarityJoin], **changed: Any) -> SimilarityJoin:
    """A join with the windows of another, of another kind or with other arguments."""
    after, saved = kind.from_config(replace(join.config, **changed)), Saved()
    join.save_state(saved)
    after.load_state(saved)
    return after
