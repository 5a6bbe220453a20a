"""A scheduler configuration as values, and its text in the form that Volcano reads."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import yaml

__all__ = ["Action", "Plugin", "SchedulerConfiguration"]

_WIDTH = 112


@dataclass(frozen=True)
class Action:
    """One step of a scheduling session.

    Parameters
    ----------
    name
        Name of the action.
    reason
        Why it is there, for the reader of the configuration.
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
        Why it is there and set this way.
    switches
        Value by switch, in Volcano's spelling.
    arguments
        Value by argument.
    """

    name: str
    reason: str = ""
    switches: Mapping[str, bool] = field(default_factory=dict)
    arguments: Mapping[str, int | float | bool | str] = field(default_factory=dict)


@dataclass(frozen=True)
class SchedulerConfiguration:
    """A whole configuration.

    Parameters
    ----------
    actions
        Actions in the order a session runs them.
    tiers
        Plug-ins by tier, the first tier having the first word.
    title
        First comment of the text.
    """

    actions: tuple[Action, ...]
    tiers: tuple[tuple[Plugin, ...], ...]
    title: str = ""

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
        return "\n".join(lines) + "\n"


def _plugin(plugin: Plugin) -> Iterator[str]:
    yield from _comment(plugin.reason, "  ")
    yield f"  - name: {plugin.name}"
    for switch, value in plugin.switches.items():
        yield f"    {switch}: {_scalar(value)}"
    if plugin.arguments:
        yield "    arguments:"
        for name, argument in plugin.arguments.items():
            yield f"      {name}: {_scalar(argument)}"


def _scalar(value: int | float | bool | str) -> str:
    return yaml.safe_dump(value, default_flow_style=True).splitlines()[0]


def _comment(text: str, indent: str) -> list[str]:
    return [f"{indent}# {line}" for line in textwrap.wrap(text, _WIDTH - len(indent))]
