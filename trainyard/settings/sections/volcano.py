"""Section ``volcano`` of a stack's settings."""

from __future__ import annotations

from typing import Final

from pydantic import Field, field_validator

from trainyard.settings.platform import Install, InstalledSettings, tested_version
from trainyard.settings.sections.base import Section
from trainyard.settings.settings_model import DnsLabel, DnsSubdomain
from trainyard.settings.versions import ComponentRelease

_RELEASES: Final = (ComponentRelease("volcano.sh/volcano", "1.14.1", "v1.14.1"),)


class VolcanoSettings(InstalledSettings):
    """Volcano, the batch scheduler: gang scheduling, queues and network topology."""

    install: Install = Field(
        default=True, description="true: installed by this program; existing: already in the cluster"
    )
    version: str = Field(default=_RELEASES[0].version, description="Volcano version")
    namespace: DnsLabel = Field(default="volcano-system", description="Namespace of Volcano's Deployments")
    replicas: int = Field(default=1, ge=1, le=5, description="Replicas of each Deployment")
    scheduler_names: tuple[DnsSubdomain, ...] = Field(
        default=(),
        max_length=16,
        description="Further names of the cluster's Volcano schedulers, beside volcano; rules ACC-001, GNG-001, "
        "GNG-005, TEN-002 and TEN-011 read them",
    )

    _version = field_validator("version")(lambda value: tested_version("volcano", value))


SECTION: Final = Section("volcano", 1, VolcanoSettings, "Volcano, the batch scheduler", _RELEASES, required=True)
