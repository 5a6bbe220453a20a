"""The engine is asked for URNs only, and is not told what it throws away."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from google.protobuf import struct_pb2
from pulumi.runtime.proto import engine_pb2, resource_pb2

from components.engine import _without_debugging, _without_outputs


def registered(kind: str, *, custom: bool) -> Any:
    spec = struct_pb2.Struct()
    spec.update({"kind": "ConfigMap", "data": {"a": "b"}})
    stored = struct_pb2.Struct()
    stored.update({"kind": "ConfigMap", "data": {"a": "b"}, "status": {"phase": "Active"}})
    monitor = SimpleNamespace(
        RegisterResource=lambda request: resource_pb2.RegisterResourceResponse(urn="urn", id="id", object=stored)
    )
    _without_outputs(monitor)
    return monitor.RegisterResource(resource_pb2.RegisterResourceRequest(type=kind, custom=custom, object=spec))


def test_an_object_has_no_outputs_but_keeps_its_name_and_id() -> None:
    answer = registered("kubernetes:core/v1:ConfigMap", custom=True)
    assert (answer.urn, answer.id) == ("urn", "id")
    assert dict(answer.object) == {"kind": None, "data": None}


def test_components_and_the_provider_are_answered_as_ever() -> None:
    for kind, custom in (("trainyard:volcano:Volcano", False), ("pulumi:providers:kubernetes", True)):
        assert "status" in registered(kind, custom=custom).object


def test_debug_messages_are_dropped_and_others_are_sent() -> None:
    sent: list[Any] = []
    engine = SimpleNamespace(Log=sent.append)
    _without_debugging(engine)
    for severity in (engine_pb2.DEBUG, engine_pb2.WARNING):
        engine.Log(engine_pb2.LogRequest(severity=severity, message="text"))
    assert [request.severity for request in sent] == [engine_pb2.WARNING]
