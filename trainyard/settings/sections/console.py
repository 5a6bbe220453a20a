"""Settings of the console in the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

from pydantic import Field

from trainyard.checks.finding import Finding
from trainyard.settings.platform import InstalledSettings
from trainyard.settings.sections.base import Section
from trainyard.settings.settings_model import DnsLabel, DnsSubdomain

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
        description="Viewers who use one replica at the same time; each has a copy of what it may read in memory",
    )
    scenarios: DnsSubdomain | None = Field(
        default=None,
        description="ConfigMap in the namespace of the console with reports of `trainyard simulate` for page "
        "Scenarios: `NAME.json`, and the drawing `NAME.svg`; every viewer sees them, and it may be created later",
    )


def _findings(settings: Any) -> Iterator[Finding]:
    """Reject a namespace with accounts of others: its certificate's key also encrypts the tokens in cookies."""
    console: ConsoleSettings = settings.console
    if console.install is False:
        return
    of_cluster = console.namespace == "default" or console.namespace.startswith("kube-")
    if of_cluster or settings.platform_namespaces.count(console.namespace) > 1:
        owner = "the cluster" if of_cluster else "another component"
        message = f"{console.namespace!r} is a namespace of {owner}, and the console needs one of its own"
        yield Finding("console.namespace", message, f"use another one, such as {PROGRAM}")


SECTION: Final = Section("console", 15, ConsoleSettings, "The console in the cluster", check=_findings)
