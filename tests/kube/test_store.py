from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainyard.kube.store import Store


def body(name: str, version: int, **extra: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ns", "resourceVersion": str(version), **extra}}


def test_older_and_repeated_events_are_no_news() -> None:
    store = Store()
    assert store.put(body("a", 5)) is not None
    assert store.put(body("a", 5)) is None
    assert store.put(body("a", 4)) is None
    assert store.put(body("a", 6)) is not None


def test_managed_fields_are_not_kept() -> None:
    store = Store()
    store.put(body("a", 1, managedFields=[{"manager": "x"}]))
    assert store.get("ns", "a") == body("a", 1)


def test_an_own_write_is_read_at_once_and_its_echo_is_no_news() -> None:
    store = Store()
    store.record_write(body("a", 7))
    assert store.get("ns", "a") == body("a", 7)
    assert store.put(body("a", 7)) is None


def test_a_late_response_about_a_deleted_object_does_not_bring_it_back() -> None:
    store = Store()
    store.put(body("a", 5))
    store.remove(body("a", 6))
    store.observe(6)
    assert store.record_write(body("a", 5)) is None
    assert store.get("ns", "a") is None
    assert store.record_write(body("a", 9)) is not None


def test_a_repeated_deletion_does_not_remove_the_successor() -> None:
    store = Store()
    store.put(body("a", 5))
    store.remove(body("a", 6))
    store.put(body("a", 8))
    assert store.remove(body("a", 6)) is None
    assert store.get("ns", "a") is not None


def test_a_complete_list_removes_what_it_does_not_name_but_keeps_newer_own_writes() -> None:
    store = Store()
    store.put(body("old", 3))
    store.record_write(body("new", 12))
    changes = store.retain([], 10)
    assert [change.key[1] for change in changes] == ["old"]
    assert store.keys() == [("ns", "new")]


def test_indexes_follow_the_objects() -> None:
    store = Store({"label": lambda item: [item["metadata"].get("label", "")]})
    store.put(body("a", 1, label="x"))
    store.put(body("b", 2, label="x"))
    assert [item["metadata"]["name"] for item in store.indexed("label", "x")] == ["a", "b"]
    store.put(body("a", 3, label="y"))
    assert [item["metadata"]["name"] for item in store.indexed("label", "x")] == ["b"]
    store.remove(body("b", 4))
    assert store.indexed("label", "x") == []


STEP = st.tuples(st.sampled_from("abc"), st.booleans())
DELIVERY = st.tuples(st.booleans(), st.integers(0, 30))


@given(st.lists(STEP, max_size=15), st.lists(DELIVERY, max_size=30))
@settings(max_examples=100, deadline=None)
def test_any_order_of_delivery_ends_with_what_the_server_holds(
    steps: list[tuple[str, bool]], deliveries: list[tuple[bool, int]]
) -> None:
    """Events come in order and may repeat; responses to writes of this process come at any time after their commit."""
    history: list[tuple[bool, dict[str, Any]]] = []
    truth: dict[str, int] = {}
    for version, (name, delete) in enumerate(steps, 1):
        gone = delete and name in truth
        if gone:
            del truth[name]
        else:
            truth[name] = version
        history.append((gone, body(name, version)))
    store = Store()
    sent = 0

    def tell(index: int) -> None:
        gone, item = history[index]
        store.remove(dict(item)) if gone else store.put(dict(item))
        store.observe(index + 1)

    for watch, number in deliveries:
        if watch and sent < len(history):
            tell(sent)
            sent += 1
        elif watch and sent:
            tell(number % sent)
        elif history:
            gone, item = history[number % len(history)]
            if not gone:
                store.record_write(dict(item))
    for index in range(sent, len(history)):
        tell(index)
    held = {item["metadata"]["name"]: int(item["metadata"]["resourceVersion"]) for item in store}
    assert held == truth


def test_a_repeated_event_of_a_deleted_object_does_not_bring_it_back() -> None:
    store = Store()
    for version, deliver in ((5, store.put), (6, store.remove)):
        deliver(body("a", version))
        store.observe(version)
    assert store.put(body("a", 5)) is None
    assert len(store) == 0


POISON: list[Any] = [
    {},
    {"metadata": None},
    {"metadata": []},
    {"metadata": {"namespace": "ns"}},
    {"metadata": {"name": ["a"], "namespace": "ns", "resourceVersion": "9"}},
    {"metadata": {"name": "a", "namespace": {"x": 1}, "resourceVersion": "9"}},
    {"metadata": {"name": "a", "namespace": "ns", "resourceVersion": "nine"}},
    {"metadata": {"name": "a", "namespace": "ns", "resourceVersion": "9", "annotations": 1}},
    None,
    "text",
    [],
]


@pytest.mark.parametrize("poison", POISON)
@pytest.mark.parametrize("method", ["put", "record_write", "remove"])
def test_an_object_of_odd_shape_is_counted_and_skipped(poison: Any, method: str) -> None:
    store = Store({"label": lambda item: [item["metadata"]["labels"]["x"]]})
    getattr(store, method)(poison)
    assert len(store) == 0
    assert (store.skips == 1) == (method != "remove" or "annotations" not in str(poison))


def test_an_object_that_cannot_be_taken_in_drops_its_earlier_version(caplog: pytest.LogCaptureFixture) -> None:
    def replicas(item: dict[str, Any]) -> dict[str, Any]:
        return {**item, "replicas": item["spec"]["replicas"]}

    store = Store({"replicas": lambda item: [item["replicas"]]}, replicas, name="things")
    store.put(body("a", 5) | {"spec": {"replicas": "1"}})
    for version in (6, 7):
        change = store.put(body("a", version))
        assert (change is not None and change.new is None) == (version == 6)
    assert store.get("ns", "a") is None
    assert store.indexed("replicas", "1") == []
    assert (store.skips, list(store.skipped)) == (2, [("ns", "a")])
    assert caplog.text.count("things: object ns/a") == 1
    assert store.put(body("a", 8) | {"spec": {"replicas": "2"}}) is not None
    assert store.skipped == {}


def test_an_index_that_raises_leaves_the_store_whole() -> None:
    store = Store({"x": lambda item: [item["x"]], "y": lambda item: [item["y"]]})
    store.put(body("a", 1) | {"x": "1", "y": "1"})
    store.put(body("b", 2) | {"x": "1"})
    store.put(body("c", 3) | {"x": "1", "y": [[]]})
    assert [item["metadata"]["name"] for item in store.indexed("x", "1")] == ["a"]
    store.put(body("a", 4) | {"x": "1"})
    assert store.indexed("x", "1") == store.indexed("y", "1") == []


def test_skipped_objects_are_forgotten_when_they_are_gone() -> None:
    store = Store(transform=lambda item: item["spec"])
    for number, name in enumerate("abc"):
        store.put(body(name, number + 1))
    store.remove(body("a", 9))
    assert sorted(store.skipped) == [("ns", "b"), ("ns", "c")]
    store.retain([("ns", "c")], 10)
    assert sorted(store.skipped) == [("ns", "c")]
    store.clear()
    assert store.skipped == {}


def test_what_kubectl_applied_last_is_not_kept_and_the_writer_keeps_his() -> None:
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "mine": "x"}
    response = body("a", 1, annotations=annotations, managedFields=[{"manager": "x"}])
    store = Store(transform=dict)
    store.record_write(response)
    assert store.get("ns", "a") == body("a", 1, annotations={"mine": "x"})
    assert response["metadata"]["annotations"] == annotations
