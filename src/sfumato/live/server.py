"""The page's server: a thread of this process on loopback, with a bounded number of connections."""

import asyncio
import logging
import secrets
import socket
import time
from collections.abc import Mapping
from threading import Thread

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from sfumato.live.app import application
from sfumato.live.view import About
from sfumato.metrics.figures import SessionFigures

LOOPBACK_HOST = "127.0.0.1"
PATIENCE = 10.0  # seconds for a start or stop
# Limits, so that nobody who can reach the port exhausts the file descriptors of the process.
MAX_VIEWERS = 48  # concurrent connections; an open page needs several
MAX_ACCEPTED = 16  # connections accepted at once, before the limit applies
MAX_QUEUED = 256  # connections queued by the system; they use no file descriptors here
PAGE_SECONDS = 5.0  # maximum time to receive the head of a request


class LimitedProtocol(H11Protocol):
    """A connection that is closed unless a request arrives within PAGE_SECONDS."""

    waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()
        if len(self.connections) > MAX_VIEWERS:
            others = [c for c in self.connections if isinstance(c, LimitedProtocol) and c.waiting]
            oldest = min(others, key=lambda c: c.waiting.when() if c.waiting else 0.0, default=self)
            oldest._abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Start the timer if no request is being answered; it runs until the next request."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self.waiting is None and not self.transport.is_closing():
            self.waiting = self.loop.call_later(PAGE_SECONDS, self._abort)

    def _stop_waiting(self) -> None:
        if self.waiting is not None:
            self.waiting.cancel()
            self.waiting = None

    def _abort(self) -> None:
        self._stop_waiting()
        self.connections.discard(self)
        self.transport.abort()


class _QuietServer(uvicorn.Server):
    """A server that prints nothing: errors are reported to its clients."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        await super().startup(sockets)
        for listening in sockets or ():  # asyncio accepts its whole queue at once
            listening.listen(MAX_QUEUED)


class Server:
    """Server of a page of metrics until `stop`; `url` opens it, with its token.

    port : 0 for a free port. Raises OSError for a port in use.
    """

    def __init__(self, figures: SessionFigures, about: Mapping[str, About], port: int = 0) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((LOOPBACK_HOST, port))
        except OSError:
            self._socket.close()
            raise
        self.port = int(self._socket.getsockname()[1])
        token = secrets.token_urlsafe(24)
        self.url = f"http://{LOOPBACK_HOST}:{self.port}/?token={token}"
        cookie = f"sfumato-{self.port}"
        config = uvicorn.Config(
            application(figures, about, token, cookie=cookie, over=lambda: self._is_over),
            loop="asyncio",
            http=LimitedProtocol,
            ws="none",
            backlog=MAX_ACCEPTED,
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=2,
        )
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        self._server = _QuietServer(config)
        run, sockets = self._server.run, [self._socket]
        self._thread = Thread(target=run, args=(sockets,), name="sfumato watch", daemon=True)
        self._thread.start()
        until = time.monotonic() + PATIENCE
        while not self._server.started and self._thread.is_alive() and time.monotonic() < until:
            time.sleep(0.01)

    @property
    def _is_over(self) -> bool:
        return self._server.should_exit

    def stop(self) -> None:
        """Stop the server, and end open requests."""
        self._server.should_exit = True
        self._thread.join(PATIENCE)
        self._socket.close()
