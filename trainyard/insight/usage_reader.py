"""Usage of a live platform: from its record, or from Prometheus."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from fractions import Fraction
from http import HTTPStatus
from typing import Any, Final

import aiohttp

from trainyard.errors import TrainyardError
from trainyard.insight.prometheus_access import PrometheusAccess
from trainyard.insight.usage.account import Span, Sums, Usage
from trainyard.insight.usage.levels import UsageGang
from trainyard.insight.usage.record import HEAD, LABEL, Record, names_of, read_record
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.kinds import CONFIG_MAPS
from trainyard.kube.resource import Object

_TIMEOUT_SECONDS: Final = 60.0
_MOST_BYTES: Final = 64 * 1024 * 1024
_MOST_SECONDS: Final = 1e18
_MEASURES: Final = frozenset({"asked", "allocated", "borrowed", "taken_back"})


async def read_usage_record(client: Client, home: str, namespace: str | None) -> Record:
    """Read the record of a platform.

    Parameters
    ----------
    client
        API client. A user who may not list the record reads the documents of the queues and of `namespace`.
    home
        Namespace of the controller.
    namespace
        The tenant; None: all.

    Raises
    ------
    TrainyardError
        There is no record, or it may not be read.
    """
    listed = True
    try:
        bodies = await client.list(CONFIG_MAPS, namespace=home, label_selector=LABEL)
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        if namespace is None:
            raise TrainyardError(
                "the record of usage of all tenants may not be read (no permission)",
                fix="name your tenant with --namespace",
            ) from error
        listed, bodies = False, await _documents(client, home, namespace)
    record = await asyncio.to_thread(read_record, bodies)
    if record is None:
        raise TrainyardError(
            f"namespace {home} has no record of usage",
            fix="set trainer.recordUsage, wait a minute after `trainyard up`, or name the namespace of the controller "
            "with --record-namespace",
        )
    known = sorted({tenant for tenant, _ in (*record.months, *record.unreadable) if tenant})
    if listed and namespace is not None and namespace not in known:
        raise TrainyardError(
            f"The record has no tenant {namespace!r}",
            fix=f"name one that has asked for devices: {', '.join(known) or 'there is none yet'}",
        )
    return record


async def _documents(client: Client, home: str, namespace: str) -> list[Object]:
    names = [HEAD, *names_of(""), *names_of(namespace)]
    try:
        found = await asyncio.gather(*(client.find(CONFIG_MAPS, name, namespace=home) for name in names))
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        raise TrainyardError(
            f"the record of usage of tenant {namespace} may not be read (no permission)",
            fix="name a tenant whose roles you have with --namespace",
        ) from error
    return [body for body in found if body is not None]


async def prometheus_usage(access: PrometheusAccess, span: Span, namespace: str | None = None) -> Usage:
    """Return the usage over a span from the controller's counters in a Prometheus.

    It is an estimate: Prometheus extrapolates between its samples. The counters have no names of jobs.

    Raises
    ------
    TrainyardError
        Prometheus does not answer, or rejects the query.
    """
    where = f"{{namespace={json.dumps(namespace)}}}" if namespace is not None else ""
    window = f"[{span.end - span.start}s]"
    labels = "measure, namespace, queue, runtime, resource"
    queries = (
        f"sum by ({labels}) (increase(trainyard_device_seconds_total{where}{window}))",
        f"sum by (queue, resource) (increase(trainyard_lent_device_seconds_total{window}))",
    )
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
    headers = {"Authorization": f"Bearer {access.token}"} if access.token else {}
    connector = aiohttp.TCPConnector(ssl=access.tls if access.tls is not None else True)
    async with aiohttp.ClientSession(timeout=timeout, headers=headers, connector=connector) as session:
        seconds, loans = [await _query(session, access.url, query, span.end) for query in queries]
    jobs = defaultdict[tuple[UsageGang, str], Sums](Sums)
    for metric, amount in seconds:
        gang = UsageGang(metric.get("namespace", ""), "", "", metric.get("queue", ""), metric.get("runtime", ""))
        measure = metric.get("measure", "")
        if measure in _MEASURES:
            sums = jobs[gang, metric.get("resource", "")]
            setattr(sums, measure, getattr(sums, measure) + round(amount * 1000))
    lent = {(metric.get("queue", ""), metric.get("resource", "")): amount * 1000 for metric, amount in loans}
    return Usage(span, jobs, lent, jobs_recorded=False)


async def _query(
    session: aiohttp.ClientSession, url: str, query: str, at: int
) -> list[tuple[dict[str, str], Fraction]]:
    address, shown = f"{url.rstrip('/')}/api/v1/query", _without_password(url)
    fix = "check the URL with a browser: its page /graph must exist"
    try:
        sent = {"query": query, "time": str(at)}
        # A redirect would turn the query into another request, and could send the token to another server.
        async with session.post(address, data=sent, allow_redirects=False) as response:
            status, content = response.status, await _bounded(response.content)
            target = response.headers.get("Location", "") if 300 <= status < 400 else ""
    except aiohttp.ClientConnectorCertificateError as error:
        raise TrainyardError(
            f"The certificate of Prometheus at {shown} is not trusted: {error.certificate_error}",
            fix="name the certificate of its authority with --prometheus-ca-file",
        ) from error
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
        raise TrainyardError(f"No answer from Prometheus at {shown}: {reason}", fix=fix) from error
    if target:
        raise TrainyardError(f"{shown} redirects to {_without_password(target)}", fix="use the address that answers")
    if content is None:
        raise TrainyardError(f"The answer from {shown} has more than {_MOST_BYTES} bytes", fix="use a shorter span")
    try:
        answer: Any = json.loads(content)
        if answer["status"] != "success":
            raise TrainyardError(f"Prometheus rejected the query: {answer.get('error')}", fix="use a shorter span")
        result = answer["data"]["result"]
        return [(each["metric"], _amount(each["value"][1])) for each in result]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise TrainyardError(f"The answer from {shown} is not one of Prometheus (HTTP {status})", fix=fix) from error


async def _bounded(content: aiohttp.StreamReader) -> bytes | None:
    """Return what is sent, or None if it is too much."""
    found = bytearray()
    async for chunk in content.iter_any():
        found += chunk
        if len(found) > _MOST_BYTES:
            return None
    return bytes(found)


def _amount(text: str) -> Fraction:
    """Return seconds; of the text itself, `Fraction` would compute a billion digits."""
    seconds = float(text)
    if not 0 <= seconds < _MOST_SECONDS:
        raise ValueError(text)
    return Fraction(repr(seconds))


def _without_password(url: str) -> str:
    scheme, separator, rest = url.rpartition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"
