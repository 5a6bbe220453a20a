"""Requests that a console in a cluster rejects: of other hosts and pages, with other methods, and of any length."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
"""Names of this machine: of a local console, of `kubectl port-forward`, and of a cluster on it."""
_METHODS: Final = ("GET", "HEAD", "POST")


def refusal(request: Request, hosts: Collection[str]) -> Response | None:
    """Return the answer to a request that is not passed on.

    Parameters
    ----------
    hosts
        Names by which the console is opened, in lower case.
    """
    given = request.headers.getlist("host")
    if len(given) != 1 or _name_of(given[0]) not in hosts:
        return PlainTextResponse("The Host header is not that of this console.", 421)
    origins = request.headers.getlist("origin")
    same = [each.lower() for each in origins] == [f"https://{given[0].lower()}"]
    if (origins or request.method == "POST") and not same:
        return PlainTextResponse("The request comes from another page.", 403)
    if "transfer-encoding" in request.headers:  # a body without a known length, also beside a Content-Length
        return PlainTextResponse("The length of the body is needed.", 411, {"connection": "close"})
    if request.method not in _METHODS:
        return PlainTextResponse("The console only reads.", 405, {"allow": "GET, HEAD"})
    return None


def _name_of(host: str) -> str:
    """Return the name in a Host header, without its port."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()
