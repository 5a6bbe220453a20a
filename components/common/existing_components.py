"""Components that others installed (``install: existing``): what runs is compared with what the settings say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pulumi

from trainyard.checks.finding import Finding, Severity
from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.client import Client
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.platform.takeover.installations import LiveInstallation, read_installation
from trainyard.platform.takeover.webhook_coverage import webhook_gaps
from trainyard.policy.engines.vap.validating_admission_policies import TENANT_LABEL
from trainyard.settings.sections import SECTIONS
from trainyard.settings.stack import StackSettings

from .declaration import Declaration
from .target import Target
from .threads import run_with_client

_NAME_LABEL = "kubernetes.io/metadata.name"
"""Label that the API server sets on every namespace."""


def existing_components(settings: StackSettings, declarations: Mapping[str, Declaration]) -> list[Declaration]:
    """Return the components that others installed, of those that have tested releases."""
    released = (each for each in declarations.values() if each.has_settings and SECTIONS[each.name].releases)
    return [each for each in released if each.settings(settings).install == "existing"]


def check_existing(
    settings: StackSettings, declarations: Mapping[str, Declaration], access: ClusterAccess, target: Target
) -> None:
    """Read what others installed; warn about what is not verified.

    Raises
    ------
    TrainyardError
        A component is not there, or differs from the settings so that a rule that reads them would be wrong. Or what
        runs cannot be read; in a preview that is a warning.
    """
    existing = existing_components(settings, declarations)
    if not existing:
        return

    async def read(client: Client) -> dict[str, LiveInstallation]:
        namespaces = {each.settings(settings).namespace for each in existing}
        return {namespace: await read_installation(client, namespace) for namespace in sorted(namespaces)}

    try:
        live = run_with_client(access, read)
    except (ApiError, TransportError) as error:
        names = ", ".join(each.name for each in existing)
        failure = TrainyardError(
            f"What runs as {names} (install: existing) cannot be read, so nothing is known about it: {error}",
            fix="use credentials that may read Deployments, ConfigMaps and webhook configurations",
        )
        if not pulumi.runtime.is_dry_run():
            raise failure from error
        pulumi.log.warn(str(failure))
        return
    findings = [
        finding
        for each in existing
        for finding in findings_of_existing(each, settings, live[each.settings(settings).namespace], target)
    ]
    for finding in findings:
        if finding.severity is not Severity.ERROR:
            pulumi.log.warn(str(finding))
    if errors := [finding for finding in findings if finding.severity is Severity.ERROR]:
        raise TrainyardError("What others installed is not what the settings say", findings=errors)


def findings_of_existing(
    declaration: Declaration, settings: StackSettings, live: LiveInstallation, target: Target
) -> Iterator[Finding]:
    """Yield the differences of one component."""
    section, path = declaration.settings(settings), f"trainyard:{declaration.name}"
    version: str = section.model_dump()["version"]
    for image in declaration.images:
        program = live.program(image)
        if program is None:
            yield Finding(
                f"{path}.namespace",
                f"no Deployment in namespace {live.namespace} runs {image}",
                f"set the namespace of the existing {declaration.name}, or install: true",
            )
        elif program.version is None:
            yield Finding.warning(
                f"{path}.version", f"the version of {image} is unknown from its image {program.image}: not verified"
            )
        elif program.version != version:
            yield Finding.warning(
                f"{path}.version",
                f"{image} {program.version} runs; the rules are verified with {version}",
                "set the version that runs, or upgrade it",
            )
    if declaration.webhooks is not None:
        expected = declaration.webhooks.configurations(section, target)
        tenants = [{_NAME_LABEL: name, TENANT_LABEL: name} for name in settings.tenants]
        for gap in webhook_gaps(expected, live.webhooks, live.namespace, tenants):
            yield Finding.warning(path, gap)
    yield from declaration.inspect(settings, live)
