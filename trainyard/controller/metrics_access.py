"""Access to metrics: the user of a bearer token must be allowed to ``get`` the path of the request.

Other controllers check it in the same way (``WithAuthenticationAndAuthorization`` of controller-runtime), so one
ClusterRole with ``nonResourceURLs`` is enough for all of them.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, TypeVar

from trainyard.controller.trainer_status.rate_limit import RateLimit
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.client import Client
from trainyard.kube.reviews import bearer_token, is_allowed, review_token
from trainyard.listening import client_key

V = TypeVar("V")

_LOG = logging.getLogger(__name__)
_ALLOWED_SECONDS, _REFUSED_SECONDS, _OUTAGE_SECONDS = 60.0, 10.0, 600.0
_REVIEW_SECONDS: Final = 3.0
"""Timeout of the reviews of one request, well below the default timeout of a scrape."""
_PAUSE_SECONDS: Final = 10.0
"""Time after an unanswered review in which tokens that were allowed are not reviewed again."""
_LOG_SECONDS: Final = 60.0
_CACHE_SIZE: Final = 256
_CONCURRENT: Final = 8
_UNKNOWN_PER_SECOND, _UNKNOWN_BURST = 1.0, 20

_Key = tuple[bytes, str]


class MetricsAccess:
    """Reviews who may read metrics, and caches the results: 60 s if allowed, 10 s if not.

    A token that was never allowed costs requests to the API server, so each address has a budget for them, and few are
    reviewed at once. Neither applies to a token that was allowed before. It remains allowed for ten minutes while the
    API server does not answer: metrics are needed most during an outage.

    Parameters
    ----------
    client
        API client; needs ``create`` on tokenreviews and subjectaccessreviews.
    clock
        Monotonic seconds.
    """

    def __init__(self, client: Client, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._allowed: OrderedDict[_Key, float] = OrderedDict()
        self._refused: OrderedDict[_Key, tuple[HTTPStatus, float]] = OrderedDict()
        self._unknown: RateLimit[str] = RateLimit(_UNKNOWN_PER_SECOND, _UNKNOWN_BURST, clock=clock)
        self._slots = asyncio.Semaphore(_CONCURRENT)
        self._unanswered_until = self._quiet_until = -math.inf

    async def status(self, authorization: str, path: str, remote: str) -> HTTPStatus:
        """Return OK, or the status with which a request is refused.

        Parameters
        ----------
        authorization
            Value of the header ``Authorization``; empty: none.
        path
            Path of the request, such as ``/metrics``.
        remote
            Address of the client.
        """
        token = bearer_token(authorization)
        if token is None:
            return HTTPStatus.UNAUTHORIZED
        key = hashlib.sha256(token.encode()).digest(), path
        if (known := self._known(key)) is not None:
            return known
        if key not in self._allowed and not self._unknown.take(client_key(remote)):
            return HTTPStatus.TOO_MANY_REQUESTS
        try:
            async with asyncio.timeout(_REVIEW_SECONDS):
                found = await self._reviewed(key, token)
        except (ApiError, TransportError, TimeoutError) as error:
            return self._unreviewed(key, error)
        self._store(key, found)
        return found

    def _known(self, key: _Key) -> HTTPStatus | None:
        now = self._clock()
        grace = _OUTAGE_SECONDS if now < self._unanswered_until else 0.0
        if now < self._allowed.get(key, -math.inf) + grace:
            return HTTPStatus.OK
        refused = self._refused.get(key)
        return refused[0] if refused is not None and now < refused[1] else None

    async def _reviewed(self, key: _Key, token: str) -> HTTPStatus:
        if key in self._allowed:
            return await self._review(token, key[1])
        async with self._slots:
            return await self._review(token, key[1])

    def _unreviewed(self, key: _Key, error: Exception) -> HTTPStatus:
        now = self._clock()
        if now >= self._quiet_until:
            self._quiet_until = now + _LOG_SECONDS
            reason = str(error) or "the API server did not answer in time"
            _LOG.warning("access to %s was not reviewed: %s", key[1], reason)
        if not isinstance(error, ApiError) or error.status >= 500 or error.status == 429:
            self._unanswered_until = now + _PAUSE_SECONDS
            if now < self._allowed.get(key, -math.inf) + _OUTAGE_SECONDS:
                return HTTPStatus.OK
        return HTTPStatus.SERVICE_UNAVAILABLE

    def _store(self, key: _Key, found: HTTPStatus) -> None:
        now = self._clock()
        self._allowed.pop(key, None)
        self._refused.pop(key, None)
        if found is HTTPStatus.OK:
            _put(self._allowed, key, now + _ALLOWED_SECONDS)
        else:
            _put(self._refused, key, (found, now + _REFUSED_SECONDS))

    async def _review(self, token: str, path: str) -> HTTPStatus:
        user = await review_token(self._client, token)
        if user is None:
            return HTTPStatus.UNAUTHORIZED
        allowed = await is_allowed(self._client, user, {"nonResourceAttributes": {"path": path, "verb": "get"}})
        return HTTPStatus.OK if allowed else HTTPStatus.FORBIDDEN


def _put(cache: OrderedDict[_Key, V], key: _Key, value: V) -> None:
    cache[key] = value
    while len(cache) > _CACHE_SIZE:
        cache.popitem(last=False)
