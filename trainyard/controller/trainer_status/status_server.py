"""Status server: receives reports at upstream's path, on the webhook server of every replica.

Status codes, bodies and limits are upstream's. In addition, a pod may report only on its own TrainJob, and floods of
reports or invalid tokens are rejected (429) before they reach the API server.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable
from http import HTTPStatus

import orjson
from aiohttp import web

from trainyard.controller.cluster_cache import ClusterCache
from trainyard.controller.metrics import Metrics
from trainyard.controller.trainer_status.progress_report import read_report
from trainyard.controller.trainer_status.rate_limit import RateLimit
from trainyard.controller.trainer_status.tokens import TokenPod, TokenReviewer, TooManyTokensError
from trainyard.controller.trainer_status.writer import StatusWriter
from trainyard.errors import TrainyardError
from trainyard.jobs.render.trainer_status import status_path, token_audience
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.resource import Object, uid_of

_LOG = logging.getLogger(__name__)
_BODY_LIMIT = 1 << 16
_BODY_SECONDS = 10.0
_CONCURRENT, _CONCURRENT_PER_JOB = 1024, 256
_REPORTS_PER_SECOND, _REPORTS_BURST = 200.0, 1000
_NAMESPACE, _NAME = r"{namespace:[a-z0-9-]+}", r"{name:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?}"
_WARNINGS_PER_SECOND, _WARNINGS_BURST = 0.1, 5
_UNREACHABLE = (ApiError, TransportError, TimeoutError)


class _RejectedError(Exception):
    """A rejected report, with its response."""

    def __init__(self, code: HTTPStatus, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message


class ProgressServer:
    """Receives progress reports.

    Parameters
    ----------
    cache
        Cluster cache.
    tokens
        Verifies the tokens of pods.
    writer
        Writes reports to TrainJobs.
    metrics
        Counts the reports.
    clock
        Monotonic clock in seconds.
    """

    def __init__(
        self,
        cache: ClusterCache,
        tokens: TokenReviewer,
        writer: StatusWriter,
        metrics: Metrics,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._cache = cache
        self._tokens = tokens
        self._writer = writer
        self._metrics = metrics
        self._reports: RateLimit[str] = RateLimit(_REPORTS_PER_SECOND, _REPORTS_BURST, clock=clock)
        self._warnings: RateLimit[None] = RateLimit(_WARNINGS_PER_SECOND, _WARNINGS_BURST, clock=clock)
        self._active: Counter[tuple[str, str]] = Counter()

    def mount(self, app: web.Application) -> None:
        """Add the route to a web application."""
        app.router.add_post(status_path(_NAMESPACE, _NAME), self._handle)

        async def close(app: web.Application) -> None:
            await self._writer.close()

        app.on_cleanup.append(close)

    async def _handle(self, http: web.Request) -> web.Response:
        key = http.match_info["namespace"], http.match_info["name"]
        code = HTTPStatus.INTERNAL_SERVER_ERROR
        self._active[key] += 1
        try:
            response = await self._respond(http, *key)
            code = HTTPStatus(response.status)
            return response
        finally:
            self._active[key] -= 1
            if not self._active[key]:
                del self._active[key]
            self._metrics.status_reports.labels(str(code.value)).inc()

    async def _respond(self, http: web.Request, namespace: str, name: str) -> web.Response:
        try:
            return await self._accept(http, namespace, name)
        except _RejectedError as rejected:
            return _failure_response(rejected)
        except TooManyTokensError:
            return _failure_response(_busy("Too many invalid tokens"))
        except TrainyardError as error:
            message = "; ".join(map(str, error.findings)) or error.message
            return _failure_response(_RejectedError(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", message))
        except _UNREACHABLE as error:
            if self._warnings.take(None):
                _LOG.warning("report on TrainJob %s/%s: %s", namespace, name, error or type(error).__name__)
            return _failure_response(
                _RejectedError(HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError", "Internal error")
            )

    async def _accept(self, http: web.Request, namespace: str, name: str) -> web.Response:
        if not self._cache.serves_status:
            raise _not_found("Not found")
        if (http.content_length or 0) > _BODY_LIMIT:
            raise _too_large()
        if self._active.total() > _CONCURRENT or self._active[namespace, name] > _CONCURRENT_PER_JOB:
            raise _busy("Too many reports at once")
        train_job = await self._authorized(http, namespace, name)
        if not self._reports.take(uid_of(train_job)):
            raise _busy("Too many reports")
        status = read_report(await _body(http))
        if status is None:
            return web.json_response({})
        await self._write(train_job, status)
        return web.Response(body=orjson.dumps({"trainerStatus": status}), content_type="application/json")

    async def _authorized(self, http: web.Request, namespace: str, name: str) -> Object:
        """Return the TrainJob if the sender may report on it."""
        pod = None
        if token := _bearer(http.headers.get("Authorization", "")):
            pod = await self._tokens.pod(token, token_audience(namespace, name), http.remote or "")
        if pod is None or pod.namespace != namespace:
            raise _forbidden()
        train_job = await self._cache.find(self._cache.train_jobs, name, namespace)
        if train_job is None:
            raise _not_found("Train job not found")
        if not _runs_for(pod, train_job, self._cache.job_sets.store.get(namespace, name)):
            raise _forbidden()
        return train_job

    async def _write(self, train_job: Object, status: Object) -> None:
        try:
            await self._writer.write(train_job, status)
        except ApiError as error:
            if error.status in (HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.BAD_REQUEST):
                raise _RejectedError(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", error.message) from error
            if error.not_found:
                raise _not_found("Train job not found") from error
            raise


def _bearer(header: str) -> str | None:
    """Return the token of a Bearer header."""
    parts = header.split()
    return parts[1] if len(parts) == 2 and parts[0].lower() == "bearer" else None


def _runs_for(pod: TokenPod, train_job: Object, job_set: Object | None) -> bool:
    """Whether the name of a pod matches the pods of a TrainJob: ``<job>-<replicatedJob>-<index>-<index>-<random>``.

    A label would not be stronger proof: either can be forged only by users who may create pods in the namespace, and
    they may change the TrainJob anyway.
    """
    observed = ((job_set or {}).get("status") or {}).get("replicatedJobsStatus") or ()
    copied = (train_job.get("status") or {}).get("jobsStatus") or ()
    return any(re.fullmatch(pattern, pod.name) for pattern in _pod_names(train_job, (*observed, *copied)))


def _pod_names(train_job: Object, replicated_jobs: Iterable[Object]) -> set[str]:
    name = re.escape(train_job["metadata"]["name"])
    return {rf"{name}-{re.escape(each['name'])}-\d+(?:-\d+)?-[a-z0-9]{{5}}" for each in replicated_jobs}


async def _body(http: web.Request) -> bytes:
    """Return the body, with limits on size and time; Content-Length may be missing or wrong."""
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for chunk in http.content.iter_any():
                body += chunk
                if len(body) > _BODY_LIMIT:
                    raise _too_large()
    except TimeoutError as error:
        raise _RejectedError(HTTPStatus.REQUEST_TIMEOUT, "Timeout", "Timed out reading the body") from error
    return bytes(body)


def _failure_response(rejected: _RejectedError) -> web.Response:
    status = {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "message": rejected.message,
        "reason": rejected.reason,
        "code": rejected.code.value,
    }
    headers = {"Retry-After": "1"} if rejected.code is HTTPStatus.TOO_MANY_REQUESTS else None
    return web.json_response(status, status=rejected.code.value, headers=headers)


def _forbidden() -> _RejectedError:
    return _RejectedError(HTTPStatus.FORBIDDEN, "Forbidden", "Forbidden")


def _not_found(message: str) -> _RejectedError:
    return _RejectedError(HTTPStatus.NOT_FOUND, "NotFound", message)


def _too_large() -> _RejectedError:
    return _RejectedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "RequestEntityTooLarge", "Payload too large")


def _busy(message: str) -> _RejectedError:
    return _RejectedError(HTTPStatus.TOO_MANY_REQUESTS, "TooManyRequests", message)
