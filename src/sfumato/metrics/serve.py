"""Serve metrics to a monitoring system, over HTTP or in a file."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

from sfumato.metrics.exporters import append_json_lines, registry, write_prometheus
from sfumato.metrics.figures import SessionFigures

WRITE_SECONDS = 10.0  # seconds between two writes of a file
MAX_SCRAPES = 32  # concurrent connections
SCRAPE_SECONDS = 10.0  # for a request and its response
WRITERS = {".prom": write_prometheus, ".jsonl": append_json_lines}  # by file suffix


@contextmanager
def served(
    figures: SessionFigures,
    *,
    port: int | None = None,
    file: Path | None = None,
    every: float = WRITE_SECONDS,
) -> Iterator[int | None]:
    """Serve metrics at http://127.0.0.1:PORT/metrics and in a file, and yield the port.

    port : 0 for a free port, None for none     every : seconds between two writes
    file : `*.prom`, replaced atomically for the node exporter, or `*.jsonl`, which is appended to
    Raises ValueError for other suffixes, OSError for a port in use, ImportError without the extra
    `metrics`.
    """
    if file is not None and file.suffix not in WRITERS:
        raise ValueError(f"a file of metrics ends in {' or '.join(WRITERS)}; got {file.name!r}")
    with ExitStack() as stack:
        if port is not None:
            port = stack.enter_context(_http(figures, port))
        if file is not None:
            stack.enter_context(_repeated(lambda: WRITERS[file.suffix](figures, file), every))
        yield port


class MetricsServer(ThreadingHTTPServer):
    """HTTP server on loopback for one request per connection."""

    request_queue_size = 256  # queued by the system, without file descriptors here
    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self._open: dict[Any, float] = {}  # connection -> start time, oldest first
        self._lock = Lock()
        super().__init__(("127.0.0.1", port), handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open[request] = time.monotonic()
        self.service_actions()
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        limit = time.monotonic() - SCRAPE_SECONDS
        with self._lock:
            surplus = len(self._open) - MAX_SCRAPES
            ending = [
                connection
                for number, (connection, began) in enumerate(self._open.items())
                if number < surplus or began < limit
            ]
            for connection in ending:
                del self._open[connection]
        for connection in ending:  # its thread then ends and closes it
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: the error is reported to the client."""


@contextmanager
def _http(figures: SessionFigures, port: int) -> Iterator[int]:
    from prometheus_client import MetricsHandler

    server = MetricsServer(port, MetricsHandler.factory(registry(figures)))
    thread = Thread(target=server.serve_forever, name="sfumato metrics port", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def _repeated(write: Callable[[], None], every: float) -> Iterator[None]:
    """Call `write` now, at intervals, and at the end."""
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
