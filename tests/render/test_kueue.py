"""Kueue: it counts the pods of a JobSet of its own, and admits the job by an override."""

from __future__ import annotations

from typing import Any

import pytest

from tests.render.builders import (
    ANCESTOR,
    QUEUE,
    container,
    initializer,
    objects,
    only,
    patch,
    pod_patch,
    replicated_job,
    runtime,
    torch,
    trainer,
    verdict,
)
from tests.render.launched import launched, launcher, node
from tools.reference.upstream_versions import RELEASES, TRAIN_JOB
from tools.reference.upstream_versions import runtime as runtime_fields
from trainyard.api import TrainJob
from trainyard.jobs.render.kueue import IGNORED
from trainyard.jobs.render.pipeline import admit
from trainyard.jobs.render.result import AdmissionDecision, RenderContext

GATE = {"name": "kueue.x-k8s.io/topology"}
TOLERATION = {"key": "spot", "operator": "Exists"}


def admitted(name: str) -> dict[str, object]:
    pod = {"nodeSelector": {"pool": "a"}, "tolerations": [TOLERATION], "schedulingGates": [GATE]}
    metadata = {"labels": {"kueue.x-k8s.io/podset": name}, "annotations": {"kueue.x-k8s.io/workload": "w"}}
    return {"name": name, "template": {"spec": {"template": {"metadata": metadata, "spec": pod}}}}


def queued(**spec: object) -> TrainJob:
    metadata = {"name": "job", "namespace": "team", "labels": {"kueue.x-k8s.io/queue-name": "user-queue"}}
    return TrainJob.from_body({"metadata": metadata, "spec": {"runtimeRef": {"name": "runtime"}, **spec}})


def test_a_queued_job_is_suspended_and_its_pod_counts_are_in_the_job_set() -> None:
    of = torch(initializer(), trainer(), replicated_job("log", replicas=2, job={"parallelism": 3}), volcano={})
    job_set = objects(queued(suspend=True, trainer={"numNodes": 4}), of)["JobSet"]
    assert job_set["spec"]["suspend"] is True
    counts = {
        job["name"]: (
            job.get("replicas", 1),
            job["template"]["spec"]["parallelism"],
            job["template"]["spec"]["completions"],
        )
        for job in job_set["spec"]["replicatedJobs"]
    }
    assert counts == {"dataset-initializer": (1, 1, 1), "node": (1, 4, 4), "log": (2, 3, 3)}


def test_the_queue_label_of_the_train_job_stays_with_the_train_job() -> None:
    assert "labels" not in objects(queued(), torch())["JobSet"]["metadata"]


