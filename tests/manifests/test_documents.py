"""Documents of manifests know their place; Lists are unpacked."""

from __future__ import annotations

import json

from trainyard.manifests.documents import Source, documents, objects

LISTS = """
apiVersion: v1
kind: List
items:
  - {apiVersion: v1, kind: Pod, metadata: {name: a}}
  - apiVersion: example.com/v1
    kind: PodList
    items: [{metadata: {name: b}}, {kind: Other, metadata: {name: c}}]
  - nothing
"""


def test_lists_are_unpacked_at_any_depth_and_typed_ones_complete_their_items() -> None:
    assert list(objects(LISTS)) == [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}},
        {"apiVersion": "example.com/v1", "kind": "Pod", "metadata": {"name": "b"}},
        {"apiVersion": "example.com/v1", "kind": "Other", "metadata": {"name": "c"}},
        "nothing",
    ]


def test_every_object_knows_its_document_its_list_and_its_lines() -> None:
    found = list(documents(Source("a.yaml", f"---\n---\n{LISTS}---\nkind: x\nspec:\n  a: 1\n")))
    places = [(each.number, each.items, each.line()) for each in found]
    assert places == [(1, (0,), 7), (1, (1, 0), 10), (1, (1, 1), 10), (1, (2,), 11), (2, (), 13)]
    assert found[-1].line("spec.a") == 15


def test_empty_documents_and_empty_lists_hold_no_object() -> None:
    assert list(objects("---\n---\nkind: List\nitems: []\n---\n# nothing\n")) == []


def test_an_object_with_items_that_is_no_list_is_one_object() -> None:
    body = {"kind": "ConfigMap", "items": [{"a": 1}]}
    assert list(objects("kind: ConfigMap\nitems: [{a: 1}]\n")) == [body]


def test_objects_in_any_kind_are_unpacked_as_kubectl_does() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod"}
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "items": [pod, {"apiVersion": "v1", "kind": "list", "items": [pod]}],
    }
    found = list(objects(json.dumps(body)))
    assert found == [body, pod, body["items"][1], pod]


def test_lists_in_lists_without_end_are_left_packed() -> None:
    text = "{kind: List, items: [" * 20 + "x" + "]}" * 20
    (body,) = objects(text)
    assert body["kind"] == "List"
