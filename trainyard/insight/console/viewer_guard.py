"""Access to a console that several viewers use: sign-in with a token, and the Host and Origin headers of requests."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import quote

import jinja2
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from trainyard.insight.console.asset_lock import ASSETS
from trainyard.insight.console.page_headers import confined
from trainyard.insight.console.request_origin import LOOPBACK_NAMES, refusal
from trainyard.insight.console.viewer_credential import MAX_COOKIE_TOKEN, ViewerCookie, passed_token
from trainyard.insight.console.viewer_readers import CannotReadError, ViewerReaders
from trainyard.kube.reviews import MAX_TOKEN, is_token

SIGN_IN: Final = "/sign-in"
SIGN_OUT: Final = "/sign-out"
_SESSION: Final = "/session"
"""Whether the API server still accepts the token, for a page whose updates have ended."""
_PROBES: Final = ("/healthz", "/readyz")
_TOO_LONG: Final = (
    f"This token is too long for a cookie: {MAX_COOKIE_TOKEN} characters are the most. Use one of a user with fewer "
    "groups, or a proxy that passes the token on."
)
_MAX_FORM: Final = 2 * MAX_TOKEN
_MAX_PATH: Final = 2048
_TEMPLATES: Final = Path(__file__).resolve().parent / "templates"


class ViewerGuard:
    """ASGI application.

    Parameters
    ----------
    readers
        Readers of the viewers.
    cookie
        Cookie with the token of a viewer.
    hosts
        Names by which the console is opened, beside those of this machine.
    name
        Name of the cluster, for the sign-in page.
    """

    def __init__(self, readers: ViewerReaders, cookie: ViewerCookie, hosts: Iterable[str], name: str) -> None:
        self._readers = readers
        self._cookie = cookie
        self._hosts = frozenset(each.lower() for each in (*hosts, *LOOPBACK_NAMES))
        self._name = name
        self._assets = Starlette(routes=[Mount("/assets", StaticFiles(directory=ASSETS))])
        environment = jinja2.Environment(loader=jinja2.FileSystemLoader(_TEMPLATES), autoescape=True)
        self._template = environment.get_template("sign_in.html")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it to the pages of its viewer."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        pages = self._probed(request) or refusal(request, self._hosts) or await self._pages(request)
        await pages(scope, receive, confined(send))

    def _probed(self, request: Request) -> Response | None:
        """Return the answer to a probe, which has the address of the pod as host."""
        if request.method == "GET" and request.url.path in _PROBES:
            return PlainTextResponse("ok")
        return None

    async def _pages(self, request: Request) -> ASGIApp:
        """Return what answers a request: a page for everyone, or the pages of its viewer."""
        path, posted = request.url.path, request.method == "POST"
        if path.startswith("/assets/"):
            return self._assets
        if path == SIGN_IN:
            return await self._sign_in(request) if posted else self._sign_in_page(request, 200)
        if path == SIGN_OUT and posted:
            return self._sign_out(request)
        token = passed_token(request) or self._cookie.token(request)
        if token is None:
            return self._sign_in_page(request, 401)
        try:
            opened = await self._readers.of(token)
        except CannotReadError as error:
            if error.status == HTTPStatus.UNAUTHORIZED:
                return self._sign_in_page(request, error.status, str(error))
            return PlainTextResponse(str(error), error.status)
        return Response(status_code=204) if path == _SESSION else opened.current_pages

    def _sign_out(self, request: Request) -> Response:
        token = self._cookie.token(request)
        if token is not None:
            self._readers.end(token)
        response = RedirectResponse(SIGN_IN, 303)
        self._cookie.delete(request, response)
        return response

    async def _sign_in(self, request: Request) -> Response:
        length = request.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > _MAX_FORM:
            return self._sign_in_page(request, 413, "The form is too large.")
        form = request.headers.get("content-type", "").partition(";")[0].strip()
        if form != "application/x-www-form-urlencoded":
            return self._sign_in_page(request, 415, "The form is not complete.")
        try:
            async with request.form(max_files=0, max_fields=2) as fields:
                token, target = (str(fields.get(each, "")).strip() for each in ("token", "to"))
        except ClientDisconnect:
            return Response(status_code=400)
        if not is_token(token):
            return self._sign_in_page(request, 401, "The API server does not accept this token.", target)
        if len(token) > MAX_COOKIE_TOKEN:
            return self._sign_in_page(request, 413, _TOO_LONG, target)
        try:
            await self._readers.of(token)
        except CannotReadError as error:
            return self._sign_in_page(request, error.status, str(error), target)
        response = RedirectResponse(_local(target), 303)
        self._cookie.store(request, response, token)
        return response

    def _sign_in_page(self, request: Request, status: int, message: str = "", target: str = "") -> Response:
        """Return the form; to a script, whose page stays open, only the status."""
        accepts = request.headers.get("accept", "")
        if "hx-request" in request.headers or accepts.startswith("text/event-stream"):
            return PlainTextResponse("Sign in again.", status)
        asked = request.method == "GET" and request.url.path != SIGN_IN
        # A browser sends no SameSite=Strict cookie with a request that another site has begun, but does with the next.
        again = asked and request.headers.get("sec-fetch-site") == "cross-site"
        address = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        target = _local(address if asked else target)
        text = self._template.render(name=self._name, message=message, target=target, again=again, action=SIGN_IN)
        return HTMLResponse(text, status)


def _local(target: str) -> str:
    """Return a path of this console; a target of another one becomes one of this, too long ones the first page."""
    if len(target) > _MAX_PATH or not target.startswith("/") or target.startswith((SIGN_IN, SIGN_OUT)):
        return "/"
    path, mark, query = target.partition("?")
    return quote("/" + path.lstrip("/\\"), safe="/%") + mark + quote(query, safe="=&%+")
