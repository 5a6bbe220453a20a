"""Settings do not declare again what a failed run has begun to delete: the next run would delete it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trainyard.errors import TrainyardError
from trainyard.platform.deploy.pending_deletions import reject_reused_names
from trainyard.platform.deploy.recorded_state import RecordedState
from trainyard.settings.stack import StackSettings
from trainyard.settings.stack_loader import parse_stack


class FakeStack:
    def __init__(self, deployment: dict[str, Any]) -> None:
        self.name = "local"
        self.deployment = deployment
        self.exports = 0

    def export_stack(self) -> Any:
        self.exports += 1
        return SimpleNamespace(version=3, deployment=self.deployment)


URN = "urn:pulumi:local::trainyard::trainyard:queues:Queues$kubernetes:{}::{}"
BEGUN = {
    "resources": [
        {"urn": URN.format("scheduling.volcano.sh/v1beta1:Queue", "Queue/a"), "delete": True},
        {"urn": URN.format("core/v1:Namespace", "Namespace/t"), "delete": True},
        {"urn": URN.format("scheduling.volcano.sh/v1beta1:Queue", "Queue/b")},
    ]
}


def settings(queue: str, tenant: str) -> StackSettings:
    queues = {"a": {"state": queue}, "b": {}}
    return parse_stack(
        {"cluster": {"provider": "embedded"}, "queues": queues, "tenants": {"t": {"queues": ["b"], "state": tenant}}},
        source="test",
    )


def state(stack: Any, folder: Path | None = None) -> RecordedState:
    return RecordedState(stack, folder)


@pytest.mark.parametrize("queue", ["open", "closed"])
def test_a_deletion_that_has_begun_is_completed_first(queue: str) -> None:
    with pytest.raises(TrainyardError) as caught:
        reject_reused_names(state(FakeStack(BEGUN)), settings(queue, "active"))
    assert [each.path for each in caught.value.findings] == ["trainyard:tenants.t.state", "trainyard:queues.a.state"]
    assert "set state: retired" in caught.value.findings[0].fix


def test_what_is_still_retired_is_deleted() -> None:
    reject_reused_names(state(FakeStack(BEGUN)), settings("retired", "retired"))


def test_a_state_in_a_folder_is_not_exported(tmp_path: Path) -> None:
    file = tmp_path / ".pulumi" / "stacks" / "trainyard" / "local.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"checkpoint": {"latest": BEGUN}}))
    known = FakeStack({})
    with pytest.raises(TrainyardError):
        reject_reused_names(state(known, tmp_path), settings("open", "active"))
    file.write_text(json.dumps({"checkpoint": {"latest": None}}))
    reject_reused_names(state(known, tmp_path), settings("open", "active"))
    assert known.exports == 0
