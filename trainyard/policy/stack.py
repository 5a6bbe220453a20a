"""Objects that rules read, from the settings of a stack; without a cluster and without Pulumi."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from trainyard.api.constants import CONTROLLER_SERVICE, PLATFORM_NAME, TENANT_POLICY_NAME
from trainyard.api.tenancy import Platform, PlatformSpec, StatusServer, TenantPolicy, TenantPolicySpec, Tier
from trainyard.data import data_folder, project_root
from trainyard.policy.rule import Rule
from trainyard.policy.validating_admission_policies import TENANT_LABEL
from trainyard.scheduler import in_force
from trainyard.settings import StackSettings
from trainyard.settings.platform import PolicySettings, TrainerSettings
from trainyard.settings.tenancy import QueueState, TenantSettings
from trainyard.topology import compile_fabric

__all__ = [
    "default_queue",
    "namespace_labels",
    "platform_object",
    "policy_settings",
    "rule_catalogues",
    "runtime_catalogues",
    "scheduler_features",
    "tenant_policy",
]

_CEILING: Final = "ACC-002"
"""The rule that counts accelerators; it reads the TenantPolicy and so cannot read from the Platform which these are."""


def policy_settings(settings: StackSettings, rules: Iterable[Rule]) -> PolicySettings:
    """Return what a stack says of rules; the accelerators of its nodes count towards the ceiling, whatever their name.

    Parameters
    ----------
    settings
        The stack's settings.
    rules
        The catalogue.
    """
    policies = settings.policies
    rule = next((rule for rule in rules if rule.id == _CEILING), None)
    given = policies.parameters.get(_CEILING, {})
    counted = given.get("resources", rule.parameters["resources"].default if rule else None)
    if not isinstance(counted, list | tuple):
        return policies
    missing = [name for name in settings.accelerator_resources if "gpu" not in name and name not in counted]
    if not missing:
        return policies
    parameters = {**policies.parameters, _CEILING: {**given, "resources": [*counted, *missing]}}
    return policies.model_copy(update={"parameters": parameters})


def platform_object(settings: StackSettings) -> dict[str, Any]:
    """Return the object that tells rules what the platform offers."""
    spec = PlatformSpec(
        leaf_queues=list(settings.leaf_queues),
        closed_queues=_in_state(settings, QueueState.CLOSED),
        retired_queues=_in_state(settings, QueueState.RETIRED),
        accelerator_resources=list(settings.accelerator_resources),
        tiers=[Tier(name=name, tier=number) for name, number in compile_fabric(settings.fabric).tiers],
        scheduler_features=scheduler_features(settings),
        exempt_namespaces=list(settings.exempt_namespaces),
        status_server=_status_server(settings.trainer),
    )
    body = Platform(spec=spec).model_dump(by_alias=True, exclude_none=True, mode="json")
    return {**body, "metadata": {"name": PLATFORM_NAME}}


def _status_server(trainer: TrainerSettings) -> StatusServer | None:
    """Return where progress is reported; a trainer that somebody else installed has its own way of telling jobs."""
    if trainer.install is not True or not trainer.progress_reports:
        return None
    return StatusServer(service=CONTROLLER_SERVICE, namespace=trainer.namespace)


def _in_state(settings: StackSettings, state: QueueState) -> list[str]:
    return sorted(name for name, queue in settings.queues.items() if queue.state is state)


def scheduler_features(settings: StackSettings) -> list[str]:
    """Return the names of the scheduler's actions and plug-ins that are on, sorted."""
    return in_force(settings).features


def tenant_policy(tenant: str, settings: TenantSettings) -> dict[str, Any]:
    """Return the object that tells rules what a tenant may use."""
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
    """Return the queue of the tenant's jobs that name none."""
    return settings.default_queue or settings.queues[0]


def namespace_labels(tenant: str, settings: TenantSettings) -> dict[str, str]:
    """Return the labels of a tenant's namespace, those of Pod Security left out."""
    return {**settings.labels, TENANT_LABEL: tenant}


def rule_catalogues(settings: StackSettings | None) -> list[Path]:
    """Return the folders of the shipped rules and of the team's own."""
    own = settings.policies.folders if settings else ()
    return [data_folder("policies"), *(project_root() / folder for folder in own)]


def runtime_catalogues(settings: StackSettings | None) -> list[Path]:
    """Return the folders of the shipped runtimes and of the team's own."""
    own = settings.runtimes.folders if settings else ()
    return [data_folder("runtimes"), *(project_root() / folder for folder in own)]
