"""Hooks into Pulumi's engine: fail pending registrations after an error; drop debug messages.

The SDK sends registrations after the program has run, even if the program failed. A rejected stack must not be partly
installed, so registrations after an error fail with that error.

Debug messages of the SDK are a blocking remote call each, and the engine discards them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pulumi
from google.protobuf import empty_pb2
from pulumi.runtime.proto import engine_pb2

from trainyard.platform.pulumi_sdk.shortcuts import Shortcut, enabled


class PulumiEngine:
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

        def intercepted(request: Any) -> Any:
            if self._failure is not None:
                raise self._failure
            return register(request)

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


def _drop_debug_messages(engine: Any) -> None:
    log = engine.Log

    def filtered(request: Any) -> Any:
        return empty_pb2.Empty() if request.severity == engine_pb2.DEBUG else log(request)

    engine.Log = filtered
