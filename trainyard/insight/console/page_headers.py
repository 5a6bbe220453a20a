"""Headers that confine every answer of a console in the browser."""

from __future__ import annotations

from typing import Final

from aiohttp import hdrs, web

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with no-referrer, browsers send forms with `Origin: null`
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


async def confine(_: web.BaseRequest, response: web.StreamResponse) -> None:
    """Add the headers to an answer, except those that it sets itself."""
    response.headers.pop(hdrs.SERVER, None)
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
