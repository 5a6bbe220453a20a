"""``root`` and ``default``: supported settings of the queues that Volcano creates, and their effects."""

from __future__ import annotations

from typing import Any

import pytest

from tests.queues.trees import CAPACITY, GPU, gpus, rules, stack, tree
from trainyard.errors import TrainyardError
from trainyard.scheduling.queues.builtin_queues import root_preparation
from trainyard.scheduling.queues.plan import plan
from trainyard.scheduling.queues.queue import Queue
from trainyard.scheduling.queues.queue_bodies import prove_queues
from trainyard.scheduling.queues.scheduling import Scheduling
from trainyard.scheduling.queues.snapshot import snapshot_of_settings
from trainyard.scheduling.queues.tree_checks import check_queues, check_tree

OWNED = {"team": {"deserved": gpus(32)}}


@pytest.mark.parametrize(
    ("queues", "path", "message"),
    [
        ({"root": {"parent": "team"}}, "root.parent", "top of the tree"),
        ({"root": {"deserved": gpus(8)}}, "root.deserved", "the scheduler writes it"),
        ({"root": {"guarantee": gpus(8)}}, "root.guarantee", "the scheduler writes it"),
        ({"root": {"state": "closed"}}, "root.state", "never closes root"),
        ({"root": {"weight": 2}}, "root.weight", "root has no jobs"),
        ({"root": {"affinity": {}}}, "root.affinity", "root has no jobs"),
        ({"default": {"parent": "team"}}, "default.parent", "cannot be a child of 'team'"),
        ({"default": {"state": "retired"}}, "default.state", "cannot be retired"),
    ],
)
def test_unsupported_fields_of_builtin_queues_are_findings(queues: dict[str, Any], path: str, message: str) -> None:
    (finding,) = [each for each in check_queues(stack({**OWNED, **queues})) if each.rule == "queue-name-reserved"]
    assert finding.path == f"trainyard:queues.{path}"
    assert message in finding.message
    assert finding.fix


def test_builtin_queues_are_patched_in_set_fields_and_not_owned() -> None:
    default = {"weight": 1, "capability": {"gpu": 8}, "reclaimable": False, "state": "closed"}
    objects = prove_queues(stack({**OWNED, "default": default, "root": {"capability": "50%"}}))
    assert [each["metadata"]["name"] for each in objects.own] == ["team"]
    assert {each["metadata"]["name"]: each["spec"] for each in objects.patches} == {
        "root": {"capability": {"cpu": "384", "memory": "4Ti", GPU: "32"}},
        "default": {"weight": 1, "capability": {GPU: "8"}, "reclaimable": False},
    }


@pytest.mark.parametrize("fields", [{}, {"state": "closed"}, {"parent": "root"}])
def test_without_set_fields_nothing_is_patched(fields: dict[str, Any]) -> None:
    assert prove_queues(stack({**OWNED, "default": fields})).patches == ()


def test_default_is_checked_like_any_other_queue() -> None:
    with pytest.raises(TrainyardError) as raised:
        prove_queues(stack({"default": {"deserved": gpus(8), "capability": gpus(4)}}))
    assert rules(raised.value.findings) == {"queue-deserved-capability"}


def test_a_tenant_may_use_default_if_declared_but_never_root() -> None:
    tenants = {"t": {"queues": ["default"]}}
    assert stack({"default": {"deserved": gpus(8)}}, tenants).leaf_queues == ("default",)
    with pytest.raises(TrainyardError, match="cannot have jobs") as raised:
        stack({**OWNED, "root": {"capability": gpus(8)}}, {"t": {"queues": ["root"]}})
    assert "use one of team" in str(raised.value)


@pytest.mark.parametrize(
    ("queues", "rule", "message"),
    [
        (tree(a={"capability": gpus(64)}), "queue-root-capability", "64 nvidia.com/gpu, more than the 32 of root"),
        (
            tree(a={"deserved": gpus(20), "guarantee": gpus(20)}, b={"deserved": gpus(20), "guarantee": gpus(20)}),
            "queue-root-guarantee",
            "40 of nvidia.com/gpu are guaranteed to a (20), b (20), but the capability of root is 32",
        ),
        (
            tree(a={"deserved": {"cpu": "4"}, "guarantee": {"cpu": "4"}}),
            "queue-root-guarantee",
            "but the capability of root does not set it",
        ),
    ],
)
def test_amounts_of_root_without_effect_are_findings(queues: dict[str, Queue], rule: str, message: str) -> None:
    found = check_tree(queues, root=Queue(capability=gpus(32)), capacity=CAPACITY)
    (finding,) = [each for each in found if each.rule == rule]
    assert message in finding.message


def test_a_capability_of_root_limits_every_queue_without_its_own() -> None:
    settings = stack({**OWNED, "root": {"capability": {"gpu": 16}}})
    assert rules(check_queues(settings)) == set()
    after = snapshot_of_settings(settings, "new")
    before = snapshot_of_settings(stack(OWNED), "old")
    changes = {each.queue: [str(share) for share in each.shares] for each in plan(before.tree, after.tree).queues}
    assert changes["root"] == [f"capability {GPU} no limit → 16"]


def test_amounts_of_root_are_read_like_those_of_other_queues() -> None:
    settings = stack({"root": {"capability": {"gpux": 1, GPU: "1500m"}}})
    assert {"queue-resource-name", "queue-resource-fraction"} <= rules(check_queues(settings))


def test_a_newer_volcano_protects_root() -> None:
    settings = stack({**OWNED, "root": {"capability": {"gpu": 64}}})
    found = check_queues(settings, scheduling=Scheduling(version="1.15.1"))
    assert rules(found) == {"queue-root-protected"}


WRITTEN = {"deserved": {"cpu": "832", "memory": "8Ti", GPU: "64", "pods": "990"}, "guarantee": {"resource": gpus(16)}}


@pytest.mark.parametrize(
    ("live", "capability", "patch"),
    [
        (
            WRITTEN,
            gpus(32),
            {
                "deserved": {"cpu": "0", "memory": "0", GPU: "32", "pods": None},
                "guarantee": {"resource": {"cpu": "0", "memory": "0", GPU: "16"}},
            },
        ),
        ({"deserved": {"cpu": "0", GPU: "16"}}, {GPU: "32", "cpu": "4"}, None),
        ({}, gpus(8), {"deserved": {"cpu": "0", "memory": "0", GPU: "8"}}),
        (
            {"deserved": {"cpu": "4"}, "capability": {"cpu": "8", GPU: "8"}},
            gpus(64),
            {"deserved": {"cpu": "0", "memory": "0", GPU: "8"}},
        ),
    ],
)
def test_amounts_of_root_are_lowered_but_not_emptied(
    live: dict[str, Any], capability: dict[str, str], patch: dict[str, Any] | None
) -> None:
    assert root_preparation(live, capability) == patch
