"""Hooks into Pulumi's engine: fail pending registrations after an error; drop unused payloads.

The SDK sends the registrations after the program ran, and does so even when the program failed. A stack that is
refused must not be installed up to the object it was refused for, so from then on registrations fail with that error.

Every registration is answered with the whole object as the cluster stores it, and the SDK turns each field of it into
a Python value. Nothing here reads them: components refer to each other by name and by edges of the graph. With two
dozen CustomResourceDefinitions that was a quarter of the program's time. The SDK's debug messages are a remote call
each, made while everything else waits, and the engine throws them away.
"""

from __future__ import annotations

from typing import Any

import pulumi
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime.proto import engine_pb2

__all__ = ["Engine"]


class Engine:
    """The engine that the present program speaks to; there is one a run."""

    def __init__(self) -> None:
        self._refusal: BaseException | None = None
        settings = pulumi.runtime.settings.SETTINGS
        if settings.monitor is not None:
            self._attend(settings.monitor)
        if settings.engine is not None:
            _quieten(settings.engine)

    def refuse(self, error: BaseException) -> None:
        """Let every registration that was not sent yet fail with an error."""
        self._refusal = error

    def _attend(self, monitor: Any) -> None:
        register = monitor.RegisterResource

        def attended(request: Any) -> Any:
            if self._refusal is not None:
                raise self._refusal
            response = register(request)
            if request.custom and request.type.startswith("kubernetes:"):
                # A field that is missing here would be taken from the inputs, and turned into a value all the same.
                nothing = {key: struct_pb2.Value(null_value=struct_pb2.NULL_VALUE) for key in request.object.fields}
                response.object.CopyFrom(struct_pb2.Struct(fields=nothing))
            return response

        monitor.RegisterResource = attended


def _quieten(engine: Any) -> None:
    log = engine.Log

    def quietly(request: Any) -> Any:
        return empty_pb2.Empty() if request.severity == engine_pb2.DEBUG else log(request)

    engine.Log = quietly
