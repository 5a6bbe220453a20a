"""Preparation of a run: what exists is read and compared, and what is declared is checked before the first write."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import pulumi

from trainyard.api.constants import STACK_LABEL
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.platform.pulumi_sdk.recorded_objects import lacks_objects
from trainyard.platform.takeover.takeover import address_of
from trainyard.platform.takeover.takeover_plan import PLAN_VARIABLE, PlannedTakeoverError, TakeoverPlan
from trainyard.platform.takeover.takeover_reader import TakeoverReader
from trainyard.scheduling.queues.queue_bodies import QueueObjects
from trainyard.scheduling.queues.retirement import QueueRetirement
from trainyard.settings.stack import StackSettings

from .cluster_comparison import QUEUE, Comparison, compare_with_cluster
from .common.adoption_check import Ownership
from .common.declared_objects import DeclaredObject, is_reviewed, review
from .common.existing_components import existing_components
from .common.installation import Installation
from .common.objects import FIELD_MANAGER, Conventions, OwnershipCheck, conventions
from .common.ownership import Address, LiveObjects, list_live_objects, list_owned_objects
from .common.replacement import Replacements
from .common.served_fields import Schemas, read_schemas
from .common.takeover_record import forget_former_queues, record_former_objects, reject_limited_takeover
from .common.target import Target
from .hooks.queue_drain import close_retired, delete_directly, retire_queues
from .registry import cluster_kinds, declarations, namespaced_kinds

__all__ = ["prepared"]

_DEFERRED_RETIREMENT: Final = (
    "the program runs before the kubeconfig is known: once it is closed and has no jobs, remove its entry, and that "
    "`up` deletes it"
)
"""Why a retired queue stays if the kubeconfig is an output."""


@dataclass
class _Imports:
    """Ids of the live objects of a stack, by which those that its state lacks are imported.

    The state was lost, or the run that created them was killed. An import keeps the object and its uid, and does not
    depend on the provider's upsert, which pulumi-kubernetes 4.29 removes.

    Parameters
    ----------
    stack
        Value of this stack's label.
    live
        The objects that exist, without the namespaced ones of the stack's own namespaces.
    read
        Reads the namespaced objects of the stack; called for the first one that the state lacks.
    """

    stack: str
    live: LiveObjects
    read: Callable[[], LiveObjects]
    _found: set[Address] = field(default_factory=set)

    def id_of(self, manifest: Mapping[str, Any]) -> str | None:
        """Return the provider's id of an object of this stack; None if there is none, or it is being deleted."""
        address = address_of(manifest)
        _, _, namespace, name = address
        if namespace and ("v1", "Namespace", "", namespace) not in self.live.metadata:
            return None
        found = (self._namespaced if namespace else self.live).metadata.get(address)
        if found is None or found.get("labels", {}).get(STACK_LABEL) != self.stack or "deletionTimestamp" in found:
            return None
        self._found.add(address)
        return f"{namespace}/{name}" if namespace else name

    def report(self) -> None:
        """Warn if the state has no object of a stack that has some: it may be one of the same name elsewhere."""
        if self._found and lacks_objects():
            pulumi.log.warn(
                f"This state has none of the {len(self._found)} objects of stack {self.stack} that exist; they are "
                "imported, and `destroy` deletes them; is another backend in use?"
            )

    @cached_property
    def _namespaced(self) -> LiveObjects:
        return self.read()


