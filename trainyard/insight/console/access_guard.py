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

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from trainyard.insight.console.page_headers import confined
from trainyard.insight.console.request_origin import LOOPBACK_NAMES

TOKEN_SECONDS: Final = 600.0
"""Seconds for which a token is valid."""

_READS: Final = ("GET", "HEAD")
_HTTP_PORT: Final = 80
_TOKEN: Final = "token"  # noqa: S105 - name of the parameter


class AccessGuard:
    """ASGI middleware.

    Parameters
    ----------
    app
        The pages.
    port
        Port of the server.
    """

    def __init__(self, app: ASGIApp, port: int) -> None:
        self._app = app
        self._tokens: dict[str, float] = {}
        self._secret = secrets.token_urlsafe(24)
        self._hosts = frozenset(f"{name}{end}" for name in LOOPBACK_NAMES for end in _ends_of(port))
        self._cookie = f"trainyard-console-{port}"  # browsers send cookies to every port of a host

    def new_token(self) -> str:
        """Return a token of an address: one request with it, in the next ten minutes, receives the cookie."""
        token = secrets.token_urlsafe(24)
        self._tokens[token] = time.monotonic() + TOKEN_SECONDS
        return token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        answer = self._refusal(scope)
        await (answer or self._app)(scope, receive, confined(send))

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the answer to a request that is not passed on."""
        headers = Headers(scope=scope)
        if headers.getlist("host") not in ([host] for host in self._hosts):
            return PlainTextResponse("The Host header is not that of this console.", 421)
        origin = headers.get("origin")
        if origin is not None and origin not in {f"http://{host}" for host in self._hosts}:
            return PlainTextResponse("The request comes from another page.", 403)
        parameters = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in parameters if name == _TOKEN]
        if given and scope["method"] == "GET":
            return self._signed_in(scope, headers, given[-1], parameters)
        if not self._known(headers):
            return PlainTextResponse("Open the address that `trainyard console` has printed.", 401)
        if scope["method"] not in (*_READS, "POST"):
            return PlainTextResponse("The console only reads.", 405, {"allow": "GET, HEAD"})
        return None

    def _signed_in(self, scope: Scope, headers: Headers, token: str, parameters: list[tuple[str, str]]) -> Response:
        """Return a page that leads to the address without the token, which the cookie has from now on.

        A redirect would not do: browsers send no SameSite=Strict cookie with one that another page has begun.
        """
        taken = self._taken(token)
        if not taken and not self._known(headers):
            text = "The address is valid once, for ten minutes, in one browser. Start `trainyard console` again."
            return PlainTextResponse(text, 401)
        rest = urlencode([(name, value) for name, value in parameters if name != _TOKEN])
        path = escape(quote("/" + scope["path"].lstrip("/\\")) + (f"?{rest}" if rest else ""))
        head = f'<meta charset="utf-8"><meta http-equiv="refresh" content="0; url={path}"><title>Trainyard</title>'
        head += '<link rel="icon" href="/assets/icon.svg">'
        response = HTMLResponse(
            f'<!doctype html><html lang="en"><head>{head}</head><body><a href="{path}">Continue</a></body></html>'
        )
        response.headers["referrer-policy"] = "no-referrer"  # this address has the token
        response.set_cookie(self._cookie, self._secret, httponly=True, samesite="strict", path="/")
        return response

    def _known(self, headers: Headers) -> bool:
        """Return whether a request has the cookie; those of other programs of this machine may be invalid ones."""
        pairs = (each.partition("=") for line in headers.getlist("cookie") for each in line.split(";"))
        return any(name.strip() == self._cookie and _equal(value.strip(), self._secret) for name, _, value in pairs)

    def _taken(self, token: str) -> bool:
        """Return whether a token is valid; it is not any more."""
        found = next((each for each in self._tokens if _equal(token, each)), None)
        return found is not None and time.monotonic() < self._tokens.pop(found)


def _ends_of(port: int) -> tuple[str, ...]:
    """Return how Host and Origin end: browsers leave out the port of HTTP."""
    return (f":{port}", "") if port == _HTTP_PORT else (f":{port}",)


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())
