"""One Kubernetes object as one Pulumi resource, from its manifest.

Manifests are registered verbatim under their type token, in the API's own spelling. So previews, policies and golden
files show exactly what the API server receives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pulumi

from trainyard.api.constants import ADOPTED_ANNOTATION, STACK_FIELD_MANAGER
from trainyard.platform.pulumi_sdk.recorded_objects import is_unrecorded

from .declared_objects import DeclaredObject
from .served_fields import Schemas, served

PROTECTED_KINDS = frozenset({"CustomResourceDefinition", "Namespace", "Queue"})
"""Kinds whose deletion destroys tenant workloads."""

FORCED_ANNOTATION = "pulumi.com/patchForce"
WAIT_ANNOTATION = "pulumi.com/waitFor"

# Without it the provider generates a field manager for each creation. A run after a killed one creates an object again,
# and its field manager would conflict with the first one at the next update.
FIELD_MANAGER = STACK_FIELD_MANAGER
"""Field manager of every object of the program."""


@dataclass(frozen=True)
class Adoption:
    """How an object that another owner created is declared.

    Parameters
    ----------
    annotations
        Annotations that it gets.
    retained
        Whether it is kept on destroy.
    hooks
        Hooks that prepare its creation.
    verifiable
        Whether the API server accepts a dry run of it now; else the provider sends none in a preview.
    """

    annotations: Mapping[str, str] = field(default_factory=dict)
    retained: bool = False
    hooks: pulumi.ResourceHookBinding | None = None
    verifiable: bool = True


class OwnershipCheck(Protocol):
    """Decides which existing objects are adopted."""

    def adopt(self, manifest: Mapping[str, Any], component: pulumi.Resource | None = None) -> Adoption | None:
        """Return how an object of another owner is declared; None if there is none, or the stack created it.

        The messages about it are attributed to the component.
        """

    def patch(self, manifest: Mapping[str, Any]) -> None:
        """Record a patch of an object of another owner."""


@dataclass(frozen=True)
class Conventions:
    """Options common to all objects of a stack.

    Parameters
    ----------
    labels
        Labels that every object carries.
    protect
        Whether CustomResourceDefinitions, namespaces and queues are protected from deletion.
    ownership
        Check of existing objects; None if the cluster is not read.
    replaced_fields
        By apiVersion and kind, fields with which the object is deleted and created again when they change.
    import_id
        Returns the provider's id of an object of this stack that exists; None: nothing is imported.
    schemas
        Stored schemas, in a preview: an object's fields that its schema lacks are left out.
    declared
        Receives every declared object and patch; None: nothing does.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    protect: bool = False
    ownership: OwnershipCheck | None = None
    replaced_fields: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)
    import_id: Callable[[Mapping[str, Any]], str | None] | None = None
    schemas: Schemas = field(default_factory=dict)
    declared: list[DeclaredObject] | None = None

    def note(self, body: Mapping[str, Any], *, patch: bool = False) -> None:
        """Add an object to those that are declared."""
        if self.declared is not None:
            suffix = "Patch" if patch else ""
            kind, _, name = logical_name(body).partition("/")
            self.declared.append(DeclaredObject(f"{_type_token(body)}{suffix}", f"{kind}{suffix}/{name}", body))


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
    """A Kubernetes object registered under its own type token; its inputs are the manifest, verbatim.

    Attributes
    ----------
    adopted
        Whether another owner created it and `destroy` keeps it, so that nothing is deleted with it.
    """

    adopted: bool = False

    def __init__(self, name: str, manifest: Mapping[str, Any], opts: pulumi.ResourceOptions) -> None:
        super().__init__(_type_token(manifest), name, dict(manifest), opts)


class KubernetesPatch(pulumi.CustomResource):
    """Some fields of an object of another owner; deleting the patch restores them and keeps the object."""

    def __init__(self, name: str, manifest: Mapping[str, Any], opts: pulumi.ResourceOptions) -> None:
        super().__init__(f"{_type_token(manifest)}Patch", name, dict(manifest), opts)


class RetiredObject(pulumi.ComponentResource):
    """Successor of an object that is deleted although the state protects it.

    The engine rejects the deletion of a resource that is protected in the state, and a resource that is registered to
    be unprotected is not deleted in the same run. But a registration without protection may replace a protected
    resource, and a component, which has no object, replaces a former object of any kind: the engine then deletes the
    object, after those that depend on it, in the same run. So the successor claims the URN of the object as its alias.
    """

    def __init__(self, manifest: Mapping[str, Any], parent: pulumi.Resource) -> None:
        former = pulumi.Alias(type_=_type_token(manifest), name=logical_name(manifest))
        opts = pulumi.ResourceOptions(parent=parent, aliases=[former], protect=False)
        super().__init__("trainyard:retired:RetiredObject", logical_name(manifest), {}, opts)
        self.register_outputs({})


