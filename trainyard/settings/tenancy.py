"""Tenants, their queues and priority classes."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from trainyard.settings.base import (
    DnsLabel,
    DnsSubdomain,
    LabelKey,
    LabelValue,
    Quantity,
    RuntimeName,
    SettingsModel,
)
from trainyard.settings.shares import Shares

__all__ = [
    "NodeGroups",
    "PodSecurityLevel",
    "PriorityClassSettings",
    "QueueAffinity",
    "QueueSettings",
    "QueueState",
    "Role",
    "TenantRoles",
    "TenantSettings",
]


class PodSecurityLevel(StrEnum):
    """Pod Security Standards levels."""

    PRIVILEGED = "privileged"
    BASELINE = "baseline"
    RESTRICTED = "restricted"


class QueueState(StrEnum):
    """What becomes of the jobs of a queue."""

    OPEN = "open"
    CLOSED = "closed"
    RETIRED = "retired"


class NodeGroups(SettingsModel):
    """Node groups by name, as nodes carry it in the label ``volcano.sh/nodegroup-name``."""

    required: tuple[LabelValue, ...] = Field(default=(), description="Node groups that must hold")
    preferred: tuple[LabelValue, ...] = Field(default=(), description="Node groups that hold where possible")


class QueueAffinity(SettingsModel):
    """Where the jobs of a queue run."""

    node_group_affinity: NodeGroups = Field(default=NodeGroups(), description="Node groups to run in")
    node_group_anti_affinity: NodeGroups = Field(default=NodeGroups(), description="Node groups to keep away from")


class QueueSettings(SettingsModel):
    """One Volcano queue. Amounts are quantities by resource, `nodes`, or a part of the parent's such as ``50%``."""

    parent: DnsLabel = Field(default="root", description="Queue above this one")
    deserved: Shares = Field(
        default={},
        description="Share the queue can always reclaim: amounts by resource or `nodes`, or a part of the parent's",
    )
    guarantee: Shares = Field(default={}, description="Share reserved for the queue, never lent; written like deserved")
    capability: Shares = Field(
        default={},
        description="Upper bound, written like deserved; name every resource of deserved in it, or leave all of it out",
    )
    weight: int = Field(
        default=1, ge=1, le=65535, description="Share among all queues under plug-in proportion; capacity ignores it"
    )
    priority: int = Field(default=0, ge=0, le=2**31 - 1, description="Higher is served first")
    reclaimable: bool = Field(default=True, description="Whether other queues may take back what this one borrowed")
    affinity: QueueAffinity | None = Field(
        default=None, description="Node groups of the queue's jobs, under plug-in nodegroup"
    )
    type: str | None = Field(default=None, max_length=253, description="A word of your own; Volcano does not read it")
    state: QueueState = Field(
        default=QueueState.OPEN,
        description="open; closed: takes no new jobs; retired: closed for good, the entry may go when it is empty",
    )


class TenantRoles(SettingsModel):
    """Who may do what in the tenant's namespace; each entry is a group name of the cluster's identity provider."""

    submit: tuple[str, ...] = Field(default=(), description="Groups that submit TrainJobs")
    author: tuple[str, ...] = Field(default=(), description="Groups that also write namespaced TrainingRuntimes")
    raw: tuple[str, ...] = Field(
        default=(), description="Groups that may also create JobSets, Jobs, Pods and Volcano Jobs"
    )


class Role(StrEnum):
    """The roles of a tenant."""

    SUBMIT = "submit"
    AUTHOR = "author"
    RAW = "raw"


class TenantSettings(SettingsModel):
    """A team: its namespace (named after the tenant), queues, limits and roles."""

    queues: tuple[DnsLabel, ...] = Field(min_length=1, description="Leaf queues the tenant may use")
    default_queue: DnsLabel | None = Field(
        default=None, description="Queue of a job that names none; the first of queues when absent"
    )
    runtimes: tuple[RuntimeName, ...] = Field(
        default=("*",), description="ClusterTrainingRuntimes the tenant may use; * for all"
    )
    priority_classes: tuple[DnsSubdomain, ...] = Field(default=(), description="PriorityClasses the tenant may use")
    service_accounts: tuple[DnsSubdomain, ...] = Field(
        default=("default",), description="ServiceAccounts jobs may run as"
    )
    max_accelerators_per_job: int | None = Field(
        default=None, ge=0, description="Most accelerators one job may ask for; no ceiling when absent"
    )
    object_quota: dict[str, Quantity] = Field(
        default={
            "count/trainjobs.trainer.kubeflow.org": "200",
            "count/secrets": "500",
            "count/configmaps": "1000",
            "persistentvolumeclaims": "100",
        },
        description="ResourceQuota on object counts and storage; compute belongs to the queue",
    )
    pod_security: PodSecurityLevel = Field(
        default=PodSecurityLevel.BASELINE, description="Pod Security level enforced in the namespace"
    )
    labels: dict[LabelKey, LabelValue] = Field(default={}, description="Further labels of the namespace")
    roles: TenantRoles = Field(default=TenantRoles(), description="Groups bound to the tenant's roles")


class PriorityClassSettings(SettingsModel):
    """One PriorityClass."""

    value: int = Field(ge=-(2**31), le=1_000_000_000, description="Priority; higher wins")
    preempts: bool = Field(
        default=True,
        description="Whether pods of this class may take the place of others: preempt lower ones, and take back what "
        "their queue deserves",
    )
    description: str = Field(default="", description="Text shown by kubectl describe")
