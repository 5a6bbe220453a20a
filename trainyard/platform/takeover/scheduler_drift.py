"""Scheduler configuration of a Volcano that others installed, compared with the one that the settings say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trainyard.checks.finding import Finding
from trainyard.platform.takeover.installations import InstalledProgram, LiveInstallation
from trainyard.scheduling.scheduler.configuration_lint import DROPPING_RULES, lint
from trainyard.scheduling.scheduler.scheduler_configuration import SchedulerConfiguration
from trainyard.scheduling.scheduler.stack_configuration import effective_configuration
from trainyard.settings.sections.volcano import VolcanoSettings
from trainyard.settings.stack import StackSettings
from trainyard.stack_checks import scheduling_of

_SCHEDULER = "vc-scheduler"
_FILE = "scheduler-conf"
_SETTING = "trainyard:scheduler"


def check_scheduler(settings: StackSettings, live: LiveInstallation) -> Iterator[Finding]:
    """Compare the configuration of each live scheduler with the settings, and lint it.

    The queue rules and the rules of topology hold for the scheduler that the settings describe. What it lacks is
    an error, so that no job is admitted for it; what it has beyond that is a warning.

    Yields
    ------
    Finding
        Errors and warnings.
    """
    for program in live.each_program(_SCHEDULER):
        yield from _check(settings, live, program)


def _check(settings: StackSettings, live: LiveInstallation, program: InstalledProgram) -> Iterator[Finding]:
    path, text = _configuration(live, program)
    if text is None:
        yield Finding(
            path,
            "the scheduler's configuration is in no ConfigMap that its Deployment mounts, so it is not verified",
            f"start {_SCHEDULER} with --{_FILE} and a mounted ConfigMap",
        )
        return
    findings = lint(text)
    for finding in findings:
        yield replace(finding, path=f"{path}: {finding.path}" if finding.path else path)
    if any(finding.rule in DROPPING_RULES for finding in findings):
        return
    configuration, wanted = SchedulerConfiguration.parse(text), effective_configuration(settings)
    has, says = set(configuration.features), set(wanted.features)
    if missing := sorted(says - has):
        message = f"{', '.join(missing)} of the settings {'are' if len(missing) > 1 else 'is'} not on in the cluster"
        yield Finding(path, message, f"add it to the ConfigMap, or remove it from {_SETTING}")
    if additional := sorted(has - says):
        message = f"{', '.join(additional)} {'are' if len(additional) > 1 else 'is'} on, which the settings do not say"
        yield Finding.warning(path, message, f"add it to {_SETTING}")
    if missing or additional:
        return
    version = VolcanoSettings.of(settings).version
    live_values, values = (vars(scheduling_of(each, version)) for each in (configuration, wanted))
    if changed := [name for name, value in values.items() if value != live_values[name]]:
        yield Finding(
            path,
            f"the scheduler divides the cluster in another way than the settings say ({', '.join(changed)})",
            f"set {_SETTING} to what the ConfigMap says",
        )


def _configuration(live: LiveInstallation, program: InstalledProgram) -> tuple[str, str | None]:
    file = program.argument(_FILE)
    path = f"Deployment {live.namespace}/{program.deployment}"
    if file is None:
        return path, None
    mounted = program.files.get(file.rpartition("/")[0])
    return f"ConfigMap {live.namespace}/{mounted}" if mounted else path, live.file(program, file)
