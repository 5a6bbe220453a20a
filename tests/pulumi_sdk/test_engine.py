"""The engine answers as ever, does not get what it discards, and makes nothing of a refused stack."""

from __future__ import annotations

import asyncio
import gc
from types import SimpleNamespace
from typing import Any

import pulumi
import pytest
from google.protobuf import struct_pb2
from pulumi.runtime.proto import engine_pb2, resource_pb2

from trainyard.errors import TrainyardError
from trainyard.platform.pulumi_sdk.engine import PulumiEngine
from trainyard.platform.pulumi_sdk.shortcuts import VARIABLE, Shortcut, enabled


class Channels:
    """What lies beyond the program: notes what reaches it."""

    def __init__(self) -> None:
        self.registered: list[str] = []
        self.said: list[Any] = []
        stored = struct_pb2.Struct()
        stored.update({"kind": "ConfigMap", "data": {"a": "b"}, "status": {"phase": "Active"}})

        def register(request: Any) -> Any:
            self.registered.append(request.name)
            return resource_pb2.RegisterResourceResponse(urn="urn", id="id", object=stored)

        self.monitor = SimpleNamespace(RegisterResource=register)
        self.engine = SimpleNamespace(Log=self.said.append)


@pytest.fixture
def channels(monkeypatch: pytest.MonkeyPatch) -> Channels:
    found = Channels()
    settings = SimpleNamespace(monitor=found.monitor, engine=found.engine)
    monkeypatch.setattr(pulumi.runtime.settings, "SETTINGS", settings)
    return found


STACK = "urn:pulumi:local::trainyard::"
OWN = STACK + "trainyard:kueue:Kueue$trainyard:queues:Part::kueue"
OTHERS = (
    "",
    STACK + "pulumi:pulumi:Stack::trainyard-local",
    STACK + "acme:platform:Cluster$acme:Addon::trainyard:volcano:Volcano",
)


def request(kind: str, *, custom: bool = True, parent: str = OWN) -> Any:
    spec = struct_pb2.Struct()
    spec.update({"kind": "ConfigMap", "data": {"a": "b"}})
    return resource_pb2.RegisterResourceRequest(type=kind, name=kind, custom=custom, object=spec, parent=parent)


@pytest.mark.parametrize("parent", [OWN, *OTHERS])
def test_every_object_keeps_its_outputs(channels: Channels, parent: str) -> None:
    PulumiEngine()
    answer = channels.monitor.RegisterResource(request("kubernetes:core/v1:ConfigMap", parent=parent))
    assert (answer.urn, answer.id) == ("urn", "id")
    assert "status" in answer.object


def test_shortcuts_are_switched_off(channels: Channels, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "none")
    engine = PulumiEngine()
    channels.engine.Log(engine_pb2.LogRequest(severity=engine_pb2.DEBUG, message="text"))
    assert len(channels.said) == 1
    engine.fail_registrations(pulumi.RunError("belongs to somebody else"))
    with pytest.raises(pulumi.RunError, match="somebody else"):
        channels.monitor.RegisterResource(request("kubernetes:core/v1:Secret"))


def test_an_unknown_shortcut_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "cli-calls, speed")
    with pytest.raises(TrainyardError, match="names no shortcut: speed"):
        enabled(Shortcut.CLI_CALLS)
    monkeypatch.setenv(VARIABLE, "cli-calls")
    assert [each for each in Shortcut if enabled(each)] == [Shortcut.CLI_CALLS]


def test_components_and_the_provider_are_answered_unchanged(channels: Channels) -> None:
    PulumiEngine()
    for kind, custom in (("trainyard:volcano:Volcano", False), ("pulumi:providers:kubernetes", True)):
        assert "status" in channels.monitor.RegisterResource(request(kind, custom=custom)).object


def test_debug_messages_are_dropped_and_others_are_sent(channels: Channels) -> None:
    PulumiEngine()
    for severity in (engine_pb2.DEBUG, engine_pb2.WARNING):
        channels.engine.Log(engine_pb2.LogRequest(severity=severity, message="text"))
    assert [each.severity for each in channels.said] == [engine_pb2.WARNING]


def test_nothing_of_a_refused_stack_is_registered(channels: Channels) -> None:
    engine = PulumiEngine()
    channels.monitor.RegisterResource(request("kubernetes:core/v1:ConfigMap"))
    engine.fail_registrations(pulumi.RunError("belongs to somebody else"))
    with pytest.raises(pulumi.RunError, match="somebody else"):
        channels.monitor.RegisterResource(request("kubernetes:core/v1:Secret"))
    assert channels.registered == ["kubernetes:core/v1:ConfigMap"]


@pytest.mark.usefixtures("channels")
async def test_only_outputs_of_the_refused_stack_count_as_retrieved(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing awaits the outputs of registrations that fail with the error of the program."""
    failure = pulumi.RunError("belongs to somebody else")
    engine = PulumiEngine()
    engine.fail_registrations(failure)
    wrapped = ValueError("While processing resource")
    wrapped.__cause__ = failure
    real = OSError("a real error")
    real.__cause__ = real
    for error in (failure, wrapped, real):
        asyncio.get_running_loop().create_future().set_exception(error)
    gc.collect()
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["a real error"]