def test_what_kueue_patches_in_reaches_the_pods_and_changes_nothing_else() -> None:
    before = objects(queued(suspend=True), torch(volcano={}), default_queue="leaf")
    patches = [patch(admitted("node"), manager="kueue.x-k8s.io/manager")]
    after = objects(queued(suspend=False, runtimePatches=patches), torch(volcano={}), default_queue="leaf")
    template = after["JobSet"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    assert template["spec"].pop("nodeSelector") == {"pool": "a"}
    assert template["spec"].pop("tolerations") == [TOLERATION]
    assert template["spec"].pop("schedulingGates") == [GATE]
    assert template["metadata"].pop("labels") == {"kueue.x-k8s.io/podset": "node"}
    assert template["metadata"]["annotations"].pop("kueue.x-k8s.io/workload") == "w"
    assert template["metadata"]["annotations"][QUEUE] == "leaf"
    after["JobSet"]["spec"]["suspend"] = True
    assert after == before


GPU = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
OWN = {"key": "team", "value": "a", "effect": "NoExecute", "tolerationSeconds": 60}
FLAVOR = [TOLERATION, {**OWN, "operator": "Equal", "tolerationSeconds": 1}]


@pytest.mark.parametrize("own", ["runtime", "podSpecOverrides", "podTemplateOverrides", "runtimePatches"])
@pytest.mark.parametrize("release", ["podTemplateOverrides", "runtimePatches"])
def test_tolerations_of_a_flavor_are_added_to_those_of_the_job(own: str, release: str) -> None:
    entries: dict[str, list[dict[str, Any]]] = {
        "podSpecOverrides": [{"targetJobs": [{"name": "node"}], "tolerations": [GPU, OWN]}],
        "podTemplateOverrides": [{"targetJobs": [{"name": "node"}], "spec": {"tolerations": [GPU, OWN]}}],
        "runtimePatches": [patch(pod_patch(tolerations=[GPU, OWN]))],
    }
    labels = {"kueue.x-k8s.io/podset": "node"}
    admission = {
        "podTemplateOverrides": {
            "targetJobs": [{"name": "node"}],
            "metadata": {"labels": labels},
            "spec": {"tolerations": FLAVOR},
        },
        "runtimePatches": patch(pod_patch(tolerations=FLAVOR), manager="kueue.x-k8s.io/manager"),
    }
    spec = {own: entries[own]} if own in entries else {}
    spec[release] = [*spec.get(release, ()), admission[release]]
    of = torch(trainer(pod={"tolerations": [TOLERATION] if own in entries else [GPU, OWN]}))
    job_set = objects(queued(suspend=False, **spec), of)["JobSet"]
    template = job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    assert template["spec"]["tolerations"] == [GPU, OWN, TOLERATION]


def pod_counts(job: TrainJob, of: Any) -> dict[str, int]:
    jobs = objects(job, of)["JobSet"]["spec"]["replicatedJobs"]
    return {entry["name"]: entry["template"]["spec"]["parallelism"] for entry in jobs}


def resources(job: TrainJob, of: Any) -> dict[str, Any]:
    jobs = objects(job, of)["JobSet"]["spec"]["replicatedJobs"]
    return {
        entry["name"]: entry["template"]["spec"]["template"]["spec"]["containers"][0].get("resources") for entry in jobs
    }


@pytest.mark.parametrize(("nodes", "counts"), [(None, (1, 1)), (1, (1, 1)), (2, (1, 1)), (5, (4, 1))])
def test_a_launcher_that_is_a_node_has_a_node_beside_it_because_kueue_counts_one(
    nodes: int | None, counts: tuple[int, int]
) -> None:
    of = launched(runLauncherAsNode=True)
    job = queued(trainer={"numNodes": nodes} if nodes else {})
    assert tuple(pod_counts(job, of).values()) == counts
    warnings = verdict(job, of).warnings
    assert [finding.path for finding in warnings] == (["spec.trainer.numNodes"] if nodes in (None, 1) else [])


@pytest.mark.parametrize(("as_node", "charged"), [(False, {"launcher"}), (True, {"node", "launcher"})])
def test_resources_are_where_kueue_counts_them(as_node: bool, charged: set[str]) -> None:
    asked = {"limits": {"nvidia.com/gpu": "4"}}
    of = launched(runLauncherAsNode=as_node)
    job = queued(trainer={"numNodes": 3, "resourcesPerNode": asked})
    assert {name for name, found in resources(job, of).items() if found} == charged
    warned = [finding.path for finding in verdict(job, of).warnings]
    assert warned == ([] if as_node else ["spec.trainer.resourcesPerNode"])


def test_without_a_queue_of_kueue_nothing_changes() -> None:
    of = launched(runLauncherAsNode=True)
    job = TrainJob.from_body({"metadata": {"name": "job"}, "spec": {"runtimeRef": {"name": "runtime"}}})
    assert pod_counts(job, of) == {"launcher": 1}


def test_a_job_that_joins_a_queue_later_is_validated() -> None:
    of = launched(nodes=4)
    free = TrainJob.from_body(
        {"metadata": {"name": "job", "namespace": "team"}, "spec": {"runtimeRef": {"name": "runtime"}}}
    )
    assert only(verdict(queued(), of, old=free).errors).path == "spec.runtimeRef"
    assert verdict(queued(), of, old=queued()).allowed
    assert verdict(free, of, old=queued()).allowed


GPUS = {"limits": {"nvidia.com/gpu": "8"}}
TRAINER_ON_POD = replicated_job("node", pod_metadata={"labels": {ANCESTOR: "trainer"}})


@pytest.mark.parametrize(
    ("spec", "of", "path", "fix"),
    [
        ({"trainer": {"numNodes": 2}}, launched(nodes=4), "spec.runtimeRef", "mlPolicy.numNodes"),
        ({}, launched(nodes=4, runLauncherAsNode=True), "spec.runtimeRef", "mlPolicy.numNodes"),
        ({}, launched(mpiImplementation="Intel"), "spec.runtimeRef", "OpenMPI"),
        ({}, launched(mpiImplementation="MPICH"), "spec.runtimeRef", "OpenMPI"),
        ({"trainer": {"numNodes": 2}}, launched(framework="horovod"), "spec.runtimeRef", "another framework"),
        (
            {"trainer": {"resourcesPerNode": {"requests": {"cpu": "4"}}}},
            torch(trainer(containers=[container(resources=GPUS)])),
            "spec.trainer.resourcesPerNode",
            "also name nvidia.com/gpu",
        ),
        (
            {"trainer": {"resourcesPerNode": {"limits": {"cpu": "4"}, "claims": [{"name": "gpus"}]}}},
            torch(),
            "spec.trainer.resourcesPerNode",
            "in the runtime",
        ),
        (
            {"trainer": {"resourcesPerNode": GPUS}},
            launched(node(), launcher(containers=[container("launcher")])),
            "spec.trainer.resourcesPerNode",
            "name the container of the launcher node",
        ),
        (
            {},
            runtime(trainer(), mlPolicy={"torch": {"elasticPolicy": {"minNodes": 1, "maxNodes": 4}}}),
            "spec.trainer.numNodes",
            "such as 4",
        ),
        (
            {"trainer": {"numNodes": 2}},
            runtime(TRAINER_ON_POD, mlPolicy={"torch": {}}),
            "spec.runtimeRef",
            "Job template",
        ),
        (
            {
                "trainer": {"numNodes": 2},
                "runtimePatches": [
                    patch({"name": "node", "template": {"metadata": {"labels": {ANCESTOR: "trainer"}}}})
                ],
            },
            torch(replicated_job("node")),
            "spec.runtimePatches",
            "leave label",
        ),
    ],
)
def test_pods_that_kueue_would_count_in_another_way_are_rejected(spec: Any, of: Any, path: str, fix: str) -> None:
    finding = only(verdict(queued(**spec), of).errors)
    assert (finding.path, "Kueue" in finding.message) == (path, True)
    assert fix in finding.fix
    assert "kueue.x-k8s.io/queue-name" in finding.fix
    free = TrainJob.from_body({"metadata": {"name": "job"}, "spec": {"runtimeRef": {"name": "runtime"}, **spec}})
    assert verdict(free, of).allowed


def test_an_elastic_job_that_names_its_nodes_is_counted() -> None:
    of = runtime(trainer(), mlPolicy={"torch": {"elasticPolicy": {"minNodes": 1, "maxNodes": 4}}})
    assert pod_counts(queued(trainer={"numNodes": 3}), of) == {"node": 3}


INJECTED = {"envInjection": {"targets": [{"jobName": "node", "containerNames": ["side"]}]}}


@pytest.mark.parametrize(
    "policy",
    [{"ray": {}}, {"tensorflow": {}}, {"paddle": {}}, {"jax": {}}, {"xgboost": {}}, {"flux": {}}, {"torch": INJECTED}],
    ids=lambda policy: next(iter(policy)),
)
def test_a_framework_that_kueue_does_not_know_is_accepted_where_the_pods_are_the_same(policy: dict[str, Any]) -> None:
    of = runtime(trainer(containers=[container(), container("side")]), mlPolicy=policy)
    job = queued(trainer={"numNodes": 3, "resourcesPerNode": GPUS})
    assert pod_counts(job, of) == {"node": 3}
    assert resources(job, of) == {"node": GPUS}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("runtimePatches", [patch(pod_patch(serviceAccountName="s"))]),
        ("podSpecOverrides", [{"targetJobs": [{"name": "node"}], "serviceAccountName": "s"}]),
        ("activeDeadlineSeconds", 60),
    ],
)
def test_fields_that_kueue_does_not_know_are_warned_about(field: str, value: Any) -> None:
    finding = only(verdict(queued(**{field: value}), torch()).warnings)
    assert finding.path == f"spec.{field}"


