"""Access to a local console: a token in the address, a cookie, the Host header, and headers that confine the pages.

Any program of this machine, and any page in the same browser, can send requests to 127.0.0.1. The token keeps others
out; the Host header is compared because a foreign name may resolve to this address (DNS rebinding).
"""

from __future__ import annotations

import hmac
import secrets
import time
from html import escape
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode

from aiohttp import web
from aiohttp.typedefs import Handler

from trainyard.insight.console.request_origin import LOOPBACK_NAMES, cookie_values
from trainyard.insight.console.web_application import PAGES, Pages

TOKEN_SECONDS: Final = 600.0
"""Seconds for which a token is valid."""

_READS: Final = ("GET", "HEAD")
_HTTP_PORT: Final = 80
_TOKEN: Final = "token"  # noqa: S105 - name of the parameter


class AccessGuard:
    """Guard of the pages of one viewer.

    Parameters
    ----------
    pages
        The pages.
    port
        Port of the server.
    """

    def __init__(self, pages: Pages, port: int) -> None:
        self._pages = pages
        self._tokens: dict[str, float] = {}
        self._secret = secrets.token_urlsafe(24)
        self._hosts = frozenset(f"{name}{end}" for name in LOOPBACK_NAMES for end in _ends_of(port))
        self._cookie = f"trainyard-console-{port}"  # browsers send cookies to every port of a host

    def new_token(self) -> str:
        """Return a token of an address: one request with it, in the next ten minutes, receives the cookie."""
        token = secrets.token_urlsafe(24)
        self._tokens[token] = time.monotonic() + TOKEN_SECONDS
        return token

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request, or pass it on."""
        request[PAGES] = self._pages
        return self._answer(request) or await handler(request)

    def _answer(self, request: web.Request) -> web.Response | None:
        """Return the answer to a request that is not passed on."""
        if request.headers.getall("Host", []) not in ([host] for host in self._hosts):
            return web.Response(text="The Host header is not that of this console.", status=421)
        if request.headers.get("Origin") not in (None, *(f"http://{host}" for host in self._hosts)):
            return web.Response(text="The request comes from another page.", status=403)
        parameters = parse_qsl(request.rel_url.raw_query_string, keep_blank_values=True)
        given = [value for name, value in parameters if name == _TOKEN]
        if given and request.method == "GET":
            return self._signed_in(request, given[-1], parameters)
        if not self._known(request):
            return web.Response(text="Open the address that `trainyard console` has printed.", status=401)
        if request.method not in (*_READS, "POST"):
            return web.Response(text="The console only reads.", status=405, headers={"Allow": "GET, HEAD"})
        return None

    def _signed_in(self, request: web.Request, token: str, parameters: list[tuple[str, str]]) -> web.Response:
        """Return a page that leads to the address without the token, which the cookie has from now on.

        A redirect would not do: browsers send no SameSite=Strict cookie with one that another page has begun.
        """
        taken = self._taken(token)
        if not taken and not self._known(request):
            text = "The address is valid once, for ten minutes, in one browser. Start `trainyard console` again."
            return web.Response(text=text, status=401)
        rest = urlencode([(name, value) for name, value in parameters if name != _TOKEN])
        path = escape(quote("/" + request.path.lstrip("/\\")) + (f"?{rest}" if rest else ""))
        head = f'<meta charset="utf-8"><meta http-equiv="refresh" content="0; url={path}"><title>Trainyard</title>'
        head += '<link rel="icon" href="/assets/icon.svg">'
        body = f'<!doctype html><html lang="en"><head>{head}</head><body><a href="{path}">Continue</a></body></html>'
        response = web.Response(text=body, content_type="text/html")
        response.headers["Referrer-Policy"] = "no-referrer"  # this address has the token
        response.set_cookie(self._cookie, self._secret, httponly=True, samesite="strict", path="/")
        return response

    def _known(self, request: web.Request) -> bool:
        """Return whether a request has the cookie."""
        return any(_equal(each, self._secret) for each in cookie_values(request, self._cookie))

    def _taken(self, token: str) -> bool:
        """Return whether a token is valid; it is not any more."""
        found = next((each for each in self._tokens if _equal(token, each)), None)
        return found is not None and time.monotonic() < self._tokens.pop(found)


def _ends_of(port: int) -> tuple[str, ...]:
    """Return how Host and Origin end: browsers leave out the port of HTTP."""
    return (f":{port}", "") if port == _HTTP_PORT else (f":{port}",)


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(errors="surrogateescape"), other.encode())
