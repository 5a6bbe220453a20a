"""Settings of the console in the cluster."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from trainyard.settings.platform import InstalledSettings
from trainyard.settings.sections.base import Section
from trainyard.settings.settings_model import DnsLabel, DnsSubdomain

__all__ = ["PROGRAM", "SECTION", "ConsoleSettings"]

PROGRAM: Final = "trainyard-console"
"""Name of its program, image, Deployment and Service."""


class ConsoleSettings(InstalledSettings):
    """The console, read-only pages about the platform for viewers with a Kubernetes token."""

    install: Literal[True, False] = Field(
        default=False, description="true: installed by this program; false: not installed"
    )
    namespace: DnsLabel = Field(default="trainyard-console", description="Namespace of the console")
    hosts: tuple[DnsSubdomain, ...] = Field(
        default=(),
        max_length=16,
        description="Names by which browsers open it, such as that of an Ingress; requests with the name of another "
        "host are rejected. The names of its Service, `localhost` and 127.0.0.1 are always accepted",
    )
    sessions: int = Field(
        default=10,
        ge=1,
        le=100,
        description="Viewers who are signed in at the same time; each has a copy of what it may read in memory",
    )


SECTION: Final = Section("console", 15, ConsoleSettings, "The console in the cluster")
