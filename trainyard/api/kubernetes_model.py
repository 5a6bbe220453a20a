"""Base of all Kubernetes models: frozen, strictly typed, preserving unknown fields."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from types import NoneType
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Body = dict[str, Any]
"""Embedded Kubernetes object of a core type, preserved unchanged."""

_LEAVES = frozenset({NoneType, bool, dict, int, str})
"""Types of most values; they contain no model."""


class KubernetesModel(BaseModel):
    """Frozen part of a Kubernetes object.

    Unknown fields are preserved when an object is read and written; :meth:`unknown_fields` lists them.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        defer_build=True,
        extra="allow",
        frozen=True,
        populate_by_name=True,
        strict=True,
        use_attribute_docstrings=True,
    )

    def body(self) -> Body:
        """Return the object with Kubernetes field names and without unset fields."""
        return self.model_dump(by_alias=True, exclude_unset=True)

    @classmethod
    def from_body(cls, body: Body) -> Self:
        """Parse a Kubernetes object.

        Raises
        ------
        pydantic.ValidationError
            If a field has the wrong type or is out of bounds.
        """
        return cls.model_validate(body)

    def unknown_fields(self) -> Iterator[str]:
        """Yield the paths of unknown fields, which the API server prunes."""
        yield from self.model_extra or ()
        for name, inner in self.__dict__.items():
            if type(inner) in _LEAVES:
                continue
            if isinstance(inner, KubernetesModel):
                for field in inner.unknown_fields():
                    yield f"{_alias(type(self), name)}.{field}"
            elif isinstance(inner, list):
                for index, item in enumerate(inner):
                    if type(item) not in _LEAVES and isinstance(item, KubernetesModel):
                        for field in item.unknown_fields():
                            yield f"{_alias(type(self), name)}[{index}].{field}"


@cache
def _alias(model: type[KubernetesModel], name: str) -> str:
    return model.model_fields[name].alias or name


def _within(bits: int) -> AfterValidator:
    limit = 2 ** (bits - 1)

    def check(value: int) -> int:
        if not -limit <= value < limit:
            raise ValueError(f"{value} is not a {bits}-bit integer")
        return value

    return AfterValidator(check)


Int32 = Annotated[int, _within(32), Field(json_schema_extra={"format": "int32"})]
"""32-bit integer."""

Int64 = Annotated[int, _within(64), Field(json_schema_extra={"format": "int64"})]
"""64-bit integer."""

IntOrString = Annotated[int | str, Field(json_schema_extra={"x-kubernetes-int-or-string": True})]
"""Integer or string."""

Timestamp = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
"""RFC 3339 time."""


class ObjectMeta(KubernetesModel):
    """Metadata of a stored object; fields that are not modeled are preserved."""

    model_config = ConfigDict(json_schema_extra={"x-trainyard-opaque": True})

    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    generation: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None

    def unknown_fields(self) -> Iterator[str]:
        """Yield nothing: all metadata fields are known to the API server."""
        yield from ()


class EmbeddedMetadata(KubernetesModel):
    """Metadata inside a template or a patch."""

    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    labels: dict[str, str] | None = None
    name: str | None = None
    namespace: str | None = None


class LocalObjectReference(KubernetesModel):
    """A reference to an object of the same namespace."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})

    name: str = ""
    """Name of the object."""


class Condition(KubernetesModel):
    """Condition of an object."""

    last_transition_time: Timestamp
    """When the status of the condition last changed."""
    message: Annotated[str, Field(max_length=32768)]
    """Human-readable details."""
    observed_generation: Annotated[Int64, Field(ge=0)] | None = None
    """Observed generation of the object."""
    reason: Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    """CamelCase reason of the last transition."""
    status: Literal["True", "False", "Unknown"]
    """True, False or Unknown."""
    type: Annotated[
        str,
        Field(
            max_length=316,
            pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        ),
    ]
    """Type of the condition."""
