"""Generated cases with twists: unusual input that users write, and combinations that the generator alone does not have.

The generator draws valid runtimes and TrainJobs; a twist changes one thing in them. `tests.compatibility.measure` uses
these cases with new seeds; those of the corpus have a fixed one.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tests.compatibility.corpus.case import ANCESTOR, Body, Case, Update, container, patch, pod_patch, replicated_job
from tests.compatibility.corpus.generated import generated

Twist = Callable[[random.Random, Body, Body], None]


def wild(count: int, seed: int) -> Iterator[Case]:
    """Yield generated cases, most of them with one to three twists, and some with updates; equal for equal seeds."""
    for number, case in enumerate(generated(count, seed)):
        source = random.Random(f"{seed}/{number}/twists")
        runtime, train_job = copy.deepcopy((case.runtime, case.train_job))
        assert runtime is not None
        for twist in source.sample(TWISTS, source.choice((0, 1, 1, 2, 3))):
            twist(source, runtime, train_job)
        yield replace(case, runtime=runtime, train_job=train_job, updates=_updates(source, train_job))


def _updates(source: random.Random, train_job: Body) -> tuple[Update, ...]:
    if source.random() > 0.3:
        return ()
    zone = patch(pod_patch(nodeSelector={"zone": source.choice("ab")}), manager="acme.io/late")
    options: list[Body] = [
        {"spec": {"suspend": True}},
        {"spec": {"suspend": False}},
        {"spec": {"runtimePatches": [zone]}},
        {"spec": {"runtimePatches": [zone], "suspend": True}},
        {"spec": {"runtimePatches": None}},
        {"spec": {"trainer": {"image": "other:3"}}},
        {"spec": {"trainer": {"numNodes": 5}}},
        {"spec": {"managedBy": "kueue.x-k8s.io/multikueue"}},
        {"spec": {"activeDeadlineSeconds": 5}},
        {"metadata": {"labels": {"late": "yes"}}},
        {"spec": {"initializer": {"dataset": {"storageUri": "hf://other/data"}}}},
    ]
    return tuple(Update(source.choice(options)) for _ in range(source.choice((1, 1, 2))))


def _trainer(train_job: Body) -> Body:
    found: Body = train_job["spec"].setdefault("trainer", {})
    return found


def _jobs(runtime: Body) -> list[Body]:
    found: list[Body] = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    return found


def _job(source: random.Random, runtime: Body) -> Body:
    return source.choice(_jobs(runtime))


def _pod(job: Body) -> Body:
    found: Body = job["template"]["spec"]["template"]["spec"]
    return found


def _container(source: random.Random, runtime: Body) -> Body:
    found: Body = source.choice(_pod(_job(source, runtime))["containers"])
    return found


def _labels(job: Body) -> Body:
    found: Body = job["template"].setdefault("metadata", {}).setdefault("labels", {})
    return found


def _replicas(source: random.Random, runtime: Body, train_job: Body) -> None:
    _job(source, runtime)["replicas"] = source.choice((0, 0, 1, 2, 3))


def _parallelism(source: random.Random, runtime: Body, train_job: Body) -> None:
    _job(source, runtime)["template"]["spec"]["parallelism"] = source.choice((0, 1, 5))


def _unlabelled(source: random.Random, runtime: Body, train_job: Body) -> None:
    for job in _jobs(runtime):
        job["template"].get("metadata", {}).get("labels", {}).pop(ANCESTOR, None)


def _other_labels(source: random.Random, runtime: Body, train_job: Body) -> None:
    _labels(_job(source, runtime))[ANCESTOR] = source.choice(("trainer", "dataset-initializer", "other"))


def _all_trainers(source: random.Random, runtime: Body, train_job: Body) -> None:
    for job in _jobs(runtime):
        if job["name"] in ("node", "launcher"):
            _labels(job)[ANCESTOR] = "trainer"


def _empty_values(source: random.Random, runtime: Body, train_job: Body) -> None:
    field, value = source.choice((("image", ""), ("command", []), ("args", []), ("env", []), ("resourcesPerNode", {})))
    _trainer(train_job)[field] = value


def _empty_env(source: random.Random, runtime: Body, train_job: Body) -> None:
    entry = source.choice((_container(source, runtime), _trainer(train_job)))
    names = ("FLUX_VIEW_IMAGE", "FLUX_OPTION_FLAGS", "EMPTY", "PATH", "PET_NNODES", "TRAINER_NNODES")
    entry["env"] = [*entry.get("env", []), *({"name": name, "value": ""} for name in source.sample(names, 2))]


def _flux_env(source: random.Random, runtime: Body, train_job: Body) -> None:
    values = {
        "FLUX_VIEW_IMAGE": ("", "view:1"),
        "FLUX_NETWORK_DEVICE": ("", "ib0"),
        "FLUX_QUEUE_POLICY": ("", "easy"),
        "FLUX_INTERACTIVE": ("", "true"),
    }
    chosen = source.sample(sorted(values), 2)
    entry = _trainer(train_job)
    entry["env"] = [*entry.get("env", []), *({"name": name, "value": source.choice(values[name])} for name in chosen)]


def _single_element_command(source: random.Random, runtime: Body, train_job: Body) -> None:
    entry = source.choice((_trainer(train_job), _container(source, runtime)))
    entry["command"] = [source.choice(("torchrun train.py", "python x.py 'a b'", "run", ""))]


def _qlora(source: random.Random, runtime: Body, train_job: Body) -> None:
    entry = _trainer(train_job)
    entry["args"] = ["model.lora_attn_modules=['q_proj']", "model.quantize_base=True"]
    if source.random() < 0.5:
        entry.pop("resourcesPerNode", None)
        for job in _jobs(runtime):
            for each in _pod(job)["containers"]:
                each.pop("resources", None)


def _webhook_disabled(source: random.Random, runtime: Body, train_job: Body) -> None:
    labels = runtime["metadata"].setdefault("labels", {})
    labels["trainer.kubeflow.org/webhook-validation"] = source.choice(("disabled", "enabled"))


def _deprecated(source: random.Random, runtime: Body, train_job: Body) -> None:
    runtime["metadata"].setdefault("labels", {})["trainer.kubeflow.org/support"] = "deprecated"


def _quantities(source: random.Random, runtime: Body, train_job: Body) -> None:
    entry = source.choice((_container(source, runtime).setdefault("resources", {}), _resources(train_job)))
    amounts = ("0", "+1", ".5", "1.", "5e-1", "100u", "1e3", 0, "0.0001", "1Ei", "2048Ki")
    kind = source.choice(("limits", "requests"))
    entry[kind] = {**entry.get(kind, {}), source.choice(("cpu", "memory", "example.com/x")): source.choice(amounts)}


def _resources(train_job: Body) -> Body:
    found: Body = _trainer(train_job).setdefault("resourcesPerNode", {})
    return found


def _devices(source: random.Random, runtime: Body, train_job: Body) -> None:
    entry = source.choice((_container(source, runtime).setdefault("resources", {}), _resources(train_job)))
    names = ("amd.com/gpu", "nvidia.com/mig-1g.5gb", "google.com/tpu", "gpu.intel.com/i915", "habana.ai/gaudi")
    entry["limits"] = {**entry.get("limits", {}), source.choice(names): source.choice((1, "4"))}


def _claims(source: random.Random, runtime: Body, train_job: Body) -> None:
    _resources(train_job)["claims"] = [{"name": "gpu"}]


def _empty_patches(source: random.Random, runtime: Body, train_job: Body) -> None:
    fields: dict[str, Any] = {
        "tolerations": [],
        "nodeSelector": {},
        "volumes": [],
        "imagePullSecrets": [],
        "schedulingGates": [],
        "affinity": {},
        "securityContext": {},
        "containers": [],
        "serviceAccountName": "",
    }
    chosen = {name: fields[name] for name in source.sample(sorted(fields), 2)}
    name = _job(source, runtime)["name"]
    patches = train_job["spec"].setdefault("runtimePatches", [])
    patches.append(patch(pod_patch(name, **chosen), manager="acme.io/empty"))


def _patched_labels(source: random.Random, runtime: Body, train_job: Body) -> None:
    labels = source.choice(({ANCESTOR: "trainer"}, {ANCESTOR: ""}, {"a": ""}, {"bad key": "x"}, {"a": "bad value"}))
    name = _job(source, runtime)["name"]
    place = source.choice(("metadata", "job_metadata"))
    change: Body = pod_patch(name, **{place: {"labels": labels}})
    train_job["spec"].setdefault("runtimePatches", []).append(patch(change, manager="acme.io/labels"))


def _manager(source: random.Random, runtime: Body, train_job: Body) -> None:
    managers = ("plain", "Acme.io/x", "acme.io/", "acme.io/x/y", "/x", "acme.io/x y")
    train_job["spec"].setdefault("runtimePatches", []).append(patch(manager=source.choice(managers)))


def _patch_without_spec(source: random.Random, runtime: Body, train_job: Body) -> None:
    bodies: tuple[Body, ...] = ({}, {"trainingRuntimeSpec": {}}, {"trainingRuntimeSpec": {"template": {}}})
    entry = {"manager": "acme.io/none", **source.choice(bodies)}
    train_job["spec"].setdefault("runtimePatches", []).append(entry)


def _pod_level(source: random.Random, runtime: Body, train_job: Body) -> None:
    _pod(_job(source, runtime))["overhead"] = {"cpu": "100m"}


def _sidecar(source: random.Random, runtime: Body, train_job: Body) -> None:
    pod = _pod(_job(source, runtime))
    pod["initContainers"] = [
        *pod.get("initContainers", []),
        container("proxy", restartPolicy="Always", resources={"requests": {"cpu": "250m", "memory": "1Gi"}}),
    ]


def _named_differently(source: random.Random, runtime: Body, train_job: Body) -> None:
    for job in _jobs(runtime):
        if job["name"] == "node":
            job["name"] = "worker"
    for job in _jobs(runtime):
        for entry in job.get("dependsOn", ()):
            entry["name"] = "worker" if entry["name"] == "node" else entry["name"]


def _more_jobs(source: random.Random, runtime: Body, train_job: Body) -> None:
    _jobs(runtime).append(replicated_job("late", dependsOn=[{"name": _jobs(runtime)[0]["name"], "status": "Ready"}]))


def _node_counts(source: random.Random, runtime: Body, train_job: Body) -> None:
    _trainer(train_job)["numNodes"] = source.choice((0, 1, 1, 7, 100))


def _process_counts(source: random.Random, runtime: Body, train_job: Body) -> None:
    _trainer(train_job)["numProcPerNode"] = source.choice((0, 1, 3, 16))


def _reserved(source: random.Random, runtime: Body, train_job: Body) -> None:
    names = ("PET_NNODES", "DMLC_TASK_ID", "JAX_PROCESS_ID", "OMPI_MCA_plm_rsh_args", "MASTER_ADDR", "TF_CONFIG")
    entry = source.choice((_trainer(train_job), _container(source, runtime)))
    entry["env"] = [*entry.get("env", []), {"name": source.choice(names), "value": "1"}]


def _multikueue(source: random.Random, runtime: Body, train_job: Body) -> None:
    train_job["spec"]["managedBy"] = source.choice(("kueue.x-k8s.io/multikueue", "acme.io/x", ""))


def _no_runtime(source: random.Random, runtime: Body, train_job: Body) -> None:
    train_job["spec"]["runtimeRef"] = {**train_job["spec"]["runtimeRef"], "name": "nobody"}


def _no_policy(source: random.Random, runtime: Body, train_job: Body) -> None:
    runtime["spec"].pop("mlPolicy", None)


def _job_metadata(source: random.Random, runtime: Body, train_job: Body) -> None:
    labels = source.choice(({"a": "b"}, {"kueue.x-k8s.io/queue-name": "q"}, {"a": ""}))
    train_job["metadata"]["labels"] = labels
    train_job["metadata"]["annotations"] = {"note": "x"}


def _secret_only(source: random.Random, runtime: Body, train_job: Body) -> None:
    steps = [job["name"] for job in _jobs(runtime) if job["name"].endswith("-initializer")] or ["dataset-initializer"]
    step = source.choice(steps).removesuffix("-initializer")
    sources: tuple[Body, ...] = ({}, {"secretRef": {"name": ""}}, {"env": []}, {"storageUri": ""})
    train_job["spec"]["initializer"] = {step: source.choice(sources)}


def _scheduler(source: random.Random, runtime: Body, train_job: Body) -> None:
    _pod(_job(source, runtime))["schedulerName"] = source.choice(("", "default-scheduler", "other"))


TWISTS: tuple[Twist, ...] = (
    _replicas,
    _parallelism,
    _unlabelled,
    _other_labels,
    _all_trainers,
    _empty_values,
    _empty_env,
    _flux_env,
    _single_element_command,
    _qlora,
    _webhook_disabled,
    _deprecated,
    _quantities,
    _devices,
    _claims,
    _empty_patches,
    _patched_labels,
    _manager,
    _patch_without_spec,
    _pod_level,
    _sidecar,
    _named_differently,
    _more_jobs,
    _node_counts,
    _process_counts,
    _reserved,
    _multikueue,
    _no_runtime,
    _no_policy,
    _job_metadata,
    _secret_only,
    _scheduler,
)
"""Every twist; the order is part of what a seed means."""
