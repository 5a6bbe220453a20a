"""Shares that no configuration of Volcano keeps are reported, in the check and at preview."""

from __future__ import annotations

from typing import Any

from trainyard.scheduling.queues.tree_checks import check_queues
from trainyard.settings.stack import StackSettings
from trainyard.settings.stack_loader import parse_stack
from trainyard.stack_checks import unenforced_shares


def stack(queues: dict[str, Any], **scheduler: Any) -> StackSettings:
    values = {"cluster": {"provider": "embedded"}, "scheduler": scheduler, "queues": queues}
    return parse_stack(values, source="test")


def test_a_share_of_several_resources_is_a_warning() -> None:
    mixed = stack({"a": {"deserved": {"cpu": "4", "memory": "8Gi"}}, "b": {"deserved": {"cpu": "4"}}})
    (finding,) = [each for each in check_queues(mixed) if each.rule == "queue-share-resources"]
    assert (finding.path, finding.object) == ("trainyard:queues.a.deserved", "a")
    assert "shares of cpu, memory" in finding.message
    single = stack({"a": {"deserved": {"cpu": "4"}}, "b": {"deserved": {"cpu": "4"}}})
    assert [each for each in check_queues(single) if each.rule == "queue-share-resources"] == []


def test_the_preview_says_that_an_inner_queue_does_not_protect_its_leaves() -> None:
    queues = {
        "research": {"deserved": {"cpu": "8"}},
        "vision": {"parent": "research", "deserved": {"cpu": "4"}},
        "serving": {"deserved": {"cpu": "8"}},
    }
    (finding,) = [each for each in unenforced_shares(stack(queues)) if "research" in each.path]
    assert "serving can reclaim what vision uses above the own share" in finding.message
    flat = {name: {"deserved": {"cpu": "4"}} for name in ("vision", "serving")}
    assert unenforced_shares(stack(flat)) == []
