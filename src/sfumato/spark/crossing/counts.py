"""Counters and gauges of an operator, which stand beside its answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a process beside the driver imports this, and must not import kernels
    from sfumato.tables.chain import ChainConfig
    from sfumato.tables.operator import TableConfig


def figure_kinds(blueprint: TableConfig | ChainConfig) -> dict[str, str]:
    """The types of counters and gauges, as Spark calls them."""
    gauges = {name: of for name, (of, _) in blueprint.gauges.items()}
    return dict.fromkeys(blueprint.counters, "long") | gauges


def difference(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """What counters have grown by."""
    return {name: count - before.get(name, 0) for name, count in after.items()}
