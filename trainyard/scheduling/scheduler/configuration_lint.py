"""Lint of a scheduler configuration: options that Volcano silently ignores, replaces by a default, or crashes on.

An invalid configuration is dropped as a whole: a running scheduler keeps the old one; a starting one uses its built-in
default, which has neither a queue tree nor topology, or exits if the default is forbidden
(``--disable-default-scheduler-config``). Most smaller errors are silent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trainyard.checks.finding import Finding
from trainyard.manifests.loader import load
from trainyard.manifests.nodes import InvalidYamlError
from trainyard.scheduling.scheduler.argument_lint import DROPPED, fits, nearest, plugin_arguments, wrong_type
from trainyard.scheduling.scheduler.enforcement_lint import PluginEntry, enforcement_findings
from trainyard.scheduling.scheduler.scheduler_configuration import CONFIGURATION_KEY
from trainyard.scheduling.scheduler.volcano_options import (
    ACTION_ARGUMENTS,
    ACTIONS,
    METRICS_KEYS,
    METRICS_SYSTEMS,
    PLUGINS,
    SWITCHES,
    TOP_LEVEL_KEYS,
)

DROPPING_RULES = frozenset({"scheduler-structure", "scheduler-action"})
"""Rules of the errors for which Volcano ignores the configuration as a whole."""


def lint(text: str) -> list[Finding]:
    """Find the errors of a configuration.

    Parameters
    ----------
    text
        The configuration (``volcano-scheduler.conf``), or the ConfigMap that contains it.

    Returns
    -------
    list of Finding
        Empty if Volcano 1.14.1 applies all of the text.
    """
    try:
        # Of two equal keys, Volcano's library uses the last one.
        document = load(text, last_key_wins=True)
    except InvalidYamlError as error:
        message = f"not YAML ({error.reason}): {DROPPED}"
        return [Finding("", message, "correct the YAML", "scheduler-structure")]
    if not isinstance(document, dict):
        return [Finding("", f"not a mapping: {DROPPED}", "write actions: and tiers:", "scheduler-structure")]
    if document.get("kind") == "ConfigMap":
        data = document.get("data")
        inner = data.get(CONFIGURATION_KEY) if isinstance(data, dict) else None
        if not isinstance(inner, str):
            message = f"the ConfigMap has no {CONFIGURATION_KEY}"
            return [Finding(f"data[{CONFIGURATION_KEY}]", message, "add it", "scheduler-structure")]
        return lint(inner)
    findings = [*_keys(document, TOP_LEVEL_KEYS, "")]
    actions = list(_action_names(document, findings))
    plugins = list(_plugin_entries(document, findings))
    for path, plugin in plugins:
        findings += _plugin(path, plugin)
    findings += _configurations(document.get("configurations"))
    findings += _metrics(document.get("metrics"), plugins)
    findings += _together(actions, plugins)
    if actions and plugins:
        findings += enforcement_findings(actions, [PluginEntry.of(path, plugin) for path, plugin in plugins])
    return findings


def _keys(mapping: Mapping[Any, Any], known: Iterable[str], path: str) -> Iterator[Finding]:
    names = tuple(known)
    for key in mapping:
        if key not in names:
            where = f"{path}.{key}" if path else str(key)
            yield Finding(
                where, f"key {key!r} is unknown and silently ignored", nearest(str(key), names), "scheduler-key"
            )


def _action_names(document: Mapping[str, Any], findings: list[Finding]) -> Iterator[str]:
    value = document.get("actions")
    if not isinstance(value, str):
        found = "is missing" if value is None else "is not a string"
        message = f"actions {found}: {DROPPED}"
        findings.append(Finding("actions", message, 'write for example "allocate, backfill"', "scheduler-action"))
        return
    for name in (part.strip() for part in value.split(",")):
        if name not in ACTIONS:
            message = f"action {name!r} is unknown: {DROPPED}"
            findings.append(Finding("actions", message, nearest(name, ACTIONS), "scheduler-action"))
        else:
            yield name


def _plugin_entries(document: Mapping[str, Any], findings: list[Finding]) -> Iterator[tuple[str, dict[str, Any]]]:
    tiers = document.get("tiers")
    if not tiers:
        message = "no tiers, so no plug-ins: gangs would be broken up and limits would not be enforced"
        findings.append(Finding("tiers", message, "add tiers with plugins", "scheduler-structure"))
        return
    if not isinstance(tiers, list) or not all(isinstance(tier, dict) for tier in tiers):
        findings.append(
            Finding("tiers", f"not a list of mappings: {DROPPED}", "write - plugins:", "scheduler-structure")
        )
        return
    for index, tier in enumerate(tiers):
        path = f"tiers[{index}]"
        findings += _keys(tier, ("plugins",), path)
        entries = tier.get("plugins") or []
        for position, entry in enumerate(entries if isinstance(entries, list) else [entries]):
            where = f"{path}.plugins[{position}]"
            if isinstance(entry, dict) and isinstance(entry.get("name"), str):
                yield where, entry
            else:
                findings.append(
                    Finding(where, f"not a mapping with a name: {DROPPED}", "add name:", "scheduler-structure")
                )


def _plugin(path: str, plugin: Mapping[str, Any]) -> Iterator[Finding]:
    name = plugin["name"]
    yield from _keys(plugin, ("name", "arguments", *SWITCHES), path)
    for switch in SWITCHES:
        if switch in plugin and not isinstance(plugin[switch], bool):
            message = f"{switch} is {plugin[switch]!r}, not true or false: {DROPPED}"
            yield Finding(f"{path}.{switch}", message, "write true or false without quotes", "scheduler-switch-type")
    grammar = PLUGINS.get(name)
    if grammar is None:
        message = f"plug-in {name!r} is unknown and skipped"
        yield Finding(f"{path}.name", message, nearest(name, PLUGINS), "scheduler-plugin")
        return
    yield from plugin_arguments(path, plugin, grammar)


def _configurations(entries: Any) -> Iterator[Finding]:
    if entries is not None and not isinstance(entries, list):
        yield Finding("configurations", f"not a list: {DROPPED}", "write - name: lines", "scheduler-structure")
        return
    for index, entry in enumerate(entries or []):
        path = f"configurations[{index}]"
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or name not in ACTION_ARGUMENTS:
            message = f"{name!r} is not an action; the entry is silently ignored"
            yield Finding(f"{path}.name", message, nearest(str(name), ACTIONS), "scheduler-action")
            continue
        yield from _keys(entry, ("name", "arguments"), path)
        known = ACTION_ARGUMENTS[name]
        arguments = entry.get("arguments") or {}
        if not isinstance(arguments, dict):
            message = f"not a mapping: {DROPPED}"
            yield Finding(f"{path}.arguments", message, "write key: value lines", "scheduler-structure")
            continue
        for key, value in arguments.items():
            where = f"{path}.arguments[{key}]"
            if key not in known:
                message = f"action {name!r} has no argument {key!r}; it is silently ignored"
                yield Finding(where, message, nearest(str(key), known) if known else "remove it", "scheduler-argument")
            elif not fits(value, known[key]):
                yield wrong_type(where, key, value, known[key], fatal=False)


def _metrics(value: Any, plugins: list[tuple[str, dict[str, Any]]]) -> Iterator[Finding]:
    if value is not None and (
        not isinstance(value, dict) or any(isinstance(each, dict | list) for each in value.values())
    ):
        yield Finding("metrics", f"not a mapping of texts: {DROPPED}", "write key: value lines", "scheduler-structure")
        return
    metrics = value or {}
    yield from _keys(metrics, METRICS_KEYS, "metrics")
    system = metrics.get("type")
    if metrics and system not in METRICS_SYSTEMS:
        message = f"metrics.type is {system!r}: no load is collected"
        yield Finding("metrics.type", message, f"use one of {', '.join(METRICS_SYSTEMS)}", "scheduler-no-effect")
    for path, plugin in plugins:
        if plugin["name"] == "usage" and not metrics:
            message = "plug-in usage reads the load of the nodes, which is not collected without metrics"
            yield Finding(
                path, message, "add metrics: {type: …, address: …}, or remove the plug-in", "scheduler-no-effect"
            )


def _together(actions: list[str], plugins: list[tuple[str, dict[str, Any]]]) -> Iterator[Finding]:
    names = [plugin["name"] for _, plugin in plugins]
    for name, count in Counter(names).items():
        if count > 1:
            message = f"plug-in {name!r} is configured {count} times; only the first counts"
            yield Finding("tiers", message, "keep one", "scheduler-duplicate")
    first = {plugin["name"]: plugin for _, plugin in reversed(plugins)}
    if "proportion" in first and "capacity" in first:
        message = "capacity and proportion are both on: both limits apply, and deserved has no effect above the weights"
        yield Finding("tiers", message, "keep one of them", "scheduler-conflict")
    by_tier = {path.partition(".")[0] for path, plugin in plugins if plugin["name"] == "proportion"}
    for path, plugin in plugins:
        if plugin["name"] == "drf" and plugin.get("enableHierarchy") is True and path.partition(".")[0] in by_tier:
            message = f"drf with enableHierarchy and proportion in one tier: {DROPPED}"
            yield Finding(path, message, "keep one of them", "scheduler-conflict")
    if "enqueue" in actions and "reclaim" in actions and first.get("capacity", {}).get("enableHierarchy") is True:
        message = "enqueue with a queue tree: in a full cluster, gangs can never reclaim their queue's share"
        yield Finding("actions", message, "remove enqueue", "scheduler-enqueue")
    if "overcommit" in first and "enqueue" not in actions:
        message = "plug-in overcommit only affects action enqueue, which is off"
        yield Finding("tiers", message, "remove the plug-in", "scheduler-no-effect")