class Component(pulumi.ComponentResource):
    """A component resource of the platform; its Kubernetes objects are its children.

    Parameters
    ----------
    area
        Module part of the type token.
    name
        Name of the component in the stack.
    opts
        Options; they contain the provider, or the parent has it. Of the objects, those that need ``depends_on`` are
        created after it and deleted before it (`child` and `patch` with ``inherit_depends_on``). Others must not wait:
        what the component depends on may use them, as a Deployment uses its PriorityClass.

    Attributes
    ----------
    crds, namespaces, ready
        Resources on which other components depend: CustomResourceDefinitions, its own namespaces by name, and what is
        ready when it serves.
    """

    def __init__(self, area: str, name: str, opts: pulumi.ResourceOptions | None) -> None:
        own = pulumi.ResourceOptions.merge(opts, None)
        own.depends_on = None  # every child waits for the registration of its parent
        super().__init__(f"trainyard:{area}:{type(self).__name__}", name, {}, own)
        self.crds: list[pulumi.Resource] = []
        self.namespaces: dict[str, pulumi.Resource] = {}
        self.ready: list[pulumi.Resource] = []
        self._declared: list[tuple[str, str]] = []
        self._depends_on = pulumi.ResourceOptions(depends_on=opts.depends_on if opts is not None else None)

    def register_outputs(self, outputs: pulumi.Inputs) -> None:
        """Register outputs, and the names of the namespaces, Services and queues that this component declared."""
        super().register_outputs({**self.names, **outputs})

    @property
    def names(self) -> dict[str, list[str]]:
        """Names of the declared namespaces, Services (``namespace/name``) and queues; without empty lists."""
        kinds = {"namespaces": "Namespace", "services": "Service", "queues": "Queue"}
        found = {key: sorted(name for kind, name in self._declared if kind == of) for key, of in kinds.items()}
        return {key: names for key, names in found.items() if names}

    def child(
        self,
        manifest: Mapping[str, Any],
        *,
        depends_on: Iterable[pulumi.Resource] = (),
        inherit_depends_on: bool = False,
        deleted_with: pulumi.Resource | None = None,
        hooks: pulumi.ResourceHookBinding | None = None,
        replace_on_changes: Sequence[str] = (),
        retired: bool = False,
    ) -> KubernetesObject:
        """Declare one object of this component.

        Parameters
        ----------
        manifest
            The whole object.
        depends_on
            Resources that are ready before it is created, and deleted after it.
        inherit_depends_on
            Whether those of the component's options are among them.
        deleted_with
            Resource whose deletion also deletes this object, so that Pulumi does not delete it separately. One that is
            kept on destroy deletes nothing.
        hooks
            Resource hooks.
        replace_on_changes
            Fields with which it is deleted and created again when they change.
        retired
            Whether the object is about to be deleted, and so neither protected nor, if it was taken over, kept.
        """
        if isinstance(deleted_with, KubernetesObject) and deleted_with.adopted:
            deleted_with = None
        opts = self._options(depends_on, inherit_depends_on)
        opts.deleted_with, opts.hooks = deleted_with, hooks
        if replace_on_changes:
            opts.replace_on_changes, opts.delete_before_replace = list(replace_on_changes), True
        kind, _, own_name = logical_name(_named(manifest)).partition("/")
        self._declared.append((kind, own_name))
        return declare(manifest, opts, retired=retired)

    def retire(self, manifest: Mapping[str, Any]) -> RetiredObject:
        """Declare that an object of this component is deleted, protected or not; the rest of the manifest is unused.

        Objects that are deleted with it are not declared any more.
        """
        return RetiredObject(_named(manifest), self)

    def patch(
        self,
        manifest: Mapping[str, Any],
        *,
        depends_on: Iterable[pulumi.Resource] = (),
        inherit_depends_on: bool = False,
        hooks: pulumi.ResourceHookBinding | None = None,
    ) -> KubernetesPatch:
        """Declare the fields that this component sets on an object of another owner; parameters as for `child`."""
        opts = self._options(depends_on, inherit_depends_on)
        opts.hooks = hooks
        return declare_patch(manifest, opts)

    def _options(self, depends_on: Iterable[pulumi.Resource], inherit_depends_on: bool) -> pulumi.ResourceOptions:
        own = pulumi.ResourceOptions(parent=self, depends_on=list(depends_on))
        return pulumi.ResourceOptions.merge(self._depends_on, own) if inherit_depends_on else own


