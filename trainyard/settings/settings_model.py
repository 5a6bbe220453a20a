"""Base of all settings models: frozen, unknown keys rejected, camelCase in files; and value types."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from trainyard import quantity


class SettingsModel(BaseModel):
    """A frozen settings section; unknown keys are errors, so that typos are detected."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True, defer_build=True
    )


@dataclass(frozen=True)
class Choices:
    """Values of a setting that plug-ins declare.

    Parameters
    ----------
    names
        Returns the values; called when they are shown.
    """

    names: Callable[[], tuple[str, ...]]


@dataclass(frozen=True)
class Described:
    """Description of a setting that depends on plug-ins; it replaces the field's own in the reference.

    Parameters
    ----------
    text
        Returns the description; called when it is shown.
    """

    text: Callable[[], str]


def invalid(message: str, fix: str) -> PydanticCustomError:
    """Return the error of a validator whose finding has this message, without the value, and this fix."""
    return PydanticCustomError("setting", "{message}", {"message": message, "fix": fix})


def _matching(pattern: str, limit: int, what: str) -> AfterValidator:
    expression = re.compile(pattern)

    def check(value: str) -> str:
        if len(value) > limit:
            raise ValueError(f"{len(value)} characters, at most {limit} are allowed")
        if not expression.fullmatch(value):
            raise ValueError(f"must be {what}")
        return value

    return AfterValidator(check)


def _text(value: object) -> object:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = rf"({_SUBDOMAIN}/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"

DnsLabel = Annotated[
    str, _matching(_LABEL, 63, "lower-case letters, digits and - only, a letter or digit at both ends")
]
"""RFC 1123 label, also valid as a label value."""

DnsSubdomain = Annotated[
    str, _matching(_SUBDOMAIN, 253, "lower-case letters, digits, - and . only, a letter or digit at both ends")
]
"""Kubernetes object name: RFC 1123 subdomain."""


def _secret_name(value: object) -> object:
    if not isinstance(value, str) or len(value) > 253 or not re.fullmatch(_SUBDOMAIN, value):
        raise invalid("must be the name of a Secret, not its content", "create the Secret, and write its name here")
    return value


SecretName = Annotated[str, BeforeValidator(_secret_name)]
"""Name of a Secret; a message about an invalid one does not repeat it, because it may be the content."""

LabelName = Annotated[
    str, _matching(_SUBDOMAIN, 63, "lower-case letters, digits, - and . only, a letter or digit at both ends")
]
"""Name of an object to which the value of a label refers."""

RuntimeName = Annotated[str, _matching(rf"\*|{_SUBDOMAIN}", 253, "the name of a runtime, or * for all")]
"""Name of a training runtime, or ``*``."""

LabelKey = Annotated[str, _matching(_QUALIFIED, 317, "a label key such as example.com/team")]
"""Label key, with an optional domain."""

LabelValue = Annotated[
    str, _matching(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?", 63, "letters, digits, -, _ and . only")
]
"""Label value."""

_QUANTITY = r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?"

Quantity = Annotated[
    str,
    BeforeValidator(_text),
    _matching(_QUANTITY, quantity.MAX_LENGTH, "a Kubernetes quantity such as 8, 500m or 512Gi"),
]
"""Non-negative Kubernetes quantity, stored as text to avoid rounding."""

Share = Annotated[
    str,
    BeforeValidator(_text),
    _matching(
        rf"{_QUANTITY}|([0-9]{{1,2}}(\.[0-9]+)?|100(\.0+)?)%",
        quantity.MAX_LENGTH,
        "a Kubernetes quantity such as 8, 500m or 512Gi, or a percentage of the parent of at most 100%",
    ),
]
"""Quantity, or percentage of the parent, such as ``50%`` or ``12.5%``."""

NodeNumber = Annotated[
    str,
    BeforeValidator(_text),
    _matching(r"[0-9]{1,6}|([0-9]{1,2}|100)%", 6, "a number of nodes, or a percentage of them such as 10%"),
]
"""Number of nodes, or percentage of the nodes, such as ``10%``."""

ResourceName = Annotated[str, _matching(_QUALIFIED, 317, "a resource name such as cpu or nvidia.com/gpu")]
"""Kubernetes resource name, with a domain for devices."""


def bounded(amounts: dict[str, str]) -> dict[str, str]:
    """Return amounts by resource, of which none is more than schedulers count; a percentage has no bound."""
    for name, amount in amounts.items():
        if not amount.endswith("%") and quantity.parse(amount) > quantity.largest(name):
            message = f"{amount} of {name} is more than schedulers count, which is 8P, and 8E of memory"
            raise invalid(message, "use a smaller amount")
    return amounts


Resources = Annotated[dict[ResourceName, Quantity], AfterValidator(bounded)]
"""Amounts by resource name (``cpu``, ``memory``, ``nvidia.com/gpu``)."""
