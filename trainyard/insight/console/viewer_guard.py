"""Access to a console that several viewers use: sign-in with a token, and the Host and Origin headers of requests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.parse import quote

import jinja2
from aiohttp import web
from aiohttp.typedefs import Handler

from trainyard.insight.console.request_origin import LOOPBACK_NAMES, refusal
from trainyard.insight.console.viewer_credential import MAX_COOKIE_TOKEN, ViewerCookie, passed_token
from trainyard.insight.console.viewer_readers import ViewerReaders
from trainyard.insight.console.web_application import EVENTS, PAGES, form_of
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
_NOT_CURRENT: Final = "The state is not current: it is older than a minute. Try again."
_MAX_FORM: Final = 2 * MAX_TOKEN
_MAX_PATH: Final = 2048
_TEMPLATES: Final = Path(__file__).resolve().parent / "templates"


class ViewerGuard:
    """Guard of the pages of several viewers.

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
        environment = jinja2.Environment(loader=jinja2.FileSystemLoader(_TEMPLATES), autoescape=True)
        self._template = environment.get_template("sign_in.html")

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request, or pass it to the pages of its viewer."""
        if request.method == "GET" and request.path in _PROBES:  # with the address of the pod as host
            return web.Response(text="ok")
        return refusal(request, self._hosts) or await self._answer(request) or await handler(request)

    async def _answer(self, request: web.Request) -> web.Response | None:
        """Return the answer to a request that is not passed on: to a viewer who is not known, or about signing in."""
        path, posted = request.path, request.method == "POST"
        if path.startswith("/assets/"):
            return None
        if path == SIGN_IN:
            return await self._sign_in(request) if posted else self._sign_in_page(request, 200)
        if path == SIGN_OUT and posted:
            return self._sign_out(request)
        token = passed_token(request) or self._cookie.token(request)
        if token is None:
            return self._sign_in_page(request, 401)
        try:
            opened = await self._readers.of(token)
        except web.HTTPUnauthorized as error:
            return self._sign_in_page(request, error.status, error.text)
        if path == _SESSION:
            return web.Response(status=204)
        request[PAGES] = opened.pages
        # Updates have no content, and tell a page when there is a newer state.
        return None if opened.is_current or path == EVENTS else web.Response(text=_NOT_CURRENT, status=503)

    def _sign_out(self, request: web.Request) -> web.Response:
        token = self._cookie.token(request)
        if token is not None:
            self._readers.end(token)
        response = web.Response(status=303, headers={"Location": SIGN_IN})
        self._cookie.delete(request, response)
        return response

    async def _sign_in(self, request: web.Request) -> web.Response:
        if request.content_length is None or request.content_length > _MAX_FORM:
            return self._sign_in_page(request, 413, "The form is too large.")
        if request.content_type != "application/x-www-form-urlencoded":
            return self._sign_in_page(request, 415, "The form is not complete.")
        try:
            form = await form_of(request)
        except web.HTTPBadRequest as error:
            return self._sign_in_page(request, error.status, error.text)
        token, target = (form.get(each, "").strip() for each in ("token", "to"))
        if not is_token(token):
            return self._sign_in_page(request, 401, "The API server does not accept this token.", target)
        if len(token) > MAX_COOKIE_TOKEN:
            return self._sign_in_page(request, 413, _TOO_LONG, target)
        try:
            await self._readers.of(token)
        except web.HTTPError as error:
            return self._sign_in_page(request, error.status, error.text, target)
        response = web.Response(status=303, headers={"Location": _local(target)})
        self._cookie.store(request, response, token)
        return response

    def _sign_in_page(
        self, request: web.Request, status: int, message: str | None = None, target: str = ""
    ) -> web.Response:
        """Return the form; to a script, whose page stays open, only the status."""
        if "HX-Request" in request.headers or request.headers.get("Accept", "").startswith("text/event-stream"):
            return web.Response(text="Sign in again.", status=status)
        asked = request.method == "GET" and request.path != SIGN_IN
        # A browser sends no SameSite=Strict cookie with a request that another site has begun, but does with the next.
        again = asked and request.headers.get("Sec-Fetch-Site") == "cross-site"
        query = request.rel_url.raw_query_string
        target = _local(request.path + (f"?{query}" if query else "") if asked else target)
        text = self._template.render(name=self._name, message=message, target=target, again=again, action=SIGN_IN)
        return web.Response(text=text, status=status, content_type="text/html")


def _local(target: str) -> str:
    """Return a path of this console; a target of another one becomes one of this, too long ones the first page."""
    if len(target) > _MAX_PATH or not target.startswith("/") or target.startswith((SIGN_IN, SIGN_OUT)):
        return "/"
    path, mark, query = target.partition("?")
    return quote("/" + path.lstrip("/\\"), safe="/%") + mark + quote(query, safe="=&%+")
