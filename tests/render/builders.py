"""TrainJobs and runtimes for tests, as short as they can be said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainyard.api import Body, ClusterTrainingRuntime, TrainingRuntime, TrainJob
from trainyard.checks.finding import Finding
from trainyard.jobs.render.pipeline import render, validate
from trainyard.jobs.render.result import AdmissionDecision, Rejected, RenderContext, Rendered

ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"
QUEUE = "scheduling.volcano.sh/queue-name"
GROUP = "scheduling.k8s.io/group-name"


def container(name: str = "node", **fields: Any) -> Body:
    return {"name": name, "image": "image", **fields}


def replicated_job(
    name: str = "node",
    *,
    ancestor: str | None = None,
    containers: list[Body] | None = None,
    pod: Mapping[str, Any] | None = None,
    job: Mapping[str, Any] | None = None,
    pod_metadata: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Body:
    spec = {"containers": containers or [container(name)], **(pod or {})}
    template: Body = {"spec": {"template": {"spec": spec}, **(job or {})}}
    if pod_metadata:
        template["spec"]["template"]["metadata"] = dict(pod_metadata)
    if ancestor:
        template["metadata"] = {"labels": {ANCESTOR: ancestor}}
    return {"name": name, "template": template, **fields}


def trainer(**fields: Any) -> Body:
    return replicated_job("node", ancestor="trainer", **fields)


def initializer(kind: str = "dataset", **fields: Any) -> Body:
    name = f"{kind}-initializer"
    mounted = container(name, volumeMounts=[{"name": "initializer", "mountPath": "/workspace"}])
    return replicated_job(name, ancestor=name, containers=[mounted], **fields)


def runtime(*jobs: Body, cluster: bool = True, labels: dict[str, str] | None = None, **spec: Any) -> Any:
    """Return a runtime; spec fields are mlPolicy, podGroupPolicy, template (merged), and jobset (JobSet fields)."""
    template = {**spec.pop("template", {}), "spec": {"replicatedJobs": list(jobs), **spec.pop("jobset", {})}}
    metadata: Body = {"name": "runtime"} if cluster else {"name": "runtime", "namespace": "team"}
    if labels:
        metadata["labels"] = labels
    model = ClusterTrainingRuntime if cluster else TrainingRuntime
    return model.from_body({"metadata": metadata, "spec": {**spec, "template": template}})


def torch(*jobs: Body, volcano: Mapping[str, Any] | None = None, **spec: Any) -> Any:
    gang = {} if volcano is None else {"podGroupPolicy": {"volcano": dict(volcano)}}
    return runtime(*(jobs or (trainer(),)), mlPolicy={"torch": {}}, **gang, **spec)


def train_job(
    name: str = "job", *, uid: str | None = None, kind: str = "ClusterTrainingRuntime", **spec: Any
) -> TrainJob:
    metadata = {"name": name, "namespace": "team", **({"uid": uid} if uid else {})}
    return TrainJob.from_body({"metadata": metadata, "spec": {"runtimeRef": {"name": "runtime", "kind": kind}, **spec}})


def patch(*jobs: Body, manager: str = "acme.io/team", metadata: Body | None = None, **fields: Any) -> Body:
    template: Body = {"metadata": metadata} if metadata else {}
    if jobs:
        template["spec"] = {"replicatedJobs": list(jobs)}
    return {"manager": manager, "trainingRuntimeSpec": {"template": template}, **fields}


def pod_patch(name: str = "node", **spec: Any) -> Body:
    return {"name": name, "template": {"spec": {"template": {"spec": spec}}}}


def objects(job: TrainJob, of: Any, **context: Any) -> dict[str, Body]:
    """Return the rendered objects by kind; the job must not be rejected."""
    result = render(job, of, RenderContext(**context))
    assert isinstance(result, Rendered), result
    return {body["kind"]: body for body in result.objects}


def pods(job: TrainJob, of: Any, **context: Any) -> dict[str, Body]:
    """Return the pod templates of the rendered JobSet by replicatedJob."""
    jobs = objects(job, of, **context)["JobSet"]["spec"]["replicatedJobs"]
    return {entry["name"]: entry["template"]["spec"]["template"] for entry in jobs}


def node(job: TrainJob, of: Any, **context: Any) -> Body:
    """Return the training container."""
    found: Body = next(
        entry for entry in pods(job, of, **context)["node"]["spec"]["containers"] if entry["name"] == "node"
    )
    return found


def environment(entry: Body) -> dict[str, Any]:
    return {variable["name"]: variable.get("value", variable.get("valueFrom")) for variable in entry.get("env", ())}


def verdict(job: TrainJob, of: Any, *, old: TrainJob | None = None, **context: Any) -> AdmissionDecision:
    answer = validate(job, of, RenderContext(**context), old=old)
    if of is not None and job.spec and not old:
        assert isinstance(render(job, of, RenderContext(**context)), Rejected) == bool(answer.errors)
    return answer


def only(findings: tuple[Finding, ...]) -> Finding:
    assert len(findings) == 1, findings
    assert findings[0].fix, findings
    return findings[0]
