"""Shortcuts through Pulumi's SDK, which ``TRAINYARD_PULUMI_SHORTCUTS`` switches off.

Each saves work whose result the platform does not use; ``python -m benchmarks.pulumi_shortcuts`` measures the gains.
"""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Final

from trainyard.errors import TrainyardError

VARIABLE: Final = "TRAINYARD_PULUMI_SHORTCUTS"
_NONE: Final = "none"


class Shortcut(StrEnum):
    """One shortcut."""

    DEBUG_MESSAGES = "debug-messages"
    """Debug messages, which the engine discards, are not sent to it."""
    CLI_CALLS = "cli-calls"
    """The CLI is not asked for what is known or not used: its version, the stack, its outputs and history."""


def enabled(shortcut: Shortcut) -> bool:
    """Return whether a shortcut is on.

    Raises
    ------
    TrainyardError
        The variable names an unknown shortcut.
    """
    value = os.environ.get(VARIABLE)
    if value is None:
        return True
    names = {name.strip() for name in value.split(",") if name.strip()} - {_NONE}
    if unknown := sorted(names - set(Shortcut)):
        raise TrainyardError(
            f"{VARIABLE} names no shortcut: {', '.join(unknown)}",
            fix=f"use {_NONE}, or a comma-separated list of {', '.join(Shortcut)}",
        )
    return shortcut in names
