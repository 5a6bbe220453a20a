"""Exemptions on a live API server, and the audit that finds what was there before the rules."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.bypass import Cluster
from tests.cluster.bypass_objects import POD_SPEC, TENANT
from tests.support import LiveCluster, awaited
from trainyard.kube.blocking import BlockingSession

pytestmark = pytest.mark.cluster

HOST = {"hostNetwork": True}
LEGACY = "legacy"
REPORTS = "/apis/wgpolicyk8s.io/v1alpha2"


@pytest.fixture(scope="module")
def cluster(platform: LiveCluster) -> Iterator[Cluster]:
    with BlockingSession(platform.kubeconfig) as session:
        yield Cluster(session)


def test_an_exemption_lets_pass_what_it_names(cluster: Cluster) -> None:
    answer = cluster.create("raw", "pod", "exempt", pod=HOST)
    try:
        assert answer.ok, answer.message
    finally:
        cluster.delete("Pod", "exempt")


@pytest.mark.parametrize(
    ("what", "name", "called", "changes", "rule"),
    [
        ("another name", "pod", "exempt-2", {"pod": HOST}, "ESC-001"),
        ("a drawn name", "pod", "x", {"metadata": {"name": None, "generateName": "exempt"}, "pod": HOST}, "ESC-001"),
        ("another kind", "job", "exempt", {"pod": HOST}, "ESC-001"),
        ("another rule", "pod", "exempt", {"container": {"securityContext": {"privileged": True}}}, "ESC-002"),
        (
            "a second rule beside it",
            "pod",
            "exempt",
            {"pod": {**HOST, "schedulerName": "volcano", "priorityClassName": "training-urgent"}},
            "TEN-003",
        ),
    ],
)
def test_an_exemption_lets_pass_nothing_more(
    cluster: Cluster, what: str, name: str, called: str, changes: dict[str, Any], rule: str
) -> None:
    answer = cluster.create("raw", name, called, **changes)
    assert not answer.ok, what
    assert rule in answer.message


def test_an_exemption_ends_at_its_namespace(cluster: Cluster) -> None:
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "exempt", "namespace": "vision"},
        "spec": {"suspend": True, "template": {"spec": {**POD_SPEC, **HOST}}},
    }
    answer = cluster.session.request("POST", "/apis/batch/v1/namespaces/vision/jobs", body, dry_run=True)
    assert "ESC-001" in answer.message


@pytest.fixture(scope="module")
def legacy(cluster: Cluster) -> Iterator[str]:
    """A namespace that became a tenant's when pods were in it already; and an exempt pod in that of another."""
    gated = {**POD_SPEC, "schedulingGates": [{"name": "example.com/hold"}]}
    privileged = [{"name": "node", "image": "registry.example/train:1", "securityContext": {"privileged": True}}]
    pods = {
        "privileged": {**gated, "containers": privileged},
        "tolerant": {**gated, "tolerations": [{"operator": "Exists"}]},
        "good": gated,
    }
    path = f"/api/v1/namespaces/{LEGACY}"
    try:
        cluster.session.create(
            "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LEGACY}}
        )
        awaited("its service account", lambda: cluster.session.request("GET", f"{path}/serviceaccounts/default").ok)
        for name, spec in pods.items():
            metadata = {"name": name, "namespace": LEGACY}
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
            cluster.session.create(f"{path}/pods", body)
        assert cluster.create("raw", "pod", "exempt", pod=HOST).ok
        assert cluster.session.request("PATCH", path, {"metadata": {"labels": {"trainyard.dev/tenant": LEGACY}}}).ok
        yield LEGACY
    finally:
        cluster.delete("Pod", "exempt")
        for name in pods:
            cluster.delete("Pod", name, LEGACY)
        cluster.session.request("DELETE", path)
        awaited("the end of the namespace", lambda: not cluster.session.request("GET", path).ok)


def audited(platform: LiveCluster, *options: str) -> tuple[int, Any]:
    file = ("--config-file", str(platform.config_file))
    result = platform.trainyard("check", "--cluster", *file, *options)
    assert "Traceback" not in result.stderr
    return result.returncode, result


def test_the_audit_finds_what_the_rules_would_refuse_and_writes_reports(
    platform: LiveCluster, cluster: Cluster, legacy: str
) -> None:
    rules = [option for rule in ("ESC-001", "ESC-002", "TEN-005") for option in ("--rule", rule)]
    code, result = audited(platform, "-o", "json", "--report", *rules)
    assert code == 1, result.stderr
    report = json.loads(result.stdout)
    found = {(each["rule"], each["object"], each["path"]) for each in report["results"]}
    own = {each for each in found if f" {legacy}/" in each[1]}
    assert own == {
        ("ESC-002", f"Pod {legacy}/privileged", "spec.containers[0].securityContext.privileged"),
        ("TEN-005", f"Pod {legacy}/tolerant", "spec.tolerations[0]"),
    }
    assert not {each for each in found if each[1].startswith(f"Pod {TENANT}/")}

    stored = cluster.session.request("GET", f"{REPORTS}/namespaces/{legacy}/policyreports/trainyard").body
    assert stored["summary"] == {"pass": 1, "fail": 2, "warn": 0, "error": 0, "skip": 0}
    assert {(each["policy"], each["resources"][0]["name"], each["result"]) for each in stored["results"]} == {
        ("ESC-002", "privileged", "fail"),
        ("TEN-005", "tolerant", "fail"),
    }
    assert cluster.send("submit", "GET", f"{REPORTS}/namespaces/{TENANT}/policyreports/trainyard").ok
    forged = {"metadata": {"labels": {"a": "b"}}}
    answer = cluster.send("raw", "PATCH", f"{REPORTS}/namespaces/{TENANT}/policyreports/trainyard", forged)
    assert answer.status == 403


def test_the_audit_tells_people(platform: LiveCluster, legacy: str) -> None:
    code, result = audited(platform, "--rule", "ESC-002")
    assert code == 1, result.stderr
    assert "ESC-002" in result.stdout
    assert f"Pod {legacy}/privileged" in result.stdout
    assert f"Pod {legacy}/good" not in result.stdout


def test_what_was_put_right_leaves_the_next_report(platform: LiveCluster, cluster: Cluster, legacy: str) -> None:
    cluster.delete("Pod", "privileged", legacy)
    cluster.delete("Pod", "tolerant", legacy)
    _, result = audited(platform, "--report", "--rule", "ESC-002", "--rule", "TEN-005")
    assert f"{legacy}/" not in result.stdout
    stored = cluster.session.request("GET", f"{REPORTS}/namespaces/{legacy}/policyreports/trainyard").body
    assert stored["results"] == []
    for plural in ("policyreports", "clusterpolicyreports"):
        for body in cluster.session.request("GET", f"{REPORTS}/{plural}").body["items"]:
            namespace = body["metadata"].get("namespace")
            where = f"/namespaces/{namespace}" if namespace else ""
            assert cluster.session.request("DELETE", f"{REPORTS}{where}/{plural}/{body['metadata']['name']}").ok
