"""Settings of installed components: Volcano, JobSet, the trainer, the runtimes and the policies."""

from __future__ import annotations

import datetime
import re
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from trainyard.settings.scheduler import SchedulerPreset, SchedulerSettings
from trainyard.settings.settings_model import DnsLabel, DnsSubdomain, RuntimeName, SettingsModel
from trainyard.settings.versions import supported_versions

__all__ = [
    "ExemptionSettings",
    "ImageSettings",
    "Install",
    "InstalledSettings",
    "JobSetGate",
    "JobSetSettings",
    "PolicySettings",
    "PolicyState",
    "RuntimeSettings",
    "SchedulerPreset",
    "SchedulerSettings",
    "TrainerSettings",
    "VolcanoSettings",
    "tested_version",
]

Install = Literal[True, "existing"]

_PLACE = r"[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
ImagePlace = Annotated[str, Field(pattern=rf"^{_PLACE}$")]
"""A registry, or a repository prefix."""


def tested_version(component: str, version: str) -> str:
    """Return a version after checking that it was tested.

    Raises
    ------
    ValueError
        It was not.
    """
    if version not in supported_versions(component):
        raise ValueError(
            f"{version!r} is not a tested version of {component}: use one of {', '.join(supported_versions(component))}"
        )
    return version


class InstalledSettings(SettingsModel):
    """Settings of a component that has Deployments in a namespace of its own."""

    if TYPE_CHECKING:
        install: Install | Literal[False]
        namespace: DnsLabel


class VolcanoSettings(InstalledSettings):
    """Volcano, the batch scheduler: gang scheduling, queues and network topology."""

    install: Install = Field(
        default=True, description="true: installed by this program; existing: already in the cluster"
    )
    version: str = Field(default=supported_versions("volcano")[0], description="Volcano version")
    namespace: DnsLabel = Field(default="volcano-system", description="Namespace of Volcano's Deployments")
    replicas: int = Field(default=1, ge=1, le=5, description="Replicas of each Deployment")
    scheduler_names: tuple[DnsSubdomain, ...] = Field(
        default=(),
        max_length=16,
        description="Further names of the cluster's Volcano schedulers, beside volcano; rules ACC-001, GNG-001, "
        "TEN-002 and TEN-011 read them",
    )

    _version = field_validator("version")(lambda value: tested_version("volcano", value))


class JobSetGate(StrEnum):
    """Alpha feature gate of JobSet."""

    IN_PLACE_RESTART = "InPlaceRestart"
    RESTART_JOB = "RestartJob"


_GATES_OF_JOBSET = {"0.11.1": (JobSetGate.IN_PLACE_RESTART,)}
"""Gates of versions that do not have all of them."""


class JobSetSettings(InstalledSettings):
    """JobSet, which runs the Jobs of a TrainJob."""

    install: Install = Field(
        default=True, description="true: installed by this program; existing: already in the cluster"
    )
    version: str = Field(default=supported_versions("jobset")[0], description="JobSet version")
    namespace: DnsLabel = Field(default="jobset-system", description="Namespace of JobSet's Deployment")
    replicas: int = Field(default=1, ge=1, le=5, description="Replicas of the Deployment")
    feature_gates: tuple[JobSetGate, ...] = Field(
        default=(),
        description="Alpha feature gates: enabled in an installed JobSet, already enabled in an existing one. Runtimes "
        "that require another gate have a warning",
    )

    _version = field_validator("version")(lambda value: tested_version("jobset", value))

    @model_validator(mode="after")
    def _known_gates(self) -> Self:
        unknown = [gate for gate in self.feature_gates if gate not in _GATES_OF_JOBSET.get(self.version, JobSetGate)]
        if unknown and self.install is True:
            raise ValueError(f"featureGates: JobSet {self.version} has no gate {', '.join(unknown)}: remove it")
        return self


