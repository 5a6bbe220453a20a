"""Lint of a scheduler configuration: options that Volcano silently ignores, replaces by a default, or crashes on.

An invalid configuration is dropped as a whole: a running scheduler keeps the old one; a starting one uses its built-in
default, which has neither a queue tree nor topology, or exits if the default is forbidden
(``--disable-default-scheduler-config``). Most smaller errors are silent.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trainyard.checks.finding import Finding, Severity
from trainyard.checks.rule import Rule, RuleSet
from trainyard.manifests.loader import load
from trainyard.manifests.nodes import InvalidYamlError
from trainyard.scheduler.volcano_options import (
    ACTION_ARGUMENTS,
    ACTIONS,
    ESSENTIAL_SWITCHES,
    PLUGINS,
    SWITCHES,
    TOP_LEVEL_KEYS,
    Kind,
)

__all__ = ["CONFIGURATION_KEY", "RULES", "lint"]

RULES = RuleSet(
    (
        Rule(
            "scheduler-action",
            Severity.ERROR,
            "Actions are known and given as one string",
            "The whole configuration is dropped",
        ),
        Rule(
            "scheduler-argument", Severity.ERROR, "An argument is supported by its plug-in or action", "It is ignored"
        ),
        Rule(
            "scheduler-argument-fatal",
            Severity.ERROR,
            "Arguments that can crash the scheduler have the right type",
            "The scheduler exits",
        ),
        Rule(
            "scheduler-argument-type",
            Severity.ERROR,
            "An argument has the type that its plug-in reads",
            "The default is used",
        ),
        Rule("scheduler-conflict", Severity.ERROR, "Plug-ins do not contradict each other", ""),
        Rule("scheduler-duplicate", Severity.ERROR, "A plug-in is configured once", "The first one counts"),
        Rule(
            "scheduler-enqueue",
            Severity.ERROR,
            "Action enqueue is off with a queue tree",
            "Shares are never reclaimed while the cluster is full",
        ),
        Rule("scheduler-gang", Severity.ERROR, "Plug-in gang is on", "Gangs are broken up"),
        Rule("scheduler-key", Severity.ERROR, "Keys have Volcano's spelling", "They are ignored"),
        Rule("scheduler-plugin", Severity.ERROR, "A plug-in exists", "It is skipped"),
        Rule("scheduler-structure", Severity.ERROR, "The configuration is valid", "The whole configuration is dropped"),
        Rule("scheduler-no-effect", Severity.ERROR, "Options have an effect", "They are ignored"),
        Rule("scheduler-switch-off", Severity.ERROR, "The main switch of a plug-in is on", "The plug-in has no effect"),
        Rule(
            "scheduler-tree",
            Severity.ERROR,
            "The scheduler reads the queue tree if queues have parents",
            "Limits of parents are not enforced",
        ),
        Rule(
            "scheduler-switch-type", Severity.ERROR, "A switch is true or false", "The whole configuration is dropped"
        ),
    )
)
"""Every rule by its id."""

CONFIGURATION_KEY = "volcano-scheduler.conf"
"""Key of the configuration in the scheduler's ConfigMap."""

_DROPPED = (
    "the whole configuration would be dropped: a running scheduler keeps its old one, "
    "a starting one uses the built-in default or exits"
)
_EXITS = "the scheduler would exit, again after each restart"


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
        message = f"not YAML ({error.reason}): {_DROPPED}"
        return [Finding("", message, "correct the YAML", "scheduler-structure")]
    if not isinstance(document, dict):
        return [Finding("", f"not a mapping: {_DROPPED}", "write actions: and tiers:", "scheduler-structure")]
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
    findings += _together(actions, plugins)
    return findings


def _keys(mapping: Mapping[Any, Any], known: Iterable[str], path: str) -> Iterator[Finding]:
    names = tuple(known)
    for key in mapping:
        if key not in names:
            where = f"{path}.{key}" if path else str(key)
            yield Finding(
                where, f"key {key!r} is unknown and silently ignored", _nearest(str(key), names), "scheduler-key"
            )


def _nearest(word: str, known: Iterable[str]) -> str:
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return f"did you mean {by_lower[close[0]]}?" if close else f"use one of {', '.join(by_lower.values())}"


def _action_names(document: Mapping[str, Any], findings: list[Finding]) -> Iterator[str]:
    value = document.get("actions")
    if not isinstance(value, str):
        found = "is missing" if value is None else "is not a string"
        message = f"actions {found}: {_DROPPED}"
        findings.append(Finding("actions", message, 'write for example "allocate, backfill"', "scheduler-action"))
        return
    for name in (part.strip() for part in value.split(",")):
        if name not in ACTIONS:
            message = f"action {name!r} is unknown: {_DROPPED}"
            findings.append(Finding("actions", message, _nearest(name, ACTIONS), "scheduler-action"))
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
            Finding("tiers", f"not a list of mappings: {_DROPPED}", "write - plugins:", "scheduler-structure")
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
                    Finding(where, f"not a mapping with a name: {_DROPPED}", "add name:", "scheduler-structure")
                )


