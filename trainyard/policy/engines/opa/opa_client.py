"""OPA client: ``opa-python-client`` behind an interface in which every failure is a denial.

The library returns an empty document for an undefined decision, and does not wrap transport errors. This client returns
a complete decision of the expected rules, or raises :class:`DecisionUnavailableError`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import aiohttp
import orjson
from opa_client.opa_async import AsyncOpaClient

from trainyard.policy.engines.opa.address import OpaAddress
from trainyard.policy.engines.opa.protocol import (
    PARAMETERS,
    parse_result,
    validate_decision,
    validate_decisions,
    written,
)
from trainyard.policy.review import DecisionTimeoutError, DecisionUnavailableError


class _Response(aiohttp.ClientResponse):
    """A response parsed by orjson."""

    async def json(self, **_options: Any) -> Any:
        return orjson.loads(await self.read())


class _Client(AsyncOpaClient):  # type: ignore[misc]
    """The library's client with an explicit certificate authority, or on a Unix socket."""

    def __init__(self, address: OpaAddress, timeout: float, token: str | None) -> None:
        super().__init__(
            host=address.host, port=address.port, ssl=address.ca is not None, token=token, retries=0, timeout=timeout
        )
        self._authority, self._socket = address.ca, address.socket

    async def _init_session(self) -> None:
        connector: aiohttp.BaseConnector
        if self._socket is not None:
            connector = aiohttp.UnixConnector(str(self._socket))
        else:
            context = ssl.create_default_context(cafile=str(self._authority)) if self._authority else False
            connector = aiohttp.TCPConnector(ssl=context)
        self._connector = connector
        timeout = aiohttp.ClientTimeout(total=self.timeout)
        self._session = aiohttp.ClientSession(
            headers=self.headers,
            connector=self._connector,
            timeout=timeout,
            json_serialize=written,
            response_class=_Response,
        )


class OpaClient:
    """Client of one policy server, with a timeout.

    Parameters
    ----------
    address
        The server.
    timeout
        Seconds after which a decision is considered missing.
    """

    def __init__(self, address: OpaAddress, *, timeout: float = 2.0) -> None:
        self._address = address
        self._timeout = timeout
        self._client: _Client | None = None

    async def __aenter__(self) -> OpaClient:
        await self._connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client:
            await self._client.close_connection()
            self._client = None

    async def healthy(self) -> bool:
        """Return whether the server runs and has its bundle."""
        return self._client is not None and bool(await self._client.check_health({"bundles": "true"}))

    async def decide(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return the decision about one input document.

        Raises
        ------
        DecisionUnavailableError
            The server is unavailable, times out, has other rules than expected, or returned an incomplete decision.
        """
        return validate_decision(await self._query("decision", document))

    async def decide_all(self, documents: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the decisions about several requests that share parameters, in their order.

        Parameters
        ----------
        documents
            An input document with ``requests`` instead of ``request``: a list of inputs without settings, each with the
            index of its ``params`` in the document's list.

        Raises
        ------
        DecisionUnavailableError
            As in :meth:`decide`; also if one of the decisions is missing.
        """
        return validate_decisions(await self._query("decisions", documents), documents)

    async def _query(self, rule: str, document: Mapping[str, Any]) -> Any:
        try:
            answer = await self._ask(rule, document)
        except aiohttp.ClientResponseError as error:
            if error.status not in (401, 403):
                raise DecisionUnavailableError(f"the policy server returned status {error.status}") from error
            await self._connect()
            answer = await self._again(rule, document)
        except aiohttp.ClientConnectionError:
            answer = await self._again(rule, document)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise _unavailable(error) from error
        return parse_result(answer, self._address.revision)

    async def _again(self, rule: str, document: Mapping[str, Any]) -> Any:
        try:
            return await self._ask(rule, document)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise _unavailable(error) from error

    async def _ask(self, rule: str, document: Mapping[str, Any]) -> Any:
        if self._client is None:
            await self._connect()
        assert self._client is not None  # noqa: S101
        return await self._client.query_rule(dict(document), "trainyard", rule, query_params=PARAMETERS)

    async def _connect(self) -> None:
        if self._client:
            await self._client.close_connection()
        token = None
        if self._address.token:
            try:
                token = (await asyncio.to_thread(self._address.token.read_text)).strip()
            except OSError as error:
                raise DecisionUnavailableError(f"its token cannot be read: {error.strerror}") from error
        client = _Client(self._address, self._timeout, token)
        await client.__aenter__()
        self._client = client


def _unavailable(error: Exception) -> DecisionUnavailableError:
    if isinstance(error, TimeoutError):
        return DecisionTimeoutError()
    return DecisionUnavailableError(f"{type(error).__name__}: {error}")
