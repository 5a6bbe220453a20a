"""Verification of training pods' tokens.

The API server verifies them (TokenReview): signature, issuer, expiry, audience, and that the bound pod still exists.
Upstream verifies them with the issuer's published keys, which accepts tokens of deleted pods.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from trainyard.controller.trainer_status.rate_limit import RateLimit
from trainyard.kube.client import Client
from trainyard.kube.kinds import TOKEN_REVIEWS
from trainyard.kube.reviews import review
from trainyard.listening import client_key

_USER = "system:serviceaccount:"
_POD = "authentication.kubernetes.io/pod-name"
_VALID_SECONDS, _INVALID_SECONDS = 60.0, 10.0
_CACHE_SIZE = 16_384
_CONCURRENT = 8
_REVIEW_SECONDS = 10.0
_INVALID_PER_SECOND, _INVALID_BURST = 1.0, 20


class TooManyTokensError(Exception):
    """Too many invalid tokens from one address; retry later."""


@dataclass(frozen=True)
class TokenPod:
    """Pod that a token is bound to."""

    namespace: str
    name: str


class TokenReviewer:
    """Verifies tokens by TokenReviews and caches the results.

    Valid tokens are cached for 60 s, but not beyond their expiry; invalid tokens for 10 s. Each invalid token costs a
    request, so each address has a budget for them: others choose neither it nor its tokens, but any audience. Cached
    tokens are accepted even if the budget is exhausted.

    Parameters
    ----------
    client
        API client; needs ``create`` on tokenreviews.
    clock
        Monotonic clock in seconds.
    now
        Wall clock in seconds since 1970.
    """

    def __init__(
        self, client: Client, *, clock: Callable[[], float] = time.monotonic, now: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._clock = clock
        self._now = now
        self._cache: OrderedDict[tuple[bytes, str], tuple[TokenPod | None, float]] = OrderedDict()
        self._invalid_tokens: RateLimit[str] = RateLimit(_INVALID_PER_SECOND, _INVALID_BURST, clock=clock)
        self._slots = asyncio.Semaphore(_CONCURRENT)

    async def pod(self, token: str, audience: str, address: str) -> TokenPod | None:
        """Return the pod that a token is bound to; None if the token is invalid or not bound to a pod.

        Raises
        ------
        TooManyTokensError
            If the address's budget for invalid tokens is exhausted.
        ApiError, TransportError, TimeoutError
            If the TokenReview failed.
        """
        sender = client_key(address)
        key = hashlib.sha256(token.encode(errors="surrogateescape")).digest(), audience
        if (cached := self._cached(key)) is not None:
            return cached[0]
        async with asyncio.timeout(_REVIEW_SECONDS), self._slots:
            if (cached := self._cached(key)) is not None:
                return cached[0]
            if self._invalid_tokens.exhausted(sender):
                raise TooManyTokensError
            status = await review(self._client, TOKEN_REVIEWS, {"token": token, "audiences": [audience]})
            pod = _pod(status, audience)
        if pod is None:
            self._invalid_tokens.take(sender)
        seconds = _INVALID_SECONDS if pod is None else min(_VALID_SECONDS, _expiry(token) - self._now())
        self._cache[key] = pod, self._clock() + seconds
        while len(self._cache) > _CACHE_SIZE:
            self._cache.popitem(last=False)
        return pod

    def _cached(self, key: tuple[bytes, str]) -> tuple[TokenPod | None, float] | None:
        cached = self._cache.get(key)
        if cached is not None and cached[1] <= self._clock():
            del self._cache[key]
            return None
        return cached


def _pod(status: Mapping[str, Any], audience: str) -> TokenPod | None:
    """Return the pod of a successful review; authenticators that ignore audiences return none and are rejected."""
    user = status.get("user") or {}
    account = str(user.get("username") or "")
    names: Sequence[str] = (user.get("extra") or {}).get(_POD) or ()
    if not status.get("authenticated") or audience not in (status.get("audiences") or ()):
        return None
    if not account.startswith(_USER) or len(names) != 1:
        return None
    return TokenPod(account.removeprefix(_USER).partition(":")[0], names[0])


def _expiry(token: str) -> float:
    """Return when a verified token expires, or 0 if unknown."""
    try:
        payload = token.split(".")[1]
        claims = orjson.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return float(claims["exp"])
    except (IndexError, KeyError, TypeError, ValueError):
        return 0.0
