"""The life of simulated nodes and pods, as configured in KWOK."""

from __future__ import annotations

from typing import Any

import yaml

from trainyard.local.cluster.kwok_stages import (
    ENDED_ANNOTATION,
    HEALTHY_ANNOTATION,
    HOST_PROCESS_LABEL,
    stages,
    stages_document,
)

STAGES = {stage["metadata"]["name"]: stage["spec"] for stage in stages()}


def conditions(name: str) -> dict[str, tuple[str, list[str]]]:
    found: list[dict[str, Any]] = STAGES[name]["selector"]["matchExpressions"]
    return {entry["key"]: (entry["operator"], entry.get("values", [])) for entry in found}


def test_the_document_is_a_configuration_and_its_stages() -> None:
    documents = list(yaml.safe_load_all(stages_document()))
    assert [document["kind"] for document in documents] == ["KwokConfiguration", *["Stage"] * len(STAGES)]
    assert documents[0]["options"]["enableDebuggingHandlers"] is False


def test_a_pod_of_a_host_process_is_ready_only_while_it_is_marked_healthy() -> None:
    label, mark = f'.metadata.labels["{HOST_PROCESS_LABEL}"]', f'.metadata.annotations["{HEALTHY_ANNOTATION}"]'
    assert conditions("pod-run")[label] == ("DoesNotExist", [])
    assert conditions("host-process-pod-run")[label] == ("Exists", [])
    assert "ready: false" in STAGES["host-process-pod-run"]["next"]["statusTemplate"]
    assert conditions("host-process-pod-ready")[mark] == ("In", ["true"])
    assert conditions("host-process-pod-unready")[mark] == ("NotIn", ["true"])


def test_only_pods_of_jobs_complete_and_the_annotation_says_when() -> None:
    assert conditions("pod-complete")[".metadata.ownerReferences.[].kind"] == ("In", ["Job"])
    delay = STAGES["pod-complete"]["delay"]
    assert delay["durationMilliseconds"] == 2000
    assert delay["durationFrom"] == {"expressionFrom": '.metadata.annotations["trainyard.dev/simulated-duration"]'}


def test_a_deleted_pod_ends_before_it_goes_and_waits_for_its_finalizers() -> None:
    assert conditions("pod-terminate")[".status.phase"] == ("In", ["Pending", "Running"])
    assert "exitCode: 137" in STAGES["pod-terminate"]["next"]["statusTemplate"]
    assert conditions("pod-remove")[".metadata.finalizers"] == ("DoesNotExist", [])
    assert STAGES["pod-remove"]["next"] == {"delete": True}


def test_a_deleted_pod_of_a_host_process_ends_when_its_processes_have() -> None:
    label, mark = f'.metadata.labels["{HOST_PROCESS_LABEL}"]', f'.metadata.annotations["{ENDED_ANNOTATION}"]'
    assert conditions("pod-terminate")[label] == ("DoesNotExist", [])
    assert conditions("host-process-pod-terminate")[label] == ("Exists", [])
    assert conditions("host-process-pod-terminate")[mark] == ("In", ["true"])


def test_a_node_keeps_the_capacity_it_was_created_with() -> None:
    assert "capacity" not in STAGES["node-start"]["next"]["statusTemplate"]
    assert "allocatable" not in STAGES["node-start"]["next"]["statusTemplate"]
