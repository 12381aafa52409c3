"""Tools for all suites: times of repeated and alternated runs, and the rows of comparisons.

A row has name, setting, ours, peer, ratio, goal and met; `page` formats rows as tables.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

Row: TypeAlias = dict[str, Any]
NO_DATA: list[Row] = [{"name": "no data sets", "setting": "set SFUMATO_DATA to their folder"}]


def timed(
    call: Callable[[], Any], clock: Callable[[], float] = time.thread_time
) -> tuple[float, Any]:
    """Return the seconds of one call, and its result.

    clock : by default processor time of this thread, which other processes do not disturb
    """
    begin = clock()
    result = call()
    return clock() - begin, result


def fastest(
    call: Callable[..., Any],
    repeats: int,
    clock: Callable[[], float] = time.thread_time,
    prepare: Callable[[], Any] | None = None,
) -> float:
    """Return the seconds of the fastest of some calls.

    prepare : builds the argument of each call, untimed
    """
    best = float("inf")
    for _ in range(repeats):
        ready = call if prepare is None else partial(call, prepare())
        best = min(best, timed(ready, clock)[0])
    return best


def warm_fastest(
    call: Callable[[], Any], repeats: int, clock: Callable[[], float] = time.thread_time
) -> float:
    """Return the seconds of the fastest call, after a first call that compiles."""
    call()
    return fastest(call, repeats, clock)


def in_turns(
    calls: Mapping[str, Callable[[Any], Any]],
    repeats: int,
    prepare: Callable[[], Any] = lambda: None,
) -> tuple[dict[str, float], dict[str, Any]]:
    """Return the seconds of the fastest run of each call, and the last results.

    The calls take turns, so that a busy moment affects all of them.

    prepare : builds the argument of all calls before each turn, untimed
    """
    best, results = dict.fromkeys(calls, float("inf")), dict[str, Any]()
    for _ in range(repeats):
        prepared = prepare()
        for name, call in calls.items():
            spent, results[name] = timed(partial(call, prepared))
            best[name] = min(best[name], spent)
    return best, results


def row(
    name: str,
    setting: str,
    ours: Any,
    peer: Any,
    ratio: float,
    *,
    least: float | None = None,
    most: float | None = None,
    **about: Any,
) -> Row:
    """Return the row of one comparison.

    least, most : the goal of the ratio; without a goal, the row is neither met nor missed
    about : further columns
    """
    goal, met = None, None
    if least is not None:
        goal, met = f">= {least:,g}", bool(ratio >= least)
    elif most is not None:
        goal, met = f"<= {most:,g}", bool(ratio <= most)
    compared = {"name": name, "setting": setting, "ours": ours, "peer": peer, "ratio": ratio}
    return {**compared, "goal": goal, "met": met, **about}


def nanoseconds(seconds: float) -> str:
    """Format a time in nanoseconds."""
    return f"{seconds * 1e9:,.0f} ns"


def milliseconds(seconds: float) -> str:
    """Format a time in milliseconds, with three digits."""
    return f"{seconds * 1e3:,.3g} ms"
