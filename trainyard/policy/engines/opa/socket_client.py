"""Client of a local server on its Unix socket, without network libraries, which are slow to import.

Every error is a denial, as in :mod:`trainyard.policy.engines.opa.opa_client`. No other process can listen on the
socket, so neither tokens nor retries are required.
"""

from __future__ import annotations

import asyncio
import http.client
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from trainyard.policy.engines.opa.protocol import PARAMETERS, parse_result, validate_decisions, written
from trainyard.policy.review import DecisionTimeoutError, DecisionUnavailableError

_PATH: Final = "/v1/data/trainyard/decisions?" + "&".join(f"{name}={value}" for name, value in PARAMETERS.items())


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class SocketClient:
    """Client of the server on a socket.

    Parameters
    ----------
    path
        The socket.
    revision
        Required revision of the bundle that decides; None: any.
    timeout
        Seconds without data from the server after which a decision is considered missing.
    """

    def __init__(self, path: Path, revision: str | None, *, timeout: float) -> None:
        self._path = path
        self._revision = revision
        self._timeout = timeout

    async def __aenter__(self) -> SocketClient:
        return self

    async def __aexit__(self, *error: object) -> None:
        return None

    async def decide_all(self, documents: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the decisions about several requests that share parameters, in their order.

        Raises
        ------
        DecisionUnavailableError
            The server is unavailable, times out, has other rules than expected, or did not decide on each request.
        """
        return await asyncio.to_thread(self._decisions, documents)

    def _decisions(self, documents: Mapping[str, Any]) -> list[dict[str, Any]]:
        connection = _Connection(self._path, self._timeout)
        try:
            body = written({"input": documents}).encode()
            connection.request("POST", _PATH, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            status, content = response.status, response.read()
            answer = orjson.loads(content) if status == http.client.OK else None
        except TimeoutError as error:
            raise DecisionTimeoutError from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise DecisionUnavailableError(f"{type(error).__name__}: {error}") from error
        finally:
            connection.close()
        if status != http.client.OK:
            raise DecisionUnavailableError(f"the policy server returned status {status}")
        return validate_decisions(parse_result(answer, self._revision), documents)
