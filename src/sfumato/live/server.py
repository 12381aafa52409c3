"""The page's server: a thread of this process, on loopback only."""

import asyncio
import logging
import secrets
import socket
import time
from collections.abc import Mapping
from threading import Thread

import uvicorn

from sfumato.live.app import application
from sfumato.live.limits import MAX_ACCEPTED, MAX_QUEUED, LimitedProtocol
from sfumato.live.view import About
from sfumato.metrics.figures import Figures

LOOPBACK = "127.0.0.1"
PATIENCE = 10.0  # seconds for a start or stop


class _QuietServer(uvicorn.Server):
    """A server that leaves it to its clients to see what went wrong."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        await super().startup(sockets)
        for listening in sockets or ():  # asyncio accepts as many at once as it lets queue
            listening.listen(MAX_QUEUED)


class Server:
    """Serves the page of some figures from its making to `stop`. `url` opens it, with its token.

    port : 0 for a free one. Raises OSError for a port that is taken.
    """

    def __init__(self, figures: Figures, about: Mapping[str, About], port: int = 0) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((LOOPBACK, port))
        except OSError:
            self._socket.close()
            raise
        self.port = int(self._socket.getsockname()[1])
        token = secrets.token_urlsafe(24)
        self.url = f"http://{LOOPBACK}:{self.port}/?token={token}"
        app = application(
            figures,
            about,
            token,
            cookie=f"sfumato-{self.port}",
            over=lambda: self._server.should_exit,
        )
        config = uvicorn.Config(
            app,
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
        self._thread = Thread(
            target=self._server.run, args=([self._socket],), name="sfumato watch", daemon=True
        )
        self._thread.start()
        until = time.monotonic() + PATIENCE
        while not self._server.started and self._thread.is_alive() and time.monotonic() < until:
            time.sleep(0.01)

    def stop(self) -> None:
        """End it; what was open ends too."""
        self._server.should_exit = True
        self._thread.join(PATIENCE)
        self._socket.close()
