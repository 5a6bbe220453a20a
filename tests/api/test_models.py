"""Models: lossless, strict about types, with upstream's defaults and bounds."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard.api import (
    ClusterTrainingRuntime,
    Platform,
    PodGroupPolicy,
    TenantPolicy,
    TrainingRuntime,
    TrainJob,
    gang_policy,
    parse,
)
from trainyard.api.constants import MANAGED_BY_TRAINER
from trainyard.api.verdicts import decoded, violations
from trainyard.errors import TrainyardError

TRAIN_JOB: dict[str, Any] = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "job", "namespace": "team", "uid": "1", "managedFields": [{"manager": "kubectl"}]},
    "spec": {
        "runtimeRef": {"name": "torch"},
        "trainer": {"numNodes": 2, "env": [{"name": "A", "valueFrom": {"fileKeyRef": {"key": "k"}}}]},
        "runtimePatches": [
            {
                "manager": "acme.io/team",
                "time": "2026-01-01T00:00:00Z",
                "trainingRuntimeSpec": {
                    "template": {"spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": {}}}}]}}
                },
            }
        ],
    },
    "status": {"jobsStatus": [{"name": "node", "ready": 0, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0}]},
}


def with_spec(**spec: Any) -> dict[str, Any]:
    return {**TRAIN_JOB, "spec": {"runtimeRef": {"name": "torch"}, **spec}}


def test_reading_and_writing_loses_nothing() -> None:
    body = {**TRAIN_JOB, "spec": {**TRAIN_JOB["spec"], "later": {"field": 1}}}
    assert parse(TrainJob, body).body() == body


def test_unknown_fields_are_named() -> None:
    body = with_spec(label={"a": "b"}, trainer={"nodes": 2}, podSpecOverrides=[{"targetJobs": [], "image": "i"}])
    assert list(parse(TrainJob, body).unknown_fields()) == [
        "spec.label",
        "spec.trainer.nodes",
        "spec.podSpecOverrides[0].image",
    ]


def test_defaults_are_those_of_the_api() -> None:
    spec = parse(TrainJob, with_spec()).spec
    assert spec is not None
    assert (spec.runtime_ref.api_group, spec.runtime_ref.kind) == ("trainer.kubeflow.org", "ClusterTrainingRuntime")
    assert (spec.suspend, spec.managed_by) == (False, MANAGED_BY_TRAINER)
    body = {
        "metadata": {"name": "r"},
        "spec": {
            "mlPolicy": {"mpi": {}},
            "podGroupPolicy": {"coscheduling": {}, "volcano": {"networkTopology": {}}},
        },
    }
    runtime = parse(TrainingRuntime, body).spec
    assert runtime is not None
    assert runtime.ml_policy is not None
    assert runtime.ml_policy.mpi is not None
    assert runtime.ml_policy.mpi.model_dump() == {
        "num_proc_per_node": 1,
        "mpi_implementation": "OpenMPI",
        "ssh_auth_mount_path": "/root/.ssh",
        "run_launcher_as_node": False,
    }
    assert runtime.pod_group_policy is not None
    assert runtime.pod_group_policy.model_dump(exclude_none=True) == {
        "coscheduling": {"schedule_timeout_seconds": 60},
        "volcano": {"network_topology": {"mode": "hard", "highest_tier_allowed": 1}},
    }


def test_a_runtime_without_processes_stays_as_it_is() -> None:
    body = {"metadata": {"name": "r"}, "spec": {"mlPolicy": {"torch": {}}}}
    assert decoded(TrainingRuntime, body)["spec"] == parse(TrainingRuntime, body).body()["spec"] == body["spec"]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"trainer": {"numNodes": 0}}, "spec.trainer.numNodes"),
        ({"trainer": {"numNodes": "2"}}, "spec.trainer.numNodes"),
        ({"trainer": {"numNodes": True}}, "spec.trainer.numNodes"),
        ({"trainer": {"numNodes": 2**31}}, "spec.trainer.numNodes"),
        ({"podSpecOverrides": [{}]}, "spec.podSpecOverrides[0].targetJobs"),
        ({"podTemplateOverrides": [{"targetJobs": [{"name": ""}]}]}, "spec.podTemplateOverrides[0].targetJobs[0].name"),
        ({"labels": {"a": 1}}, "spec.labels.a"),
        ({"trainer": {"image": "i" * 501}}, "spec.trainer.image"),
        ({"trainer": {"command": ["x"] * 129}}, "spec.trainer.command"),
        ({"trainer": {"args": ["x", 1]}}, "spec.trainer.args[1]"),
        ({"runtimeRef": {"name": ""}}, "spec.runtimeRef.name"),
        ({"runtimeRef": {}}, "spec.runtimeRef.name"),
        ({"activeDeadlineSeconds": 0}, "spec.activeDeadlineSeconds"),
        ({"runtimePatches": [{}]}, "spec.runtimePatches[0].manager"),
        ({"suspend": "no"}, "spec.suspend"),
    ],
)
def test_what_is_out_of_bounds_is_found_with_its_path(spec: dict[str, Any], path: str) -> None:
    with pytest.raises(TrainyardError) as caught:
        parse(TrainJob, with_spec(**spec))
    assert [finding.path for finding in caught.value.findings] == [path]


def test_a_train_job_without_spec_is_read() -> None:
    assert parse(TrainJob, {"metadata": {"name": "job"}}).spec is None


def test_an_object_of_another_kind_is_refused() -> None:
    with pytest.raises(TrainyardError, match="does not fit"):
        parse(ClusterTrainingRuntime, TRAIN_JOB)


def test_tenancy_objects_have_bounds() -> None:
    with pytest.raises(TrainyardError):
        parse(TenantPolicy, {"metadata": {"name": "tenant"}, "spec": {"queues": ["q"] * 65}})
    with pytest.raises(TrainyardError):
        parse(Platform, {"metadata": {"name": "platform"}, "spec": {"tiers": [{"name": "rack", "tier": 0}]}})
    policy = parse(TenantPolicy, {"metadata": {"name": "tenant"}, "spec": {"queues": ["a"], "defaultQueue": "a"}})
    assert policy.spec.default_queue == "a"
    assert policy.spec.max_accelerators_per_job is None


def test_models_of_plug_ins_are_found_where_the_policies_are() -> None:
    from trainyard.api.gang_policy import NetworkTopology, VolcanoPolicy

    policy = PodGroupPolicy(volcano=VolcanoPolicy(network_topology=NetworkTopology(highest_tier_allowed=2)))
    assert policy.body() == {"volcano": {"networkTopology": {"highestTierAllowed": 2}}}
    with pytest.raises(AttributeError, match="NoPolicy"):
        gang_policy.NoPolicy  # noqa: B018


def test_unchanged_parts_of_a_stored_object_are_not_validated_again() -> None:
    stored = with_spec(initializer={"model": {"storageUri": "no-scheme"}})
    changed = with_spec(initializer={"model": {"storageUri": "no-scheme"}}, suspend=True)
    path = "spec.initializer.model.storageUri"
    assert path in [finding.path for finding in violations(TrainJob, changed)]
    assert path not in [finding.path for finding in violations(TrainJob, changed, stored)]
