"""Queue manifests are parsed as by the API server, and what it would reject or drop is a finding."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.queues.trees import GPU, rules
from trainyard.errors import TrainyardError
from trainyard.scheduling.queues.paths import ManifestPaths
from trainyard.scheduling.queues.queue import Queue
from trainyard.scheduling.queues.queue_manifests import is_manifest, read_manifests, read_queue
from trainyard.scheduling.queues.rules import RULES
from trainyard.scheduling.queues.tree_checks import check_tree

API_VERSION = "scheduling.volcano.sh/v1beta1"


def manifest(name: str = "a", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def test_documents_and_lists_make_one_tree() -> None:
    nested = {"apiVersion": "v1", "kind": "List", "items": [manifest("b", parent="a")]}
    short = {"apiVersion": API_VERSION, "kind": "QueueList", "items": [{"metadata": {"name": "c"}, "spec": {}}]}
    other = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}
    texts = {
        "one.yaml": yaml.safe_dump_all([manifest("a", capability={GPU: 8}), other, nested]),
        "two.json": json.dumps(short),
    }
    read = read_manifests(texts)
    assert read.findings == []
    assert list(read.queues) == ["a", "b", "c"]
    assert read.queues["a"].capability == {GPU: "8"}
    assert read.queues["b"].parent == "a"
    assert read.queues["c"] == Queue()


def test_volcanos_own_queues_are_separate() -> None:
    read = read_manifests({"q": yaml.safe_dump_all([manifest("root", deserved={GPU: 8}), manifest("default")])})
    assert read.root == Queue(deserved={GPU: "8"})
    assert list(read.queues) == ["default"]
    found = check_tree(read.queues, root=read.root, paths=ManifestPaths())
    assert rules(found) == {"queue-root-amounts"}


def test_all_fields_of_a_queue_are_parsed() -> None:
    _, queue, findings = read_queue(
        manifest(
            parent="p",
            weight=3,
            priority=2,
            reclaimable=False,
            type="batch",
            dequeueStrategy="fifo",
            deserved={"cpu": 4, "memory": "8Gi"},
            guarantee={"resource": {"cpu": "500m"}},
            affinity={"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["h100"]}},
        )
    )
    assert findings == []
    assert (queue.parent, queue.weight, queue.priority, queue.reclaimable) == ("p", 3, 2, False)
    assert (queue.deserved, queue.guarantee) == ({"cpu": "4", "memory": "8Gi"}, {"cpu": "500m"})
    assert queue.affinity is not None
    assert queue.affinity.node_group_affinity.required == ("h100",)


@pytest.mark.parametrize(
    ("annotations", "spec", "fix"),
    [
        ({"volcano.sh/hierarchy": "root/eng/dev"}, {}, "write parent: eng in spec, and remove the annotations"),
        (
            {"volcano.sh/hierarchy": "root/eng/dev", "volcano.sh/hierarchy-weights": "1/2/8"},
            {"weight": 1},
            "write parent: eng and weight: 8 in spec, and remove the annotations",
        ),
        ({"volcano.sh/hierarchy": "root/eng/dev"}, {"parent": "eng"}, "remove the annotations"),
        ({"volcano.sh/hierarchy-weights": "1/0.5"}, {}, "remove the annotations"),
        ({"volcano.sh/hierarchy": "", "volcano.sh/hierarchy-weights": "1/0.5"}, {}, "remove the annotations"),
        ({"volcano.sh/hierarchy": "/root/dev/"}, {}, "write parent: root in spec, and remove the annotations"),
    ],
)
def test_the_old_tree_of_annotations_is_reported_with_its_new_form(
    annotations: dict[str, str], spec: dict[str, Any], fix: str
) -> None:
    body = manifest(**spec)
    body["metadata"]["annotations"] = annotations
    (finding,) = read_queue(body)[2]
    assert (finding.rule, finding.severity, finding.fix) == ("queue-hierarchy-annotation", "warning", fix)
    assert finding.path == f"metadata.annotations[{next(key for key in annotations if annotations[key])}]"
    body["metadata"]["annotations"] = {"example.com/owner": "ada"}
    assert read_queue(body)[2] == []


@pytest.mark.parametrize(
    ("spec", "rule", "path"),
    [
        ({"capabilty": {"cpu": 1}}, "queue-field-unknown", "spec.capabilty"),
        ({"guarantee": {"cpu": 9}}, "queue-field-unknown", "spec.guarantee.cpu"),
        ({"affinity": {"nodeAffinity": {}}}, "queue-field-unknown", "spec.affinity.nodeAffinity"),
        ({"deserved": {"cpu": 1.5}}, "queue-schema", "spec.deserved[cpu]"),
        ({"deserved": {"cpu": True}}, "queue-schema", "spec.deserved[cpu]"),
        ({"deserved": {"cpu": "a lot"}}, "queue-schema", "spec.deserved[cpu]"),
        ({"guarantee": {"resource": {"cpu": "1e400"}}}, "queue-schema", "spec.guarantee.resource[cpu]"),
        ({"deserved": {"cpu": "-1"}}, "queue-amount-negative", "spec.deserved[cpu]"),
        ({"deserved": {"cpu": None}}, "queue-amount-null", "spec.deserved[cpu]"),
        ({"deserved": ["cpu"]}, "queue-schema", "spec.deserved"),
        ({"guarantee": {"resource": "1"}}, "queue-schema", "spec.guarantee"),
        ({"weight": 0}, "queue-weight-zero", "spec.weight"),
        ({"weight": 65536}, "queue-schema", "spec.weight"),
        ({"weight": "1"}, "queue-schema", "spec.weight"),
        ({"priority": -1}, "queue-schema", "spec.priority"),
        ({"reclaimable": "no"}, "queue-schema", "spec.reclaimable"),
        ({"parent": ""}, "queue-schema", "spec.parent"),
        ({"parent": 7}, "queue-schema", "spec.parent"),
        ({"type": "x" * 254}, "queue-schema", "spec.type"),
        ({"dequeueStrategy": "lifo"}, "queue-schema", "spec.dequeueStrategy"),
        ({"affinity": {"nodeGroupAffinity": []}}, "queue-schema", "spec.affinity.nodeGroupAffinity"),
        (
            {"affinity": {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": "h100"}}},
            "queue-schema",
            "spec.affinity.nodeGroupAffinity",
        ),
    ],
)
def test_an_invalid_field_is_a_finding_and_hides_no_other(spec: dict[str, Any], rule: str, path: str) -> None:
    _, queue, findings = read_queue(manifest(**{"capability": {"memory": "1Gi"}, **spec}))
    assert [(each.rule, each.path, each.object) for each in findings] == [(rule, path, "a")]
    assert findings[0].fix
    assert queue.capability == {"memory": "1Gi"}


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ({**manifest(), "metadata": {"name": "A_"}}, "queue-name"),
        ({**manifest(), "metadata": {}}, "queue-name"),
        ({**manifest(), "metadata": {"name": "a" * 254}}, "queue-name"),
        ({**manifest(), "metadata": {"name": "a" * 64}}, "queue-name-length"),
        ({**manifest(), "apiVersion": "scheduling.volcano.sh/v1alpha2"}, "queue-schema"),
        ({"apiVersion": API_VERSION, "kind": "Queue", "metadata": {"name": "a"}}, "queue-schema"),
    ],
)
def test_an_invalid_object_is_a_finding(body: dict[str, Any], rule: str) -> None:
    assert rules(read_manifests({"q": yaml.safe_dump(body)}).findings) == {rule}


def test_a_name_that_volcano_accepts_and_cannot_use_is_an_error() -> None:
    assert [each.severity for each in read_manifests({"q": yaml.safe_dump(manifest("a" * 64))}).findings] == ["error"]
    assert read_manifests({"q": yaml.safe_dump(manifest("a" * 63))}).findings == []


def test_a_duplicate_name_is_a_finding_with_its_files() -> None:
    text = yaml.safe_dump(manifest())
    (finding,) = read_manifests({"one": text, "two": text}).findings
    assert finding.rule == "queue-duplicate"
    assert "one and two" in finding.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "not valid YAML"),
        ("kind: Queue\nspec:\n  weight: 1\n  weight: 2\n", r"duplicate key 'weight' \(line 4\)"),
        ("- 1", "other than a Kubernetes object"),
        ("kind: 3", "other than a Kubernetes object"),
        ("", "No Queue"),
        ("apiVersion: v1\nkind: Namespace", "No Queue"),
        ("apiVersion: example.com/v1\nkind: Queue", "No Queue"),
    ],
)
def test_input_without_queues_is_an_error(text: str, message: str) -> None:
    with pytest.raises(TrainyardError, match=message):
        read_manifests({"file": text})


def test_settings_are_not_manifests() -> None:
    assert not is_manifest("config: {}", "f")
    assert is_manifest(yaml.safe_dump(manifest()), "f")
    assert is_manifest("apiVersion: v1\nkind: List\nitems: []", "f")


def test_findings_of_the_parser_have_rules() -> None:
    assert {"queue-schema", "queue-field-unknown", "queue-duplicate", "queue-name"} <= set(RULES)
