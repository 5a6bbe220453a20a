"""Installation of one stack: settings, cluster, provider, conventions, and the components in order."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Final

import pulumi
import pulumi_kubernetes

from trainyard import upstream
from trainyard.api.constants import STACK_LABEL
from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.local.cluster import cluster_name, provider
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.platform.pulumi_sdk.engine import PulumiEngine
from trainyard.platform.takeover.takeover_plan import PLAN_VARIABLE, PlannedTakeoverError, TakeoverPlan
from trainyard.platform.takeover.takeover_reader import TakeoverReader
from trainyard.scheduling.queues.queue_bodies import QueueObjects
from trainyard.scheduling.queues.retirement import QueueRetirement
from trainyard.scheduling.topology.fabric_compiler import compile_fabric
from trainyard.settings.sections.trainer import TrainerSettings
from trainyard.settings.stack import StackSettings
from trainyard.settings.stack_loader import parse_stack, reject_secrets
from trainyard.stack_checks import check_node_labels, stack_queues, unenforced_shares

from .cluster_comparison import QUEUE, Comparison, compare_with_cluster
from .common.adoption_check import Ownership
from .common.declaration import Resources
from .common.declared_objects import DeclaredObject, is_reviewed, review
from .common.existing_components import existing_components
from .common.imports import Imports
from .common.installation import Installation
from .common.objects import FIELD_MANAGER, Component, Conventions, OwnershipCheck, conventions
from .common.offline import OFFLINE_KUBECONFIG, access_or_offline
from .common.outputs import context_of, installation_outputs
from .common.ownership import LiveObjects, list_live_objects, list_owned_objects
from .common.pod_settings import check_programs
from .common.replacement import Replacements
from .common.served_fields import Schemas, read_schemas
from .common.takeover_record import forget_former_queues, record_former_objects, reject_limited_takeover
from .common.target import Target
from .hooks.retirement import close_retired, delete_directly, retire_queues
from .registry import (
    cluster_kinds,
    declarations,
    image_repositories,
    installation_order,
    namespaced_kinds,
    needed_by,
)

__all__ = [
    "PROVIDER_OPTIONS",
    "Comparison",
    "compare_with_cluster",
    "export_outputs",
    "install_components",
    "open_stack",
    "prepared",
    "reported_errors",
    "validate_stack",
]

PROVIDER_OPTIONS: Final[Mapping[str, Any]] = {
    "enable_config_map_mutable": True,
    "enable_server_side_apply": True,
    "suppress_deprecation_warnings": True,
}
"""Options of the Kubernetes provider on which the components rely."""

DEFERRED_RETIREMENT: Final = (
    "the program runs before the kubeconfig is known: once it is closed and has no jobs, remove its entry, and that "
    "`up` deletes it"
)
"""Why a retired queue stays if the kubeconfig is an output."""


@contextmanager
def open_stack() -> Iterator[Installation]:
    """Open the stack of the current run; at the end, fail if declared objects have another owner.

    Raises
    ------
    pulumi.RunError
        The settings are invalid, the cluster is unreachable, or it contains objects of other owners with the same
        names that may not or cannot be adopted. Or the run only plans their takeover (`PLAN_VARIABLE`). Pulumi prints
        the message without a traceback. After this or any other error nothing is created.
    """
    with reported_errors(), _opened() as stack:
        yield stack


@contextmanager
def reported_errors() -> Iterator[PulumiEngine]:
    """Declare nothing after an error, and let Pulumi print the user's errors without a traceback.

    Yields the engine, for errors that occur after the program has run.

    Raises
    ------
    pulumi.RunError
        Something inside raised a TrainyardError.
    """
    engine = PulumiEngine()
    try:
        with upstream.without_downloads() if pulumi.runtime.is_dry_run() else nullcontext():
            yield engine
    except TrainyardError as error:
        failure = pulumi.RunError(str(error))
        engine.fail_registrations(failure)
        raise failure from error
    except Exception as error:
        engine.fail_registrations(error)
        raise


@contextmanager
def _opened() -> Iterator[Installation]:
    name = pulumi.get_stack()
    settings = _settings(name)
    queues = validate_stack(settings)
    for finding in unenforced_shares(settings):
        pulumi.log.warn(str(finding))
    cluster = cluster_name(settings, name)
    access = access_or_offline(provider(settings.cluster, cluster), cluster, settings)
    target = Target.of(settings, access, image_repositories())

    def options() -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(
            provider=pulumi_kubernetes.Provider(
                "kubernetes",
                kubeconfig=str(access.kubeconfig),
                context=access.context,
                cluster_identifier=access.name,
                **PROVIDER_OPTIONS,
            )
        )

    with prepared(name, settings, queues, target, options, readable=access.kubeconfig != OFFLINE_KUBECONFIG) as stack:
        yield stack


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
        imports = Imports(name, live, lambda: list_owned_objects(access, name, namespaced_kinds()))
        comparison = compare_with_cluster(name, settings, queues, target, live)
    elif deferred is None:
        unread = ", ".join(each.name for each in existing_components(settings, declarations()))
        if unread:
            pulumi.log.warn(f"Without a cluster, nothing is known about {unread} (install: existing)")
    unknown = None if live is not None else DEFERRED_RETIREMENT if deferred is not None else "the cluster was not read"
    retired = retire_queues(
        comparison.queues, settings.queues, comparison.owned_queues, leaving=comparison.leaving, unknown=unknown
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
    close_retired(access, retired, comparison.leaving)
    deleted = {*retired.removed, *comparison.removed_queues}
    forget_former_queues(access, name, sorted(deleted & ownership.live.adopted(name, *QUEUE)))
    delete_directly(access, retired, comparison.queues.queues)


def install_components(context: Installation, names: Collection[str] | None = None) -> dict[str, Component]:
    """Declare the resources of components, each after those that it needs, and return the components by name.

    Parameters
    ----------
    names
        Components to declare; None: all.
    """
    declared, installed = context.declarations, dict[str, Component]()
    for name in installation_order(declared):
        if names is not None and name not in names:
            continue
        needed = (installed[each] for each in needed_by(declared[name], declared) if each in installed)
        if (component := declared[name].install(context, Resources.of(needed))) is not None:
            installed[name] = component
    return installed


def export_outputs(context: Installation, components: Mapping[str, Component]) -> None:
    """Export the names of what the components declare, and the kubeconfig's context, as outputs of the stack."""
    for name, value in installation_outputs(components.values(), context_of(context.target.access)).items():
        pulumi.export(name, value)


