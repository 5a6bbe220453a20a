"""Hooks into Pulumi's engine: fail pending registrations after an error; drop unused payloads.

The SDK sends registrations after the program has run, even if the program failed. A rejected stack must not be partly
installed, so registrations after an error fail with that error.

The response to each registration contains the whole object as stored, and the SDK converts every field to a Python
value. No component reads these values of its own objects: components refer to each other by name and by dependencies.
The objects of a program around them are none of theirs and keep their outputs. Debug messages of the SDK are a blocking
remote call each, and the engine discards them.
"""

from __future__ import annotations

from typing import Any

import pulumi
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime.proto import engine_pb2

from trainyard.pulumi_sdk.shortcuts import Shortcut, enabled

__all__ = ["Engine"]

_OWN_TYPE = "trainyard:"
"""Prefix of the type tokens of the components."""


class Engine:
    """The engine of the current run."""

    def __init__(self) -> None:
        self._failure: BaseException | None = None
        settings = pulumi.runtime.settings.SETTINGS
        if settings.monitor is not None:
            self._intercept(settings.monitor)
        if settings.engine is not None and enabled(Shortcut.DEBUG_MESSAGES):
            _drop_debug_messages(settings.engine)

    def fail_registrations(self, error: BaseException) -> None:
        """Let all registrations that are not sent yet fail with this error."""
        self._failure = error

    def _intercept(self, monitor: Any) -> None:
        register = monitor.RegisterResource
        drops = enabled(Shortcut.OUTPUTS)

        def intercepted(request: Any) -> Any:
            if self._failure is not None:
                raise self._failure
            response = register(request)
            if drops and request.custom and request.type.startswith("kubernetes:") and _is_own(request.parent):
                # For a missing field the SDK converts the input instead, so each field is set to null.
                nothing = {key: struct_pb2.Value(null_value=struct_pb2.NULL_VALUE) for key in request.object.fields}
                response.object.CopyFrom(struct_pb2.Struct(fields=nothing))
            return response

        monitor.RegisterResource = intercepted


def _is_own(parent: str) -> bool:
    """Return whether a component of the platform is the parent, or above it, by the types in its URN."""
    return any(each.startswith(_OWN_TYPE) for each in parent.split("::", 3)[2].split("$")) if parent else False


def _drop_debug_messages(engine: Any) -> None:
    log = engine.Log

    def filtered(request: Any) -> Any:
        return empty_pb2.Empty() if request.severity == engine_pb2.DEBUG else log(request)

    engine.Log = filtered
