"""Every experiment by name."""

from __future__ import annotations

from importlib import import_module

from sfumato.reproduce.experiment import Experiment

# A module holds the experiments of one system in its tuple EXPERIMENTS.
_MODULES = (
    "count_laws",
    "join_accuracy",
    "uncertain_windows",
    "join_speed",
    "pruned_joins",
    "disorder",
    "ranking",
    "planning",
    "incomplete_joins",
)


def experiments() -> dict[str, Experiment]:
    """All experiments in the order of papers and figures; their names are unique."""
    found: dict[str, Experiment] = {}
    for module in _MODULES:
        for experiment in import_module(f"sfumato.reproduce.{module}").EXPERIMENTS:
            if experiment.name in found:
                raise ValueError(f"two experiments are named {experiment.name!r}")
            found[experiment.name] = experiment
    return found
