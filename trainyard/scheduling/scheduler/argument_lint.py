"""Lint of the arguments of plug-ins and actions: unknown names, wrong types, and values with an unexpected effect."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trainyard.checks.finding import Finding
from trainyard.scheduling.scheduler.volcano_options import ArgumentType, PluginGrammar

DROPPED = (
    "the whole configuration would be dropped: a running scheduler keeps its old one, "
    "a starting one uses the built-in default or exits"
)
_EXITS = "the scheduler would exit, again after each restart"
_DURATION = re.compile(r"([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+")
_ZONE = re.compile(r"\s*([01]?[0-9]|2[0-3]):[0-5][0-9]-([01]?[0-9]|2[0-3]):[0-5][0-9]\s*")
_DURATIONS = {
    "interval": "5m",
    "sla-waiting-time": "no limit",
    "tdm.evict.period": "1m",
}
"""Default of each argument that is a duration."""
_STRATEGY = "lowNodeUtilization"


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the fix for an unknown name: the most similar known one, or all of them."""
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return f"did you mean {by_lower[close[0]]}?" if close else f"use one of {', '.join(by_lower.values())}"


def plugin_arguments(path: str, plugin: Mapping[str, Any], grammar: PluginGrammar) -> Iterator[Finding]:
    """Find arguments of a plug-in that Volcano ignores, replaces by a default, or crashes on.

    Parameters
    ----------
    path
        Path of the plug-in.
    plugin
        The plug-in, with its name.
    grammar
        Its supported arguments.
    """
    name, arguments = plugin["name"], plugin.get("arguments") or {}
    if not isinstance(arguments, dict):
        yield Finding(f"{path}.arguments", f"not a mapping: {DROPPED}", "write key: value lines", "scheduler-structure")
        return
    for key, value in arguments.items():
        where, kind = f"{path}.arguments[{key}]", grammar.kind(str(key))
        if kind is None:
            known = (*grammar.arguments, *grammar.prefixes)
            message = f"plug-in {name!r} has no argument {key!r}; it is silently ignored"
            yield Finding(where, message, nearest(str(key), known) if known else "remove it", "scheduler-argument")
        elif not fits(value, kind):
            yield wrong_type(where, key, value, kind, fatal=grammar.is_fatal(str(key)))
        elif key in _DURATIONS and not _DURATION.fullmatch(value):
            message = f"{key} is {value!r}, not a duration: the default, {_DURATIONS[key]}, is used"
            yield Finding(where, message, "write for example 30s, 10m or 12h", "scheduler-argument-type")
    if name in _VALUES:
        yield from _VALUES[name](f"{path}.arguments", arguments)


def wrong_type(where: str, key: str, value: Any, kind: ArgumentType, *, fatal: bool) -> Finding:
    """Return the finding for an argument of the wrong type."""
    effect = _EXITS if fatal else "it is ignored and the default is used"
    message = f"{key} is {value!r}, not {kind.value}: {effect}"
    rule = "scheduler-argument-fatal" if fatal else "scheduler-argument-type"
    return Finding(where, message, f"write {kind.value}{' without quotes' if isinstance(value, str) else ''}", rule)


def fits(value: Any, kind: ArgumentType) -> bool:
    """Return whether a value has the type that Volcano reads."""
    if kind is ArgumentType.BOOLEAN:
        return isinstance(value, bool)
    if kind is ArgumentType.INTEGER:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind is ArgumentType.NUMBER:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, {ArgumentType.TEXT: str, ArgumentType.LIST: list, ArgumentType.MAPPING: dict}[kind])


def _device_sharing(path: str, arguments: Mapping[str, Any]) -> Iterator[Finding]:
    sharing, number, virtual = (
        arguments.get(f"deviceshare.{name}") is True for name in ("GPUSharingEnable", "GPUNumberEnable", "VGPUEnable")
    )
    if (sharing and number) or ((sharing or number) and virtual):
        message = f"more than one of GPUSharingEnable, GPUNumberEnable, VGPUEnable: {_EXITS}"
        yield Finding(path, message, "keep one of them on", "scheduler-argument-fatal")


def _time_division(path: str, arguments: Mapping[str, Any]) -> Iterator[Finding]:
    for key, value in arguments.items():
        if str(key).startswith("tdm.revocable-zone.") and isinstance(value, str) and not _ZONE.fullmatch(value):
            message = f"{key} is {value!r}, not a time of day: the nodes of the zone would never be available"
            yield Finding(f"{path}[{key}]", message, "write for example 20:00-06:00", "scheduler-argument-type")


def _load(path: str, arguments: Mapping[str, Any]) -> Iterator[Finding]:
    thresholds = arguments.get("thresholds")
    if isinstance(thresholds, dict):
        effect = "it is read as 0, and no pod would be placed on a node with any load"
        yield from _percentages(f"{path}[thresholds]", thresholds, ("cpu", "mem"), effect)


def _rescheduling(path: str, arguments: Mapping[str, Any]) -> Iterator[Finding]:
    strategies = arguments.get("strategies")
    for index, strategy in enumerate(strategies if isinstance(strategies, list) else []):
        where = f"{path}[strategies][{index}]"
        if not isinstance(strategy, dict) or strategy.get("name") != _STRATEGY:
            shown = strategy.get("name") if isinstance(strategy, dict) else strategy
            message = f"strategy {shown!r} is unknown and silently ignored"
            yield Finding(f"{where}.name", message, f"write name: {_STRATEGY}", "scheduler-argument")
            continue
        params = strategy.get("params")
        for key in ("thresholds", "targetThresholds"):
            values = params.get(key) if isinstance(params, dict) else None
            if isinstance(values, dict):
                yield from _percentages(f"{where}.params.{key}", values, ("cpu", "memory", "pod"), _EXITS, fatal=True)


def _percentages(
    path: str, values: Mapping[Any, Any], known: tuple[str, ...], effect: str, *, fatal: bool = False
) -> Iterator[Finding]:
    for key, value in values.items():
        if not fits(value, ArgumentType.INTEGER):
            rule = "scheduler-argument-fatal" if fatal else "scheduler-argument-type"
            message = f"{key} is {value!r}, not a whole number: {effect}"
            yield Finding(f"{path}.{key}", message, "write a percentage, such as 80", rule)
        elif key not in known:
            message = f"threshold {key!r} is unknown and silently ignored"
            yield Finding(f"{path}.{key}", message, nearest(str(key), known), "scheduler-argument")


_VALUES = {
    "deviceshare": _device_sharing,
    "rescheduling": _rescheduling,
    "tdm": _time_division,
    "usage": _load,
}
"""Checks of values, by plug-in."""
