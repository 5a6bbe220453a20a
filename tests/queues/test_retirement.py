"""A retired queue is deleted once nothing is lost with it, and says what it waits for until then."""

from __future__ import annotations

from typing import Any

import pytest

from tests.queues.test_changes import gang, queue
from trainyard.queues.retirement import QueueRetirement, queue_retirement


def decided(
    retired: str, live: list[dict[str, Any]], *gangs: dict[str, Any], closed: str = "", **parents: str
) -> QueueRetirement:
    owned = {each["metadata"]["name"] for each in live if not each["metadata"]["name"].startswith("foreign")}
    names = retired.split()
    edges = dict.fromkeys(names, "root") | parents
    return queue_retirement(names, edges, live, owned=owned, closed=closed.split(), pod_groups=gangs)


def test_a_closed_empty_queue_is_removed() -> None:
    found = decided("old", [queue("old", state="Closed"), queue("new")], gang("a", "new"), closed="old")
    assert found == QueueRetirement(frozenset({"old"}))


def test_a_queue_that_was_taken_over_becomes_the_stacks_before_it_is_deleted() -> None:
    """The state says that a taken queue is kept, and the engine would only forget it."""
    taken, owned = queue("taken", state="Closed"), queue("owned", state="Closed")
    taken["metadata"]["annotations"] = {"trainyard.dev/adopted": "true"}
    owned["metadata"]["annotations"] = {"trainyard.dev/adopted": "owned"}
    found = decided(
        "taken owned above", [taken, owned, queue("above", state="Closed")], closed="taken owned above", taken="above"
    )
    assert found.removed == {"owned"}
    assert found.waiting["taken"] == (
        "it was taken over, and the state says that it is kept: this `up` changes that, and the next one deletes it"
    )
    assert "taken" in found.waiting["above"]


def test_a_queue_that_does_not_exist_is_not_created() -> None:
    assert decided("old", [queue("new")]).removed == {"old"}


def test_a_queue_of_another_owner_is_left_alone() -> None:
    assert decided("foreign", [queue("foreign")]).removed == {"foreign"}


@pytest.mark.parametrize(
    ("state", "closed", "gangs", "words"),
    [
        ("Closing", "old", [gang("a", "old")], "it has 1 job: vision/a (Running)"),
        ("Closed", "old", [gang("a", "old", "Completed")], "it has 1 job: vision/a (Completed)"),
        ("Open", "", [], "it is open, and this `up` closes it"),
        ("Closing", "old", [], "it is closing"),
        ("Closed", "", [], "it was closed by hand, and can be opened again until this `up` keeps it closed"),
    ],
)
def test_it_stays_while_jobs_can_be_in_it(state: str, closed: str, gangs: list[Any], words: str) -> None:
    assert decided("old", [queue("old", state=state)], *gangs, closed=closed).waiting == {"old": words}


def test_a_parent_stays_as_long_as_a_child_queue() -> None:
    live = [
        queue("top", state="Closed"),
        queue("inner", "top", state="Closed"),
        queue("leaf", "inner", state="Closing"),
        queue("other", "top", state="Closed"),
    ]
    below = {"inner": "top", "leaf": "inner", "other": "top"}
    found = decided("top inner leaf other", live, closed="top inner leaf other", **below)
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
