"""How an imputer imputes."""

from dataclasses import dataclass

from sfumato.kernels.imputation.repository import Choice
from sfumato.operators.arguments import one_of, whole

FALLBACKS = ("marginal", "reject")
LEAST_DONORS = {"calibrated": 20, "plain": 1}  # where nothing is said; measured, see docs
METHODS = tuple(LEAST_DONORS)


@dataclass(frozen=True)
class ImputerSettings:
    """How an `Imputer` imputes; see there. Raises ValueError for anything else."""

    joint: bool = False
    max_alternatives: int | None = None
    fallback: str = "marginal"
    method: str = "calibrated"
    least_donors: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.joint, bool):
            raise ValueError(f"`joint` must be True or False; got {self.joint!r}")
        one_of("fallback", self.fallback, FALLBACKS)
        one_of("method", self.method, METHODS)
        if self.max_alternatives is not None:
            whole("max_alternatives", self.max_alternatives)
        least = LEAST_DONORS[self.method] if self.least_donors is None else self.least_donors
        object.__setattr__(self, "least_donors", whole("least_donors", least))

    def choice(self, rows: int) -> Choice:
        """How donors are chosen among so many rows, for kernels."""
        least, marginal = self.least_donors or 1, self.fallback == "marginal"
        if self.method == "plain":
            return Choice(least, marginal, 0)
        # The rows that calibrate are left out of the donors.
        return Choice(min(least, max(rows - 1, 1)), marginal, 2 * least)
