"""Declaration of a component's section of the settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from trainyard.checks.finding import Finding
from trainyard.settings.platform import InstalledSettings
from trainyard.settings.versions import ComponentRelease


@dataclass(frozen=True)
class Section:
    """A section of a stack's settings.

    Parameters
    ----------
    name
        Its key.
    order
        Position among the sections; unique.
    model
        Its model, whose defaults apply where the stack does not set it.
    description
        Description in the reference of the settings.
    releases
        Tested releases of the component, the current pin first; empty if it reads no upstream files.
    check
        Returns findings about the section and what it refers to in others, from the settings of the stack.
    required
        Whether every platform has the component, installed or existing: its section follows `cluster`, the others are
        the last ones.
    """

    name: str
    order: int
    model: type[InstalledSettings]
    description: str
    releases: tuple[ComponentRelease, ...] = ()
    check: Callable[[Any], Iterable[Finding]] = lambda _settings: ()
    required: bool = False
