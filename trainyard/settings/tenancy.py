"""Tenants, their queues and priority classes."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from trainyard.settings.settings_model import (
    DnsLabel,
    DnsSubdomain,
    LabelKey,
    LabelValue,
    Quantity,
    RuntimeName,
    SettingsModel,
)
from trainyard.settings.shares import Shares


class PodSecurityLevel(StrEnum):
    """Pod Security Standards levels."""

    PRIVILEGED = "privileged"
    BASELINE = "baseline"
    RESTRICTED = "restricted"


class QueueState(StrEnum):
    """Whether a queue accepts jobs."""

    OPEN = "open"
    CLOSED = "closed"
    RETIRED = "retired"


class TenantState(StrEnum):
    """Whether a tenant exists."""

    ACTIVE = "active"
    RETIRED = "retired"


class NodeGroups(SettingsModel):
    """Node groups by name, the value of the node label ``volcano.sh/nodegroup-name``."""

    required: tuple[LabelValue, ...] = Field(default=(), description="Required node groups")
    preferred: tuple[LabelValue, ...] = Field(default=(), description="Preferred node groups")


class QueueAffinity(SettingsModel):
    """Node affinity of the jobs of a queue."""

    node_group_affinity: NodeGroups = Field(default=NodeGroups(), description="Node groups to use")
    node_group_anti_affinity: NodeGroups = Field(default=NodeGroups(), description="Node groups to avoid")


class QueueSettings(SettingsModel):
    """A Volcano queue. Amounts are quantities by resource, `nodes`, or a percentage of the parent such as ``50%``."""

    parent: DnsLabel = Field(default="root", description="Parent queue")
    deserved: Shares = Field(
        default={},
        description="Share the queue can always reclaim: amounts by resource or `nodes`, or a percentage of the parent",
    )
    guarantee: Shares = Field(
        default={}, description="Share reserved for the queue and never lent; same format as deserved"
    )
    capability: Shares = Field(
        default={},
        description="Upper limit, same format as deserved; set it for every resource of deserved, or leave it unset",
    )
    weight: int = Field(
        default=1, ge=1, le=65535, description="Share among all queues under plug-in proportion; capacity ignores it"
    )
    priority: int = Field(default=0, ge=0, le=2**31 - 1, description="Queues with a higher priority are served first")
    reclaimable: bool = Field(default=True, description="Whether other queues may reclaim what this queue borrowed")
    affinity: QueueAffinity | None = Field(
        default=None, description="Node groups of the queue's jobs, under plug-in nodegroup"
    )
    type: str | None = Field(default=None, max_length=253, description="Free-form; ignored by Volcano")
    state: QueueState = Field(
        default=QueueState.OPEN,
        description="open; closed: rejects new jobs; retired: closed, and deleted by the first `up` that finds it "
        "empty, also if the stack is protected",
    )


class TenantRoles(SettingsModel):
    """Groups by role in the tenant's namespace, as named by the cluster's identity provider."""

    submit: tuple[str, ...] = Field(default=(), description="Groups that may submit TrainJobs")
    author: tuple[str, ...] = Field(default=(), description="Groups that may also write namespaced TrainingRuntimes")
    raw: tuple[str, ...] = Field(
        default=(), description="Groups that may also create JobSets, Jobs, Pods, PodGroups and Volcano Jobs"
    )


class Role(StrEnum):
    """The roles of a tenant."""

    SUBMIT = "submit"
    AUTHOR = "author"
    RAW = "raw"


class TenantSettings(SettingsModel):
    """A team: its namespace (named after the tenant), queues, limits and roles."""

    state: TenantState = Field(
        default=TenantState.ACTIVE,
        description="active; retired: the next `up` deletes the namespace, also if the stack is protected",
    )
    delete_data: bool = Field(
        default=False,
        description="With state: retired, delete the namespace with all objects of its users in it, jobs, secrets and "
        "volume claims included; false: `up` fails while it contains any",
    )
    queues: tuple[DnsLabel, ...] = Field(min_length=1, description="Leaf queues that the tenant may use")
    default_queue: DnsLabel | None = Field(
        default=None, description="Queue of jobs without a queue; default: the first of queues"
    )
    runtimes: tuple[RuntimeName, ...] = Field(
        default=("*",), description="ClusterTrainingRuntimes that the tenant may use; `*`: all"
    )
    priority_classes: tuple[DnsSubdomain, ...] = Field(
        default=(), description="PriorityClasses, and WorkloadPriorityClasses of Kueue, that the tenant may use"
    )
    service_accounts: tuple[DnsSubdomain, ...] = Field(
        default=("default",), description="ServiceAccounts that jobs may use"
    )
    max_accelerators_per_job: int | None = Field(
        default=None, ge=0, description="Maximum number of accelerators of one job; default: unlimited"
    )
    object_quota: dict[str, Quantity] = Field(
        default={
            "count/trainjobs.trainer.kubeflow.org": "200",
            "count/trainingruntimes.trainer.kubeflow.org": "100",
            "count/pods": "20000",
            "count/jobs.batch": "2000",
            "count/cronjobs.batch": "100",
            "count/jobsets.jobset.x-k8s.io": "500",
            "count/jobs.batch.volcano.sh": "500",
            "count/podgroups.scheduling.volcano.sh": "5000",
            "count/secrets": "500",
            "count/configmaps": "1000",
            "persistentvolumeclaims": "100",
        },
        description="ResourceQuota for object counts and storage; the queue limits compute",
    )
    pod_security: PodSecurityLevel = Field(
        default=PodSecurityLevel.BASELINE, description="Pod Security level enforced in the namespace"
    )
    labels: dict[LabelKey, LabelValue] = Field(default={}, description="Additional labels of the namespace")
    roles: TenantRoles = Field(default=TenantRoles(), description="Groups bound to the tenant's roles")


class PriorityClassSettings(SettingsModel):
    """One PriorityClass."""

    value: int = Field(ge=-(2**31), le=1_000_000_000, description="Priority; higher values take precedence")
    preempts: bool = Field(
        default=True,
        description="Whether pods of this class may preempt pods of lower priority and reclaim the deserved share of "
        "their queue",
    )
    description: str = Field(default="", description="Text shown by kubectl describe")
