"""Settings of Kueue, for teams whose jobs queue with it instead of with Volcano."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, field_validator

from trainyard.settings.platform import InstalledSettings, tested_version
from trainyard.settings.sections.base import Section
from trainyard.settings.sections.kueue_checks import check
from trainyard.settings.settings_model import (
    DnsLabel,
    DnsSubdomain,
    LabelKey,
    LabelName,
    LabelValue,
    Quantity,
    ResourceName,
    SettingsModel,
)
from trainyard.settings.versions import ComponentRelease

_RELEASES: Final = (ComponentRelease("sigs.k8s.io/kueue", "0.16.2", "v0.16.2"),)

_INT32: Final = 2**31 - 1


class QueueingStrategy(StrEnum):
    """Order of the jobs of a ClusterQueue."""

    STRICT = "StrictFIFO"
    BEST_EFFORT = "BestEffortFIFO"


class StopPolicy(StrEnum):
    """Whether a queue admits jobs."""

    NONE = "None"
    HOLD = "Hold"
    DRAIN = "HoldAndDrain"


class WithinQueue(StrEnum):
    """Jobs of the same ClusterQueue that a waiting job may preempt."""

    NEVER = "Never"
    LOWER = "LowerPriority"
    LOWER_OR_NEWER = "LowerOrNewerEqualPriority"


class WithinCohort(StrEnum):
    """Borrowing jobs of other ClusterQueues that a waiting job may preempt."""

    NEVER = "Never"
    LOWER = "LowerPriority"
    ANY = "Any"


class BorrowPolicy(StrEnum):
    """Jobs of other ClusterQueues that a borrowing job may preempt."""

    NEVER = "Never"
    LOWER = "LowerPriority"


class BorrowWithinCohortSettings(SettingsModel):
    """Preemption by a job that needs borrowed quota."""

    policy: BorrowPolicy = Field(
        default=BorrowPolicy.NEVER, description="Jobs of other ClusterQueues that a borrowing job may preempt"
    )
    max_priority_threshold: int | None = Field(
        default=None,
        ge=-_INT32 - 1,
        le=_INT32,
        description="Highest priority of a job that is preempted so; default: any lower one",
    )


class PreemptionSettings(SettingsModel):
    """Preemption by the jobs of a ClusterQueue."""

    within_cluster_queue: WithinQueue = Field(
        default=WithinQueue.NEVER, description="Jobs of the same ClusterQueue that a waiting job may preempt"
    )
    reclaim_within_cohort: WithinCohort = Field(
        default=WithinCohort.NEVER,
        description="Jobs of other ClusterQueues that may be preempted to reclaim lent quota",
    )
    borrow_within_cohort: BorrowWithinCohortSettings | None = Field(
        default=None, description="Preemption by a job that needs borrowed quota; requires reclaimWithinCohort"
    )


class QuotaSettings(SettingsModel):
    """Quota of one resource in one flavor."""

    nominal_quota: Quantity = Field(description="Quota, a Kubernetes quantity")
    borrowing_limit: Quantity | None = Field(
        default=None, description="Maximum to borrow from the cohort; default: all that is unused"
    )
    lending_limit: Quantity | None = Field(
        default=None, description="Maximum to lend to the cohort; default: all that is unused"
    )


def _quota(value: object) -> object:
    return value if isinstance(value, dict | QuotaSettings) else {"nominalQuota": value}


Quota = Annotated[QuotaSettings, BeforeValidator(_quota)]
"""Quota; a quantity alone is the nominal quota."""


class FlavorQuotasSettings(SettingsModel):
    """Quotas of a ClusterQueue in one flavor."""

    flavor: DnsSubdomain = Field(description="Name of the flavor")
    quotas: dict[ResourceName, Quota] = Field(
        min_length=1, max_length=64, description="Quota by resource: a quantity, or nominalQuota with limits"
    )


class ResourceGroupSettings(SettingsModel):
    """Resources that are always taken from the same flavor."""

    flavors: tuple[FlavorQuotasSettings, ...] = Field(
        min_length=1, max_length=64, description="Flavors in the order in which they are tried, each with all resources"
    )


class ClusterQueueSettings(SettingsModel):
    """A ClusterQueue: the quota of its LocalQueues."""

    cohort: DnsSubdomain | None = Field(
        default=None, description="ClusterQueues of the same cohort lend each other unused quota"
    )
    resource_groups: tuple[ResourceGroupSettings, ...] = Field(
        default=(), max_length=16, description="Quotas; a job that asks for a resource without quota is not admitted"
    )
    queueing_strategy: QueueingStrategy = Field(
        default=QueueingStrategy.BEST_EFFORT,
        description="StrictFIFO: a job that does not fit holds up later ones; BestEffortFIFO: it does not",
    )
    preemption: PreemptionSettings = Field(
        default=PreemptionSettings(), description="Preemption by the jobs of this queue"
    )
    stop_policy: StopPolicy = Field(
        default=StopPolicy.NONE, description="Hold: admit no more jobs; HoldAndDrain: also evict admitted ones"
    )
    multi_kueue_clusters: tuple[DnsSubdomain, ...] = Field(
        default=(), max_length=20, description="Clusters of multiKueue that run the jobs; default: this cluster does"
    )


class TaintEffect(StrEnum):
    """Effects of a taint."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class TaintSettings(SettingsModel):
    """A taint of the nodes of a flavor."""

    key: LabelKey = Field(description="Key")
    value: LabelValue = Field(default="", description="Value")
    effect: TaintEffect = Field(description="Effect")


