"""Reviews: what the API server says of tokens and users, and does not store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from trainyard.kube.client import Client
from trainyard.kube.kinds import SELF_SUBJECT_REVIEWS, SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS
from trainyard.kube.resource import Resource

_SCHEME: Final = "bearer "
MAX_TOKEN: Final = 16 << 10
"""Characters of a token."""


@dataclass(frozen=True)
class User:
    """A user of the cluster.

    Parameters
    ----------
    name
        Name of the user.
    uid
        Its uid; empty: unknown.
    groups
        Groups of the user.
    extra
        What else the authenticator knows of the token, such as its scopes: values by key.
    """

    name: str
    uid: str = ""
    groups: frozenset[str] = frozenset()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = field(default=(), compare=False)

    def as_subject(self) -> dict[str, Any]:
        """Return the fields of a SubjectAccessReview's spec that name the user."""
        extra = {key: list(values) for key, values in self.extra}
        return {"user": self.name, "uid": self.uid, "groups": sorted(self.groups), "extra": extra}


def is_token(text: str) -> bool:
    """Return whether a text can be a token; others are not reviewed."""
    return 0 < len(text) <= MAX_TOKEN and all("!" <= each <= "~" for each in text)


def bearer_token(header: str) -> str | None:
    """Return the token in a header ``Authorization``, or None if it has no valid one."""
    token = header[len(_SCHEME) :].strip()
    return token if header.lower().startswith(_SCHEME) and is_token(token) else None


async def review_token(client: Client, token: str) -> User | None:
    """Return the user of a token; None if the API server does not accept it.

    Parameters
    ----------
    client
        API client that may create TokenReviews.

    Raises
    ------
    ApiError, TransportError
        The API server rejects the review, or does not answer.
    """
    if not is_token(token):
        return None
    status = await review(client, TOKEN_REVIEWS, {"token": token})
    user = status.get("user") or {}
    name = user.get("username")
    if status.get("authenticated") is not True or not isinstance(name, str) or not name:
        return None
    extra = tuple((str(key), tuple(map(str, values))) for key, values in sorted((user.get("extra") or {}).items()))
    return User(name, str(user.get("uid") or ""), frozenset(map(str, user.get("groups") or ())), extra)


async def own_name(client: Client) -> str:
    """Return the name of the user of a client's credentials, as the API server authenticates them.

    Raises
    ------
    ApiError, TransportError
        The API server rejects the review or, with CredentialsError, the credentials, or does not answer.
    """
    user = (await review(client, SELF_SUBJECT_REVIEWS, {})).get("userInfo") or {}
    return str(user.get("username") or "")


async def is_allowed(client: Client, user: User, attributes: Mapping[str, Any]) -> bool:
    """Return whether a user may do something.

    Parameters
    ----------
    client
        API client that may create SubjectAccessReviews.
    attributes
        ``resourceAttributes`` or ``nonResourceAttributes`` of the SubjectAccessReview.

    Raises
    ------
    ApiError, TransportError
        The API server rejects the review, or does not answer.
    """
    status = await review(client, SUBJECT_ACCESS_REVIEWS, {**user.as_subject(), **attributes})
    return status.get("allowed") is True and not status.get("denied")


async def review(client: Client, resource: Resource, spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the status of a review.

    Raises
    ------
    ApiError, TransportError
        The API server rejects the review, or does not answer.
    """
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {},
        **({"spec": spec} if spec else {}),
    }
    return (await client.create(resource, body)).get("status") or {}
