"""The queues that Volcano makes are patched: no stack label, no deletion, no foreign object taken over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import components.hooks.queues
from components.hooks.queues import QueuePatchHook
from components.stack import validate_stack
from tests.components.recording import Recording, record, stack_config
from tests.queues.trees import GPU, gpus, rules, stack
from trainyard.errors import TrainyardError
from trainyard.kube.training_kinds import QUEUES
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.scheduling.topology.fabric_compiler import compile_fabric
from trainyard.settings.stack_loader import parse_stack

STANDING = ("root", "default")


@pytest.fixture(scope="module")
def patched(monkeypatch_module) -> Recording:
    from components.common.ownership import LiveObjects

    config = stack_config(protect=True)
    config["queues"] |= {"default": {"weight": 2, "state": "closed"}, "root": {"capability": gpus(64)}}
    address = (QUEUES.api_version, QUEUES.kind)
    nodes = [node.name for node in compile_fabric(parse_stack(config, source="test").fabric).nodes]
    metadata = {(*address, "", name): {"name": name} for name in STANDING}
    live = LiveObjects(metadata | {("v1", "Node", "", name): {"name": name} for name in nodes})
    return record(config, monkeypatch_module, live=live)


def test_volcanos_queues_are_patched_and_never_made(patched: Recording) -> None:
    found = {each.inputs["metadata"]["name"]: each for each in patched.of("Queue")}
    for name in STANDING:
        each = found[name]
        assert each.type == "kubernetes:scheduling.volcano.sh/v1beta1:QueuePatch"
        assert not each.protect
        assert not each.retain
        assert "labels" not in each.inputs["metadata"]
        assert each.inputs["metadata"]["annotations"]["pulumi.com/patchForce"] == "true"
        assert {"Deployment/volcano-system/volcano-scheduler"} <= patched.before(each)
    assert found["default"].inputs["spec"] == {"weight": 2}
    assert found["root"].inputs["spec"] == {"capability": gpus(64)}
    assert found["vision"].type == "kubernetes:scheduling.volcano.sh/v1beta1:Queue"
    assert found["vision"].protect


def test_both_are_made_fit_before_they_are_patched(patched: Recording) -> None:
    hooks = [patched.one(f"QueuePatch/{name}").hooks for name in STANDING]
    assert all(hooks)
    assert not hooks[0] & hooks[1]


def test_a_closed_default_is_closed_by_the_controller(patched: Recording) -> None:
    assert patched.one("Platform/platform").inputs["spec"]["closedQueues"] == ["default"]


def test_queues_are_checked_for_the_scheduler_of_the_stack() -> None:
    guaranteed = {"a": {"deserved": gpus(16), "guarantee": gpus(16)}, "root": {"capability": gpus(8)}}
    with pytest.raises(TrainyardError) as raised:
        validate_stack(stack(guaranteed))
    assert rules(raised.value.findings) == {"queue-root-guarantee"}
    side_by_side = stack(guaranteed, scheduler={"preset": "topology"})
    assert [each["metadata"]["name"] for each in validate_stack(side_by_side).all] == ["a", "root"]


class _Cluster:
    """Holds one queue, which is not there at first."""

    def __init__(self, spec: dict[str, Any], *, after: int = 1) -> None:
        self.spec, self.missing, self.patches = spec, after, list[Any]()

    async def find(self, resource: object, name: str) -> dict[str, Any] | None:
        assert resource is QUEUES
        self.missing -= 1
        return {"spec": self.spec} if self.missing < 0 else None

    async def merge_patch(self, resource: object, name: str, patch: Any, *, field_manager: str) -> None:
        assert (resource, name) == (QUEUES, "root")
        assert field_manager != "trainyard"
        self.patches.append(patch)


def preparation(name: str, **spec: Any) -> QueuePatchHook:
    return QueuePatchHook(ClusterAccess("c", Path("kubeconfig")), {"metadata": {"name": name}, "spec": spec})


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(components.hooks.queues, "RETRY_SECONDS", 0.001)
    monkeypatch.setattr(components.hooks.queues, "LAG_SECONDS", 0.05)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("name", "spec", "patches"),
    [
        ("root", {"deserved": gpus(32)}, []),
        ("root", {"deserved": gpus(64)}, [{"spec": {"deserved": {"cpu": "0", "memory": "0", GPU: "32"}}}]),
        ("default", {"deserved": gpus(64)}, []),
    ],
)
async def test_room_is_made_in_root_where_it_is_needed(name: str, spec: dict[str, Any], patches: list[Any]) -> None:
    cluster: Any = _Cluster(spec)
    await preparation(name, capability=gpus(32)).prepare(cluster)
    assert cluster.patches == patches


@pytest.mark.usefixtures("impatient")
async def test_a_queue_that_volcano_does_not_create_is_an_error() -> None:
    never: Any = _Cluster({}, after=10**9)
    with pytest.raises(TrainyardError, match="'default' does not exist; Volcano's scheduler creates it"):
        await preparation("default", weight=2).prepare(never)
