"""Metrics of a policy server on a Unix socket, for those who may read them from its client."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import Final

import aiohttp

from trainyard.errors import TrainyardError

_MOST: Final = 4 << 20
_FIX: Final = "check that the policy server is running"


async def server_metrics(socket: Path, token: str, *, seconds: float) -> bytes:
    """Return the metrics of the server in the Prometheus text format.

    Parameters
    ----------
    socket
        Unix socket of the server.
    token
        Value of the server's variable `METRICS_TOKEN`.
    seconds
        Timeout of the request.

    Raises
    ------
    TrainyardError
        The server does not answer in time, refuses, or returns more than 4 MiB.
    """
    try:
        async with (
            aiohttp.ClientSession(
                connector=aiohttp.UnixConnector(str(socket)), timeout=aiohttp.ClientTimeout(total=seconds)
            ) as session,
            session.get("http://localhost/metrics", headers={"Authorization": f"Bearer {token}"}) as response,
        ):
            body = await response.content.read(_MOST + 1)
            while len(body) <= _MOST and (more := await response.content.read(_MOST + 1 - len(body))):
                body += more
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        reason = str(error) or type(error).__name__
        raise TrainyardError(f"The policy server's metrics were not read: {reason}", fix=_FIX) from error
    if response.status != HTTPStatus.OK:
        raise TrainyardError(f"The policy server returned status {response.status} for its metrics", fix=_FIX)
    if len(body) > _MOST:
        raise TrainyardError(f"The policy server's metrics are longer than {_MOST} bytes", fix=_FIX)
    return body
