"""Outputs and awaitables inside plain values."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import pulumi


def has_inputs(value: Any) -> bool:
    """Return whether a value is or contains an output or awaitable."""
    return next(inputs_in(value), None) is not None


def inputs_in(value: Any, path: str = "") -> Iterator[str]:
    """Yield the path of each output and awaitable in a value, its mappings and its lists."""
    if isinstance(value, pulumi.Output) or inspect.isawaitable(value):
        yield path
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from inputs_in(each, f"{path}.{key}".removeprefix("."))
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from inputs_in(each, f"{path}[{index}]")
