"""Written cases of what is refused: TrainJobs, runtimes and names."""

from __future__ import annotations

from collections.abc import Iterator

from tests.compatibility.corpus.case import (
    ANCESTOR,
    Draft,
    container,
    initializer,
    patch,
    pod_patch,
    replicated_job,
    runtime_spec,
    trainer,
)
from tests.compatibility.corpus.shared import TORCH, mpi_jobs, torch_draft


def refused() -> Iterator[Draft]:
    """Yield TrainJobs that upstream refuses, and their neighbours."""
    for variable in ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"):
        yield torch_draft(
            f"torch-{variable.lower().replace('_', '-')}", {"trainer": {"env": [{"name": variable, "value": "1"}]}}
        )
    for variable in ("DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER"):
        env = [{"name": "A", "value": "1"}, {"name": variable, "value": "1"}]
        name = f"xgboost-{variable.lower().replace('_', '-')}"
        yield Draft(name, runtime_spec(trainer(), mlPolicy={"xgboost": {}}), {"trainer": {"env": env}})
    env = [{"name": "JAX_NUM_PROCESSES", "value": "1"}]
    yield Draft("jax-own", runtime_spec(trainer(), mlPolicy={"jax": {}}), {"trainer": {"env": env}})
    env = [{"name": "JAX_PROCESS_ID", "value": "0"}]
    fields = {"trainer": {"numNodes": 2, "env": env}}
    yield Draft("jax-one-rank", runtime_spec(trainer(), mlPolicy={"jax": {}}), fields)
    installer = trainer(pod={"initContainers": [container("flux-installer")]})
    yield Draft("flux-installer", runtime_spec(installer, mlPolicy={"flux": {}}), {"trainer": {"numNodes": 2}})
    yield torch_draft("runtime-missing", {"runtimeRef": {"name": "nobody", "kind": "TrainingRuntime"}})
    yield torch_draft("cluster-runtime-missing", {"runtimeRef": {"name": "nobody"}})
    yield torch_draft("kind-unknown", {"runtimeRef": {"name": "runtime", "kind": "Other"}})
    yield torch_draft("group-unknown", {"runtimeRef": {"name": "runtime", "apiGroup": "acme.io"}})
    yield torch_draft("managed-by", {"managedBy": "acme.io/other"})
    step = patch(pod_patch("side", job_metadata={"labels": {ANCESTOR: "dataset-initializer"}}))
    yield torch_draft("patched-step", {"runtimePatches": [step]}, trainer(), replicated_job("side"))
    late = {"managedBy": "acme.io/other", "trainer": {"env": [{"name": "PET_NNODES", "value": "1"}]}}
    yield torch_draft("two-stages", late)
    yield torch_draft("multikueue", {"managedBy": "kueue.x-k8s.io/multikueue"})
    twice = [{"name": "A"}, {"name": "A", "value": ""}]
    yield torch_draft("duplicate-variable", {"trainer": {"env": twice}})
    yield torch_draft("deadline", {"activeDeadlineSeconds": 0})
    for number, name in enumerate(("1job", "Job", "job.a", "j" * 64, "-job", "job-")):
        yield torch_draft(f"name-{number}", {}, job_name=name)
    yield torch_draft("deprecated", {}, cluster=True, runtime_labels={"trainer.kubeflow.org/support": "deprecated"})


