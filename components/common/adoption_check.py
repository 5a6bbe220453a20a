"""Adoption of existing objects: planned as a whole before the first write, executed object by object.

The pinned provider upserts: it takes over an existing object of the same name, and fails in the middle of `up` where
the API server rejects the change. So the program plans the takeover of each object of another owner while it is
declared, with a dry run. Registrations are sent after the program has run: a rejection stops all of them. An object
that has to be replaced is deleted directly before its successor is created: a failure elsewhere leaves it as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pulumi

from trainyard.api.constants import ADOPTED_ANNOTATION, STACK_LABEL
from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.resource import Object, Resource
from trainyard.platform.takeover.former_objects import FormerObject
from trainyard.platform.takeover.takeover import (
    Observation,
    Takeover,
    TakeoverAction,
    address_of,
    decide,
    is_part_of_program,
)
from trainyard.platform.takeover.takeover_plan import TakeoverPlan
from trainyard.platform.takeover.takeover_remains import namespaces_of, remains, used_by

from .objects import FIELD_MANAGER, FORCED_ANNOTATION, Adoption, logical_name
from .ownership import LiveObjects
from .replacement import Replacements


class ExistingObjects(Protocol):
    """Reader of existing objects."""

    def observe(self, resource: Resource, declared: Mapping[str, Any]) -> Observation | None:
        """Return an object and the dry run of its declaration; None if it does not exist."""

    def parts(self, namespaces: Collection[str]) -> list[Object]:
        """Return objects of installations in namespaces, and cluster-scoped ones."""

    def find(self, resource: Resource, name: str) -> Object | None:
        """Return a cluster-scoped object; None if it does not exist."""


@dataclass
class Ownership:
    """Decides for each declared object whether it is created, taken or replaced, and records rejections.

    Parameters
    ----------
    live
        The objects that exist.
    stack
        Value of this stack's label.
    may_adopt
        Whether existing objects of other owners are adopted.
    reader
        Reads these objects.
    replacements
        Deletes objects that are replaced.
    plurals
        Plural of each declared kind, by API version and kind.
    installed
        Namespaces of the platform.
    """

    live: LiveObjects
    stack: str
    may_adopt: bool
    reader: ExistingObjects
    replacements: Replacements
    plurals: Mapping[tuple[str, str], str]
    installed: Collection[str] = ()
    conflicts: list[Finding] = field(default_factory=list)
    _declared: set[tuple[str, str, str, str]] = field(default_factory=set)
    _used: set[tuple[str, str, str]] = field(default_factory=set)
    _takeovers: list[Takeover] = field(default_factory=list)
    _former: list[tuple[Resource, Object]] = field(default_factory=list)
    _patched: list[tuple[Resource, str]] = field(default_factory=list)
    _component: pulumi.Resource | None = None

    def adopt(self, manifest: Mapping[str, Any], component: pulumi.Resource | None = None) -> Adoption | None:
        """Return how an object of another owner is declared; None if there is none, or this stack created it.

        If adoption is not allowed, the conflict is recorded; `plan` reports all of them at the end.
        """
        address = address_of(manifest)
        self._declared.add(address)
        self._used |= used_by(manifest)
        found = self.live.metadata.get(address)
        if found is None:
            return None
        if found.get("labels", {}).get(STACK_LABEL) == self.stack:
            adopted = found.get("annotations", {}).get(ADOPTED_ANNOTATION)
            kept = not is_part_of_program(*address[:2])
            return _taken(retained=adopted == "true" or kept) if adopted else None
        if not self.may_adopt:
            self.conflicts.append(conflict(manifest))
            return None
        self._component = self._component or component
        return self._take_over(manifest)

    def plan(self) -> TakeoverPlan:
        """Return the decisions about all declared objects, and the parts of their installations that stay.

        Raises
        ------
        TrainyardError
            Adoption is not allowed, and declared objects have another owner; or the cluster cannot be read.
        """
        if self.conflicts:
            raise foreign_objects(self.stack, self.conflicts)
        left: list[Takeover] = []
        if self._former:
            homes = namespaces_of(each for _, each in self._former if self._is_installation(each))
            try:
                left = remains(self.reader.parts(homes), self._declared, homes, used=self._used)
            except (ApiError, TransportError) as error:
                raise _unreadable("the present installation", error) from error
        return TakeoverPlan(self.stack, (*self._takeovers, *left))

    def patch(self, manifest: Mapping[str, Any]) -> None:
        """Remember that fields of an existing object are set, so that they can be given back."""
        api_version, kind, namespace, name = address_of(manifest)
        if not namespace and (api_version, kind) in self.plurals:
            self._patched.append((self._resource(api_version, kind), name))

    def former_objects(self) -> list[FormerObject]:
        """Return the objects that a takeover changes, as they are before it; empty: nothing is taken over.

        Raises
        ------
        TrainyardError
            The cluster cannot be read.
        """
        if not self._former:
            return []
        try:
            found = [(resource, self.reader.find(resource, name)) for resource, name in self._patched]
        except (ApiError, TransportError) as error:
            raise _unreadable("queues that are patched", error) from error
        patched = [(resource, live) for resource, live in found if live is not None and not _is_patched(live)]
        return [
            *(FormerObject.of(*each) for each in self._former),
            *(FormerObject.of(*each, patched=True) for each in patched),
        ]

    def report(self, plan: TakeoverPlan) -> None:
        """Report the plan in previews and in `up`."""
        for note in plan.notes:
            pulumi.log.warn(note, self._component)

    def _take_over(self, manifest: Mapping[str, Any]) -> Adoption | None:
        api_version, kind, namespace, _ = address_of(manifest)
        resource = self._resource(api_version, kind, namespaced=bool(namespace))
        declared = _declared_as(manifest)
        try:
            seen = self.reader.observe(resource, declared)
        except (ApiError, TransportError) as error:
            raise _unreadable(f"{kind} {manifest['metadata']['name']}", error) from error
        if seen is None:
            return None
        changed = {each.kind for each in self._takeovers if each.action is TakeoverAction.TAKE}
        takeover = decide(declared, seen, self.stack, after=changed)
        self._takeovers.append(takeover)
        self._former.append((resource, seen.live))
        match takeover.action:
            case TakeoverAction.TAKE:
                return _taken(retained=takeover.retained, verifiable=not takeover.reason)
            case TakeoverAction.REPLACE:
                binding = self.replacements.binding(logical_name(manifest), resource, takeover)
                return Adoption(hooks=binding, verifiable=False)
        return None

    def _resource(self, api_version: str, kind: str, *, namespaced: bool = False) -> Resource:
        group, _, version = api_version.rpartition("/")
        return Resource(group, version, self.plurals[api_version, kind], kind, namespaced=namespaced)

    def _is_installation(self, body: Object) -> bool:
        """Return whether an object shows where an installation is: it is there, or refers to its namespace."""
        return body["metadata"].get("namespace") in (None, *self.installed)


def conflict(manifest: Mapping[str, Any]) -> Finding:
    """Return the finding about a declared object that exists and has another owner."""
    _, kind, namespace, name = address_of(manifest)
    where = f"{kind} {namespace + '/' if namespace else ''}{name}"
    return Finding(where, "exists already and was not created by this stack")


def foreign_objects(stack: str, conflicts: Sequence[Finding]) -> TrainyardError:
    """Return the error about declared objects that have another owner."""
    return TrainyardError(
        f"{len(conflicts)} objects of stack {stack} exist already and have another owner",
        findings=conflicts,
        fix="list what a takeover would do with `trainyard adopt --plan`, then set trainyard:adopt to true (only with "
        "the program of stacks/); or remove them, or set install: existing for the component that is already installed",
    )


def _taken(*, retained: bool, verifiable: bool = True) -> Adoption:
    """Return the adoption of an object that is changed in place, in this run or an earlier one."""
    value = "true" if retained else "owned"
    annotations = {ADOPTED_ANNOTATION: value, FORCED_ANNOTATION: "true"}
    return Adoption(annotations, retained=retained, verifiable=verifiable)


def _is_patched(live: Object) -> bool:
    """Return whether the stack has set fields of an object already: they are not its former ones."""
    metadata = live["metadata"]
    managers = {each.get("manager") for each in metadata.get("managedFields") or ()}
    return FIELD_MANAGER in managers or STACK_LABEL in (metadata.get("labels") or {})


def _declared_as(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest as the provider sends it: Pulumi's own annotations have no effect on the API server."""
    metadata = manifest["metadata"]
    annotations = {
        key: value for key, value in (metadata.get("annotations") or {}).items() if not key.startswith("pulumi.com/")
    }
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def _unreadable(what: str, error: Exception) -> TrainyardError:
    return TrainyardError(
        f"The takeover of {what} cannot be planned: {error}",
        fix="use credentials that may read and patch the platform's kinds, and list Secrets of Helm releases",
    )
