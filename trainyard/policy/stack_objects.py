"""Parameter objects of rules, built from the settings of a stack; without a cluster and without Pulumi."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainyard.api.constants import CONTROLLER_SERVICE, PLATFORM_NAME, TENANT_POLICY_NAME
from trainyard.api.tenancy import Platform, PlatformSpec, StatusServer, TenantPolicy, TenantPolicySpec, Tier
from trainyard.data import configured_folder, data_folder
from trainyard.jobs.render.accelerators import concerns_accelerator
from trainyard.policy.engines.vap.validating_admission_policies import TENANT_LABEL
from trainyard.policy.rules.admission_rule import AdmissionRule
from trainyard.scheduling.scheduler.stack_configuration import effective_configuration
from trainyard.scheduling.topology.fabric_compiler import compile_fabric
from trainyard.settings.platform import PolicySettings
from trainyard.settings.sections.jobset import JobSetSettings
from trainyard.settings.sections.kueue import KueueSettings
from trainyard.settings.sections.trainer import TrainerSettings
from trainyard.settings.sections.volcano import VolcanoSettings
from trainyard.settings.stack import StackSettings
from trainyard.settings.tenancy import QueueState, TenantSettings


def policy_settings(settings: StackSettings, rules: Iterable[AdmissionRule]) -> PolicySettings:
    """Return the policy settings of a stack, with parameters extended from its other settings.

    Parameters
    ----------
    settings
        The stack's settings.
    rules
        All rules.
    """
    policies = settings.policies
    parameters = dict(policies.parameters)
    for rule in rules:
        for name, schema in rule.parameters.items():
            given = parameters.get(rule.id, {})
            values = given.get(name, schema.default)
            if schema.adds is None or not isinstance(values, list | tuple):
                continue
            offered = (value for value in _STACK_VALUES[schema.adds.field](settings) if value not in values)
            added = [value for value in offered if not (schema.adds.unrecognized and concerns_accelerator(value))]
            if added:
                parameters[rule.id] = {**given, name: [*values, *added]}
    return policies if parameters == policies.parameters else policies.model_copy(update={"parameters": parameters})


_KUEUE_FINALIZER = "kueue.x-k8s.io/managed"

_STACK_VALUES: Mapping[str, Callable[[StackSettings], Sequence[str]]] = {
    "acceleratorResources": lambda settings: settings.accelerator_resources,
    "kueueFinalizers": lambda settings: (_KUEUE_FINALIZER,) if KueueSettings.of(settings).install else (),
    "preemptingPriorityClasses": lambda settings: sorted(
        name for name, each in settings.priority_classes.items() if each.preempts
    ),
    "schedulerNames": lambda settings: VolcanoSettings.of(settings).scheduler_names,
}


def platform_object(settings: StackSettings) -> dict[str, Any]:
    """Return the Platform object."""
    spec = PlatformSpec(
        leaf_queues=list(settings.leaf_queues),
        closed_queues=_in_state(settings, QueueState.CLOSED),
        retired_queues=_in_state(settings, QueueState.RETIRED),
        accelerator_resources=list(settings.accelerator_resources),
        tiers=[Tier(name=name, tier=number) for name, number in compile_fabric(settings.fabric).tiers],
        scheduler_features=scheduler_features(settings),
        job_set_feature_gates=sorted({gate.value for gate in JobSetSettings.of(settings).feature_gates}),
        exempt_namespaces=list(settings.exempt_namespaces),
        status_server=_status_server(TrainerSettings.of(settings)),
    )
    body = Platform(spec=spec).model_dump(by_alias=True, exclude_none=True, mode="json")
    return {**body, "metadata": {"name": PLATFORM_NAME}}


def _status_server(trainer: TrainerSettings) -> StatusServer | None:
    """Return the progress endpoint; a trainer installed by other means configures its own."""
    if trainer.install is not True or not trainer.progress_reports:
        return None
    return StatusServer(service=CONTROLLER_SERVICE, namespace=trainer.namespace)


def _in_state(settings: StackSettings, state: QueueState) -> list[str]:
    return sorted(name for name, queue in settings.queues.items() if queue.state is state)


def scheduler_features(settings: StackSettings) -> list[str]:
    """Return the names of the scheduler's enabled actions and plug-ins, sorted."""
    return effective_configuration(settings).features


def tenant_policy(tenant: str, settings: TenantSettings) -> dict[str, Any]:
    """Return the TenantPolicy object of a tenant."""
    spec = TenantPolicySpec(
        queues=list(settings.queues),
        default_queue=default_queue(settings),
        runtimes=list(settings.runtimes),
        priority_classes=list(settings.priority_classes),
        service_accounts=list(settings.service_accounts),
        max_accelerators_per_job=settings.max_accelerators_per_job,
    )
    body = TenantPolicy(spec=spec).model_dump(by_alias=True, exclude_none=True, mode="json")
    return {**body, "metadata": {"name": TENANT_POLICY_NAME, "namespace": tenant}}


def default_queue(settings: TenantSettings) -> str:
    """Return the queue of the tenant's jobs that do not set one."""
    return settings.default_queue or settings.queues[0]


def namespace_labels(tenant: str, settings: TenantSettings) -> dict[str, str]:
    """Return the labels of a tenant's namespace, without those of Pod Security."""
    return {**settings.labels, TENANT_LABEL: tenant}


def rule_catalogs(settings: StackSettings | None) -> list[Path]:
    """Return the folders of the shipped rules and of the stack's own."""
    own = settings.policies.folders if settings else ()
    return [data_folder("policies"), *map(configured_folder, own)]


def runtime_catalogs(settings: StackSettings | None) -> list[Path]:
    """Return the folders of the shipped runtimes and of the stack's own."""
    own = settings.runtimes.folders if settings else ()
    return [data_folder("runtimes"), *map(configured_folder, own)]
