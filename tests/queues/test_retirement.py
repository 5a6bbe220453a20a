"""A retired queue is deleted once nothing is lost with it, and says what it waits for until then."""

from __future__ import annotations

from typing import Any

import pytest

from tests.queues.test_changes import gang, queue
from trainyard.scheduling.queues.retirement import QueueRetirement, queue_retirement


def decided(
    retired: str,
    live: list[dict[str, Any]],
    *gangs: dict[str, Any],
    closed: str = "",
    terminating: str = "",
    held: str | None = None,
    **parents: str,
) -> QueueRetirement:
    owned = {each["metadata"]["name"] for each in live if not each["metadata"]["name"].startswith("foreign")}
    names = retired.split()
    edges = dict.fromkeys(names, "root") | parents
    return queue_retirement(
        names,
        edges,
        live,
        owned=owned,
        closed=closed.split(),
        pod_groups=gangs,
        terminating=terminating.split(),
        held=held,
    )


def taken(name: str, parent: str = "root", *, state: str = "Closed", mark: str = "true") -> dict[str, Any]:
    """Return a queue that the stack has taken over."""
    found = queue(name, parent, state=state)
    found["metadata"]["annotations"] = {"trainyard.dev/adopted": mark}
    return found


def test_a_closed_empty_queue_is_removed() -> None:
    found = decided("old", [queue("old", state="Closed"), queue("new")], gang("a", "new"), closed="old")
    assert found == QueueRetirement(frozenset({"old"}))


def test_queues_that_were_taken_over_are_deleted_directly_after_those_below_them() -> None:
    """The state says that a taken queue is kept, and the engine would only forget it."""
    live = [taken("above"), taken("taken", "above"), queue("below", "taken", state="Closed")]
    live.append(taken("owned", mark="owned"))
    names = "above taken below owned"
    found = decided(names, live, closed=names, taken="above", below="taken")
    assert found == QueueRetirement(frozenset(names.split()), directly=("below", "taken", "above"))


@pytest.mark.parametrize("settings", [{"kept": "root"}, {}])
def test_a_queue_that_was_taken_over_waits_for_child_queues_that_the_engine_moves_or_deletes(
    settings: dict[str, str],
) -> None:
    live = [taken("old"), queue("kept", "old")]
    found = decided("old", live, closed="old", **settings)
    why = "it was taken over, and this `up` first moves or deletes its child queues (kept): the next one deletes it"
    assert found.waiting == {"old": why}


@pytest.mark.parametrize("make", [queue, taken])
@pytest.mark.parametrize(("state", "closed"), [("Open", ""), ("Open", "old"), ("Closing", "old"), ("Closed", "")])
def test_an_empty_queue_is_closed_before_it_is_deleted(state: str, closed: str, make: Any) -> None:
    found = decided("old", [make("old", state=state)], closed=closed)
    assert (found.removed, found.closing, found.waiting) == ({"old"}, {"old"}, {})


def test_jobs_that_are_deleted_with_their_namespace_keep_no_queue() -> None:
    jobs = [gang("a", "old"), gang("b", "taken")]
    queues = [queue("old", state="Open"), taken("taken")]
    found = decided("old taken", queues, *jobs, closed="taken", terminating="vision")
    assert (found.removed, found.closing) == ({"old"}, {"old"})
    assert found.waiting == {
        "taken": "it was taken over, and this `up` first deletes the namespaces of its jobs: the next one deletes it"
    }


def test_a_run_that_may_not_write_first_deletes_closed_queues_only() -> None:
    live = [queue("open", state="Open"), taken("taken"), queue("closed", state="Closed")]
    found = decided("open taken closed", live, closed="taken closed", held="this run is limited to targets")
    assert found.removed == {"closed"}
    assert found.waiting == dict.fromkeys(("open", "taken"), "this run is limited to targets")


def test_a_queue_that_does_not_exist_is_not_created() -> None:
    assert decided("old", [queue("new")]).removed == {"old"}


def test_a_queue_of_another_owner_is_left_alone() -> None:
    assert decided("foreign", [queue("foreign")]).removed == {"foreign"}


@pytest.mark.parametrize(
    ("state", "gangs", "words"),
    [
        ("Closing", [gang("a", "old")], "it has 1 job: vision/a (Running)"),
        ("Closed", [gang("a", "old", "Completed")], "it has 1 job: vision/a (Completed)"),
        ("Open", [gang("a", "old", "Pending")], "it has 1 job: vision/a (Pending)"),
    ],
)
def test_it_stays_while_it_has_jobs(state: str, gangs: list[Any], words: str) -> None:
    assert decided("old", [queue("old", state=state)], *gangs, closed="old").waiting == {"old": words}


def test_a_parent_stays_as_long_as_a_child_queue() -> None:
    live = [
        queue("top", state="Closed"),
        queue("inner", "top", state="Closed"),
        queue("leaf", "inner", state="Closing"),
        queue("other", "top", state="Closed"),
    ]
    below = {"inner": "top", "leaf": "inner", "other": "top"}
    found = decided("top inner leaf other", live, gang("a", "leaf"), closed="top inner leaf other", **below)
    assert found.removed == {"other"}
    assert found.waiting["inner"] == "its child queues (leaf) are not deleted yet"
    assert found.waiting["top"] == "its child queues (inner) are not deleted yet"


def test_child_queues_that_are_not_retired_or_of_another_owner_keep_their_parent() -> None:
    live = [queue("top", state="Closed"), queue("kept", "top", state="Closed"), queue("foreign", "top")]
    found = decided("top", live, closed="top kept", kept="top")
    assert found.waiting == {"top": "its child queues (foreign, kept) are not deleted yet"}


def test_a_child_queue_that_moves_away_does_not_keep_its_parent() -> None:
    live = [queue("top", state="Closed"), queue("kept", "top", state="Closed")]
    assert decided("top", live, closed="top kept", kept="root").removed == {"top"}


def test_a_whole_subtree_is_removed_at_once() -> None:
    live = [queue("top", state="Closed"), queue("leaf", "top", state="Closed")]
    assert decided("top leaf", live, closed="top leaf", leaf="top").removed == {"top", "leaf"}
