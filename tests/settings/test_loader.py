"""Stack files load, and every mistake in one is reported with its path, value and fix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from trainyard.errors import TrainyardError
from trainyard.settings.stack_loader import load_stack, parse_stack, stack_file

ROOT = Path(__file__).resolve().parents[2]
MINIMAL: dict[str, Any] = {"cluster": {"provider": "embedded"}}


def faults(**sections: Any) -> dict[str, tuple[str, str]]:
    with pytest.raises(TrainyardError) as caught:
        parse_stack({**MINIMAL, **sections}, source="Pulumi.test.yaml")
    assert "Pulumi.test.yaml" in str(caught.value)
    return {finding.path: (finding.message, finding.fix) for finding in caught.value.findings}


@pytest.mark.parametrize("stack", ["local", "kind", "production"])
def test_a_shipped_stack_loads(stack: str) -> None:
    settings = load_stack(ROOT / "stacks" / f"Pulumi.{stack}.yaml")
    assert settings.tenants
    assert settings.protect is (stack == "production")


def test_a_stack_needs_nothing_but_a_cluster() -> None:
    settings = parse_stack(MINIMAL, source="test")
    assert settings.leaf_queues == ("default",)
    assert settings.accelerator_resources == ("nvidia.com/gpu",)


def test_an_unknown_key_is_refused_with_the_nearest_one() -> None:
    found = faults(fabrc={}, cluster={"provider": "embedded", "contxt": "x"}, tenants={"a": {"queue": []}})
    assert found["trainyard:fabrc"] == ("unknown setting", "did you mean fabric?")
    assert found["trainyard:cluster.contxt"] == ("unknown setting", "did you mean context?")
    assert found["trainyard:tenants.a.queue"] == ("unknown setting", "did you mean queues?")
    assert found["trainyard:tenants.a.queues"] == ("required setting is missing", "add it")


def test_values_are_refused_with_their_path_and_what_they_must_be() -> None:
    found = faults(
        fabric={"nodeShape": {"capacity": {"nvidia.com/gpu": "eight"}}, "domains": [{"name": "R_0", "nodes": True}]},
        queues={"integer": {"priority": "high", "deserved": ["x"]}, "UP": {}},
        volcano={"version": "0.1", "install": "maybe"},
        tenants={"integration": {"queues": "integer"}},
    )
    assert "quantity" in found["trainyard:fabric.nodeShape.capacity[nvidia.com/gpu]"][0]
    assert "'R_0'" in found["trainyard:fabric.domains[0].name"][0]
    assert "a number of nodes, a list" in found["trainyard:fabric.domains[0].nodes"][0]
    assert found["trainyard:queues.integer.priority"][0] == "must be a whole number (value: 'high')"
    assert found["trainyard:queues.integer.deserved"][0] == "must be a mapping"
    assert "lower-case" in found["trainyard:queues.UP"][0]
    assert "1.14.1" in found["trainyard:volcano.version"][0]
    assert found["trainyard:volcano.install"][0] == "must be true or existing (value: 'maybe')"
    assert found["trainyard:tenants.integration.queues"] == (
        "must be a list (value: 'integer')",
        "write [a, b], or one - item a line",
    )


def test_an_amount_is_one_that_schedulers_count() -> None:
    capacity = {"nvidia.com/gpu": "9P", "memory": "9P"}
    found = faults(fabric={"nodeShape": {"capacity": capacity}}, queues={"a": {"capability": {"cpu": "9P"}}})
    assert "9P of nvidia.com/gpu is more than schedulers count" in found["trainyard:fabric.nodeShape.capacity"][0]
    assert "9P of cpu is more than schedulers count" in found["trainyard:queues.a.capability"][0]


def test_nodes_may_be_counted_or_named() -> None:
    domains = [{"name": "a", "nodes": 2}, {"name": "b", "nodes": ["ip-10-0-0-1.ec2.internal"]}]
    fabric = parse_stack({**MINIMAL, "fabric": {"domains": domains}}, source="test").fabric
    assert fabric.node_count == 3
    found = faults(fabric={"domains": [{"name": "a", "nodes": ["ok", "Not_ok"]}]})
    assert list(found) == ["trainyard:fabric.domains[0].nodes[1]"]


def test_a_tenant_may_use_priority_classes_of_kueue() -> None:
    kueue = {"install": "existing", "workloadPriorityClasses": {"urgent": {"value": 1}}}
    tenants = {"one": {"queues": ["a"], "priorityClasses": ["urgent"]}}
    stack = parse_stack({**MINIMAL, "queues": {"a": {}}, "tenants": tenants, "kueue": kueue}, source="test")
    assert stack.tenants["one"].priority_classes == ("urgent",)


def test_every_reference_that_does_not_resolve_is_listed() -> None:
    found = faults(
        queues={"a": {}},
        tenants={
            "one": {"queues": ["b"], "defaultQueue": "c", "priorityClasses": ["urgent"]},
            "kube-system": {"queues": ["a"]},
            "volcano-system": {"queues": ["a"]},
        },
        priorityClasses={"system-mine": {"value": 1}},
    )
    assert found["trainyard:tenants.one.queues"] == (
        "queue 'b' is not declared",
        "declare it under queues or use one of a",
    )
    assert "'c' is not one of" in found["trainyard:tenants.one.defaultQueue"][0]
    assert "'urgent' is not declared" in found["trainyard:tenants.one.priorityClasses"][0]
    assert "namespace of the cluster" in found["trainyard:tenants.kube-system"][0]
    assert "namespace of the cluster" in found["trainyard:tenants.volcano-system"][0]
    assert "reserved for Kubernetes" in found["trainyard:priorityClasses.system-mine"][0]


def test_a_tenant_takes_neither_compute_quota_nor_pod_security_labels() -> None:
    found = faults(
        queues={"a": {}},
        tenants={
            "t": {
                "queues": ["a"],
                "objectQuota": {"requests.cpu": "4", "requests.storage": "1Ti", "count/pods": "5"},
                "labels": {"pod-security.kubernetes.io/enforce": "privileged", "team": "t"},
            }
        },
    )
    assert list(found) == [
        "trainyard:tenants.t.labels[pod-security.kubernetes.io/enforce]",
        "trainyard:tenants.t.objectQuota[requests.cpu]",
    ]


def test_data_is_deleted_with_a_retired_tenant_only() -> None:
    found = faults(queues={"a": {}}, tenants={"t": {"queues": ["a"], "deleteData": True}})
    assert "has no effect" in found["trainyard:tenants.t.deleteData"][0]


def test_queues_of_a_retired_tenant_may_be_removed_before_it() -> None:
    tenants = {
        "gone": {"queues": ["removed"], "priorityClasses": ["removed"], "state": "retired", "deleteData": True},
        "stays": {"queues": ["a"]},
    }
    settings = parse_stack({**MINIMAL, "queues": {"a": {}}, "tenants": tenants}, source="test")
    assert (list(settings.active_tenants), list(settings.retired_tenants)) == (["stays"], ["gone"])


def test_all_runtimes_can_be_asked_for() -> None:
    settings = parse_stack(
        {
            **MINIMAL,
            "runtimes": {"include": ["*"]},
            "queues": {"a": {}},
            "tenants": {"t": {"queues": ["a"], "runtimes": ["*"]}},
        },
        source="test",
    )
    assert settings.runtimes.include == ("*",)


def test_an_existing_cluster_must_be_named() -> None:
    assert "context" in faults(cluster={"provider": "existing"})["trainyard:cluster"][0]
    assert "existing" in faults(cluster={"provider": "kind", "context": "c"})["trainyard:cluster"][0]


def test_accelerators_are_devices_of_the_node_shape_and_those_named() -> None:
    fabric = {
        "nodeShape": {"capacity": {"cpu": 1, "amd.com/gpu": 4, "hugepages-2Mi": "1Gi"}},
        "acceleratorResources": ["nvidia.com/gpu"],
    }
    settings = parse_stack({**MINIMAL, "fabric": fabric}, source="test")
    assert settings.accelerator_resources == ("amd.com/gpu", "nvidia.com/gpu")


def test_platform_namespaces_are_always_exempt() -> None:
    settings = parse_stack(
        {**MINIMAL, "volcano": {"namespace": "sched"}, "policies": {"exemptNamespaces": ["monitoring"]}}, source="test"
    )
    assert settings.exempt_namespaces == ("jobset-system", "kubeflow-system", "monitoring", "sched")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("config: {", "not valid YAML"),
        ("a: 1", "no config section"),
        ("config:\n  trainyard:queues: {a: {}, a: {}}\n", "duplicate key 'a'"),
        ("config:\n  fabric: {}\n", "trainyard:fabric"),
        ("config:\n  trainyrad:fabric: {}\n", "did you mean trainyard:fabric?"),
        ("config:\n  kubernetes:namespace: x\n", "trainyard:cluster: required setting is missing"),
    ],
)
def test_a_broken_file_is_reported_in_one_message(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "Pulumi.x.yaml"
    path.write_text(text)
    with pytest.raises(TrainyardError) as caught:
        load_stack(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    with pytest.raises(TrainyardError, match="cannot be read"):
        load_stack(tmp_path / "none.yaml")
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\xff")
    with pytest.raises(TrainyardError, match="UTF-8"):
        load_stack(binary)


def test_an_unknown_stack_lists_those_there_are(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.one.yaml").write_text(yaml.safe_dump({"config": {}}))
    with pytest.raises(TrainyardError, match="use one of: one"):
        stack_file("two", tmp_path)
