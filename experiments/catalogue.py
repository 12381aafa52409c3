"""Every experiment by name."""

from importlib import import_module

from experiments.experiment import Experiment

# A module has the experiments of one question in its tuple EXPERIMENTS.
_MODULES = (
    "uncertain_windows.count_laws",
    "uncertain_windows.join_accuracy",
    "uncertain_windows.window_sums",
    "uncertain_windows.tuples_held",
    "uncertain_windows.join_speed",
    "uncertain_joins.pruning",
    "disorder.drops",
    "disorder.bursts",
    "multi_top_k.plan_loads",
    "multi_top_k.real_loads",
    "multi_top_k.planning",
    "incomplete_joins.pairs_found",
)


def experiments() -> dict[str, Experiment]:
    """Return all experiments in the order of papers and figures; their names are unique."""
    found: dict[str, Experiment] = {}
    for module in _MODULES:
        for experiment in import_module(f"experiments.{module}").EXPERIMENTS:
            if experiment.name in found:
                raise ValueError(f"two experiments are named {experiment.name!r}")
            found[experiment.name] = experiment
    return found
