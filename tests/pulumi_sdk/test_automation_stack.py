"""The stack asks the CLI for nothing that is known, and reads every event that can be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pulumi.automation import PulumiCommand
from pulumi.automation.events import EngineEvent

from trainyard.platform.pulumi_sdk.automation_stack import _Events, command


def event(**content: Any) -> str:
    return json.dumps({"sequence": 1, "timestamp": 2, **content}, separators=(",", ":"))


def step(operation: str) -> dict[str, Any]:
    urn = "urn:pulumi:local::trainyard::trainyard:volcano:Volcano$kubernetes:core/v1:Namespace::Namespace/vision"
    metadata = {"op": operation, "urn": urn, "type": "kubernetes:core/v1:Namespace", "provider": ""}
    return {"metadata": metadata}


def test_an_event_that_cannot_be_read_does_not_end_the_stream() -> None:
    seen: list[EngineEvent] = []
    texts = ["{", event(resourcePreEvent=step("same")), event(resourcePreEvent={"metadata": 3}), event(cancelEvent={})]
    requests = [type("Request", (), {"event": text})() for text in texts]
    _Events(seen.append).StreamEvents(iter(requests), None)
    assert [each.cancel_event is not None for each in seen] == [False, True]


def test_a_cli_that_was_built_here_is_not_asked_for_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "toolchain" / "pulumi-1" / "bin" / "pulumi"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o700)
    monkeypatch.setenv("TRAINYARD_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(program.parent))
    found = command()
    assert isinstance(found, PulumiCommand)
    assert str(found.version) == "3.259.0"
