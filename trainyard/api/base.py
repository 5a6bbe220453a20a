"""Base of all Kubernetes models: frozen, strict about types, lossless about unknown fields."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

__all__ = [
    "Body",
    "Condition",
    "EmbeddedMetadata",
    "Int32",
    "Int64",
    "IntOrString",
    "KubernetesModel",
    "LocalObjectReference",
    "ObjectMeta",
    "Timestamp",
]

Body = dict[str, Any]
"""An embedded Kubernetes object that upstream takes from its core types: kept as it is."""


class KubernetesModel(BaseModel):
    """A frozen part of a Kubernetes object.

    Unknown fields are kept, so that reading and writing an object loses nothing; :meth:`unknown_fields` names them.
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
        """Return the object as it was given: by Kubernetes field name, nothing that was not set."""
        return self.model_dump(by_alias=True, exclude_unset=True)

    @classmethod
    def from_body(cls, body: Body) -> Self:
        """Read an object from its Kubernetes form.

        Raises
        ------
        pydantic.ValidationError
            A field has the wrong type or is out of bounds.
        """
        return cls.model_validate(body)

    def unknown_fields(self, path: str = "") -> Iterator[str]:
        """Yield the paths of fields that this API does not have; the API server drops them."""
        prefix = f"{path}." if path else ""
        for name in self.model_extra or ():
            yield f"{prefix}{name}"
        for name, inner in self.__dict__.items():
            if isinstance(inner, KubernetesModel):
                yield from inner.unknown_fields(f"{prefix}{_alias(type(self), name)}")
            elif isinstance(inner, list):
                for index, item in enumerate(inner):
                    if isinstance(item, KubernetesModel):
                        yield from item.unknown_fields(f"{prefix}{_alias(type(self), name)}[{index}]")


@cache
def _alias(model: type[KubernetesModel], name: str) -> str:
    return model.model_fields[name].alias or name


def _within(bits: int) -> AfterValidator:
    limit = 2 ** (bits - 1)

    def check(value: int) -> int:
        if not -limit <= value < limit:
            raise ValueError(f"{value} does not fit into {bits} bits")
        return value

    return AfterValidator(check)


Int32 = Annotated[int, _within(32), Field(json_schema_extra={"format": "int32"})]
"""A number of 32 bits."""

Int64 = Annotated[int, _within(64), Field(json_schema_extra={"format": "int64"})]
"""A number of 64 bits."""

IntOrString = Annotated[int | str, Field(json_schema_extra={"x-kubernetes-int-or-string": True})]
"""A number or a word."""

Timestamp = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
"""A moment as RFC 3339 text."""


class ObjectMeta(KubernetesModel):
    """Metadata of a stored object: what this project reads; the rest is kept."""

    model_config = ConfigDict(json_schema_extra={"x-trainyard-opaque": True})

    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    generation: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None

    def unknown_fields(self, path: str = "") -> Iterator[str]:
        """Yield nothing: the API server owns the rest of an object's metadata."""
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
    """One observation about the state of an object."""

    last_transition_time: Timestamp
    """When the condition last changed from one status to another."""
    message: Annotated[str, Field(max_length=32768)]
    """Details for a person."""
    observed_generation: Annotated[Int64, Field(ge=0)] | None = None
    """Generation of the object that was observed."""
    reason: Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    """One word for the reason of the last change."""
    status: Literal["True", "False", "Unknown"]
    """True, False or Unknown."""
    type: Annotated[
        str,
        Field(
            max_length=316,
            pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        ),
    ]
    """What the condition is about."""
