"""Asking the server, so that whatever goes wrong is a refusal: ``opa-python-client`` behind a contract.

The client itself answers an undefined decision with an empty document and lets every transport error through as it is.
Here an answer is a whole decision of the expected rules, or :class:`DecisionUnavailableError`.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final

import aiohttp
import orjson
from opa_client.opa_async import AsyncOpaClient

from trainyard.policy.judge import DecisionUnavailableError
from trainyard.policy.opa.address import OpaAddress

__all__ = ["DecisionUnavailableError", "OpaAddress", "OpaClient"]

_PARAMETERS: Final = {"strict-builtin-errors": "true", "provenance": "true"}
_LISTS: Final = ("violations", "warnings", "audits", "undecided", "exempted")


class _Response(aiohttp.ClientResponse):
    """An answer that is read by the faster library."""

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
            json_serialize=_text,
            response_class=_Response,
        )


class OpaClient:
    """Decisions of one server, within a deadline.

    Parameters
    ----------
    address
        The server.
    timeout
        Seconds until a decision counts as missing.
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
            The server is away, too slow, has other rules than expected, or gave no whole decision.
        """
        decision = await self._query("decision", document)
        return _whole(decision)

    async def decide_all(self, documents: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the decisions about several requests that share parameters, in their order.

        Parameters
        ----------
        documents
            An input document with ``requests`` (a list of what :meth:`decide` takes as ``request``, each with its own
            ``params``) instead of ``request``.

        Raises
        ------
        DecisionUnavailableError
            As in :meth:`decide`; one missing decision is enough.
        """
        decisions = await self._query("decisions", documents)
        if not isinstance(decisions, list) or len(decisions) != len(documents["requests"]):
            raise DecisionUnavailableError("the policy server answered for another number of requests")
        return [_whole(decision) for decision in decisions]

    async def _query(self, rule: str, document: Mapping[str, Any]) -> Any:
        try:
            answer = await self._ask(rule, document)
        except aiohttp.ClientResponseError as error:
            if error.status not in (401, 403):
                raise DecisionUnavailableError(f"the policy server answered {error.status}") from error
            await self._connect()
            answer = await self._again(rule, document)
        except aiohttp.ClientConnectionError:
            answer = await self._again(rule, document)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise DecisionUnavailableError(_reason(error)) from error
        if not isinstance(answer, dict) or "result" not in answer:
            raise DecisionUnavailableError("the policy server has no such decision")
        self._check_revision(answer)
        return answer["result"]

    async def _again(self, rule: str, document: Mapping[str, Any]) -> Any:
        try:
            return await self._ask(rule, document)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise DecisionUnavailableError(_reason(error)) from error

    async def _ask(self, rule: str, document: Mapping[str, Any]) -> Any:
        if self._client is None:
            await self._connect()
        assert self._client is not None  # noqa: S101
        return await self._client.query_rule(dict(document), "trainyard", rule, query_params=_PARAMETERS)

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

    def _check_revision(self, answer: Mapping[str, Any]) -> None:
        expected = self._address.revision
        if expected is None:
            return
        bundles = (answer.get("provenance") or {}).get("bundles") or {}
        if expected not in {bundle.get("revision") for bundle in bundles.values()}:
            raise DecisionUnavailableError("the policy server judges by other rules than expected")


def _text(document: Any) -> str:
    """Return a document as JSON; numbers and texts that the faster library refuses are left to the other one."""
    try:
        return orjson.dumps(document).decode()
    except TypeError:
        return json.dumps(document)


def _whole(decision: Any) -> dict[str, Any]:
    if (
        not isinstance(decision, dict)
        or not isinstance(decision.get("allowed"), bool)
        or any(not isinstance(decision.get(name), list) for name in _LISTS)
        or (decision["allowed"] and decision["violations"])
    ):
        raise DecisionUnavailableError("the policy server gave no whole decision")
    return decision


def _reason(error: Exception) -> str:
    return "the policy server took too long" if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"