def logical_name(manifest: Mapping[str, Any]) -> str:
    """Return the resource name of an object: kind, namespace (if any) and name, joined by ``/``."""
    metadata = manifest["metadata"]
    namespace = metadata.get("namespace")
    return "/".join(part for part in (manifest["kind"], namespace, metadata["name"]) if part)


def declare(manifest: Mapping[str, Any], opts: pulumi.ResourceOptions, *, retired: bool = False) -> KubernetesObject:
    """Register one object.

    Parameters
    ----------
    manifest
        The whole object; ``metadata.name`` must be set, because a generated name would break every reference to it.
    opts
        Parent (which passes on the provider), dependencies and hooks.
    retired
        As for `Component.child`.
    """
    common = _current.get()
    manifest = served(_named(manifest), common.schemas, opts.parent)
    body = _annotated(_labelled(manifest, common.labels), {"pulumi.com/patchFieldManager": FIELD_MANAGER})
    common.note(body)
    if common.protect and body["kind"] in PROTECTED_KINDS and not retired:
        opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(protect=True))
    if replaced := common.replaced_fields.get((body["apiVersion"], body["kind"])):
        immutable = pulumi.ResourceOptions(replace_on_changes=list(replaced), delete_before_replace=True)
        opts = pulumi.ResourceOptions.merge(opts, immutable)
    opts = pulumi.ResourceOptions.merge(opts, _recovery(body, common))
    if opts.import_ is not None:
        # What the API server set differs from the program, and the engine rejects the replacement of such an object.
        opts.replace_on_changes, opts.delete_before_replace = None, None
    if common.ownership is None:
        return KubernetesObject(logical_name(body), body, opts)
    adoption = common.ownership.adopt(body, opts.parent)
    if adoption is None:
        return KubernetesObject(logical_name(body), body, opts)
    if retired and adoption.retained:
        # The engine keeps what its state says to retain, so the state changes one `up` before the deletion.
        owned = {**adoption.annotations, ADOPTED_ANNOTATION: "owned"}
        adoption = replace(adoption, retained=False, annotations=owned)
    kept = pulumi.ResourceOptions(retain_on_delete=adoption.retained or None, hooks=adoption.hooks)
    body = _annotated(body, adoption.annotations)
    if pulumi.runtime.is_dry_run() and not adoption.verifiable:
        body = _without_dry_run(body)
    declared = KubernetesObject(logical_name(body), body, pulumi.ResourceOptions.merge(opts, kept))
    declared.adopted = adoption.retained
    return declared


def declare_patch(manifest: Mapping[str, Any], opts: pulumi.ResourceOptions) -> KubernetesPatch:
    """Register some fields of an object of another owner, without the labels of this stack.

    Parameters
    ----------
    manifest
        Kind, name and the fields. Ownership of these fields is forced.
    opts
        As for `declare`.
    """
    if (ownership := _current.get().ownership) is not None:
        ownership.patch(manifest)
    body = _annotated(_named(manifest), {"pulumi.com/patchFieldManager": FIELD_MANAGER, FORCED_ANNOTATION: "true"})
    kind, _, name = logical_name(body).partition("/")
    _current.get().note(body, patch=True)
    return KubernetesPatch(f"{kind}Patch/{name}", body, opts)


def waiting_for(manifest: Mapping[str, Any], *expressions: str) -> dict[str, Any]:
    """Return a manifest whose creation completes only when all JSONPath expressions hold.

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


def _without_dry_run(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest with an unknown status: the provider sends no dry run of an object with unknown values."""
    return {**manifest, "status": pulumi.UNKNOWN}


def _recovery(body: Mapping[str, Any], common: Conventions) -> pulumi.ResourceOptions:
    """Return the options with which an object that the state lacks is recovered without a change of its uid."""
    # An import takes the whole live object as the former inputs. Without the immutable address, which the API server
    # sets, the Service would be replaced; the path is ignored in later runs too, whose former inputs contain it.
    addressed = (body["apiVersion"], body["kind"]) == ("v1", "Service") and "clusterIP" not in body["spec"]
    found = None
    if common.import_id is not None and is_unrecorded(_type_token(body), logical_name(body)):
        found = common.import_id(body)
    return pulumi.ResourceOptions(import_=found, ignore_changes=["spec.clusterIP"] if addressed else None)


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
