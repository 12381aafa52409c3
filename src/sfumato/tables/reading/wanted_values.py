"""What columns must be to become alternatives, in words: the same with Spark and without it."""

from __future__ import annotations

from collections.abc import Sequence

WANTED_PROB = "`prob` must be a column of lists of numbers; of a map write F.map_values(m)"
_OF_A_MAP = "of a map alternatives(F.map_keys(m), F.map_values(m))"


def wanted_values(field: str | None, names: Sequence[str] | None, points: bool) -> str:
    """What `values` must be, and what to write where they are something else.

    field : of the structs, the probability; None: probabilities are a column of their own
    names : what `attributes` names, in a list    points : that lists of coordinates are wanted
    """
    if field is not None:
        return (
            f"`values` must be a column of lists of structs with a field `{field}`, their "
            "probability; of numbers write alternatives(values, prob) with a column of lists of "
            f"their probabilities, {_OF_A_MAP}"
        )
    if points:
        return (
            "`values` must be a column of lists of lists of coordinates, as points=True says; "
            "of structs or numbers leave it out"
        )
    if names is not None:
        return (
            f"`values` must be a column of lists of structs with the fields {', '.join(names)}, "
            'as a list of `attributes` says; of numbers write one name as text, "speed", of '
            "lists of coordinates points=True"
        )
    return (
        "`values` must be a column of lists of numbers; of structs write the fields to take, "
        'alternatives(values, prob, ["speed"]), or leave `prob` out where they have a field '
        f"`prob`; {_OF_A_MAP}; of lists of coordinates a list of names and points=True"
    )
