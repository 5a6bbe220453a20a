"""Declaration of a further section."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from trainyard.checks.finding import Finding
from trainyard.settings.settings_model import SettingsModel
from trainyard.settings.versions import ComponentRelease

__all__ = ["Section"]


@dataclass(frozen=True)
class Section:
    """A section of a stack's settings.

    Parameters
    ----------
    name
        Its key.
    order
        Position among the further sections; unique.
    model
        Its model, whose defaults apply where the stack does not set it.
    description
        Description in the reference of the settings.
    releases
        Tested releases of the component, the current pin first; empty if it reads no upstream files.
    check
        Returns findings about the section and what it refers to in others, from the settings of the stack.
    """

    name: str
    order: int
    model: type[SettingsModel]
    description: str
    releases: tuple[ComponentRelease, ...] = ()
    check: Callable[[Any], Iterable[Finding]] = lambda _settings: ()