class TolerationSettings(SettingsModel):
    """A toleration that Kueue adds to pods."""

    key: LabelKey = Field(description="Key")
    operator: Literal["Equal", "Exists"] = Field(default="Equal", description="Equal: the value too; Exists: any value")
    value: LabelValue | None = Field(default=None, description="Value")
    effect: TaintEffect | None = Field(default=None, description="Effect; default: all")


class FlavorSettings(SettingsModel):
    """A ResourceFlavor: nodes with the same labels."""

    node_labels: dict[LabelKey, LabelValue] = Field(
        default={}, max_length=8, description="Labels of its nodes, which Kueue adds to the pods' node selector"
    )
    node_taints: tuple[TaintSettings, ...] = Field(
        default=(), max_length=8, description="Taints of its nodes, which jobs must tolerate"
    )
    tolerations: tuple[TolerationSettings, ...] = Field(
        default=(), max_length=8, description="Tolerations that Kueue adds to pods"
    )
    topology: DnsSubdomain | None = Field(
        default=None, description="Topology for topology-aware assignment; requires nodeLabels"
    )


class KueueTopologySettings(SettingsModel):
    """A Topology: node labels from the largest domain to the smallest."""

    levels: tuple[LabelKey, ...] = Field(
        min_length=1, max_length=16, description="Node labels, such as topology.trainyard.dev/rack, the largest first"
    )


class LocalQueueSettings(SettingsModel):
    """A LocalQueue in the namespace of a tenant; jobs name it in the label kueue.x-k8s.io/queue-name."""

    tenant: DnsLabel = Field(description="Tenant")
    name: LabelName = Field(description="Name; `default`: also of jobs that name no queue")
    cluster_queue: DnsSubdomain = Field(description="ClusterQueue whose quota the jobs use")
    stop_policy: StopPolicy = Field(default=StopPolicy.NONE, description="As for ClusterQueues")


class WorkloadPriorityClassSettings(SettingsModel):
    """Priority in Kueue's queues, which jobs name in the label kueue.x-k8s.io/priority-class."""

    value: int = Field(ge=-_INT32 - 1, le=_INT32, description="Priority; higher values take precedence")
    description: str = Field(default="", max_length=2048, description="Text shown by kubectl describe")


