"""Figures to be fetched by a monitoring system: over HTTP, or from a file."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

from sfumato.metrics.figures import Figures

EVERY = 10.0  # seconds between two writes of a file
MAX_CONNECTIONS = 32  # to the port, at once
REQUEST_SECONDS = 10.0  # for a request and its answer
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


class MetricsServer(ThreadingHTTPServer):
    """Answers one request per connection, on loopback.

    At most MAX_CONNECTIONS are open, each for REQUEST_SECONDS at most: above that the oldest one is
    closed. Errors of clients are not printed.
    """

    request_queue_size = 256  # kept by the system, without files of this process
    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self._open: dict[Any, float] = {}  # when each connection began, oldest first
        self._lock = Lock()
        super().__init__(("127.0.0.1", port), handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open[request] = time.monotonic()
        self._close_surplus()
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        self._close_surplus()

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: the client sees it."""

    def _close_surplus(self) -> None:
        limit = time.monotonic() - REQUEST_SECONDS
        with self._lock:
            surplus = len(self._open) - MAX_CONNECTIONS
            ending = [
                connection
                for number, (connection, began) in enumerate(self._open.items())
                if number < surplus or began < limit
            ]
            for connection in ending:
                del self._open[connection]
        for connection in ending:  # its thread then ends, and closes it
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def _http(figures: Figures, port: int) -> Iterator[int]:
    from prometheus_client import MetricsHandler

    from sfumato.metrics.prometheus import registry

    handler = MetricsHandler.factory(registry(figures))
    server = MetricsServer(port, handler)
    thread = Thread(target=server.serve_forever, name="sfumato metrics port", daemon=True)
    thread.start()
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
