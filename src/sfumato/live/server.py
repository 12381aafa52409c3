"""The server of the page: a thread that serves the owner of the token on loopback."""

import asyncio
import json
import logging
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
from functools import cache
from importlib.resources import files
from threading import Thread
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from sfumato.live.view import About, view
from sfumato.metrics.exporters import CONTENT_TYPE, prometheus_text
from sfumato.metrics.session_metrics import SessionMetrics

REFRESH_SECONDS = 1.0  # seconds between updates
PAGE = {"page.html": "text/html", "page.css": "text/css", "page.js": "text/javascript"}
EMPTY_TOKEN = '<meta name="token" content="">'  # placeholder in the page
DATA_PATHS = ("/events", "/state", "/metrics")
MAX_OPENED = 64  # cookies that are valid at the same time
HEADERS = {
    # Charts are compiled in the browser, which needs 'unsafe-eval'; all files are served from here.
    "content-security-policy": (
        "default-src 'none'; script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


class TokenMiddleware:
    """Middleware that answers 403 to every request without the token.

    Requests for data must send the token in the header ``Authorization: Bearer``. Browsers send a
    host's cookies to all of its ports, where servers of other users can read them. Therefore the
    cookie differs from the token, and only gives access to the page's files, which contain no data.
    A request with ``?token=`` is redirected to an address without the token. The text of the page
    then contains the token, once.

    opened : cookies whose page has not received the token yet
    """

    def __init__(self, app: ASGIApp, token: str, cookie: str, opened: list[str]) -> None:
        self.app, self.token, self.cookie, self.opened = app, token, cookie, opened
        self.known: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        has_cookie = request.cookies.get(self.cookie, "") in self.known
        answer: ASGIApp = self.app
        if self._fits(request.query_params.get("token")) and request.url.path == "/":
            value = secrets.token_urlsafe(24)
            for cookies in (self.known, self.opened):
                cookies[:] = [*cookies[-MAX_OPENED:], value]
            opened = RedirectResponse("/", status_code=303, headers=HEADERS)
            opened.set_cookie(self.cookie, value, httponly=True, samesite="strict")
            answer = opened
        elif not (self._fits(bearer) or (has_cookie and request.url.path not in DATA_PATHS)):
            answer = _text(
                "This address has no token. Open the address that was printed; a program must "
                "send the token in the header Authorization: Bearer TOKEN.",
                403,
            )
        await answer(scope, receive, send)

    def _fits(self, given: str | None) -> bool:
        return given is not None and secrets.compare_digest(given.encode(), self.token.encode())


def _text(line: str, status: int) -> Response:
    return Response(f"{line}\n", status, HEADERS, "text/plain")


def application(
    metrics: SessionMetrics,
    about: Mapping[str, About],
    token: str,
    cookie: str,
    over: Callable[[], bool],
) -> Starlette:
    """Return the application. over : returns whether the server is stopping, which ends events"""
    opened: list[str] = []

    async def page(request: Request) -> Response:
        name = request.path_params.get("name", "page.html")
        if name not in PAGE:
            return _text("not found", 404)
        text = (files("sfumato.live") / "page" / name).read_text(encoding="utf-8")
        value = request.cookies.get(cookie, "")
        if name == "page.html" and value in opened:
            opened.remove(value)
            text = text.replace(EMPTY_TOKEN, EMPTY_TOKEN.replace('""', f'"{token}"'))
        return Response(text, media_type=PAGE[name], headers=HEADERS)

    async def charts(_: Request) -> Response:
        return Response(chart_library(), media_type="text/javascript", headers=HEADERS)

    async def state(_: Request) -> Response:
        return JSONResponse(view(metrics, about), headers=HEADERS)

    async def changes(request: Request) -> AsyncIterator[str]:
        before: Any = None
        while not over() and not await request.is_disconnected():
            now = view(metrics, about)
            is_new, before = now["queries"] != before, now["queries"]
            yield f"data: {json.dumps(now)}\n\n" if is_new else ": nothing new\n\n"
            await asyncio.sleep(REFRESH_SECONDS)

    async def events(request: Request) -> Response:
        return StreamingResponse(changes(request), 200, HEADERS, "text/event-stream")

    async def prometheus(_: Request) -> Response:
        try:
            text = prometheus_text(metrics)
        except ImportError:
            return _text("pip install 'sfumato[metrics]'", 501)
        return Response(text, headers={**HEADERS, "content-type": CONTENT_TYPE})

    return Starlette(
        routes=[
            Route("/", page),
            Route("/charts.js", charts),
            Route("/events", events),
            Route("/state", state),
            Route("/metrics", prometheus),
            Route("/{name}", page),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"]),
            Middleware(TokenMiddleware, token=token, cookie=cookie, opened=opened),
        ],
    )


@cache
def chart_library() -> str:
    """Return the script with Vega, Vega-Lite and Vega-Embed that vl-convert bundles."""
    import vl_convert

    return str(vl_convert.javascript_bundle())  # type: ignore[call-arg]


LOOPBACK_HOST = "127.0.0.1"
PATIENCE = 10.0  # maximum seconds to wait for a start or stop
# These limits keep clients from exhausting the process's file descriptors.
MAX_VIEWERS = 48  # concurrent connections; an open page needs several
MAX_ACCEPTED = 16  # connections accepted together, before the limit applies
MAX_QUEUED = 256  # connections in the system's queue, without file descriptors of this process
PAGE_SECONDS = 5.0  # maximum time to receive a request's head


class LimitedProtocol(H11Protocol):
    """A connection that closes unless a request arrives within PAGE_SECONDS."""

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
        """Start the timer if no request is being answered; otherwise stop it."""
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
        for listening in sockets or ():  # asyncio would accept its whole backlog together
            listening.listen(MAX_QUEUED)


class Server:
    """Server of a metrics page, at `url` (which includes the token), until `stop` is called.

    port : 0 for a free port. Raises OSError for a port in use.
    """

    def __init__(self, metrics: SessionMetrics, about: Mapping[str, About], port: int = 0) -> None:
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
            application(metrics, about, token, cookie, lambda: self._server.should_exit),
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

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(PATIENCE)
        self._socket.close()