class WaitForPodsReadySettings(SettingsModel):
    """Eviction of admitted jobs whose pods do not become ready."""

    timeout_seconds: int = Field(
        default=300, ge=1, le=_INT32, description="Time for all pods of an admitted job to be ready"
    )
    recovery_timeout_seconds: int | None = Field(
        default=None,
        ge=0,
        le=_INT32,
        description="Time for a failed pod to be replaced; default: timeoutSeconds; 0: unlimited",
    )
    block_admission: bool = Field(
        default=False, description="Admit no other job until all pods of the admitted ones are ready"
    )
    backoff_limit_count: int | None = Field(
        default=None, ge=0, le=_INT32, description="Evictions after which a job is deactivated; default: never"
    )
    backoff_base_seconds: int = Field(
        default=60, ge=0, le=_INT32, description="Delay after the first eviction; it doubles"
    )
    backoff_max_seconds: int = Field(default=3600, ge=0, le=_INT32, description="Maximum delay")


class MultiKueueClusterSettings(SettingsModel):
    """A cluster that runs jobs of this one."""

    kubeconfig_secret: DnsSubdomain | None = Field(
        default=None,
        description="Secret in Kueue's namespace whose key `kubeconfig` reaches the cluster; default: its name",
    )


class MultiKueueSettings(SettingsModel):
    """Clusters that run jobs of this one. The program does not create the Secrets with their kubeconfigs."""

    clusters: dict[DnsSubdomain, MultiKueueClusterSettings] = Field(
        min_length=1, description="Clusters by name; clusterQueues.*.multiKueueClusters refers to them"
    )
    origin: LabelValue = Field(
        default="multikueue",
        min_length=1,
        description="Label of this cluster's jobs in the others; two clusters that share one need different ones",
    )
    worker_lost_timeout_seconds: int = Field(
        default=900, ge=1, description="Time without a connection after which a job is sent to another cluster"
    )


def _wait(value: Any) -> Any:
    return {True: {}, False: None}[value] if isinstance(value, bool) else value


class KueueSettings(InstalledSettings):
    """Kueue, an alternative to Volcano's queues."""

    install: Literal[True, False, "existing"] = Field(
        default=False, description="true: installed by this program; existing: already in the cluster; false: not used"
    )
    version: str = Field(default=_RELEASES[0].version, description="Kueue version")
    namespace: DnsLabel = Field(default="kueue-system", description="Namespace of Kueue's Deployment")
    replicas: int = Field(default=1, ge=1, le=5, description="Replicas of the Deployment")
    topologies: dict[DnsSubdomain, KueueTopologySettings] = Field(default={}, description="Topologies by name")
    flavors: dict[DnsSubdomain, FlavorSettings] = Field(default={}, description="ResourceFlavors by name")
    cluster_queues: dict[DnsSubdomain, ClusterQueueSettings] = Field(default={}, description="ClusterQueues by name")
    local_queues: tuple[LocalQueueSettings, ...] = Field(default=(), description="LocalQueues of tenants")
    workload_priority_classes: dict[LabelName, WorkloadPriorityClassSettings] = Field(
        default={}, description="WorkloadPriorityClasses by name"
    )
    wait_for_pods_ready: Annotated[WaitForPodsReadySettings | None, BeforeValidator(_wait)] = Field(
        default=None, description="Evict jobs whose pods do not become ready; `true`: with the defaults below"
    )
    multi_kueue: MultiKueueSettings | None = Field(default=None, description="Clusters that run jobs of this one")

    _version = field_validator("version")(lambda value: tested_version("kueue", value))

    @property
    def tenants(self) -> tuple[str, ...]:
        """Tenants with a LocalQueue, sorted."""
        return tuple(sorted({queue.tenant for queue in self.local_queues}))


SECTION: Final = Section("kueue", 20, KueueSettings, "Kueue, for teams that queue with it", _RELEASES, check)
