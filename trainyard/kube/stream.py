"""Watch stream: one JSON event per line, however the network splits the bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp
import orjson

from trainyard.kube.api_errors import ApiError, UnreadableEventError, WatchBrokenError
from trainyard.kube.decoding import decoded
from trainyard.kube.resource import Object

_KINDS = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK")


@dataclass(frozen=True)
class WatchEvent:
    """One event: ADDED, MODIFIED, DELETED or BOOKMARK, and the object."""

    kind: str
    object: Object


async def events(content: aiohttp.StreamReader, *, timeout_seconds: float, grace: float) -> AsyncIterator[WatchEvent]:
    """Yield the events of a watch response, which the server should end after ``timeout_seconds``.

    The deadline is extended while data arrives: over a slow link, one large event may take longer.

    Raises
    ------
    ApiError
        For an ERROR event.
    WatchBrokenError
        If the stream does not end in time and is silent for ``grace`` seconds, breaks or ends inside a line.
    UnreadableEventError
        If a complete line is not an event; resuming the watch would receive it again.
    """
    rest = b""
    clock = asyncio.get_running_loop().time
    end = deadline = clock() + timeout_seconds + grace
    while True:
        try:
            async with asyncio.timeout_at(deadline):
                chunk = await content.readany()
        except TimeoutError as error:
            raise WatchBrokenError(f"the server did not end the watch within {timeout_seconds + grace:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise WatchBrokenError(str(error) or type(error).__name__) from error
        if not chunk:
            break
        deadline = max(end, clock() + grace)
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.strip():
                yield _decode(line)
    if rest.strip():
        raise WatchBrokenError("the stream ended inside an event")


def _decode(line: bytes) -> WatchEvent:
    try:
        event = decoded(line)
        kind, body = event["type"], event["object"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise UnreadableEventError(f"unreadable event: {line[:200]!r}") from error
    if not isinstance(body, dict) or kind not in (*_KINDS, "ERROR"):
        raise UnreadableEventError(f"unknown event {kind!r}: {line[:200]!r}")
    if kind == "ERROR":
        code = body.get("code")
        status = code if isinstance(code, int) else 500
        raise ApiError(status, str(body.get("reason") or "Unknown"), str(body.get("message") or ""))
    return WatchEvent(kind, body)