def test_the_list_of_fields_that_kueue_does_not_know_is_complete() -> None:
    known = RELEASES.index("v2.1")
    unknown = {path for path, releases in TRAIN_JOB.items() if any(releases) and not releases[known]}
    top = {path for path in unknown if not any(path.startswith(f"{other}") for other in unknown - {path})}
    assert {path for path in top if path.startswith("spec.")} == set(IGNORED)
    policies = {
        path.removeprefix("spec.mlPolicy.")
        for path, releases in runtime_fields().items()
        if any(releases) and not releases[known]
    }
    assert policies == {"jax", "xgboost", "flux", "torch.envInjection"}, "Kueue counts such a runtime as one without"


def test_a_runtime_that_was_changed_since_is_compared_because_kueue_counts_it() -> None:
    large, small = (torch(trainer(containers=[container(resources=requests)])) for requests in (GPUS, {}))
    finding = only(verdict(queued(), large, from_snapshot=True, stored_runtime=small).errors)
    assert (finding.path, "was changed after" in finding.message) == ("spec.runtimeRef", True)
    assert "nvidia.com/gpu 8" in finding.message
    assert verdict(queued(), large, from_snapshot=True, stored_runtime=large).allowed
    invalid = torch(trainer(replicas=2))
    assert "invalid" in only(verdict(queued(), large, from_snapshot=True, stored_runtime=invalid).errors).message
    assert "does not exist" in only(verdict(queued(), large, from_snapshot=True).errors).message
    free = TrainJob.from_body({"metadata": {"name": "job"}, "spec": {"runtimeRef": {"name": "runtime"}}})
    assert verdict(free, large, from_snapshot=True, stored_runtime=small).allowed


