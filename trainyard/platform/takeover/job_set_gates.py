"""Feature gates of a JobSet that others installed, compared with those that the settings of a stack say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainyard.checks.finding import Finding
from trainyard.manifests.loader import load
from trainyard.manifests.nodes import InvalidYamlError
from trainyard.platform.takeover.installations import InstalledProgram, LiveInstallation
from trainyard.settings.sections.jobset import JobSetSettings
from trainyard.settings.stack import StackSettings

_PROGRAM = "jobset"


def check_gates(settings: StackSettings, live: LiveInstallation) -> Iterator[Finding]:
    """Yield an error for each gate of the settings that the live manager does not enable.

    JobSet drops the fields of a gate that is off, so runtimes that need it would silently run without.
    """
    program = live.program(_PROGRAM)
    if program is None:
        return
    enabled = _enabled(live, program)
    for gate in JobSetSettings.of(settings).feature_gates:
        if gate.value not in enabled:
            yield Finding(
                "trainyard:jobset.featureGates",
                f"gate {gate.value} is not on in Deployment {live.namespace}/{program.deployment}",
                "enable it there, or remove it from the settings",
            )


def _enabled(live: LiveInstallation, program: InstalledProgram) -> set[str]:
    """Return the gates of the flag and of the configuration file; JobSet allows only one of these."""
    flag = program.argument("feature-gates") or ""
    gates = dict(each.partition("=")[::2] for each in flag.split(",") if each)
    text = live.file(program, program.argument("config") or "")
    try:
        document = load(text) if text else {}
    except InvalidYamlError:
        document = {}
    listed = document.get("featureGates") if isinstance(document, Mapping) else None
    configured = listed if isinstance(listed, Mapping) else {}
    return {name for name, value in {**configured, **gates}.items() if str(value).lower() == "true"}