class TrainerSettings(InstalledSettings):
    """The trainer API (TrainJob, TrainingRuntime, ClusterTrainingRuntime) and Trainyard's controller."""

    install: Install = Field(
        default=True, description="true: installed by this program; existing: already in the cluster"
    )
    namespace: DnsLabel = Field(default="kubeflow-system", description="Namespace of the controller")
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
    coscheduling_scheduler: DnsSubdomain | None = Field(
        default=None,
        description="`schedulerName` of the pods of `podGroupPolicy.coscheduling`, where a second scheduler runs the "
        "coscheduling plug-in (the chart of scheduler-plugins: `scheduler-plugins-scheduler`); default: unset, for a "
        "default scheduler with the plug-in",
    )


class RuntimeSettings(SettingsModel):
    """Training runtimes to install from the catalog."""

    include: tuple[RuntimeName, ...] = Field(default=("*",), description="Names of runtimes to install; `*`: all")
    folders: tuple[str, ...] = Field(default=(), description="Additional catalog folders, relative to the project")
    mirrors: dict[str, ImagePlace] = Field(
        default={},
        description="Mirrors of runtime images, by registry or repository prefix; the longest prefix takes precedence",
    )

    @field_validator("mirrors")
    @classmethod
    def _places(cls, mirrors: dict[str, str]) -> dict[str, str]:
        for source in mirrors:
            if not re.fullmatch(_PLACE, source):
                raise ValueError(f"{source!r} is not a registry such as docker.io or ghcr.io/kubeflow")
        return mirrors


class PolicyState(StrEnum):
    """Action of an admission policy on a violation."""

    OFF = "off"
    AUDIT = "audit"
    WARN = "warn"
    DENY = "deny"


class ExemptionSettings(SettingsModel):
    """Exemption of objects in a namespace from one rule, with an owner and an expiry date."""

    rule: str = Field(pattern=r"^[A-Z]{3}-[0-9]{3}$", description="Id of the rule")
    namespace: DnsLabel = Field(description="Namespace")
    kind: str | None = Field(
        default=None, pattern=r"^[A-Za-z][A-Za-z0-9]*$", description="Kind of the objects; default: all kinds"
    )
    name: DnsSubdomain | None = Field(default=None, description="Name of the object; default: all names")
    owner: str = Field(min_length=1, description="Person or team responsible for the exemption")
    reason: str = Field(min_length=1, description="Reason for the exemption")
    expires: datetime.date = Field(description="First day (UTC) on which the exemption is no longer valid")


class PolicySettings(SettingsModel):
    """Admission policies."""

    states: dict[str, PolicyState] = Field(default={}, description="State by rule id, overriding the rule's default")
    parameters: dict[str, dict[str, object]] = Field(
        default={}, description="Parameters by rule id, overriding the rule's defaults"
    )
    folders: tuple[str, ...] = Field(default=(), description="Additional rule folders, relative to the project")
    preview: bool = Field(default=True, description="Check the stack's objects in `trainyard preview`")
    reports: bool = Field(
        default=False,
        description="Install the PolicyReport and ClusterPolicyReport CRDs for `trainyard check --cluster --report`; "
        "leave disabled if another tool installs them",
    )
    exempt_namespaces: tuple[DnsLabel, ...] = Field(
        default=("kube-system", "kube-public", "kube-node-lease"),
        description="Namespaces exempt from tenant rules, in addition to the platform's namespaces",
    )
    exemptions: tuple[ExemptionSettings, ...] = Field(
        default=(), max_length=256, description="Exemptions from individual rules"
    )


class ImageSettings(SettingsModel):
    """Overrides of one container image."""

    repository: str | None = Field(default=None, description="Registry and repository, for example of a mirror")
    tag: str | None = Field(default=None, description="Tag")
    digest: str | None = Field(
        default=None, pattern=r"^sha256:[0-9a-f]{64}$", description="Digest; takes precedence over the tag"
    )