def validate_stack(settings: StackSettings) -> QueueObjects:
    """Validate the settings before anything is declared, and return the queues.

    Raises
    ------
    TrainyardError
        The queue tree or the fabric is invalid, the pod settings name a program that is not installed, a policy rejects
        the node labels or tolerations of Kueue's flavors, or the stack installs a component with webhooks, such as
        Volcano, but not the trainer, whose controller issues its certificate.
    """
    queues = stack_queues(settings)
    compile_fabric(settings.fabric)
    if findings := check_node_labels(settings):
        raise TrainyardError("A policy rejects the pods of Kueue's flavors", findings=findings)
    programs = {
        program: not each.has_settings or each.settings(settings).install is True
        for each in declarations().values()
        for program in each.images
    }
    if findings := check_programs(settings.pods, programs):
        raise TrainyardError("The pod settings name programs that are not installed", findings=findings)
    served = [each for each in declarations().values() if each.webhooks is not None]
    installed = [each.name for each in served if each.settings(settings).install is True]
    if TrainerSettings.of(settings).install is not True and installed:
        raise TrainyardError(
            "trainyard:trainer is existing, but this program installs other components",
            findings=[
                Finding(f"trainyard:{name}.install", "its certificate is issued by this program's trainer controller")
                for name in installed
            ],
            fix="set install: existing for these too, or install: true for the trainer",
        )
    return queues


def _stored_schemas(access: ClusterAccess, live: LiveObjects) -> Schemas:
    """Return the schemas of the custom resources that the program declares, as the cluster has them."""
    stored = live.names("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    kinds = {**cluster_kinds(), **namespaced_kinds()}
    names = {f"{plural}.{version.partition('/')[0]}" for (version, _), plural in kinds.items()}
    return read_schemas(access, sorted(names & stored)) if names & stored else {}


def _settings(stack: str) -> StackSettings:
    config = pulumi.Config("trainyard")
    present = {**pulumi.runtime.config.get_config_env(), **pulumi.runtime.config.CONFIG.get()}
    keys = [key.removeprefix("trainyard:") for key in present if key.startswith("trainyard:")]
    source = f"Pulumi.{stack}.yaml"
    reject_secrets((key for key in keys if pulumi.runtime.is_config_secret(f"trainyard:{key}")), source=source)
    return parse_stack({key: config.get_object(key) for key in keys}, source=source)
