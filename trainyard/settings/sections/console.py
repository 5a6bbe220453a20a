"""Settings of the console in the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from trainyard.checks.finding import Finding
from trainyard.settings.platform import InstalledSettings
from trainyard.settings.sections.base import Section
from trainyard.settings.settings_model import DnsLabel, DnsSubdomain, SettingsModel

PROGRAM: Final = "trainyard-console"
"""Name of its program, image, Deployment and Service."""


class ProxySettings(SettingsModel):
    """An authenticating proxy, which names the users to the console."""

    authority: str = Field(
        max_length=65536,
        pattern=r"^\s*-----BEGIN CERTIFICATE-----",
        description="Certificate authority, PEM, of the client certificate that the proxy presents",
    )
    names: tuple[Annotated[str, Field(min_length=1, max_length=256)], ...] = Field(
        min_length=1, max_length=16, description="Common names that this certificate may have"
    )


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
    scenarios: DnsSubdomain | None = Field(
        default=None,
        description="ConfigMap in the namespace of the console with reports of `trainyard simulate` for page "
        "Scenarios: `NAME.json`, and the drawing `NAME.svg`; every viewer sees them, and it may be created later",
    )
    proxy: ProxySettings | None = Field(
        default=None,
        description="An authenticating proxy whose headers X-Remote-User and X-Remote-Group name the user; the "
        "console then reads all namespaces, and SubjectAccessReviews decide what a user sees",
    )


def _findings(settings: Any) -> Iterator[Finding]:
    """Reject a namespace with accounts of others, who could use the console's certificate and account."""
    console: ConsoleSettings = settings.console
    if console.install is False:
        return
    of_cluster = console.namespace == "default" or console.namespace.startswith("kube-")
    if of_cluster or settings.platform_namespaces.count(console.namespace) > 1:
        owner = "the cluster" if of_cluster else "another component"
        message = f"{console.namespace!r} is a namespace of {owner}, and the console needs one of its own"
        yield Finding("console.namespace", message, f"use another one, such as {PROGRAM}")


SECTION: Final = Section("console", 15, ConsoleSettings, "The console in the cluster", check=_findings)
