"""Rule parameters that a stack may override: their schema, and values as CEL literals."""

from __future__ import annotations

import json
from typing import Final, Literal

from pydantic import Field

from trainyard.settings.settings_model import SettingsModel

MISSING_PARAMETER: Final = "parameters"
"""Path of the finding for a missing parameter object."""

ParameterValue = bool | int | str | list[str]


class StackValues(SettingsModel):
    """Values of the stack's settings that are always added to a parameter."""

    field: Literal["acceleratorResources", "kueueFinalizers", "preemptingPriorityClasses", "schedulerNames"]
    unrecognized: bool = Field(default=False, description="Only resources that no name of an accelerator matches")


class ParameterSchema(SettingsModel):
    """One parameter."""

    type: Literal["boolean", "integer", "string", "strings"]
    description: str
    default: bool | int | str | tuple[str, ...]
    max_items: int = Field(default=64, ge=1, le=256, description="Maximum items of a list; bounds the evaluation cost")
    max_length: int = Field(default=253, ge=1, le=1024, description="Maximum length of a string")
    adds: StackValues | None = Field(default=None, description="Values of the stack to add to a list")


def parameter_error(schema: ParameterSchema, value: object) -> str | None:
    """Return why a value is invalid, or None."""
    if schema.type == "strings":
        if not isinstance(value, list | tuple) or not all(isinstance(entry, str) for entry in value):
            return f"{value!r} is not a list of strings"
        if len(value) > schema.max_items:
            return f"{len(value)} entries; at most {schema.max_items} are allowed"
        return next(
            (f"{entry!r} is longer than {schema.max_length}" for entry in value if len(entry) > schema.max_length), None
        )
    expected = {"boolean": bool, "integer": int, "string": str}[schema.type]
    if not isinstance(value, expected) or (schema.type == "integer" and isinstance(value, bool)):
        return f"{value!r} is not of type {schema.type}"
    if isinstance(value, str) and len(value) > schema.max_length:
        return f"{value!r} is longer than {schema.max_length}"
    return None


def cel_literal(value: ParameterValue) -> str:
    """Return a value as CEL source; CEL reads JSON's strings, numbers and lists."""
    return json.dumps(value, ensure_ascii=False)
