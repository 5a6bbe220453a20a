"""Settings of one stack: everything in ``stacks/Pulumi.<stack>.yaml``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import Field, model_validator
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from trainyard.checks.finding import Finding
from trainyard.settings.cluster import ClusterSettings
from trainyard.settings.fabric import FabricSettings
from trainyard.settings.network import NetworkPolicySettings
from trainyard.settings.platform import ImageSettings, InstalledSettings, PolicySettings, RuntimeSettings
from trainyard.settings.pods import PlatformPodSettings
from trainyard.settings.scheduler import SchedulerSettings
from trainyard.settings.sections import SECTIONS
from trainyard.settings.sections.base import Section
from trainyard.settings.settings_model import DnsLabel, DnsSubdomain, SettingsModel
from trainyard.settings.tenancy import PriorityClassSettings, QueueSettings, TenantSettings, TenantState


class StackSettings(SettingsModel):
    """Settings of a stack; each field is a key of its configuration (``trainyard:<key>``).

    The sections of components are fields too (`trainyard.settings.sections`); `InstalledSettings.of` returns one.
    """

    cluster: ClusterSettings = Field(description="Provider of the control plane")
    scheduler: SchedulerSettings = Field(
        default=SchedulerSettings(), description="The Volcano scheduler's configuration"
    )
    fabric: FabricSettings = Field(default=FabricSettings(), description="Nodes, racks and switches")
    queues: dict[DnsLabel, QueueSettings] = Field(
        default={},
        description="Queue tree below root, by queue name; `default` and `root` configure Volcano's built-in queues",
    )
    tenants: dict[DnsLabel, TenantSettings] = Field(
        default={}, description="Teams by name, which is also the namespace"
    )
    priority_classes: dict[DnsSubdomain, PriorityClassSettings] = Field(
        default={}, description="PriorityClasses by name"
    )
    runtimes: RuntimeSettings = Field(default=RuntimeSettings(), description="Training runtimes to install")
    policies: PolicySettings = Field(default=PolicySettings(), description="Admission policies")
    images: dict[str, ImageSettings] = Field(
        default={}, description="Image replacements by image name (vc-scheduler, jobset, trainyard-controller, …)"
    )
    pods: PlatformPodSettings = Field(
        default=PlatformPodSettings(),
        description="Pods of the platform's own programs: where they run, resources, log level",
    )
    network_policies: NetworkPolicySettings = Field(
        default=NetworkPolicySettings(),
        description="Connections between tenants, and to metrics; enforced by the cluster's network plug-in",
    )
    protect: bool = Field(
        default=False,
        description="true: reject destroy, and the removal of queues and tenants without `state: retired`",
    )
    adopt: bool = Field(
        default=False,
        description="Adopt existing objects as `trainyard adopt --plan` lists; destroy gives them back",
    )

    @model_validator(mode="after")
    def _references_resolve(self) -> StackSettings:
        findings = [finding for tenant in sorted(self.tenants) for finding in self._tenant_findings(tenant)]
        findings += [
            Finding(f"priorityClasses.{name}", "the prefix system- is reserved for Kubernetes", "use another name")
            for name in sorted(self.priority_classes)
            if name.startswith("system-")
        ]
        findings += [
            Finding(
                path,
                f"PriorityClass {name} of priorityClasses is created after the programs of the platform",
                "use system-cluster-critical, or a class that exists before the installation",
            )
            for path, name in self.pods.priority_classes.items()
            if name in self.priority_classes
        ]
        findings += [finding for section in SECTIONS.values() for finding in section.check(self)]
        if findings:
            raise PydanticCustomError("references", "references do not resolve", {"findings": findings})
        return self

    def _tenant_findings(self, tenant: str) -> Iterator[Finding]:
        settings, path = self.tenants[tenant], f"tenants.{tenant}"
        if tenant in {"default", *self.exempt_namespaces} or tenant.startswith("kube-"):
            message = f"{tenant!r} is a namespace of the cluster or the platform, exempt from tenant rules"
            yield Finding(path, message, "give the tenant another name")
        if settings.state is TenantState.RETIRED:
            return  # Nothing of it is declared, so its queues and priority classes may be removed in any order.
        if settings.delete_data:
            message = "deleteData: true has no effect, because the tenant is not retired"
            yield Finding(f"{path}.deleteData", message, "remove it, or set state: retired to delete the namespace")
        for label in settings.labels:
            if label.startswith("pod-security.kubernetes.io/"):
                message = f"label {label} is set by podSecurity"
                yield Finding(f"{path}.labels[{label}]", message, "set podSecurity instead")
        for name in settings.object_quota:
            if _is_compute(name):
                message = f"{name} is compute, which the tenant's queue limits"
                yield Finding(f"{path}.objectQuota[{name}]", message, "set capability of the queue instead")
        usable = {name: queue for name, queue in self.queues.items() if name != "root"}
        for queue in settings.queues:
            if queue == "root":
                yield Finding(f"{path}.queues", "root, the parent of all queues, cannot have jobs", _use(usable))
            elif queue not in usable:
                yield Finding(f"{path}.queues", f"queue {queue!r} is not declared", _one_of("queues", usable))
        if settings.default_queue and settings.default_queue not in settings.queues:
            message = f"{settings.default_queue!r} is not one of the tenant's queues"
            yield Finding(f"{path}.defaultQueue", message, f"use one of {', '.join(settings.queues)}")
        of_kueue = getattr(self, "kueue", None)
        declared = {**self.priority_classes, **(of_kueue.workload_priority_classes if of_kueue else {})}
        for name in settings.priority_classes:
            if name not in declared:
                message = f"priority class {name!r} is not declared"
                yield Finding(f"{path}.priorityClasses", message, _one_of("priorityClasses", declared))

    @property
    def active_tenants(self) -> dict[str, TenantSettings]:
        """Tenants that exist, in the order of the settings: all but the retired ones."""
        return {name: each for name, each in self.tenants.items() if each.state is not TenantState.RETIRED}

    @property
    def retired_tenants(self) -> dict[str, TenantSettings]:
        """Tenants whose namespaces are deleted, in the order of the settings."""
        return {name: each for name, each in self.tenants.items() if each.state is TenantState.RETIRED}

    @property
    def leaf_queues(self) -> tuple[str, ...]:
        """Queues that jobs may use, including ``default``, sorted."""
        parents = {queue.parent for queue in self.queues.values()}
        return tuple(sorted(({"default"} | set(self.queues)) - parents))

    @property
    def exempt_namespaces(self) -> tuple[str, ...]:
        """Namespaces exempt from tenant rules: those in the settings and the platform's, sorted."""
        return tuple(sorted({*self.platform_namespaces, *self.policies.exempt_namespaces}))

    @property
    def platform_namespaces(self) -> tuple[str, ...]:
        """Namespaces of the components of the platform, in the order of the settings."""
        sections = (getattr(self, name) for name in type(self).model_fields)
        return tuple(
            section.namespace
            for section in sections
            if isinstance(section, InstalledSettings) and section.install is not False
        )

    @property
    def accelerator_resources(self) -> tuple[str, ...]:
        """Accelerator resources: devices of the node shapes and additional ones of the settings, sorted."""
        return tuple(sorted({*self.fabric.devices, *self.fabric.accelerator_resources}))


def _field(section: Section) -> FieldInfo:
    field = Field(default_factory=section.model, alias=to_camel(section.name), description=section.description)
    return FieldInfo.from_annotated_attribute(section.model, field)


def _add_sections(fields: dict[str, FieldInfo]) -> None:
    """Add the sections of the components, before the first validation builds the schema."""
    if taken := fields.keys() & SECTIONS.keys():
        raise TypeError(f"trainyard.settings.sections: the settings have {', '.join(sorted(taken))} already")
    own = dict(fields)
    fields.clear()
    fields["cluster"] = own.pop("cluster")
    fields.update((name, _field(each)) for name, each in SECTIONS.items() if each.required)
    fields.update(own)
    fields.update((name, _field(each)) for name, each in SECTIONS.items() if not each.required)


_add_sections(StackSettings.model_fields)


def _is_compute(name: str) -> bool:
    if name in ("cpu", "memory") or name.startswith("limits."):
        return True
    return name.startswith("requests.") and name != "requests.storage"


def _one_of(section: str, known: Mapping[str, object]) -> str:
    return f"declare it under {section}" + (f" or {_use(known)}" if known else "")


def _use(known: Mapping[str, object]) -> str:
    return f"use one of {', '.join(sorted(known))}"
