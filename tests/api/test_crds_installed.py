"""The CRDs on a real API server: accepted, and every default, bound, rule and immutability holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from tests.support import LiveCluster, require
from trainyard.api import documents
from trainyard.api.crds import build
from trainyard.settings.versions import supported_versions
from trainyard.upstream import read

pytestmark = pytest.mark.cluster

GROUP = "trainer.kubeflow.org/v1alpha1"
PLATFORM_GROUP = "trainyard.dev/v1alpha1"
ENV = [{"name": "A", "value": "1"}]


@pytest.fixture(scope="module")
def installed(cluster: LiveCluster) -> Iterator[LiveCluster]:
    """A cluster with our CRDs, for the tests of this module."""
    path = "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"
    definitions = build(next(iter(documents(read("jobset", supported_versions("jobset")[0], path)))))
    manifest = yaml.safe_dump_all(definitions)
    require(cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifest))
    names = [f"crd/{definition['metadata']['name']}" for definition in definitions]
    require(cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names))
    for plural in ("trainjobs", "trainingruntimes", "tenantpolicies"):
        require(cluster.kubectl("get", plural, "-n", "default"))
    yield cluster
    require(cluster.kubectl("delete", *names))


def body(kind: str, spec: Any, name: str = "a", group: str = GROUP) -> dict[str, Any]:
    scoped = {} if kind in ("ClusterTrainingRuntime", "Platform") else {"namespace": "default"}
    return {"apiVersion": group, "kind": kind, "metadata": {"name": name, **scoped}, "spec": spec}


def job(name: str = "a", **spec: Any) -> dict[str, Any]:
    return body("TrainJob", {"runtimeRef": {"name": "r"}, **spec}, name)


def stored(cluster: LiveCluster, manifest: Mapping[str, Any]) -> Any:
    """Return the object as the API server would store it."""
    text = yaml.safe_dump(dict(manifest))
    return yaml.safe_load(require(cluster.kubectl("create", "--dry-run=server", "-o", "yaml", "-f", "-", stdin=text)))


def test_defaults(installed: LiveCluster) -> None:
    spec = stored(installed, job(initializer={"dataset": {"secretRef": {}}}))["spec"]
    assert spec == {
        "runtimeRef": {"name": "r", "apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime"},
        "initializer": {"dataset": {"secretRef": {"name": ""}}},
        "suspend": False,
        "managedBy": "trainer.kubeflow.org/trainjob-controller",
    }
    runtime = body("TrainingRuntime", {"mlPolicy": {"mpi": {}}, "podGroupPolicy": {"volcano": {"networkTopology": {}}}})
    assert stored(installed, runtime)["spec"] == {
        "mlPolicy": {
            "mpi": {
                "mpiImplementation": "OpenMPI",
                "numProcPerNode": 1,
                "runLauncherAsNode": False,
                "sshAuthMountPath": "/root/.ssh",
            }
        },
        "podGroupPolicy": {"volcano": {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}},
    }
    jobs = [{"name": "node", "template": {"spec": {"template": {}}}}]
    template = body("ClusterTrainingRuntime", {"template": {"spec": {"replicatedJobs": jobs}}})
    replicated = stored(installed, template)["spec"]["template"]["spec"]["replicatedJobs"][0]
    assert (replicated["replicas"], replicated["groupName"]) == (1, "default")


REFUSED = [
    (job("A"), "metadata.name"),
    (job("1a"), "RFC 1035 DNS label"),
    (job("a" * 64), "no more than 63 characters"),
    (body("TrainJob", {}), "runtimeRef"),
    (job(runtimeRef={"name": ""}), "spec.runtimeRef.name"),
    (job(managedBy="else"), "ManagedBy must be"),
    (job(activeDeadlineSeconds=0), "spec.activeDeadlineSeconds"),
    (job(initializer={"dataset": {"storageUri": "no"}}), "valid URI"),
    (job(trainer={"numNodes": 0}), "spec.trainer.numNodes"),
    (job(trainer={"numProcPerNode": 0}), "spec.trainer.numProcPerNode"),
    (job(trainer={"numProcPerNode": "auto"}), "numProcPerNode"),
    (job(trainer={"command": ["x"] * 129}), "Too many"),
    (job(trainer={"env": ENV + ENV}), "Duplicate value"),
    (job(runtimePatches=[{"manager": "a.io/b"}, {"manager": "a.io/b"}]), "Duplicate value"),
    (job(runtimePatches=[{"manager": f"a.io/{n}"} for n in range(17)]), "Too many"),
    (job(later=1), "unknown field"),
    (body("TrainingRuntime", {}), "should have at least 1 properties"),
    (body("TrainingRuntime", {"mlPolicy": {"torch": {}, "mpi": {}}}), "MLP-001: "),
    (body("ClusterTrainingRuntime", {"mlPolicy": {"jax": {}, "flux": {}}}), "MLP-001: "),
    (body("TrainingRuntime", {"podGroupPolicy": {"volcano": {}, "coscheduling": {}}}), "PGP-001: "),
    (body("TrainingRuntime", {"mlPolicy": {"flux": {"numProcPerNode": 0}}}), "must be >= 1"),
    (body("TrainingRuntime", {"mlPolicy": {"numNodes": 0}}), "spec.mlPolicy.numNodes"),
    (body("TrainingRuntime", {"mlPolicy": {"mpi": {"mpiImplementation": "Other"}}}), "Unsupported value"),
    (
        body(
            "TrainingRuntime",
            {"mlPolicy": {"torch": {"envInjection": {"targets": [{"jobName": "a", "containerNames": ["node"]}]}}}},
        ),
        "must not include the main node container",
    ),
    (
        body("TrainingRuntime", {"podGroupPolicy": {"volcano": {"networkTopology": {"mode": "any"}}}}),
        "Unsupported value",
    ),
    (body("TenantPolicy", {"queues": ["a"]}, "other", PLATFORM_GROUP), "TNP-001: "),
    (body("TenantPolicy", {"queues": ["a"], "defaultQueue": "b"}, "tenant", PLATFORM_GROUP), "TNP-002: "),
    (body("TenantPolicy", {"queues": ["a", "a"]}, "tenant", PLATFORM_GROUP), "Duplicate value"),
    (body("Platform", {}, "other", PLATFORM_GROUP), "PLT-001: "),
    (body("Platform", {"tiers": [{"name": "rack", "tier": 0}]}, "platform", PLATFORM_GROUP), "spec.tiers[0].tier"),
]


@pytest.mark.parametrize(("manifest", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_bounds_and_rules(installed: LiveCluster, manifest: dict[str, Any], message: str) -> None:
    result = installed.kubectl("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(manifest))
    assert result.returncode != 0
    assert message in result.stderr


def test_what_is_in_bounds_is_accepted(installed: LiveCluster) -> None:
    stored(installed, job(initializer={"model": {"storageUri": ""}}, trainer={"env": ENV}, activeDeadlineSeconds=1))
    stored(installed, body("TenantPolicy", {"queues": ["a"], "defaultQueue": "a"}, "tenant", PLATFORM_GROUP))
    stored(installed, body("Platform", {"leafQueues": ["a"]}, "platform", PLATFORM_GROUP))


CHANGES: list[dict[str, Any]] = [
    {"runtimeRef": {"name": "other"}},
    {"trainer": {"image": "other"}},
    {"initializer": {"dataset": {"storageUri": "hf://c/d"}}},
    {"activeDeadlineSeconds": 9},
    {"managedBy": "kueue.x-k8s.io/multikueue"},
]


def test_immutability(installed: LiveCluster) -> None:
    manifest = job(
        "fixed",
        trainer={"image": "one"},
        initializer={"dataset": {"storageUri": "hf://a/b"}},
        activeDeadlineSeconds=5,
        suspend=True,
    )
    require(installed.kubectl("create", "-f", "-", stdin=yaml.safe_dump(manifest)))
    try:
        for change in CHANGES:
            patch = yaml.safe_dump({"spec": change})
            result = installed.kubectl("patch", "trainjob", "fixed", "-n", "default", "--type=merge", "-p", patch)
            assert "field is immutable" in result.stderr, change
        for allowed in ({"suspend": False}, {"runtimePatches": [{"manager": "a.io/b"}]}):
            patch = yaml.safe_dump({"spec": allowed})
            require(installed.kubectl("patch", "trainjob", "fixed", "-n", "default", "--type=merge", "-p", patch))
    finally:
        require(installed.kubectl("delete", "trainjob", "fixed", "-n", "default"))
