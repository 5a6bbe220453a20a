"""Settings that components share, and those of images, runtimes and policies."""

from __future__ import annotations

import datetime
import re
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self

from pydantic import BaseModel, Field, field_validator

from trainyard.settings.settings_model import DnsLabel, DnsSubdomain, RuntimeName, SettingsModel
from trainyard.settings.versions import supported_versions

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

    @classmethod
    def of(cls, stack: BaseModel) -> Self:
        """Return this section of the settings of a stack."""
        return next(section for _, section in stack if isinstance(section, cls))


class RuntimeSettings(SettingsModel):
    """Training runtimes to install from the catalog."""

    include: tuple[RuntimeName, ...] = Field(default=("*",), description="Names of runtimes to install; `*`: all")
    folders: tuple[str, ...] = Field(default=(), description="More catalog folders, relative to the Pulumi project")
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


_KUBERNETES_KINDS: Final = {
    "CronJob": "batch",
    "DaemonSet": "apps",
    "Deployment": "apps",
    "Job": "batch",
    "Pod": "",
    "Service": "",
    "StatefulSet": "apps",
}
"""Groups of the kinds of Kubernetes whose names other projects use for their own, such as the Job of Volcano."""


class ExemptionSettings(SettingsModel):
    """Exemption of objects in a namespace from one rule, with an owner and an expiry date."""

    rule: str = Field(pattern=r"^[A-Z]{3}-[0-9]{3}$", description="Id of the rule")
    namespace: DnsLabel = Field(description="Namespace")
    kind: str | None = Field(
        default=None, pattern=r"^[A-Za-z][A-Za-z0-9]*$", description="Kind of the objects; default: all kinds"
    )
    group: str | None = Field(
        default=None,
        pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$",
        description="API group of the kind; default: that of Kubernetes for its kinds such as Job, otherwise any",
    )
    name: DnsSubdomain | None = Field(default=None, description="Name of the object; default: all names")
    owner: str = Field(min_length=1, description="Person or team responsible for the exemption")
    reason: str = Field(min_length=1, description="Reason for the exemption")
    expires: datetime.date = Field(description="First day (UTC) on which the exemption is no longer valid")

    @property
    def api_group(self) -> str | None:
        """API group of the exempt objects, or None for any."""
        return self.group if self.group is not None or self.kind is None else _KUBERNETES_KINDS.get(self.kind)


_FIELD = "[a-zA-Z][a-zA-Z0-9]*"
_FIELDS = rf"{_FIELD}(\.{_FIELD})*"


class PodTemplateSettings(SettingsModel):
    """Place of a pod template in the objects of a kind."""

    path: str = Field(
        pattern=rf"^{_FIELDS}(\[\]\.{_FIELDS}|\.{_FIELD})$",
        description="Path of the template, such as `spec.template`; `[]` after a field stands for each item of one "
        "list, as in `spec.workerGroupSpecs[].template`",
    )
    replicas: str | None = Field(
        default="replicas",
        pattern=rf"^{_FIELD}$",
        description="Field beside the template with the number of its pods; null: one pod",
    )

    @field_validator("path", "replicas")
    @classmethod
    def _readable(cls, value: str | None) -> str | None:
        """Reject fields that CEL cannot select."""
        for field in re.split(r"[.\[\]]+", value or ""):
            if field in ("false", "in", "null", "true"):
                raise ValueError(f"{field} is a word of CEL and cannot be read as a field")
        return value


class PodControllerSettings(SettingsModel):
    """Kind of a controller of pods, beside those of Kubernetes, JobSet and Volcano."""

    group: DnsSubdomain = Field(pattern=r"\.", description="API group, such as `argoproj.io`")
    version: str = Field(pattern=r"^v[0-9]+((alpha|beta)[0-9]+)?$", description="API version")
    kind: str = Field(pattern=r"^[A-Z][A-Za-z0-9]*$", description="Kind, such as `Rollout`")
    resource: str = Field(pattern=r"^[a-z]+$", description="Plural name, such as `rollouts`")
    templates: tuple[PodTemplateSettings, ...] = Field(
        default=(PodTemplateSettings(path="spec.template"),),
        min_length=1,
        max_length=8,
        description="Its pod templates",
    )


class PolicySettings(SettingsModel):
    """Admission policies."""

    states: dict[str, PolicyState] = Field(default={}, description="State by rule id, overriding the rule's default")
    parameters: dict[str, dict[str, object]] = Field(
        default={}, description="Parameters by rule id, overriding the rule's defaults"
    )
    folders: tuple[str, ...] = Field(default=(), description="Additional rule folders, relative to the Pulumi project")
    preview: bool = Field(default=True, description="Check the stack's objects in `trainyard preview` and `up`")
    reports: bool = Field(
        default=False,
        description="Install the PolicyReport and ClusterPolicyReport CRDs for `trainyard check --cluster --report`; "
        "leave disabled if another tool installs them",
    )
    pod_controllers: tuple[PodControllerSettings, ...] = Field(
        default=(),
        max_length=32,
        description="Further kinds whose controllers create pods, evaluated by the rules of Deployments",
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