def test_kueue_can_evict_a_job_that_an_earlier_version_accepted() -> None:
    own = {
        "targetJobs": [{"name": "node"}],
        "metadata": {"labels": {"kueue.x-k8s.io/podset": "node"}},
        "spec": {"nodeSelector": {"pool": "a"}},
    }
    of = launched(nodes=4)
    with_own, without = queued(suspend=True, podTemplateOverrides=[own]), queued(suspend=True)
    assert admit(without, of, RenderContext(), old=with_own) == (AdmissionDecision(), ())
    assert admit(with_own, of, RenderContext(), old=without) == (AdmissionDecision(), ())
    assert only(verdict(queued(podTemplateOverrides=[own]), of, old=with_own).errors).path == "spec.runtimeRef"
    worse = queued(suspend=True, podTemplateOverrides=[{**own, "targetJobs": [{"name": "absent"}]}])
    assert only(verdict(worse, of, old=without).errors).path.startswith("spec.podTemplateOverrides")


def test_a_patch_does_not_select_other_nodes_than_kueue_charges() -> None:
    def assigned(pool: str) -> Any:
        metadata = {"labels": {"kueue.x-k8s.io/podset": "node"}}
        own = {"targetJobs": [{"name": "node"}], "metadata": metadata, "spec": {"nodeSelector": {"pool": pool}}}
        patches = [patch(pod_patch(nodeSelector={"pool": "h100", "rack": "1"}))]
        return queued(suspend=True, podTemplateOverrides=[own], runtimePatches=patches)

    waiting = queued(suspend=True, runtimePatches=[patch(pod_patch(nodeSelector={"pool": "h100", "rack": "1"}))])
    finding = only(verdict(assigned("t4"), torch(), old=waiting).errors)
    assert finding.path == "spec.runtimePatches"
    assert "pool=h100, but Kueue admitted it for pool=t4" in finding.message
    assert verdict(assigned("h100"), torch(), old=waiting).allowed