@contextmanager
def prepared(
    name: str,
    settings: StackSettings,
    queues: QueueObjects,
    target: Target,
    options: Callable[[], pulumi.ResourceOptions],
    *,
    readable: bool,
    deferred: OwnershipCheck | None = None,
    removed: pulumi.Input[Sequence[str]] = (),
) -> Iterator[Installation]:
    """Compare the settings with the cluster, and apply the conventions of a stack to what is declared inside.

    Parameters
    ----------
    name
        Value of the stack's label.
    settings, queues
        The validated settings, and their queues.
    target
        The cluster.
    options
        Declares the provider and returns the options of every component; called after the cluster was read.
    readable
        Whether the cluster is read.
    deferred
        Records the declared objects if the cluster is read later, when its kubeconfig is known; then the caller also
        calls `compare_with_cluster`.
    removed
        Names of the removed queues, if the cluster is read later.

    Raises
    ------
    TrainyardError
        The cluster is unreachable, or contains objects of other owners with the same names; or the run is a reviewed
        update, and the declared objects violate a mandatory rule.
    """
    access, live = target.access, None
    if readable:
        namespaces = {*settings.platform_namespaces, *settings.tenants}
        live = list_live_objects(access, name, namespaces, cluster_kinds(), namespaced_kinds())
    ownership, imports = None, None
    comparison = Comparison()
    plans = os.environ.get(PLAN_VARIABLE) == "true"
    reader = TakeoverReader(access.kubeconfig, access.context, FIELD_MANAGER)
    if live is not None:
        ownership = Ownership(
            live,
            name,
            may_adopt=settings.adopt or plans,
            reader=reader,
            replacements=Replacements(access),
            plurals={**cluster_kinds(), **namespaced_kinds()},
            installed=settings.platform_namespaces,
        )
        imports = _Imports(name, live, lambda: list_owned_objects(access, name, namespaced_kinds()))
        comparison = compare_with_cluster(name, settings, queues, target, live)
    elif deferred is None:
        unread = ", ".join(each.name for each in existing_components(settings, declarations()))
        if unread:
            pulumi.log.warn(f"Without a cluster, nothing is known about {unread} (install: existing)")
    unknown = None if live is not None else _DEFERRED_RETIREMENT if deferred is not None else "the cluster was not read"
    retired = retire_queues(
        comparison.queues, settings.queues, comparison.owned_queues, terminating=comparison.terminating, unknown=unknown
    )
    if live is not None:
        removed = comparison.removed_queues
    given = options()
    labels = {"app.kubernetes.io/managed-by": "trainyard", STACK_LABEL: name}
    replaced = {kind: fields for each in declarations().values() for kind, fields in each.replaced_fields.items()}
    schemas = _stored_schemas(access, live) if pulumi.runtime.is_dry_run() and live is not None else {}
    declared: list[DeclaredObject] = []
    common = Conventions(
        labels,
        protect=settings.protect,
        ownership=ownership or deferred,
        replaced_fields=replaced,
        import_id=imports.id_of if imports is not None else None,
        schemas=schemas,
        declared=declared,
    )
    with reader:
        with conventions(common):
            tenants = comparison.tenants
            yield Installation(name, settings, target, given, declarations(), live, queues, retired, removed, tenants)
        plan = ownership.plan() if ownership is not None else TakeoverPlan(name)
        if plans:
            raise PlannedTakeoverError(plan)
        plan.require()
        reject_limited_takeover(plan)
        if imports is not None:
            imports.report()
        if is_reviewed():
            review(settings, declared)
        if ownership is not None:
            ownership.report(plan)
            if not pulumi.runtime.is_dry_run():
                _prepare_cluster(access, name, ownership, comparison, retired)


def _prepare_cluster(
    access: ClusterAccess, name: str, ownership: Ownership, comparison: Comparison, retired: QueueRetirement
) -> None:
    """Make the changes that precede those of the engine: record former objects, close and delete retired queues."""
    record_former_objects(access, name, ownership.former_objects())
    close_retired(access, retired, comparison.terminating)
    deleted = {*retired.removed, *comparison.removed_queues}
    forget_former_queues(access, name, sorted(deleted & ownership.live.adopted(name, *QUEUE)))
    delete_directly(access, retired, comparison.queues.queues)


def _stored_schemas(access: ClusterAccess, live: LiveObjects) -> Schemas:
    """Return the schemas of the custom resources that the program declares, as the cluster has them."""
    stored = live.names("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    kinds = {**cluster_kinds(), **namespaced_kinds()}
    names = {f"{plural}.{version.partition('/')[0]}" for (version, _), plural in kinds.items()}
    return read_schemas(access, sorted(names & stored)) if names & stored else {}
