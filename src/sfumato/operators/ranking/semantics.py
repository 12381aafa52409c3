"""The semantics of top-k queries."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.ranking.ranked_items import RankedItems
from sfumato.kernels.ranking.semantics import Rankings, SemanticsParameters, rank_items
from sfumato.kernels.ranking.u_topk import MAX_SEQUENCES
from sfumato.operators.arguments import share
from sfumato.operators.arrays import Floats, Ints

SEMANTICS = ("pk_topk", "pt_k", "u_topk", "u_kranks", "expected_rank", "prf", "prfe")
NO_STREAMS = np.empty(0, np.int64)
SEMANTICS_ALIASES = {"global_topk": "pk_topk", "expected_ranks": "expected_rank"}


def checked_weights(weights: npt.ArrayLike) -> Floats:
    """Return `weights` as float64[k]. Raises ValueError if empty or not finite."""
    try:
        omega = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError):
        omega = np.empty(0)
    if omega.ndim != 1 or not omega.size or not np.isfinite(omega).all():
        raise ValueError(
            f"`weights` must be a list of finite numbers, for ranks 1, 2, ...; got {weights!r:.80}"
        )
    return omega


# Each option's semantics, meaning and check.
SEMANTICS_OPTIONS: dict[str, tuple[str, str, Callable[[str, Any], Any]]] = {
    "probability": ("pt_k", "the minimum Pr_k, in (0, 1]", partial(share, what="a number")),
    "alpha": ("prfe", "a number in (0, 1]", partial(share, what="a number")),
    "weights": (
        "prf", "the weights of ranks 1, 2, ...",
        lambda _, weights: tuple(checked_weights(weights).tolist()),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Semantics:
    """Semantics of a top-k query, with its parameters.

    name : "pk_topk" (or "global_topk"): the k tuples with highest Pr_k;  "pt_k": all tuples with
        Pr_k >= probability;  "u_topk": the most probable top-k vector of tuples;  "u_kranks": the
        most probable tuple for each rank up to k;  "expected_rank": the k tuples with the lowest
        expected rank;  "prf": the k tuples with the largest sum of weights[i - 1] Pr(rank = i);
        "prfe": the same with weights alpha**i
    probability : float in (0, 1], for "pt_k" only;  weights : numbers, for "prf" only
    alpha : float in (0, 1], for "prfe" only

    Values that agree to 12 digits are ordered by expected score given existence, then by arrival.
    Raises ValueError for an unknown name, and for a missing or superfluous parameter.
    """

    name: str = "pk_topk"
    probability: float | None = None
    alpha: float | None = None
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        name = SEMANTICS_ALIASES.get(str(self.name).lower(), str(self.name).lower())
        if name not in SEMANTICS:
            names = ", ".join(f'"{each}"' for each in SEMANTICS)
            raise ValueError(f"`semantics` must be one of {names}; got {self.name!r}")
        object.__setattr__(self, "name", name)
        for option, (owner, meaning, check) in SEMANTICS_OPTIONS.items():
            value = getattr(self, option)
            if name == owner and value is None:
                raise ValueError(f'"{name}" needs `{option}`, {meaning}; got None')
            if name == owner:
                object.__setattr__(self, option, check(option, value))
            elif value is not None:
                hint = "To name the probability column, write `existence`"
                raise ValueError(
                    f'`{option}` is allowed only with "{owner}", as {meaning}; got {value!r} for '
                    f'"{name}"{"" if option != "probability" else f". {hint}"}'
                )

    @property
    def parameters(self) -> SemanticsParameters:
        """The semantics as kernel input."""
        weights = np.array(self.weights or (), np.float64)
        return SemanticsParameters(SEMANTICS.index(self.name), self.alpha or 0.0, weights)

    @property
    def least(self) -> float:
        """The minimum Pr_k for "pt_k"; NaN for other semantics."""
        return np.nan if self.probability is None else self.probability

    def rank(self, items: RankedItems, ks: Ints, streams: Ints = NO_STREAMS) -> Rankings:
        """Rank the items, or the tuples' streams, for all `ks`, int64[c], ascending.

        Raises TooManyVectorsError.
        """
        least = np.full(ks.size, self.least)
        found: Rankings = rank_items(items, streams, ks, least, self.parameters)
        if not found.offsets.size:
            raise TooManyVectorsError(int(ks[-1]), items.tuples)
        return found


class TooManyVectorsError(ValueError):
    """Error if the most probable vector is not found within MAX_SEQUENCES sequences of tuples."""

    def __init__(self, k: int, tuples: int) -> None:
        super().__init__(
            f'"u_topk" with k = {k} over {tuples} tuples with several alternatives: the '
            f"most probable vector was not found among {MAX_SEQUENCES:,} sequences of tuples. "
            'Write semantics="pk_topk" or "u_kranks", a smaller k, or rank an expected score '
            "(one alternative per tuple)"
        )
