"""Bounds on connections, so that nobody who can reach the port takes the process's files."""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 48  # at once: a page open in a browser needs some of them
MAX_ACCEPTED = 16  # connections accepted in one go, before the limit is applied
MAX_QUEUED = 256  # connections that the system keeps until they are accepted: no files of ours
REQUEST_SECONDS = 5.0  # for a whole request's head to arrive


class LimitedProtocol(H11Protocol):
    """A connection that ends unless a request arrives within REQUEST_SECONDS.

    Where there are more than MAX_CONNECTIONS, the one that has waited longest for a request is
    closed; if all of them are being answered, the new one.
    """

    waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()
        if len(self.connections) > MAX_CONNECTIONS:
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
        """Start the clock where no request is being answered; it runs on until there is one."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self.waiting is None and not self.transport.is_closing():
            self.waiting = self.loop.call_later(REQUEST_SECONDS, self._abort)

    def _stop_waiting(self) -> None:
        if self.waiting is not None:
            self.waiting.cancel()
            self.waiting = None

    def _abort(self) -> None:
        self._stop_waiting()
        self.connections.discard(self)
        self.transport.abort()
