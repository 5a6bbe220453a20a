"""Section ``jobset`` of a stack's settings."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Self

from pydantic import Field, field_validator, model_validator

from trainyard.settings.platform import Install, InstalledSettings, tested_version
from trainyard.settings.sections.base import Section
from trainyard.settings.settings_model import DnsLabel
from trainyard.settings.versions import ComponentRelease

_RELEASES: Final = (
    ComponentRelease("sigs.k8s.io/jobset", "0.12.0", "v0.12.0"),
    ComponentRelease("sigs.k8s.io/jobset", "0.11.1", "v0.11.1"),
)


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
    version: str = Field(default=_RELEASES[0].version, description="JobSet version")
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


SECTION: Final = Section("jobset", 2, JobSetSettings, "JobSet", _RELEASES, required=True)
