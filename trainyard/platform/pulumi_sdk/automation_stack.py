"""A stack of the Automation API with fewer CLI calls, and events of which one that cannot be read ends nothing."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import orjson
from pulumi import automation
from pulumi.automation._stack import StackInitMode
from pulumi.automation.events import EngineEvent
from pulumi.runtime.proto import events_pb2_grpc
from semver import VersionInfo

from trainyard.local.cluster.folders import cache_home
from trainyard.local.cluster.toolchain import pinned
from trainyard.platform.pulumi_sdk.shortcuts import Shortcut, enabled
from trainyard.platform.pulumi_sdk.targets import drop_target_variables

_UNLIMITED = [("grpc.max_receive_message_length", -1)]


class QuickStack(automation.Stack):
    """A stack that exists in a file backend, or is selected or created through the CLI.

    Parameters
    ----------
    name
        Name of the stack.
    workspace
        Its workspace.
    exists
        Whether the stack is known to exist. Operations name the stack, so it need not be selected.
    """

    def __init__(self, name: str, workspace: automation.Workspace, *, exists: bool) -> None:
        if exists and enabled(Shortcut.CLI_CALLS):
            self.name, self.workspace, self._mode = name, workspace, StackInitMode.SELECT
        else:
            try:
                super().__init__(name, workspace, StackInitMode.CREATE_OR_SELECT)
            except automation.StackAlreadyExistsError:  # another run has created it meanwhile
                super().__init__(name, workspace, StackInitMode.SELECT)

    def outputs(self) -> automation.OutputMap:
        """Return nothing, without a CLI call; outputs are not used."""
        return {} if enabled(Shortcut.CLI_CALLS) else super().outputs()

    def info(self, show_secrets: bool | None = None) -> automation.UpdateSummary | None:
        """Return a summary without a CLI call; the history is not used."""
        if not enabled(Shortcut.CLI_CALLS):
            return super().info(show_secrets)
        return automation.UpdateSummary("update", datetime.datetime.now(datetime.UTC), "", {}, {}, "succeeded")

    def _setup_event_log(self, command: str, on_event: Callable[[EngineEvent], None], pulumi_version: str) -> Any:
        """Serve the event log as the base class does, which prints each event that it cannot read, with its states."""
        server = grpc.server(ThreadPoolExecutor(max_workers=4), options=_UNLIMITED)
        events_pb2_grpc.add_EventsServicer_to_server(_Events(on_event), server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        return f"tcp://127.0.0.1:{port}", None, None, None, server


class _Events(events_pb2_grpc.EventsServicer):
    def __init__(self, on_event: Callable[[EngineEvent], None]) -> None:
        self._on_event = on_event

    def StreamEvents(self, request_iterator: Any, context: Any) -> Any:  # noqa: N802
        from google.protobuf import empty_pb2

        for request in request_iterator:
            try:
                event = EngineEvent.from_json(orjson.loads(request.event))
            except (ValueError, KeyError, TypeError, AttributeError):
                # An event that this SDK does not know must not end the stream.
                continue
            self._on_event(event)
        return empty_pb2.Empty()


class _Known(automation.PulumiCommand):
    def __init__(self, version: VersionInfo) -> None:
        self.command, self.version = "pulumi", version


def command() -> automation.PulumiCommand:
    """Return the CLI on PATH, without targets; the version of one from the toolchain cache is not asked for."""
    drop_target_variables()
    file = shutil.which("pulumi")
    if enabled(Shortcut.CLI_CALLS) and file is not None and Path(file).is_relative_to(cache_home() / "toolchain"):
        return _Known(VersionInfo.parse(next(program.version for program in pinned() if program.name == "pulumi")))
    return automation.PulumiCommand()
