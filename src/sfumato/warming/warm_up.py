"""Every kernel that a query may need, compiled ahead, here and by other processes."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import NamedTuple

from sfumato.kernels import compile_store
from sfumato.kernels.compile import done
from sfumato.warming.steps import SLOWEST, STEPS


class WarmedUp(NamedTuple):
    """What `warm_up` did: kernels compiled, here and in other processes; kernels that this process
    read from disk; and where the former are kept (None: nowhere, no folder can be written)."""

    compiled: int
    loaded: int
    folder: Path | None


def warm_up(
    only: Iterable[str] | None = None,
    progress: Callable[[str], None] | None = None,
    processes: int | None = None,
) -> WarmedUp:
    """Compile all kernels, so that no query has to.

    only : names of the operators to compile, see `sfumato.warming.steps`; None: all
    progress : called with the name of each before it is compiled
    processes : how many compile at the same time, 300 MB each; None: one for each processor core

    On one machine once, as the user who installed the package or who runs the queries; in an
    image while it is built. Each machine of a cluster needs its own. Kernels that are on disk are
    only read. Where they are kept: see docs/running.md.
    Raises KeyError for an unknown name, ValueError for a number of processes below 1.
    Cost: some minutes of processor time the first time, then some seconds.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    processes = cores or 1 if processes is None else processes
    if processes < 1:
        raise ValueError(f"`processes` must be 1 or more; got {processes}")
    names = list(STEPS if only is None else only)
    unknown = [name for name in names if name not in STEPS]
    if unknown:
        raise KeyError(f"no operator to warm up is named {unknown[0]!r}; there are {list(STEPS)}")
    begun, folder = done(), compile_store.writable()
    compile_store.first_within_an_hour()  # who warms up knows that kernels are compiled
    elsewhere = 0
    for place, name in enumerate(names):
        if progress is not None:
            progress(name)
        before = done()
        STEPS[name]()
        if not elsewhere and len(done().compiled) > len(before.compiled):
            # There is work to do: others take it up, and this process then reads what they made.
            elsewhere = _compiled_by_others(names[place + 1 :], processes, progress)
    compiled, loaded = (len(now) - len(then) for now, then in zip(done(), begun, strict=True))
    return WarmedUp(compiled + elsewhere, loaded, folder)


def _compiled_by_others(
    names: Sequence[str], processes: int, progress: Callable[[str], None] | None
) -> int:
    """Let other processes compile these operators, each one at a time; how many kernels that were.

    What fails there, this process meets again, and raises.
    """
    folder = compile_store.writable()
    if folder is None or processes == 1 or len(names) < 2 or not sys.executable:
        return 0
    waiting: SimpleQueue[str] = SimpleQueue()
    for name in sorted(names, key=lambda name: (*SLOWEST, name).index(name)):
        waiting.put(name)

    def work() -> None:
        with suppress(Empty):
            while True:
                name = waiting.get_nowait()
                if progress is not None:
                    progress(name)
                command = [sys.executable, "-c", ONE_STEP, json.dumps(sys.path), name]
                subprocess.run(command, capture_output=True, check=False)

    before = set(os.listdir(folder))
    workers = [Thread(target=work) for _ in range(min(processes, len(names)))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return len({name for name in os.listdir(folder) if name.endswith(".nbc")} - before)


# A process of its own, not a fork or a spawned one: this works in any script and notebook.
ONE_STEP = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from sfumato.warming.steps import STEPS
STEPS[sys.argv[2]]()
"""
