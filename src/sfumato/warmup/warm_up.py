"""Ahead-of-time compilation of all kernels of queries, in this and other processes."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Any, NamedTuple

from sfumato.kernels import compile_store
from sfumato.kernels.compile import compile_counts
from sfumato.warmup.steps import SLOWEST, WARM_UP_STEPS

# A new interpreter works in any script and notebook, unlike a fork or spawn. It runs several
# steps, because they share compiled code that is not stored.
STEPS_BY_LINE = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from sfumato.warmup.steps import WARM_UP_STEPS
for line in sys.stdin:
    WARM_UP_STEPS[line.strip()]()
    print(flush=True)
"""


class WarmedUp(NamedTuple):
    """Result of `warm_up`.

    Parameters
    ----------
    compiled
        Number of compiled kernels, in this and other processes.
    loaded
        Number of kernels read from disk.
    folder
        Folder of the compiled kernels; None if no folder is writable.
    """

    compiled: int
    loaded: int
    folder: Path | None


def warm_up(
    only: Iterable[str] | None = None,
    progress: Callable[[str], None] | None = None,
    processes: int | None = None,
) -> WarmedUp:
    """Compile all kernels ahead of time, so that queries start without compilation.

    Parameters
    ----------
    only
        Names of the steps to run, as passed to `progress`; None for all.
    progress
        Called with the name of each step before it runs.
    processes
        Number of parallel processes; None: one per processor core.

    Returns
    -------
    The numbers of kernels compiled and loaded, and their folder.

    Raises
    ------
    KeyError
        For an unknown name.
    ValueError
        For a number of processes below 1.

    Notes
    -----
    Call it once per machine, as the user who installed the package or who runs the queries. For an
    image, call it during the build. Every machine of a cluster needs the kernels. Kernels on disk
    are not compiled again. The first run takes a few minutes of processor time, later runs take a
    few seconds.
    More: page how-to/warm-up of the documentation.
    Cost: 300 MB of memory per process.

    Examples
    --------
        sf.ops.warm_up(processes=2)
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    processes = cores or 1 if processes is None else processes
    if processes < 1:
        raise ValueError(f"`processes` must be 1 or more; got {processes}")
    names = list(WARM_UP_STEPS if only is None else only)
    unknown = [name for name in names if name not in WARM_UP_STEPS]
    if unknown:
        raise KeyError(
            f"there is no warm-up step {unknown[0]!r}; the steps are {list(WARM_UP_STEPS)}"
        )
    begun, folder = compile_counts(), compile_store.folder()
    compile_store.create_marker("compiling")  # suppress the notice about compilation
    elsewhere = 0
    for place, name in enumerate(names):
        if progress is not None:
            progress(name)
        before = compile_counts()
        WARM_UP_STEPS[name]()
        if not elsewhere and len(compile_counts().compiled) > len(before.compiled):
            # Other processes compile the remaining kernels, and this process then reads them.
            elsewhere = _compile_elsewhere(names[place + 1 :], processes, progress)
    if only is None:
        compile_store.create_marker("warm")
    compiled, loaded = (
        len(now) - len(then) for now, then in zip(compile_counts(), begun, strict=True)
    )
    return WarmedUp(compiled + elsewhere, loaded, folder)


def _compile_elsewhere(
    names: Sequence[str], processes: int, progress: Callable[[str], None] | None
) -> int:
    """Run steps in other processes; raise their errors; return the number of compiled kernels."""
    folder = compile_store.folder()
    if folder is None or processes == 1 or len(names) < 2 or not sys.executable:
        return 0
    waiting = iter(sorted(names, key=lambda n: (*SLOWEST, n).index(n)))  # shared by the threads

    def compile_some(_: int) -> None:
        command = [sys.executable, "-c", STEPS_BY_LINE, json.dumps(sys.path)]
        pipes: dict[str, Any] = {"stdin": PIPE, "stdout": PIPE, "stderr": DEVNULL}
        with Popen(command, text=True, **pipes) as process, suppress(OSError):
            assert process.stdin is not None
            assert process.stdout is not None
            for name in waiting:
                if progress is not None:
                    progress(name)
                print(name, file=process.stdin, flush=True)
                if not process.stdout.readline():  # it failed
                    break
            process.stdin.close()

    before = set(os.listdir(folder))
    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(compile_some, range(min(processes, len(names)))))
    return len({name for name in os.listdir(folder) if name.endswith(".nbc")} - before)
