"""Scheduler configuration model, and its serialization for Volcano."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from trainyard.manifests.loader import load
from trainyard.scheduling.scheduler.volcano_options import ESSENTIAL_SWITCHES

CONFIGURATION_KEY = "volcano-scheduler.conf"

_WIDTH = 112


@dataclass(frozen=True)
class Action:
    """One action of a scheduling session.

    Parameters
    ----------
    name
        Name of the action.
    reason
        Why it is on; a comment in the serialized text.
    """

    name: str
    reason: str = ""


@dataclass(frozen=True)
class Plugin:
    """One plug-in of a tier.

    Parameters
    ----------
    name
        Name of the plug-in.
    reason
        Why it is on and set this way.
    switches
        Value by switch, in Volcano's spelling.
    arguments
        Value by argument.
    """

    name: str
    reason: str = ""
    switches: Mapping[str, bool] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SchedulerConfiguration:
    """A complete scheduler configuration.

    Parameters
    ----------
    actions
        Actions in order of execution.
    tiers
        Plug-ins by tier; the first tier has precedence.
    title
        First comment of the text.
    action_arguments
        Value by argument, for each action.
    """

    actions: tuple[Action, ...]
    tiers: tuple[tuple[Plugin, ...], ...]
    title: str = ""
    action_arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> SchedulerConfiguration:
        """Parse a valid ``volcano-scheduler.conf``, or the ConfigMap that contains it.

        Of two equal keys, Volcano's library uses the last one.
        """
        document: Mapping[str, Any] = load(text, last_key_wins=True)
        if document.get("kind") == "ConfigMap":
            document = load(document["data"][CONFIGURATION_KEY], last_key_wins=True)
        tiers = tuple(tuple(map(_parsed, tier.get("plugins") or ())) for tier in document["tiers"])
        arguments = {each["name"]: each.get("arguments") or {} for each in document.get("configurations") or ()}
        return cls(tuple(Action(name.strip()) for name in document["actions"].split(",")), tiers, "", arguments)

    @property
    def features(self) -> list[str]:
        """Names of the actions, and of the plug-ins whose main switches are on, sorted: input of rules."""
        plugins = (plugin for tier in self.tiers for plugin in tier)
        actions = {action.name for action in self.actions}
        working = {
            plugin.name
            for plugin in plugins
            if all(
                plugin.switches.get(name, True) or not switch.matters(actions)
                for name, switch in ESSENTIAL_SWITCHES.get(plugin.name, {}).items()
            )
        }
        return sorted(actions | working)

    def plugin(self, name: str) -> Plugin | None:
        """Return a plug-in by name."""
        return next((plugin for tier in self.tiers for plugin in tier if plugin.name == name), None)

    def text(self) -> str:
        """Return ``volcano-scheduler.conf``: YAML with the reasons as comments."""
        lines = [*_comment(self.title, "")]
        for action in self.actions:
            lines += _comment(f"{action.name}: {action.reason}" if action.reason else "", "")
        lines += [f'actions: "{", ".join(action.name for action in self.actions)}"', "tiers:"]
        for tier in self.tiers:
            lines.append("- plugins:")
            for plugin in tier:
                lines += _plugin(plugin)
        if self.action_arguments:
            lines.append("configurations:")
        for name, arguments in self.action_arguments.items():
            lines += [f"- name: {name}", "  arguments:"]
            lines += [f"    {key}: {_value(value)}" for key, value in arguments.items()]
        return "\n".join(lines) + "\n"


def _parsed(entry: Mapping[str, Any]) -> Plugin:
    switches = {key: value for key, value in entry.items() if isinstance(value, bool)}
    return Plugin(entry["name"], "", switches, entry.get("arguments") or {})


def _plugin(plugin: Plugin) -> Iterator[str]:
    yield from _comment(plugin.reason, "  ")
    yield f"  - name: {plugin.name}"
    for switch, value in plugin.switches.items():
        yield f"    {switch}: {_value(value)}"
    if plugin.arguments:
        yield "    arguments:"
        for name, argument in plugin.arguments.items():
            yield f"      {name}: {_value(argument)}"


def _value(value: Any) -> str:
    """Return any value on one line."""
    return yaml.safe_dump(value, default_flow_style=True, width=math.inf).removesuffix("...\n").strip()


def _comment(text: str, indent: str) -> list[str]:
    return [f"{indent}# {line}" for line in textwrap.wrap(text, _WIDTH - len(indent))]
