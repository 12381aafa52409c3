"""The web application: the page, its events, Prometheus' text; nothing of it without the token."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import (
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from sfumato.live.view import About, view
from sfumato.metrics.figures import Figures

EVERY = 1.0  # seconds between two looks at the figures
PAGE = {"page.html": "text/html", "page.css": "text/css", "page.js": "text/javascript"}
NO_TOKEN = '<meta name="token" content="">'  # in the page's text
MAX_OPENED = 64  # cookies that are valid at once
HEADERS = {
    # Charts are compiled in the browser, which needs 'unsafe-eval'; nothing comes from elsewhere.
    "content-security-policy": (
        "default-src 'none'; script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


DATA = ("/events", "/figures", "/metrics")


class TokenMiddleware:
    """Checks who asks; the answer to anybody else is 403.

    Data are given for the token in the header ``Authorization: Bearer`` and for nothing else. A
    browser sends the cookies of a host to all of its ports, so that other users' servers see them:
    the cookie opens the page's files, which hold no data, and is not the token. A page that is
    opened with ``?token=`` leaves that address at once, and gets the token in its text, once.
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
            self.known[:-MAX_OPENED] = []
            self.known.append(value)
            self.opened[:-MAX_OPENED] = []
            self.opened.append(value)
            opened = RedirectResponse("/", status_code=303, headers=HEADERS)
            opened.set_cookie(self.cookie, value, httponly=True, samesite="strict")
            answer = opened
        elif not (self._fits(bearer) or (has_cookie and request.url.path not in DATA)):
            why = "The address that was printed has a token, which is missing here.\n"
            answer = PlainTextResponse(why, status_code=403, headers=HEADERS)
        await answer(scope, receive, send)

    def _fits(self, given: str | None) -> bool:
        return given is not None and secrets.compare_digest(given.encode(), self.token.encode())


def application(
    figures: Figures,
    about: Mapping[str, About],
    token: str,
    *,
    cookie: str = "sfumato",
    over: Callable[[], bool] = lambda: False,
) -> Starlette:
    """The application. over : whether the server is about to stop, which ends streams of events"""
    opened: list[str] = []  # cookies whose page has not come for the token yet

    async def page(request: Request) -> Response:
        name = request.path_params.get("name", "page.html")
        if name not in PAGE:
            return PlainTextResponse("not here\n", status_code=404, headers=HEADERS)
        text = (files("sfumato.live") / "page" / name).read_text(encoding="utf-8")
        value = request.cookies.get(cookie, "")
        if name == "page.html" and value in opened:
            opened.remove(value)
            text = text.replace(NO_TOKEN, NO_TOKEN.replace('""', f'"{token}"'))
        return Response(text, media_type=PAGE[name], headers=HEADERS)

    async def charts(_: Request) -> Response:
        return Response(chart_library(), media_type="text/javascript", headers=HEADERS)

    async def shown(_: Request) -> Response:
        return JSONResponse(view(figures, about), headers=HEADERS)

    async def events(request: Request) -> Response:
        stream = _events(request, figures, about, over)
        return StreamingResponse(stream, media_type="text/event-stream", headers=HEADERS)

    async def metrics(_: Request) -> Response:
        try:
            from sfumato.metrics.prometheus import CONTENT_TYPE, text
        except ImportError:
            why = "pip install 'sfumato[metrics]'\n"
            return PlainTextResponse(why, status_code=501, headers=HEADERS)
        return Response(text(figures), headers={**HEADERS, "content-type": CONTENT_TYPE})

    return Starlette(
        routes=[
            Route("/", page),
            Route("/charts.js", charts),
            Route("/events", events),
            Route("/figures", shown),
            Route("/metrics", metrics),
            Route("/{name}", page),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"]),
            Middleware(TokenMiddleware, token=token, cookie=cookie, opened=opened),
        ],
    )


@cache
def chart_library() -> str:
    """Vega, Vega-Lite and Vega-Embed in one file, as vl-convert packages them."""
    import vl_convert

    return str(vl_convert.javascript_bundle())  # type: ignore[call-arg]


async def _events(
    request: Request, figures: Figures, about: Mapping[str, About], over: Callable[[], bool]
) -> AsyncIterator[str]:
    """What the page shows, again whenever it has changed."""
    before: Any = None
    while not over() and not await request.is_disconnected():
        now = view(figures, about)
        if now["queries"] != before:
            before = now["queries"]
            yield f"data: {json.dumps(now)}\n\n"
        else:
            yield ": nothing new\n\n"
        await asyncio.sleep(EVERY)
