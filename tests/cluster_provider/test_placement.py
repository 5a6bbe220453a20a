"""Which pod runs in which slot, and what is said of those that cannot."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from trainyard.local.cluster.supervisor.slots import SlotPlacement, place, shortage


def pod(uid: str, *, age: int = 0, node: str = "platform-0", **metadata: Any) -> dict[str, Any]:
    created = f"2026-01-01T00:00:{age:02}Z"
    return {
        "metadata": {"uid": uid, "name": uid, "namespace": "n", "creationTimestamp": created, **metadata},
        "spec": {"nodeName": node},
        "status": {"phase": "Running"},
    }


def deployment(replicas: int | None, *conditions: dict[str, str]) -> dict[str, Any]:
    spec = {} if replicas is None else {"replicas": replicas}
    return {"metadata": {"name": "d", "namespace": "n"}, "spec": spec, "status": {"conditions": list(conditions)}}


def uids(placement: SlotPlacement) -> dict[int, str]:
    return {slot: each["metadata"]["uid"] for slot, each in placement.slots.items()}


DELETED = {"deletionTimestamp": "2026-01-01T00:01:00Z"}
ENDED = {**DELETED, "annotations": {"trainyard.dev/host-process-ended": "true"}}


def test_pods_get_the_lowest_free_slots_oldest_first() -> None:
    assert uids(place([pod("b", age=2), pod("a", age=1)], {}, (), 6)) == {0: "a", 1: "b"}
    assert uids(place([pod("b", age=2), pod("a", age=1)], {1: "a"}, (), 6)) == {0: "b", 1: "a"}


def test_a_new_pod_of_a_rollout_gets_a_slot_beside_the_old_one_that_ends_later() -> None:
    assigned = {0: "old"}
    assert uids(place([pod("old"), pod("new", age=1)], assigned, {0}, 6)) == {0: "old", 1: "new"}
    assert uids(place([pod("old", **DELETED), pod("new", age=1)], {0: "old", 1: "new"}, {0, 1}, 6)) == {
        0: "old",
        1: "new",
    }
    assert uids(place([pod("old", **ENDED), pod("new", age=1)], {0: "old", 1: "new"}, {1}, 6)) == {1: "new"}


def test_a_slot_in_which_a_process_still_runs_is_not_given_away() -> None:
    assert uids(place([pod("new")], {0: "gone"}, {0}, 6)) == {1: "new"}
    assert uids(place([pod("new")], {0: "gone"}, (), 6)) == {0: "new"}


def test_a_deleted_pod_that_never_ran_is_not_started() -> None:
    assert place([pod("late", **DELETED)], {}, (), 6).slots == {}
    assert place([pod("over", **ENDED)], {}, (), 6).slots == {}


def test_what_cannot_run_yet_says_why() -> None:
    full = place([pod("a"), pod("b", age=1), pod("c", age=2, node="")], {}, (), 1)
    assert uids(full) == {0: "a"}
    assert full.waiting == (
        "pod n/b waits for one of 1 slots, all in use by earlier pods",
        "pod n/c has no node yet",
    )
    assert shortage(deployment(3), full) == full.waiting
    assert shortage(deployment(1), full) == ()


def test_a_missing_pod_says_what_the_replica_set_says() -> None:
    refused = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}
    assert shortage(deployment(2, refused), place([pod("a")], {}, (), 6)) == (
        "Deployment n/d has no pod for it yet: exceeded quota",
    )
    assert shortage(deployment(None), place([], {}, (), 6)) == ("Deployment n/d has no pod for it yet",)
    assert shortage(deployment(0), place([], {}, (), 6)) == ()


@given(
    st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.booleans(), st.booleans()), unique_by=lambda each: each[0]),
    st.dictionaries(st.integers(0, 3), st.integers(0, 9).map(str), max_size=4),
    st.sets(st.integers(0, 3)),
)
def test_no_slot_holds_two_pods_and_a_pod_never_moves(
    described: list[tuple[int, bool, bool, bool]], assigned: dict[int, str], busy: set[int]
) -> None:
    assigned = {slot: uid for slot, uid in assigned.items() if list(assigned.values()).count(uid) == 1}
    pods = [
        pod(str(number), age=number, node="n" if scheduled else "", **(ENDED if over else DELETED if deleted else {}))
        for number, scheduled, deleted, over in described
    ]
    found = uids(place(pods, assigned, busy, 4))
    assert len(set(found.values())) == len(found)
    assert {slot: uid for slot, uid in assigned.items() if uid in found.values()}.items() <= found.items()
    for slot, uid in found.items():
        assert assigned.get(slot) == uid or slot not in busy
    living = {each["metadata"]["uid"] for each in pods if each["metadata"].get("annotations") is None}
    assert set(found.values()) <= living
    assert {uid for uid in assigned.values() if uid in living} <= set(found.values())