def _plugin(path: str, plugin: Mapping[str, Any]) -> Iterator[Finding]:
    name = plugin["name"]
    yield from _keys(plugin, ("name", "arguments", *SWITCHES), path)
    for switch in SWITCHES:
        if switch in plugin and not isinstance(plugin[switch], bool):
            message = f"{switch} is {plugin[switch]!r}, not true or false: {_DROPPED}"
            yield Finding(f"{path}.{switch}", message, "write true or false without quotes", "scheduler-switch-type")
    for switch, effect in ESSENTIAL_SWITCHES.get(name, {}).items():
        if plugin.get(switch) is False:
            yield Finding(f"{path}.{switch}", f"{switch} is off: {effect}", "turn it on", "scheduler-switch-off")
    grammar = PLUGINS.get(name)
    if grammar is None:
        message = f"plug-in {name!r} is unknown and skipped"
        yield Finding(f"{path}.name", message, _nearest(name, PLUGINS), "scheduler-plugin")
        return
    arguments = plugin.get("arguments") or {}
    if not isinstance(arguments, dict):
        yield Finding(
            f"{path}.arguments", f"not a mapping: {_DROPPED}", "write key: value lines", "scheduler-structure"
        )
        return
    for key, value in arguments.items():
        kind = grammar.arguments.get(key) or next(
            (k for p, k in grammar.prefixes.items() if str(key).startswith(p)), None
        )
        where = f"{path}.arguments[{key}]"
        if kind is None and not grammar.free:
            message = f"plug-in {name!r} has no argument {key!r}; it is silently ignored"
            yield Finding(where, message, _nearest(str(key), grammar.arguments), "scheduler-argument")
        elif kind is not None and not _fits(value, kind):
            yield _wrong_type(where, key, value, kind, fatal=key in grammar.fatal)
    if name == "deviceshare":
        yield from _device_sharing(path, arguments)


def _wrong_type(where: str, key: str, value: Any, kind: Kind, *, fatal: bool) -> Finding:
    effect = _EXITS if fatal else "it is ignored and the default is used"
    message = f"{key} is {value!r}, not {kind.value}: {effect}"
    rule = "scheduler-argument-fatal" if fatal else "scheduler-argument-type"
    return Finding(where, message, f"write {kind.value}{' without quotes' if isinstance(value, str) else ''}", rule)


def _fits(value: Any, kind: Kind) -> bool:
    if kind is Kind.BOOLEAN:
        return isinstance(value, bool)
    if kind is Kind.INTEGER:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind is Kind.NUMBER:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, {Kind.TEXT: str, Kind.LIST: list, Kind.MAPPING: dict}[kind])


def _device_sharing(path: str, arguments: Mapping[str, Any]) -> Iterator[Finding]:
    sharing, number, virtual = (
        arguments.get(f"deviceshare.{name}") is True for name in ("GPUSharingEnable", "GPUNumberEnable", "VGPUEnable")
    )
    if (sharing and number) or ((sharing or number) and virtual):
        message = f"more than one of GPUSharingEnable, GPUNumberEnable, VGPUEnable: {_EXITS}"
        yield Finding(f"{path}.arguments", message, "keep one of them on", "scheduler-argument-fatal")


def _configurations(entries: Any) -> Iterator[Finding]:
    if entries is not None and not isinstance(entries, list):
        yield Finding("configurations", f"not a list: {_DROPPED}", "write - name: lines", "scheduler-structure")
        return
    for index, entry in enumerate(entries or []):
        path = f"configurations[{index}]"
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or name not in ACTION_ARGUMENTS:
            message = f"{name!r} is not an action; the entry is silently ignored"
            yield Finding(f"{path}.name", message, _nearest(str(name), ACTIONS), "scheduler-action")
            continue
        yield from _keys(entry, ("name", "arguments"), path)
        known = ACTION_ARGUMENTS[name]
        arguments = entry.get("arguments") or {}
        if not isinstance(arguments, dict):
            message = f"not a mapping: {_DROPPED}"
            yield Finding(f"{path}.arguments", message, "write key: value lines", "scheduler-structure")
            continue
        for key, value in arguments.items():
            where = f"{path}.arguments[{key}]"
            if key not in known:
                message = f"action {name!r} has no argument {key!r}; it is silently ignored"
                yield Finding(where, message, _nearest(str(key), known) if known else "remove it", "scheduler-argument")
            elif not _fits(value, known[key]):
                yield _wrong_type(where, key, value, known[key], fatal=False)


def _together(actions: list[str], plugins: list[tuple[str, dict[str, Any]]]) -> Iterator[Finding]:
    names = [plugin["name"] for _, plugin in plugins]
    for name, count in Counter(names).items():
        if count > 1:
            message = f"plug-in {name!r} is configured {count} times; only the first counts"
            yield Finding("tiers", message, "keep one", "scheduler-duplicate")
    first = {plugin["name"]: plugin for _, plugin in reversed(plugins)}
    if plugins and "gang" not in first:
        yield Finding(
            "tiers", "no plug-in gang: gangs would be broken up", "add gang to the first tier", "scheduler-gang"
        )
    if "proportion" in first and "capacity" in first:
        message = "capacity and proportion are both on: both limits apply, and deserved has no effect above the weights"
        yield Finding("tiers", message, "keep one of them", "scheduler-conflict")
    by_tier = {path.partition(".")[0] for path, plugin in plugins if plugin["name"] == "proportion"}
    for path, plugin in plugins:
        if plugin["name"] == "drf" and plugin.get("enableHierarchy") is True and path.partition(".")[0] in by_tier:
            message = f"drf with enableHierarchy and proportion in one tier: {_DROPPED}"
            yield Finding(path, message, "keep one of them", "scheduler-conflict")
    if "enqueue" in actions and "reclaim" in actions and first.get("capacity", {}).get("enableHierarchy") is True:
        message = "enqueue with a queue tree: in a full cluster, gangs can never reclaim their queue's share"
        yield Finding("actions", message, "remove enqueue", "scheduler-enqueue")
    if "overcommit" in first and "enqueue" not in actions:
        message = "plug-in overcommit only affects action enqueue, which is off"
        yield Finding("tiers", message, "remove the plug-in", "scheduler-no-effect")
