"""Section ``trainer`` of a stack's settings."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from trainyard.settings.platform import Install, InstalledSettings
from trainyard.settings.sections.base import Section
from trainyard.settings.settings_model import DnsLabel, DnsSubdomain, SettingsModel

CONTROLLER_NAMESPACE: Final = "kubeflow-system"
"""Namespace of the controller where a stack names no other, as upstream."""


class WebhookClientSettings(SettingsModel):
    """The API servers of the cluster, which authenticate themselves to webhooks."""

    authority: str = Field(
        max_length=65536,
        pattern=r"^\s*-----BEGIN CERTIFICATE-----",
        description="Certificate authority, PEM, of the client certificates that the API servers show to webhooks",
    )
    names: tuple[Annotated[str, Field(min_length=1, max_length=256)], ...] = Field(
        min_length=1, max_length=16, description="Common names that these certificates may have"
    )


class TrainerSettings(InstalledSettings):
    """The trainer API (TrainJob, TrainingRuntime, ClusterTrainingRuntime) and Trainyard's controller."""

    install: Install = Field(
        default=True, description="true: installed by this program; existing: already in the cluster"
    )
    namespace: DnsLabel = Field(default=CONTROLLER_NAMESPACE, description="Namespace of the controller")
    replicas: int = Field(
        default=2, ge=1, le=5, description="Replicas of the controller: one is the leader, all serve webhooks"
    )
    workers: int = Field(default=16, ge=1, le=256, description="Concurrent reconciliations of TrainJobs")
    shutdown_delay_seconds: int = Field(
        default=8,
        ge=0,
        le=60,
        description="Time for which a stopping replica still serves webhooks, so that all API servers and proxies "
        "remove it from their endpoints",
    )
    progress_reports: bool = Field(
        default=False,
        description="Allow training code to report progress to `status.trainerStatus` (upstream's gate "
        "TrainJobStatus): training containers get a URL, a token and a CA bundle",
    )
    record_usage: bool = Field(
        default=False,
        description="Record the device-hours of all jobs for `trainyard usage`: the leader lists and watches the pods "
        "of all namespaces, and keeps ConfigMaps in its namespace",
    )
    webhook_clients: WebhookClientSettings | None = Field(
        default=None,
        description="Client certificates of the API servers, which the controller's webhooks then require; "
        "default: those of providers embedded and node (there in the default namespace), and elsewhere none is asked "
        "for, and answers quote no runtime and no TenantPolicy of a namespace",
    )
    coscheduling_scheduler: DnsSubdomain | None = Field(
        default=None,
        description="`schedulerName` of the pods of `podGroupPolicy.coscheduling`, where a second scheduler runs the "
        "coscheduling plug-in (the chart of scheduler-plugins: `scheduler-plugins-scheduler`); default: unset, for a "
        "default scheduler with the plug-in",
    )


SECTION: Final = Section("trainer", 3, TrainerSettings, "The trainer API and controller", required=True)
