"""Access to a console that several viewers use: sign-in with a token, Host and Origin headers, and their sessions."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.parse import quote

import jinja2
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from trainyard.insight.console.asset_lock import ASSETS
from trainyard.insight.console.page_headers import confined
from trainyard.insight.console.request_origin import LOOPBACK_NAMES, refusal
from trainyard.insight.console.sign_in_limit import SignInLimit
from trainyard.insight.console.viewer_sessions import SignInError, ViewerSessions
from trainyard.kube.reviews import MAX_TOKEN, is_token
from trainyard.listening import client_key

SIGN_IN: Final = "/sign-in"
SIGN_OUT: Final = "/sign-out"
_SESSION: Final = "/session"
"""Whether the session continues, for a page whose updates have ended."""
_PROBES: Final = ("/healthz", "/readyz")
_MAX_FORM: Final = 2 * MAX_TOKEN
_MAX_PATH: Final = 2048
_HTTPS_PORT: Final = "443"
_TEMPLATES: Final = Path(__file__).resolve().parent / "templates"


class SessionGuard:
    """ASGI application.

    Parameters
    ----------
    sessions
        Sessions of the viewers.
    hosts
        Names by which the console is opened, beside those of this machine.
    name
        Name of the cluster, for the sign-in page.
    limit
        Limit of sign-in attempts.
    """

    def __init__(
        self, sessions: ViewerSessions, hosts: Iterable[str], name: str, limit: SignInLimit | None = None
    ) -> None:
        self._sessions = sessions
        self._hosts = frozenset(each.lower() for each in (*hosts, *LOOPBACK_NAMES))
        self._name = name
        self._limit = limit or SignInLimit()
        self._assets = Starlette(routes=[Mount("/assets", StaticFiles(directory=ASSETS))])
        environment = jinja2.Environment(loader=jinja2.FileSystemLoader(_TEMPLATES), autoescape=True)
        self._template = environment.get_template("sign_in.html")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it to the pages of its session."""
        if scope["type"] != "http":
            return
        send = confined(send)
        request = Request(scope, receive)
        answer = self._probed(request) or refusal(request, self._hosts)
        if answer is None and request.url.path.startswith("/assets/"):
            await self._assets(scope, receive, send)
            return
        if answer is None:
            answer = await self._own_page(request)
        if answer is not None:
            await answer(scope, receive, send)
            return
        session = await self._sessions.find(_cookie_of(request))
        if session is None:
            await self._sign_in_page(request, 401)(scope, receive, send)
            return
        await session.opened.current_pages(scope, receive, send)

    def _probed(self, request: Request) -> Response | None:
        """Return the answer to a probe, which has the address of the pod as host."""
        if request.method == "GET" and request.url.path in _PROBES:
            return PlainTextResponse("ok")
        return None

    async def _own_page(self, request: Request) -> Response | None:
        """Return the answer of the pages without a session, and of those about it."""
        path, posted = request.url.path, request.method == "POST"
        if path == SIGN_IN:
            return await self._sign_in(request) if posted else self._sign_in_page(request, 200)
        if path == SIGN_OUT and posted:
            await self._sessions.close(_cookie_of(request))
            response: Response = RedirectResponse(SIGN_IN, 303)
            response.delete_cookie(_cookie_name(request), secure=True, httponly=True, samesite="strict", path="/")
            return response
        if path == _SESSION:
            found = await self._sessions.find(_cookie_of(request), used=False)
            return Response(status_code=401 if found is None else 204)
        return None

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
        if not self._limit.take(client_key(request.client.host if request.client else ""), token):
            return self._sign_in_page(request, 429, "There were too many attempts. Try again in a minute.")
        try:
            identifier = await self._sessions.open(token)
            self._limit.accept(token)
        except SignInError as error:
            return self._sign_in_page(request, error.status, str(error), target)
        await self._sessions.close(_cookie_of(request))
        response = RedirectResponse(_local(target), 303)
        response.set_cookie(_cookie_name(request), identifier, secure=True, httponly=True, samesite="strict", path="/")
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


def _cookie_name(request: Request) -> str:
    """Return the name of the cookie: browsers send cookies to every port of a host."""
    _, colon, port = request.headers["host"].rpartition(":")
    return f"__Host-trainyard-console-{port if colon and port.isdecimal() else _HTTPS_PORT}"


def _cookie_of(request: Request) -> str:
    """Return the identifier in the cookie; empty: it has none, or several."""
    name = _cookie_name(request)
    pairs = (each.partition("=") for line in request.headers.getlist("cookie") for each in line.split(";"))
    found = [value.strip() for key, _, value in pairs if key.strip() == name]
    return found[0] if len(found) == 1 else ""
