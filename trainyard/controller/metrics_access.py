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
from typing import Final

from trainyard.controller.trainer_status.rate_limit import RateLimit
from trainyard.kube import ApiError, Client, TransportError
from trainyard.kube.kinds import SUBJECT_ACCESS_REVIEWS
from trainyard.kube.reviews import review
from trainyard.kube.token_review import is_token, review_token

__all__ = ["MetricsAccess"]

_LOG = logging.getLogger(__name__)
_SCHEME: Final = "bearer "
_ALLOWED_SECONDS, _REFUSED_SECONDS, _OUTAGE_SECONDS = 60.0, 10.0, 600.0
_CACHE_SIZE: Final = 256
_REVIEW_SECONDS: Final = 10.0
_UNKNOWN_PER_SECOND, _UNKNOWN_BURST = 1.0, 20

_Key = tuple[bytes, str]


class MetricsAccess:
    """Reviews who may read metrics, and caches the results: 60 s if allowed, 10 s if not.

    A token that was never allowed costs requests to the API server, so there is one budget for all of these. A token
    that was allowed before is reviewed again even if the budget is exhausted, and remains allowed for ten minutes while
    the API server does not answer: metrics are needed most during an outage.

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
        self._cache: OrderedDict[_Key, tuple[HTTPStatus, float]] = OrderedDict()
        self._unknown: RateLimit[str] = RateLimit(_UNKNOWN_PER_SECOND, _UNKNOWN_BURST, clock=clock)
        self._reviewing = asyncio.Lock()

    async def status(self, authorization: str, path: str) -> HTTPStatus:
        """Return OK, or the status with which a request is refused.

        Parameters
        ----------
        authorization
            Value of the header ``Authorization``; empty: none.
        path
            Path of the request, such as ``/metrics``.
        """
        token = authorization[len(_SCHEME) :].strip()
        if not authorization.lower().startswith(_SCHEME) or not is_token(token):
            return HTTPStatus.UNAUTHORIZED
        key = hashlib.sha256(token.encode()).digest(), path
        if (known := self._current(key)) is not None:
            return known
        try:
            async with asyncio.timeout(_REVIEW_SECONDS), self._reviewing:
                return await self._reviewed(key, token)
        except (ApiError, TransportError, TimeoutError) as error:
            if self._allowed_within(key, _OUTAGE_SECONDS):
                return HTTPStatus.OK
            _LOG.warning("access to %s was not reviewed: %s", path, error or "the API server did not answer in time")
            return HTTPStatus.SERVICE_UNAVAILABLE

    async def _reviewed(self, key: _Key, token: str) -> HTTPStatus:
        if (known := self._current(key)) is not None:
            return known
        if not self._allowed_within(key, math.inf) and not self._unknown.take(""):
            return HTTPStatus.TOO_MANY_REQUESTS
        found = await self._review(token, key[1])
        seconds = _ALLOWED_SECONDS if found is HTTPStatus.OK else _REFUSED_SECONDS
        self._cache[key] = found, self._clock() + seconds
        self._cache.move_to_end(key)
        while len(self._cache) > _CACHE_SIZE:
            self._cache.popitem(last=False)
        return found

    def _allowed_within(self, key: _Key, seconds: float) -> bool:
        """Return whether the last result was OK, and expired at most so many seconds ago."""
        known = self._cache.get(key)
        return known is not None and known[0] is HTTPStatus.OK and self._clock() < known[1] + seconds

    def _current(self, key: _Key) -> HTTPStatus | None:
        known = self._cache.get(key)
        return known[0] if known is not None and self._clock() < known[1] else None

    async def _review(self, token: str, path: str) -> HTTPStatus:
        user = await review_token(self._client, token)
        if user is None:
            return HTTPStatus.UNAUTHORIZED
        spec = {
            "user": user.name,
            "uid": user.uid,
            "groups": sorted(user.groups),
            "nonResourceAttributes": {"path": path, "verb": "get"},
        }
        status = await review(self._client, SUBJECT_ACCESS_REVIEWS, spec)
        allowed = status.get("allowed") is True and not status.get("denied")
        return HTTPStatus.OK if allowed else HTTPStatus.FORBIDDEN
