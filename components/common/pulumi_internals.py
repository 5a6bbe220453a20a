"""Hooks into Pulumi's engine: fail pending registrations after an error; drop unused payloads.

The SDK sends registrations after the program has run, even if the program failed. A rejected stack must not be partly
installed, so registrations after an error fail with that error.

The response to each registration contains the whole object as stored, and the SDK converts every field to a Python
value. No component reads these values: components refer to each other by name and by dependencies. With two dozen
CustomResourceDefinitions this was a quarter of the program's run time. Debug messages of the SDK are a blocking remote
call each, and the engine discards them.
"""

from __future__ import annotations

from typing import Any

import pulumi
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime.proto import engine_pb2

__all__ = ["Engine"]


class Engine:
    """The engine of the current run."""

    def __init__(self) -> None:
        self._failure: BaseException | None = None
        settings = pulumi.runtime.settings.SETTINGS
        if settings.monitor is not None:
            self._intercept(settings.monitor)
        if settings.engine is not None:
            _drop_debug_messages(settings.engine)

    def fail_registrations(self, error: BaseException) -> None:
        """Let all registrations that are not sent yet fail with this error."""
        self._failure = error

    def _intercept(self, monitor: Any) -> None:
        register = monitor.RegisterResource

        def intercepted(request: Any) -> Any:
            if self._failure is not None:
                raise self._failure
            response = register(request)
            if request.custom and request.type.startswith("kubernetes:"):
                # For a missing field the SDK converts the input instead, so each field is set to null.
                nothing = {key: struct_pb2.Value(null_value=struct_pb2.NULL_VALUE) for key in request.object.fields}
                response.object.CopyFrom(struct_pb2.Struct(fields=nothing))
            return response

        monitor.RegisterResource = intercepted


def _drop_debug_messages(engine: Any) -> None:
    log = engine.Log

    def filtered(request: Any) -> Any:
        return empty_pb2.Empty() if request.severity == engine_pb2.DEBUG else log(request)

    engine.Log = filtered
