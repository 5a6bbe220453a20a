"""Hooks into Pulumi's engine: fail pending registrations after an error; drop unused payloads.

The SDK sends registrations after the program has run, even if the program failed. A rejected stack must not be partly
installed, so registrations after an error fail with that error.

The response to each registration contains the whole object as stored, and the SDK converts every field to a Python
value. No component reads these values of its own objects: components refer to each other by name and by dependencies.
The objects of a program around them are none of theirs and keep their outputs. Debug messages of the SDK are a blocking
remote call each, and the engine discards them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
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
        """Let all registrations that are not sent yet fail with this error.

        The SDK sets the error on every output of every resource. The program raises it once, so nothing awaits the
        outputs, and asyncio would log each of these futures when it is collected.
        """
        self._failure = error
        with suppress(RuntimeError):  # without a running loop there are no outputs
            _retrieve(asyncio.get_running_loop(), error)

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


def _retrieve(loop: asyncio.AbstractEventLoop, error: BaseException) -> None:
    """Treat the futures of a loop that hold an error as retrieved; other errors go to the former handler."""
    former = loop.get_exception_handler()

    def handle(loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        if _comes_from(context.get("exception"), error):
            return
        if former is not None:
            former(loop, dict(context))
        else:
            loop.default_exception_handler(dict(context))

    loop.set_exception_handler(handle)


def _comes_from(found: BaseException | None, error: BaseException) -> bool:
    """Return whether an exception is an error, or was raised from it, as the SDK does with some."""
    seen: set[int] = set()  # The SDK raises an error from itself.
    while found is not None and found is not error and id(found) not in seen:
        seen.add(id(found))
        found = found.__cause__
    return found is error


def _is_own(parent: str) -> bool:
    """Return whether a component of the platform is the parent, or above it, by the types in its URN."""
    return any(each.startswith(_OWN_TYPE) for each in parent.split("::", 3)[2].split("$")) if parent else False


def _drop_debug_messages(engine: Any) -> None:
    log = engine.Log

    def filtered(request: Any) -> Any:
        return empty_pb2.Empty() if request.severity == engine_pb2.DEBUG else log(request)

    engine.Log = filtered
