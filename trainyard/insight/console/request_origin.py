"""Origin of requests: their cookies, and those of other hosts and pages, which a console in a cluster rejects."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from aiohttp import web

LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
"""Names of this machine: of a local console, of `kubectl port-forward`, and of a cluster on it."""
_METHODS: Final = ("GET", "HEAD", "POST")


def refusal(request: web.Request, hosts: Collection[str]) -> web.Response | None:
    """Return the answer to a request that is not passed on.

    Parameters
    ----------
    hosts
        Names by which the console is opened, in lower case.
    """
    given = request.headers.getall("Host", [])
    if len(given) != 1 or _name_of(given[0]) not in hosts:
        return web.Response(text="The Host header is not that of this console.", status=421)
    origins = request.headers.getall("Origin", [])
    same = [each.lower() for each in origins] == [f"https://{given[0].lower()}"]
    if (origins or request.method == "POST") and not same:
        return web.Response(text="The request comes from another page.", status=403)
    if "Transfer-Encoding" in request.headers:  # a body without a known length
        length = web.Response(text="The length of the body is needed.", status=411, headers={"Connection": "close"})
        length.force_close()
        return length
    if request.method not in _METHODS:
        return web.Response(text="The console only reads.", status=405, headers={"Allow": "GET, HEAD"})
    return None


def cookie_values(request: web.Request, name: str) -> list[str]:
    """Return the values of a cookie; those of other programs of the same host may be invalid ones."""
    pairs = (each.partition("=") for line in request.headers.getall("Cookie", []) for each in line.split(";"))
    return [value.strip() for key, _, value in pairs if key.strip() == name]


def _name_of(host: str) -> str:
    """Return the name in a Host header, without its port."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()
