"""Values of a stack's resources: secrets, and values that are unknown before the deployment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

_SIGNATURE: Final = "4dabf18193072939515e22adb298388d"
_SECRET: Final = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105
_OUTPUT: Final = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
_UNKNOWN: Final = frozenset(
    {
        "04da6b54-80e4-46f7-96ec-b56ff0331ba9",
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58",
        "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    }
)
"""Placeholders of unknown values in Pulumi's protocol: one string per type."""

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ABSENT: Final = object()
_STEP: Final = re.compile(r"[.\[]")

SUBSTITUTES: Final[tuple[Any, ...]] = ("(not known yet)", _ABSENT, True, 1_000_000, [], {})
"""Substitutes of an unknown value: a finding that holds for all of them does not depend on the value."""


class UnknownValue:
    """The type of :data:`NOT_KNOWN`."""

    def __repr__(self) -> str:
        return "NOT_KNOWN"


NOT_KNOWN: Final = UnknownValue()
"""A value that is unknown until the deployment."""


@dataclass(frozen=True)
class Properties:
    """Declared properties of a resource.

    Parameters
    ----------
    body
        Plain data; unknown values are :data:`NOT_KNOWN`.
    secrets
        Strings of the secret values in it; to be masked in all output.
    """

    body: Mapping[str, Any]
    secrets: frozenset[str] = frozenset()


def properties(sent: Mapping[str, Any]) -> Properties:
    """Convert the properties of Pulumi's protocol to plain data."""
    secrets: set[str] = set()
    body = {key: _plain(value, secrets, secret=False) for key, value in sent.items()}
    return Properties(body, frozenset(secrets))


def paths(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every nested value with its field path, in the syntax of rules."""
    if path:
        yield path, value
    if isinstance(value, Mapping):
        for key, each in value.items():
            step = f".{key}" if _PLAIN_KEY.fullmatch(str(key)) else f"[{key}]"
            yield from paths(each, f"{path}{step}".removeprefix("."))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from paths(each, f"{path}[{index}]")


def substituted(value: Any, substitute: Any) -> Any:
    """Return a value with all unknown values substituted.

    List items are never removed: the paths of the following items would change.
    """
    if isinstance(value, UnknownValue):
        return None if substitute is _ABSENT else substitute
    if isinstance(value, Mapping):
        return {
            key: substituted(each, substitute)
            for key, each in value.items()
            if not (substitute is _ABSENT and isinstance(each, UnknownValue))
        }
    return [substituted(each, substitute) for each in value] if isinstance(value, list) else value


def overlaps(one: str, other: str) -> bool:
    """Return whether one field path equals or contains the other."""
    longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
    return longer == shorter or bool(longer.startswith(shorter) and _STEP.match(longer[len(shorter)]))


def masked(text: str, secrets: frozenset[str]) -> str:
    """Return a text with secrets masked."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "[secret]")
    return text


def _plain(value: Any, secrets: set[str], *, secret: bool) -> Any:
    if isinstance(value, Mapping):
        signature = value.get(_SIGNATURE)
        if signature == _SECRET:
            return _plain(value.get("value", next(iter(_UNKNOWN))), secrets, secret=True)
        if signature == _OUTPUT:
            hidden = secret or bool(value.get("secret"))
            return _plain(value["value"], secrets, secret=hidden) if "value" in value else NOT_KNOWN
        if signature is not None:
            return None
        return {str(key): _plain(each, secrets, secret=secret) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, secrets, secret=secret) for each in value]
    if isinstance(value, str) and value in _UNKNOWN:
        return NOT_KNOWN
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if secret and isinstance(value, str | int | float) and not isinstance(value, bool) and str(value):
        secrets.add(str(value))
    return value
