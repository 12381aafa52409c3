"""Figures to be fetched by a monitoring system: over HTTP, or from a file."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread

from sfumato.metrics.figures import Figures

EVERY = 10.0  # seconds between two writes of a file
ENDINGS = (".prom", ".jsonl")


@contextmanager
def served(
    figures: Figures, *, port: int | None = None, file: Path | None = None, every: float = EVERY
) -> Iterator[int | None]:
    """While in here the figures are at http://127.0.0.1:PORT/metrics and in a file; the port.

    port : 0 for a free one, None for none     every : seconds between two writes
    file : `*.prom`, replaced at once, for the node exporter; `*.jsonl`, which grows; None for none
    Raises ValueError for another ending, OSError for a port that is taken, ImportError without the
    extra `metrics`.
    """
    with ExitStack() as stack:
        if port is not None:
            port = stack.enter_context(_http(figures, port))
        if file is not None:
            stack.enter_context(_again_and_again(_writer(figures, file), every))
        yield port


@contextmanager
def _http(figures: Figures, port: int) -> Iterator[int]:
    from prometheus_client import start_http_server

    from sfumato.metrics.prometheus import registry

    server, thread = start_http_server(port, addr="127.0.0.1", registry=registry(figures))
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _writer(figures: Figures, file: Path) -> Callable[[], None]:
    if file.suffix == ".prom":
        from sfumato.metrics.prometheus import write

        return lambda: write(figures, file)
    if file.suffix == ".jsonl":
        from sfumato.metrics.lines import append

        return lambda: append(figures, file)
    raise ValueError(f"a file of metrics ends in {' or '.join(ENDINGS)}; got {file.name!r}")


@contextmanager
def _again_and_again(write: Callable[[], None], every: float) -> Iterator[None]:
    """Call it now, at intervals, and at the end."""
    write()
    over = Event()

    def work() -> None:
        while not over.wait(every):
            write()

    thread = Thread(target=work, name="sfumato metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        write()
