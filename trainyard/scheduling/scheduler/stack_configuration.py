"""Scheduler configuration of a stack: its preset with changes from the settings, checked before use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from trainyard.checks.finding import Finding, Severity
from trainyard.errors import TrainyardError
from trainyard.scheduling.scheduler.configuration_lint import lint
from trainyard.scheduling.scheduler.presets import ACTION_REASONS, preset
from trainyard.scheduling.scheduler.scheduler_configuration import Action, Plugin, SchedulerConfiguration
from trainyard.settings.scheduler import PluginSettings
from trainyard.settings.stack import StackSettings

_SECTION = "trainyard:scheduler"
_PLUGIN = re.compile(r"^tiers\[(\d+)\]\.plugins\[(\d+)\]")
_ACTION = re.compile(r"^configurations\[(\d+)\]")
_OWN = "from the settings of the stack"


def configuration(settings: StackSettings) -> str:
    """Return ``volcano-scheduler.conf`` of a stack: YAML with the reasons as comments.

    Raises
    ------
    TrainyardError
        Volcano would ignore part of it, drop it, crash, or not enforce limits and shares; every finding has the path of
        its setting.
    """
    errors = [finding for finding in check_stack(settings) if finding.severity is Severity.ERROR]
    if errors:
        raise TrainyardError("The scheduler configuration is invalid", findings=errors)
    return effective_configuration(settings).text()


def effective_configuration(settings: StackSettings) -> SchedulerConfiguration:
    """Return the configuration of a stack: the preset with the changes of ``trainyard:scheduler``."""
    own = settings.scheduler
    base = preset(own.preset, accelerators=settings.accelerator_resources)
    if not (own.actions or own.plugins or own.action_arguments):
        return base
    changes = {str(name): change for name, change in own.plugins.items()}
    tiers = [list(_changed(tier, changes)) for tier in base.tiers]
    for name, change in changes.items():
        if change.enabled and base.plugin(name) is None:
            tiers[change.tier - 1].append(_merged(Plugin(name, _OWN), change))
    actions = tuple(Action(name, ACTION_REASONS[name]) for name in own.actions) or base.actions
    arguments = {str(name): dict(values) for name, values in own.action_arguments.items()}
    title = f"{base.title} Changed by the settings of the stack."
    return SchedulerConfiguration(actions, tuple(tuple(tier) for tier in tiers), title, arguments)


def check_stack(settings: StackSettings) -> list[Finding]:
    """Find options of a stack's configuration that Volcano ignores or crashes on, or that give something up."""
    chosen = effective_configuration(settings)
    findings = [replace(finding, path=_setting(finding.path, chosen)) for finding in lint(chosen.text())]
    return [*findings, *_unused(settings, chosen), *_flattened(settings, chosen)]


def _changed(tier: tuple[Plugin, ...], changes: dict[str, PluginSettings]) -> Iterator[Plugin]:
    for plugin in tier:
        change = changes.get(plugin.name)
        if change is None:
            yield plugin
        elif change.enabled:
            yield _merged(replace(plugin, reason=f"{plugin.reason} (changed: {_OWN})"), change)


def _merged(plugin: Plugin, change: PluginSettings) -> Plugin:
    arguments = {**plugin.arguments, **change.arguments}
    return replace(
        plugin,
        switches={**plugin.switches, **{str(name): value for name, value in change.switches.items()}},
        arguments={name: value for name, value in arguments.items() if value is not None},
    )


def _setting(path: str, chosen: SchedulerConfiguration) -> str:
    """Return the setting that a path in the generated text comes from."""
    if found := _PLUGIN.match(path):
        name = chosen.tiers[int(found[1])][int(found[2])].name
        rest = re.sub(r"^\.(?!arguments)(\w+)", r".switches.\1", path[found.end() :])
        return f"{_SECTION}.plugins.{name}{rest}"
    if found := _ACTION.match(path):
        rest = path[found.end() :].removeprefix(".arguments")
        return f"{_SECTION}.actionArguments.{list(chosen.action_arguments)[int(found[1])]}{rest}"
    return f"{_SECTION}.{'plugins' if path.startswith('tiers') else path}"


def _unused(settings: StackSettings, chosen: SchedulerConfiguration) -> Iterator[Finding]:
    base = preset(settings.scheduler.preset, accelerators=settings.accelerator_resources)
    for name, change in settings.scheduler.plugins.items():
        if not change.enabled and base.plugin(name) is None:
            message = f"plug-in {name} is turned off, but preset {settings.scheduler.preset} does not contain it"
            yield Finding(f"{_SECTION}.plugins.{name}", message, "remove the entry", "scheduler-plugin")
    on = {action.name for action in chosen.actions}
    for action in settings.scheduler.action_arguments:
        if action not in on:
            message = f"action {action} has arguments but is not among the actions"
            yield Finding(f"{_SECTION}.actionArguments.{action}", message, "add it to actions", "scheduler-action")


def _flattened(settings: StackSettings, chosen: SchedulerConfiguration) -> Iterator[Finding]:
    """Find a queue tree that the scheduler would ignore."""
    capacity = chosen.plugin("capacity")
    if capacity is not None and capacity.switches.get("enableHierarchy"):
        return
    below = sorted(name for name, queue in settings.queues.items() if queue.parent != "root")
    if below:
        message = (
            f"queues {', '.join(below)} have a parent, but the tree is off: limits of parents would not be enforced"
        )
        fix = "choose preset training, hierarchical or preemption, or remove the parents"
        yield Finding(f"{_SECTION}.preset", message, fix, "scheduler-tree")
