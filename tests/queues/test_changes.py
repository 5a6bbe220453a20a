"""A change of the queue tree that would harm jobs is rejected, with the jobs."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard.scheduling.queues.change_effects import change_findings


def queue(name: str, parent: str = "root", state: str = "Open", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"parent": parent, **spec}, "status": {"state": state}}


def gang(name: str, queue: str | None, phase: str = "Running") -> dict[str, Any]:
    return {
        "metadata": {"namespace": "vision", "name": name},
        "spec": {"queue": queue} if queue else {},
        "status": {"phase": phase},
    }


def found(live: list[dict[str, Any]], wanted: dict[str, Any], *gangs: dict[str, Any], retired: str = "") -> list[Any]:
    owned = {each["metadata"]["name"] for each in live}
    findings = change_findings(live, wanted, owned=owned, retired=retired.split(), pod_groups=gangs)
    return [(finding.rule, finding.path, finding.message) for finding in findings]


def test_an_unchanged_tree_has_no_findings() -> None:
    assert found([queue("vision")], {"vision": {"parent": "root"}}, gang("a", "vision")) == []


def test_a_queue_with_jobs_is_not_removed() -> None:
    assert found([queue("vision", state="Closed")], {}, gang("a", "vision"), retired="vision") == [
        (
            "queue-removed-in-use",
            "trainyard:queues.vision",
            "queue 'vision' would be removed, but it has 1 job: vision/a (Running)",
        )
    ]


@pytest.mark.parametrize(
    ("state", "retired", "words"),
    [
        ("Open", "", "it is open, so new jobs may be created"),
        ("Closed", "", "it is closed, not retired"),
        ("Closing", "vision", "it is still closing"),
        ("Open", "vision", "it is open, so new jobs may be created"),
    ],
)
def test_an_empty_queue_is_removed_only_once_it_is_retired_and_closed(state: str, retired: str, words: str) -> None:
    ((rule, _, message),) = found([queue("vision", state=state)], {}, retired=retired)
    assert rule == "queue-removed-in-use"
    assert words in message


def test_a_queue_that_was_taken_over_is_deleted_before_its_entry_is_removed() -> None:
    taken = queue("vision", state="Closed")
    taken["metadata"]["annotations"] = {"trainyard.dev/adopted": "true"}
    ((rule, path, message),) = found([taken], {}, retired="vision")
    assert (rule, path) == ("queue-removed-in-use", "trainyard:queues.vision")
    assert "it was taken over, and Pulumi would forget it and leave it closed" in message


def test_a_queue_that_another_run_deletes_meanwhile_is_no_finding() -> None:
    findings = change_findings([queue("vision")], {"vision": {}}, owned={"vision", "gone"}, retired=[], pod_groups=[])
    assert findings == []


def test_a_retired_closed_empty_queue_may_be_removed() -> None:
    assert found([queue("vision", state="Closed")], {}, gang("a", "language"), retired="vision") == []


def test_queues_of_others_are_ignored() -> None:
    assert change_findings([queue("theirs")], {}, owned=(), retired=(), pod_groups=[gang("a", "theirs")]) == []


def test_root_and_default_are_never_removed() -> None:
    assert found([queue("root"), queue("default")], {}, gang("a", None)) == []


@pytest.mark.parametrize("phase", ["Pending", "Inqueue", "Running", "Completed"])
def test_a_leaf_with_a_gang_of_any_phase_gets_no_child_queue(phase: str) -> None:
    live = [queue("vision")]
    wanted = {"vision": {"parent": "root"}, "small": {"parent": "vision"}}
    ((rule, path, message),) = found(live, wanted, gang("a", "vision", phase))
    assert (rule, path) == ("queue-parent-in-use", "trainyard:queues.small.parent")
    assert f"vision/a ({phase})" in message


def test_jobs_without_a_queue_are_in_default() -> None:
    ((rule, *_),) = found([queue("default")], {"small": {"parent": "default"}}, gang("a", None))
    assert rule == "queue-parent-in-use"


def test_a_queue_with_child_queues_may_get_more() -> None:
    live = [queue("vision"), queue("small", "vision")]
    wanted = {"vision": {"parent": "root"}, "small": {"parent": "vision"}, "large": {"parent": "vision"}}
    assert found(live, wanted, gang("a", "small")) == []


def test_a_closing_queue_cannot_be_changed() -> None:
    live = [queue("vision", state="Closing", weight=1)]
    ((rule, _, message),) = found(live, {"vision": {"parent": "root", "weight": 2}}, gang("a", "vision"))
    assert rule == "queue-closing"
    assert "vision/a (Running)" in message
    assert found(live, {"vision": {"parent": "root", "weight": 1}}, gang("a", "vision")) == []


def test_many_jobs_are_counted() -> None:
    gangs = [gang(f"job-{number}", "vision") for number in range(9)]
    ((_, _, message),) = found([queue("vision")], {}, *gangs)
    assert message.endswith("vision/job-4 (Running) and 4 more")
    assert "it has 9 jobs" in message
