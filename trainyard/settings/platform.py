"""Settings of installed components: Volcano, JobSet, the trainer, the runtimes and the policies."""

from __future__ import annotations

import datetime
import re
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, field_validator

from trainyard.settings.base import DnsLabel, DnsSubdomain, RuntimeName, SettingsModel
from trainyard.settings.scheduler import SchedulerPreset, SchedulerSettings
from trainyard.settings.versions import supported_versions

__all__ = [
    "ExemptionSettings",
    "ImageSettings",
    "JobSetSettings",
    "PolicySettings",
    "PolicyState",
    "RuntimeSettings",
    "SchedulerPreset",
    "SchedulerSettings",
    "TrainerSettings",
    "VolcanoSettings",
]

Install = Literal[True, "existing"]

_PLACE = r"[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
ImagePlace = Annotated[str, Field(pattern=rf"^{_PLACE}$")]
"""A registry, or the beginning of repositories in it."""


def _tested(component: str, version: str) -> str:
    if version not in supported_versions(component):
        raise ValueError(
            f"{version!r} is not a tested version of {component}: use one of {', '.join(supported_versions(component))}"
        )
    return version


class VolcanoSettings(SettingsModel):
    """The batch scheduler: gang scheduling, queues and network topology."""

    install: Install = Field(
        default=True, description="true: installed by this program; existing: already in the cluster"
    )
    version: str = Field(default=supported_versions("volcano")[0], description="Volcano version")
    namespace: DnsLabel = Field(default="volcano-system", description="Namespace of Volcano's Deployments")
    replicas: int = Field(default=1, ge=1, le=5, description="Replicas of each Deployment")

    _version = field_validator("version")(lambda value: _tested("volcano", value))


class JobSetSettings(SettingsModel):
    """JobSet: the group of Jobs behind one TrainJob."""

    install: Install = Field(
        default=True, description="true: installed by this program; existing: already in the cluster"
    )
    version: str = Field(default=supported_versions("jobset")[0], description="JobSet version")
    namespace: DnsLabel = Field(default="jobset-system", description="Namespace of JobSet's Deployment")
    replicas: int = Field(default=1, ge=1, le=5, description="Replicas of the Deployment")

    _version = field_validator("version")(lambda value: _tested("jobset", value))


class TrainerSettings(SettingsModel):
    """The trainer API (TrainJob, TrainingRuntime, ClusterTrainingRuntime) and Trainyard's controller."""

    install: Install = Field(
        default=True, description="true: installed by this program; existing: already in the cluster"
    )
    namespace: DnsLabel = Field(default="kubeflow-system", description="Namespace of the controller")
    replicas: int = Field(
        default=2, ge=1, le=5, description="Replicas of the controller: one of them leads, all serve webhooks"
    )
    workers: int = Field(default=16, ge=1, le=256, description="TrainJobs reconciled at the same time")
    shutdown_delay_seconds: int = Field(
        default=8,
        ge=0,
        le=60,
        description="Time for which a replica that stops still serves webhooks: until every API server and proxy has "
        "learned of it",
    )
    progress_reports: bool = Field(
        default=False,
        description="Let training code report progress to `status.trainerStatus` (upstream's gate TrainJobStatus): "
        "training containers get an address, a token and the authority to trust",
    )


class RuntimeSettings(SettingsModel):
    """Which training runtimes of the catalogue the cluster gets."""

    include: tuple[RuntimeName, ...] = Field(default=("*",), description="Names of runtimes to install; * for all")
    folders: tuple[str, ...] = Field(
        default=(), description="Further catalogue folders of the team, relative to the project"
    )
    mirrors: dict[str, ImagePlace] = Field(
        default={},
        description="Where the cluster pulls images of runtimes from, by registry or by registry and the beginning of "
        "a repository; the longest one counts",
    )

    @field_validator("mirrors")
    @classmethod
    def _places(cls, mirrors: dict[str, str]) -> dict[str, str]:
        for source in mirrors:
            if not re.fullmatch(_PLACE, source):
                raise ValueError(f"{source!r} is no registry, such as docker.io or ghcr.io/kubeflow")
        return mirrors


class PolicyState(StrEnum):
    """What an admission policy does with a violation."""

    OFF = "off"
    AUDIT = "audit"
    WARN = "warn"
    DENY = "deny"


class ExemptionSettings(SettingsModel):
    """What one rule lets pass: somewhere, on somebody's responsibility, until a day."""

    rule: str = Field(pattern=r"^[A-Z]{3}-[0-9]{3}$", description="Id of the rule")
    namespace: DnsLabel = Field(description="Namespace")
    kind: str | None = Field(
        default=None, pattern=r"^[A-Za-z][A-Za-z0-9]*$", description="Kind of the objects; every kind when absent"
    )
    name: DnsSubdomain | None = Field(default=None, description="Name of the object; every name when absent")
    owner: str = Field(min_length=1, description="Who answers for it")
    reason: str = Field(min_length=1, description="Why it is needed")
    expires: datetime.date = Field(description="First day, in UTC, on which it no longer holds")


class PolicySettings(SettingsModel):
    """Admission policies."""

    states: dict[str, PolicyState] = Field(
        default={}, description="State by rule id where it differs from the rule's default"
    )
    parameters: dict[str, dict[str, object]] = Field(
        default={}, description="Parameters by rule id where they differ from the rule's default"
    )
    folders: tuple[str, ...] = Field(
        default=(), description="Further rule folders of the team, relative to the project"
    )
    preview: bool = Field(default=True, description="Judge the stack's own objects when `trainyard preview` runs")
    reports: bool = Field(
        default=False,
        description="Install the kinds PolicyReport and ClusterPolicyReport, into which "
        "`trainyard check --cluster --report` writes; leave it off where somebody else installs them",
    )
    exempt_namespaces: tuple[DnsLabel, ...] = Field(
        default=("kube-system", "kube-public", "kube-node-lease"),
        description="Namespaces that tenant rules do not bind, beside the platform's own",
    )
    exemptions: tuple[ExemptionSettings, ...] = Field(
        default=(), max_length=256, description="What single rules let pass, and until when"
    )


class ImageSettings(SettingsModel):
    """One container image: the parts that replace the default ones."""

    repository: str | None = Field(default=None, description="Registry and repository, for instance a mirror's")
    tag: str | None = Field(default=None, description="Tag")
    digest: str | None = Field(
        default=None, pattern=r"^sha256:[0-9a-f]{64}$", description="Digest; wins over the tag when pulled"
    )
