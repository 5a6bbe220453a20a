"""Trainyard's APIs: TenantPolicy (limits of a tenant) and Platform (capabilities of the platform)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from trainyard.api.constants import PLATFORM_API_VERSION, PLATFORM_NAME, TENANT_POLICY_NAME
from trainyard.api.kubernetes_model import Int32, Int64, KubernetesModel, ObjectMeta
from trainyard.api.markers import list_map, rules
from trainyard.api.shape_rule import ShapeRule

_TENANT_NAME = ShapeRule(
    f"self.metadata.name == '{TENANT_POLICY_NAME}'",
    f"metadata.name must be {TENANT_POLICY_NAME}",
    id="TNP-001",
    fix="rename it",
    holds=lambda value: value.get("metadata", {}).get("name") == TENANT_POLICY_NAME,
)
_DEFAULT_QUEUE = ShapeRule(
    "!has(self.defaultQueue) || (has(self.queues) && self.defaultQueue in self.queues)",
    "defaultQueue must be one of queues",
    id="TNP-002",
    fix="add it to queues",
    holds=lambda value: "defaultQueue" not in value or value["defaultQueue"] in value.get("queues", ()),
)
_PLATFORM_NAME = ShapeRule(
    f"self.metadata.name == '{PLATFORM_NAME}'",
    f"metadata.name must be {PLATFORM_NAME}",
    id="PLT-001",
    fix="rename it",
    holds=lambda value: value.get("metadata", {}).get("name") == PLATFORM_NAME,
)
_SET: dict[str, Any] = {"x-kubernetes-list-type": "set"}

_Label = Annotated[str, Field(min_length=1, max_length=63)]
_Name = Annotated[str, Field(min_length=1, max_length=253)]
_Resource = Annotated[str, Field(min_length=1, max_length=317)]


class TenantPolicySpec(KubernetesModel):
    """What jobs of a namespace may use; an unset or empty list allows nothing."""

    model_config = ConfigDict(json_schema_extra=rules(_DEFAULT_QUEUE))

    queues: list[_Label] = Field(default=[], max_length=64, json_schema_extra=_SET)
    """Leaf queues."""
    default_queue: _Label | None = None
    """Queue of jobs without a queue."""
    runtimes: list[_Name] = Field(default=[], max_length=128, json_schema_extra=_SET)
    """ClusterTrainingRuntimes; ``*``: all."""
    priority_classes: list[_Name] = Field(default=[], max_length=64, json_schema_extra=_SET)
    """PriorityClasses."""
    service_accounts: list[_Name] = Field(default=[], max_length=128, json_schema_extra=_SET)
    """ServiceAccounts that pods may use."""
    max_accelerators_per_job: Annotated[Int64, Field(ge=0)] | None = None
    """Maximum number of accelerators of one job; default: unlimited."""


class TenantPolicy(KubernetesModel):
    """Limits of a tenant's namespace; a singleton named ``tenant``."""

    model_config = ConfigDict(json_schema_extra=rules(_TENANT_NAME))

    api_version: Literal["trainyard.dev/v1alpha1"] = PLATFORM_API_VERSION
    kind: Literal["TenantPolicy"] = "TenantPolicy"
    metadata: ObjectMeta = ObjectMeta()
    spec: TenantPolicySpec
    """What jobs of the namespace may use."""


class Tier(KubernetesModel):
    """Tier of the fabric."""

    name: _Label
    """Name of the tier, such as rack."""
    tier: Annotated[Int32, Field(ge=1)]
    """Number of the tier; 1 is closest to the nodes."""


class StatusServer(KubernetesModel):
    """Service that receives progress reports of training code."""

    service: _Label
    """Name of the Service."""
    namespace: _Label
    """Namespace of the Service."""
    port: Annotated[Int32, Field(ge=1, le=65535)] = 10443
    """Port of the Service."""


class PlatformSpec(KubernetesModel):
    """What the platform offers."""

    leaf_queues: list[_Label] = Field(default=[], max_length=1024, json_schema_extra=_SET)
    """Queues that jobs may use."""
    closed_queues: list[_Label] = Field(default=[], max_length=1024, json_schema_extra=_SET)
    """Queues that reject new jobs; the controller closes them, and reopens them when they are removed from the list."""
    retired_queues: list[_Label] = Field(default=[], max_length=1024, json_schema_extra=_SET)
    """Queues that are removed: the controller keeps them closed, and each is listed until it no longer exists."""
    accelerator_resources: list[_Resource] = Field(default=[], max_length=32, json_schema_extra=_SET)
    """Resource names of accelerators."""
    tiers: list[Tier] = Field(default=[], max_length=16, json_schema_extra=list_map("name"))
    """Tiers of the fabric."""
    scheduler_features: list[_Label] = Field(default=[], max_length=64, json_schema_extra=_SET)
    """Enabled scheduler features."""
    job_set_feature_gates: list[_Label] = Field(default=[], max_length=16, json_schema_extra=_SET)
    """Enabled alpha feature gates of JobSet."""
    exempt_namespaces: list[_Label] = Field(default=[], max_length=256, json_schema_extra=_SET)
    """Namespaces exempt from tenant rules."""
    status_server: StatusServer | None = None
    """Server for progress reports of training code; unset: disabled."""


class Platform(KubernetesModel):
    """Capabilities of the platform; a singleton named ``platform``."""

    model_config = ConfigDict(json_schema_extra=rules(_PLATFORM_NAME))

    api_version: Literal["trainyard.dev/v1alpha1"] = PLATFORM_API_VERSION
    kind: Literal["Platform"] = "Platform"
    metadata: ObjectMeta = ObjectMeta()
    spec: PlatformSpec
    """What the platform offers."""
