"""What the program spares Pulumi's engine and itself.

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

__all__ = ["spare_engine"]


def spare_engine() -> None:
    """Make the present program's objects have no outputs but their URN and ID, and send no debug messages."""
    settings = pulumi.runtime.settings.SETTINGS
    if settings.monitor is not None:
        _without_outputs(settings.monitor)
    if settings.engine is not None:
        _without_debugging(settings.engine)


def _without_outputs(monitor: Any) -> None:
    register = monitor.RegisterResource

    def briefly(request: Any) -> Any:
        response = register(request)
        if request.custom and request.type.startswith("kubernetes:"):
            # A field that is missing here would be taken from the inputs, and turned into a value all the same.
            nothing = {key: struct_pb2.Value(null_value=struct_pb2.NULL_VALUE) for key in request.object.fields}
            response.object.CopyFrom(struct_pb2.Struct(fields=nothing))
        return response

    monitor.RegisterResource = briefly


def _without_debugging(engine: Any) -> None:
    log = engine.Log

    def quietly(request: Any) -> Any:
        return empty_pb2.Empty() if request.severity == engine_pb2.DEBUG else log(request)

    engine.Log = quietly
