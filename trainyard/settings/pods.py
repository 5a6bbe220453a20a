"""Settings of the platform's own pods: where they run, their resources, replicas and log level."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from trainyard import quantity
from trainyard.settings.pod_affinity import AffinitySettings
from trainyard.settings.settings_model import (
    DnsLabel,
    DnsSubdomain,
    LabelKey,
    LabelValue,
    Quantity,
    SecretName,
    SettingsModel,
    invalid,
)

ComputeResource = Literal["cpu", "memory", "ephemeral-storage"]
_POLICIES = Literal["Honor", "Ignore"]


class LogLevel(StrEnum):
    """Log level of a program."""

    ERROR = "error"
    INFO = "info"
    DEBUG = "debug"


class PodTolerationSettings(SettingsModel):
    """A toleration, in Kubernetes' notation."""

    key: LabelKey | None = Field(default=None, description="Key of the taint; default: all keys, with operator Exists")
    operator: Literal["Equal", "Exists"] = Field(default="Equal", description="Equal: the value too; Exists: any value")
    value: LabelValue | None = Field(default=None, description="Value of the taint")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None, description="Effect of the taint; default: all"
    )
    toleration_seconds: int | None = Field(
        default=None, ge=0, description="Time until a pod leaves a node with the taint; requires effect NoExecute"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.operator == "Exists" and self.value is not None:
            message = f"operator Exists tolerates any value, so it cannot have the value {self.value!r}"
            raise invalid(message, "remove value, or use operator Equal")
        if self.operator == "Equal" and self.key is None:
            raise invalid("operator Equal requires a key", "set key, or use operator Exists to tolerate all taints")
        if self.toleration_seconds is not None and self.effect != "NoExecute":
            raise invalid("tolerationSeconds requires effect NoExecute", "set effect: NoExecute")
        return self


class TopologySpreadSettings(SettingsModel):
    """Spread of the replicas of one program over nodes or zones."""

    topology_key: LabelKey = Field(description="Node label of the domains, such as topology.kubernetes.io/zone")
    max_skew: int = Field(default=1, ge=1, description="Maximum difference of replicas between two domains")
    when_unsatisfiable: Literal["ScheduleAnyway", "DoNotSchedule"] = Field(
        default="ScheduleAnyway", description="Whether a pod that exceeds maxSkew is scheduled"
    )
    min_domains: int | None = Field(
        default=None, ge=1, description="Minimum number of domains; requires whenUnsatisfiable DoNotSchedule"
    )
    node_affinity_policy: _POLICIES | None = Field(
        default=None, description="Whether only nodes that match nodeSelector and affinity count; default: Honor"
    )
    node_taints_policy: _POLICIES | None = Field(
        default=None, description="Whether only nodes with tolerated taints count; default: Ignore"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.min_domains is not None and self.when_unsatisfiable != "DoNotSchedule":
            raise invalid("minDomains requires whenUnsatisfiable DoNotSchedule", "set whenUnsatisfiable: DoNotSchedule")
        return self


class ResourceSettings(SettingsModel):
    """Requests and limits of a container."""

    requests: dict[ComputeResource, Quantity] = Field(
        default={}, description="Requests by resource (`cpu`, `memory`, `ephemeral-storage`)"
    )
    limits: dict[ComputeResource, Quantity] = Field(default={}, description="Limits by resource")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for name, limit, request in self.exceeded():
            message = f"the limit {limit} of {name} is below the request {request}"
            raise invalid(message, f"raise limits.{name}, or lower requests.{name}")
        return self

    def exceeded(self) -> Iterator[tuple[ComputeResource, str, str]]:
        """Yield name, limit and request of each resource whose request exceeds its limit."""
        for name, limit in self.limits.items():
            request = self.requests.get(name)
            if request is not None and quantity.parse(limit) < quantity.parse(request):
                yield name, limit, request

    def over(self, defaults: ResourceSettings) -> ResourceSettings:
        """Return these resources, and those of the defaults that are unset here; limits are not checked."""
        requests, limits = {**defaults.requests, **self.requests}, {**defaults.limits, **self.limits}
        return self.model_copy(update={"requests": requests, "limits": limits})


class PodSettings(SettingsModel):
    """Settings of pods; what is unset keeps its default."""

    priority_class: DnsSubdomain | None = Field(
        default=None,
        description="PriorityClass, which must exist before the installation; default: system-cluster-critical",
    )
    tolerations: tuple[PodTolerationSettings, ...] | None = Field(default=None, description="Tolerated taints of nodes")
    node_selector: dict[LabelKey, LabelValue] | None = Field(default=None, description="Required labels of nodes")
    affinity: AffinitySettings | None = Field(default=None, description="Affinity, in Kubernetes' notation")
    topology_spread: tuple[TopologySpreadSettings, ...] | None = Field(
        default=None,
        description="Spread of the replicas of each program; default: different nodes are preferred if it has several",
    )
    resources: ResourceSettings = Field(
        default=ResourceSettings(), description="Requests and limits of each container; unset ones keep their defaults"
    )
    image_pull_secrets: tuple[SecretName, ...] | None = Field(
        default=None,
        description="Names of Secrets in the namespaces of the platform, which the program does not create",
    )
    log_level: LogLevel | None = Field(
        default=None, description="Log level; default: info, and error for the policy server"
    )

    @field_validator("topology_spread")
    @classmethod
    def _distinct(cls, value: tuple[TopologySpreadSettings, ...] | None) -> tuple[TopologySpreadSettings, ...] | None:
        seen = set()
        for each in value or ():
            identity = each.topology_key, each.when_unsatisfiable
            if identity in seen:
                message = f"two entries have topologyKey {identity[0]} and whenUnsatisfiable {identity[1]}"
                raise invalid(message, "keep one of them")
            seen.add(identity)
        return value


class ProgramSettings(PodSettings):
    """Settings of one program, which take precedence over those of all programs."""

    replicas: int | None = Field(
        default=None, ge=1, le=5, description="Replicas of its Deployment; default: replicas of the component"
    )


class PlatformPodSettings(PodSettings):
    """Settings of the pods of all programs of the platform, and of individual ones."""

    priority_class_quota: bool = Field(
        default=False,
        description="Create ResourceQuotas that allow the priority classes, where the cluster requires them (GKE)",
    )
    programs: dict[DnsLabel, ProgramSettings] = Field(
        default={}, description="Settings of one program, by the name that its image has in `images`"
    )

    def of(self, program: str) -> ProgramSettings:
        """Return the settings of a program: its own, else those of all programs.

        A key that the program sets replaces the whole value; resources are merged by name.
        """
        own = self.programs.get(program, ProgramSettings())
        unset = {name for name in PodSettings.model_fields if getattr(own, name) is None}
        inherited = {name: getattr(self, name) for name in unset}
        return own.model_copy(update={**inherited, "resources": own.resources.over(self.resources)})

    @property
    def priority_classes(self) -> dict[str, str]:
        """Priority classes by the path of the setting."""
        own = {f"pods.programs.{name}.priorityClass": each.priority_class for name, each in self.programs.items()}
        found = {"pods.priorityClass": self.priority_class, **own}
        return {path: name for path, name in found.items() if name is not None}