def runtimes() -> Iterator[Draft]:
    """Yield runtimes that upstream refuses, and their neighbours."""
    for step in ("trainer", "dataset-initializer", "model-initializer"):
        own = "node" if step == "trainer" else step
        for name, job in {
            "replicas": replicated_job(own, ancestor=step, containers=[container(own)], replicas=2),
            "container": replicated_job(own, ancestor=step, containers=[container("other")]),
            "init-only": replicated_job(
                own, ancestor=step, containers=[container("other")], pod={"initContainers": [container(own)]}
            ),
        }.items():
            for cluster in (False, True):
                scope = "cluster" if cluster else "namespace"
                yield Draft(f"{step}-{name}-{scope}", runtime_spec(job, **TORCH), {}, cluster=cluster)
    unknown = replicated_job("node", ancestor="other", replicas=2)
    yield Draft("ancestor-unknown", runtime_spec(unknown, **TORCH), {})
    yield Draft("two-frameworks", runtime_spec(trainer(), mlPolicy={"torch": {}, "jax": {}}), {})
    yield Draft(
        "intel",
        runtime_spec(*mpi_jobs(), mlPolicy={"mpi": {"mpiImplementation": "Intel"}}),
        {"trainer": {"numNodes": 2}},
    )
    yield Draft(
        "unknown-implementation", runtime_spec(*mpi_jobs(), mlPolicy={"mpi": {"mpiImplementation": "Other"}}), {}
    )
    yield Draft("no-template", {"mlPolicy": {"torch": {}}}, {"trainer": {"numNodes": 2}})
    injected = {"torch": {"envInjection": {"targets": [{"jobName": "node", "containerNames": ["node"]}]}}}
    yield Draft("inject-node", runtime_spec(trainer(), mlPolicy=injected), {})
    flux = {"flux": {"numProcPerNode": 0}}
    yield Draft("flux-processes", runtime_spec(trainer(), mlPolicy=flux), {"trainer": {"numNodes": 1}})
    off = {"trainer.kubeflow.org/webhook-validation": "disabled"}
    for cluster in (False, True):
        scope = "cluster" if cluster else "namespace"
        invalid = runtime_spec(trainer(replicas=2), **TORCH)
        yield Draft(f"unvalidated-{scope}", invalid, {}, cluster=cluster, runtime_labels=off)
    yield Draft("unvalidated-valid", runtime_spec(trainer(), **TORCH), {}, runtime_labels=off)
    for name, jobset in {
        "subdomain": {"network": {"subdomain": "My.Net"}},
        "manager": {"managedBy": "someone"},
        "success-target": {"successPolicy": {"operator": "All", "targetReplicatedJobs": ["absent"]}},
        "rule-name": {"failurePolicy": {"rules": [{"name": "1", "action": "FailJobSet"}]}},
        "coordinator": {"coordinator": {"replicatedJob": "absent"}},
    }.items():
        yield Draft(f"jobset-{name}", runtime_spec(trainer(), jobset=jobset, **TORCH), {})
    for name, jobset in {
        "in-place": {"failurePolicy": {"restartStrategy": "InPlaceRestart"}},
        "restart-job": {"failurePolicy": {"rules": [{"name": "a", "action": "RestartJob"}]}},
    }.items():
        yield Draft(f"gate-{name}", runtime_spec(trainer(), jobset=jobset, **TORCH), {})
    later = trainer(dependsOn=[{"name": "later", "status": "Complete"}])
    yield Draft("depends-on-later", runtime_spec(later, replicated_job("later"), **TORCH), {})
    bad = {"template": {"spec": {"replicatedJobs": [trainer(replicas=2)]}}}
    for cluster in (False, True):
        scope = "cluster" if cluster else "namespace"
        yield Draft(
            f"update-{scope}", runtime_spec(trainer(), **TORCH), {}, cluster=cluster, runtime_update={"spec": bad}
        )


def names() -> Iterator[Draft]:
    """Yield names around the lengths that JobSet can take."""
    for length in (1, 33, 34, 48, 49, 51, 52, 63):
        yield torch_draft(f"node-{length}", {"trainer": {"numNodes": 2}}, job_name="j" * length)
        jobs = (initializer("dataset"), trainer())
        yield torch_draft(f"loader-{length}", {"trainer": {"numNodes": 2}}, *jobs, job_name="j" * length)
    for nodes in (10, 11, 101):
        yield torch_draft(f"nodes-{nodes}", {"trainer": {"numNodes": nodes}}, job_name="j" * 48)
