"""Verification of training pods' tokens.

The API server verifies them (TokenReview): signature, issuer, expiry and audience, and that the pod a token is bound to
still exists. Upstream verifies against the issuer's published keys, which accepts tokens of deleted pods.
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

from trainyard.controller.resources import TOKEN_REVIEWS
from trainyard.controller.trainer_status.limits import RateLimit
from trainyard.kube import Client

__all__ = ["Pod", "TokenReviewer", "TooManyTokensError"]

_USER = "system:serviceaccount:"
_POD = "authentication.kubernetes.io/pod-name"
_TRUSTED_SECONDS, _REFUSED_SECONDS = 60.0, 10.0
_REMEMBERED = 16_384
_AT_ONCE = 8
_REVIEW_SECONDS = 10.0
_REFUSALS_PER_SECOND, _REFUSALS_AT_ONCE = 1.0, 20


class TooManyTokensError(Exception):
    """Too many invalid tokens were presented for one audience; try again later."""


@dataclass(frozen=True)
class Pod:
    """The pod that a token is bound to."""

    namespace: str
    name: str


class TokenReviewer:
    """Asks the API server about tokens, and remembers its answers for a short time.

    An answer is kept for 60 s, but never longer than the token is valid; a refusal for 10 s. Invalid tokens cost a
    request each, so each audience has a budget of them; whoever is known already is not affected when it is used up.

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
        self._known: OrderedDict[tuple[bytes, str], tuple[Pod | None, float]] = OrderedDict()
        self._refusals: RateLimit[str] = RateLimit(_REFUSALS_PER_SECOND, _REFUSALS_AT_ONCE, clock=clock)
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def pod(self, token: str, audience: str) -> Pod | None:
        """Return the pod that presents a token, None where the token is invalid or bound to no pod.

        Raises
        ------
        TooManyTokensError
            If the audience's budget of invalid tokens is used up.
        ApiError, TransportError, TimeoutError
            If the API server gave no answer.
        """
        key = hashlib.sha256(token.encode(errors="surrogateescape")).digest(), audience
        if (known := self._remembered(key)) is not None:
            return known[0]
        async with asyncio.timeout(_REVIEW_SECONDS), self._slots:
            if (known := self._remembered(key)) is not None:
                return known[0]
            if self._refusals.exhausted(audience):
                raise TooManyTokensError
            pod = _pod(await self._review(token, audience), audience)
        if pod is None:
            self._refusals.take(audience)
        lasting = _REFUSED_SECONDS if pod is None else min(_TRUSTED_SECONDS, _expiry(token) - self._now())
        self._known[key] = pod, self._clock() + lasting
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return pod

    def _remembered(self, key: tuple[bytes, str]) -> tuple[Pod | None, float] | None:
        known = self._known.get(key)
        if known is not None and known[1] <= self._clock():
            del self._known[key]
            return None
        return known

    async def _review(self, token: str, audience: str) -> Mapping[str, Any]:
        review = {
            "apiVersion": TOKEN_REVIEWS.api_version,
            "kind": TOKEN_REVIEWS.kind,
            "metadata": {},
            "spec": {"token": token, "audiences": [audience]},
        }
        answer = await self._client.create(TOKEN_REVIEWS, review)
        return answer.get("status") or {}


def _pod(status: Mapping[str, Any], audience: str) -> Pod | None:
    """Return the pod of a successful review; an authenticator that ignores audiences names none in its answer."""
    user = status.get("user") or {}
    account = str(user.get("username") or "")
    names: Sequence[str] = (user.get("extra") or {}).get(_POD) or ()
    if not status.get("authenticated") or audience not in (status.get("audiences") or ()):
        return None
    if not account.startswith(_USER) or len(names) != 1:
        return None
    return Pod(account.removeprefix(_USER).partition(":")[0], names[0])


def _expiry(token: str) -> float:
    """Return when a verified token expires, 0 where it does not say."""
    try:
        payload = token.split(".")[1]
        claims = orjson.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return float(claims["exp"])
    except (IndexError, KeyError, TypeError, ValueError):
        return 0.0
