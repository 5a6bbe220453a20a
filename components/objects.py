"""One Kubernetes object as one Pulumi resource, from its manifest.

Upstream manifests and generated ones arrive as plain objects in the API's own spelling. Registering them
under their type token keeps that spelling, so a preview, a policy and a golden file show what the API server gets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

import pulumi

__all__ = [
    "FIELD_MANAGER",
    "FORCED_ANNOTATION",
    "Component",
    "Conventions",
    "KubernetesObject",
    "KubernetesPatch",
    "Standing",
    "conventions",
    "declare",
    "declare_patch",
    "logical_name",
    "waiting_for",
]

PROTECTED_KINDS = frozenset({"CustomResourceDefinition", "Namespace", "Queue"})
"""Kinds whose deletion takes other people's work along."""

ADOPTED_ANNOTATION = "trainyard.dev/adopted"
FORCED_ANNOTATION = "pulumi.com/patchForce"
WAIT_ANNOTATION = "pulumi.com/waitFor"

# The provider otherwise draws a new name for each creation. After a killed run, which creates an object a second time,
# the two names would be in each other's way at the next change.
FIELD_MANAGER = "trainyard"
"""Name under which every object of the program is applied."""


class Standing(Protocol):
    """What is known of the objects that exist already."""

    def adopt(self, manifest: Mapping[str, Any]) -> bool:
        """Return whether an object is taken over, because this stack did not create it."""


@dataclass(frozen=True)
class Conventions:
    """What every object of a stack has in common.

    Parameters
    ----------
    labels
        Labels that every object carries.
    protect
        Whether CustomResourceDefinitions, namespaces and queues are protected from deletion.
    standing
        The objects that exist already; None when the cluster is not looked at.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    protect: bool = False
    standing: Standing | None = None


_current: ContextVar[Conventions] = ContextVar("conventions", default=Conventions())  # noqa: B039


@contextmanager
def conventions(value: Conventions) -> Iterator[None]:
    """Apply conventions to every object declared inside."""
    token = _current.set(value)
    try:
        yield
    finally:
        _current.reset(token)


class KubernetesObject(pulumi.CustomResource):
    """A Kubernetes object registered under its own type token; its inputs are the manifest, verbatim."""

    def __init__(self, name: str, manifest: Mapping[str, Any], opts: pulumi.ResourceOptions) -> None:
        super().__init__(_type_token(manifest), name, dict(manifest), opts)


class KubernetesPatch(pulumi.CustomResource):
    """Some fields of an object of another owner; removing it gives them back and keeps the object."""

    def __init__(self, name: str, manifest: Mapping[str, Any], opts: pulumi.ResourceOptions) -> None:
        super().__init__(f"{_type_token(manifest)}Patch", name, dict(manifest), opts)


class Component(pulumi.ComponentResource):
    """A part of the platform; its objects are its children.

    Parameters
    ----------
    area
        Folder of the type token.
    name
        Name of the component in the stack.
    opts
        Must carry the provider.
    """

    def __init__(self, area: str, name: str, opts: pulumi.ResourceOptions | None) -> None:
        super().__init__(f"trainyard:{area}:{type(self).__name__}", name, {}, opts)

    def child(
        self,
        manifest: Mapping[str, Any],
        *,
        after: Iterable[pulumi.Resource] = (),
        gone_with: pulumi.Resource | None = None,
        hooks: pulumi.ResourceHookBinding | None = None,
    ) -> KubernetesObject:
        """Declare one object of this component.

        Parameters
        ----------
        manifest
            The whole object.
        after
            What must be there, and ready, before it; and is deleted after it.
        gone_with
            The resource whose deletion removes this object too, so that it is not deleted one by one.
        hooks
            What runs before or after it is made, changed or deleted.
        """
        return declare(
            manifest,
            pulumi.ResourceOptions(parent=self, depends_on=list(after), deleted_with=gone_with, hooks=hooks),
        )

    def patch(
        self,
        manifest: Mapping[str, Any],
        *,
        after: Iterable[pulumi.Resource] = (),
        hooks: pulumi.ResourceHookBinding | None = None,
    ) -> KubernetesPatch:
        """Declare what this component sets on an object of others; parameters as for `child`."""
        return declare_patch(manifest, pulumi.ResourceOptions(parent=self, depends_on=list(after), hooks=hooks))


def logical_name(manifest: Mapping[str, Any]) -> str:
    """Return the resource name of an object: kind, namespace where there is one, and name."""
    metadata = manifest["metadata"]
    namespace = metadata.get("namespace")
    return "/".join(part for part in (manifest["kind"], namespace, metadata["name"]) if part)


def declare(manifest: Mapping[str, Any], opts: pulumi.ResourceOptions) -> KubernetesObject:
    """Register one object.

    Parameters
    ----------
    manifest
        The whole object; ``metadata.name`` must be set, because a generated name would break every reference to it.
    opts
        Parent, provider (through the parent) and the edges of the ordering graph.
    """
    common = _current.get()
    body = _annotated(_labelled(manifest, common.labels), {"pulumi.com/patchFieldManager": FIELD_MANAGER})
    if common.protect and body["kind"] in PROTECTED_KINDS:
        opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(protect=True))
    if common.standing is not None and common.standing.adopt(body):
        body = _annotated(body, {ADOPTED_ANNOTATION: "true", FORCED_ANNOTATION: "true"})
        opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(retain_on_delete=True))
    return KubernetesObject(logical_name(body), body, opts)


def declare_patch(manifest: Mapping[str, Any], opts: pulumi.ResourceOptions) -> KubernetesPatch:
    """Register some fields of an object that others make: without the stack's labels, for the object is not its own.

    Parameters
    ----------
    manifest
        The object's kind and name, and the fields, which are taken over from their former manager.
    opts
        As for `declare`.
    """
    body = _annotated(_named(manifest), {"pulumi.com/patchFieldManager": FIELD_MANAGER, FORCED_ANNOTATION: "true"})
    kind, _, name = logical_name(body).partition("/")
    return KubernetesPatch(f"{kind}Patch/{name}", body, opts)


def waiting_for(manifest: Mapping[str, Any], *expressions: str) -> dict[str, Any]:
    """Return a manifest whose creation is finished only when JSONPath expressions hold.

    Parameters
    ----------
    manifest
        The object.
    expressions
        For instance ``{.status.state}=Open``; without a value, the path must exist.
    """
    values = [f"jsonpath={expression}" for expression in expressions]
    text = values[0] if len(values) == 1 else "[" + ", ".join(f'"{value}"' for value in values) + "]"
    return _annotated(manifest, {WAIT_ANNOTATION: text})


def _type_token(manifest: Mapping[str, Any]) -> str:
    api_version = manifest["apiVersion"]
    group_version = api_version if "/" in api_version else f"core/{api_version}"
    return f"kubernetes:{group_version}:{manifest['kind']}"


def _named(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    if not manifest.get("metadata", {}).get("name"):
        raise ValueError(f"{manifest.get('kind')} without metadata.name")
    return manifest


def _labelled(manifest: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    metadata = _named(manifest)["metadata"]
    merged = {**metadata.get("labels", {}), **labels}
    return {**manifest, "metadata": {**metadata, "labels": merged} if merged else dict(metadata)}


def _annotated(manifest: Mapping[str, Any], annotations: Mapping[str, str]) -> dict[str, Any]:
    metadata = manifest["metadata"]
    return {**manifest, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **annotations}}}
