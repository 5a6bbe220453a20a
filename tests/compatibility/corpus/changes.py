"""Cases in which a stored TrainJob is changed: while it runs, while it is suspended, and on the way between."""

from __future__ import annotations

from collections.abc import Iterator

from tests.compatibility.corpus.case import (
    Body,
    Case,
    Draft,
    Update,
    initializer,
    patch,
    pod_patch,
    runtime_spec,
    trainer,
)

RUNTIME = runtime_spec(trainer(), mlPolicy={"torch": {}})
ONE = patch(pod_patch(nodeSelector={"zone": "a"}), manager="a.io/one")
TWO = patch(pod_patch(tolerations=[{"key": "x", "operator": "Exists"}]), manager="b.io/two")
OTHER = patch(pod_patch(nodeSelector={"zone": "b"}), manager="a.io/one")
ACCOUNT = patch(pod_patch(serviceAccountName="x"), manager="a.io/one")
WRONG = patch(pod_patch("nobody", nodeSelector={"zone": "a"}), manager="a.io/one")


def changes() -> Iterator[Case]:
    """Yield every case with changes."""
    for draft in (*_patches(), *_fields()):
        draft.name = f"change-{draft.name}"
        yield draft.case()


def _draft(name: str, spec: Body, *updates: Body | Update) -> Draft:
    steps = tuple(step if isinstance(step, Update) else Update({"spec": step}) for step in updates)
    return Draft(name, RUNTIME, spec, updates=steps)


def _patches() -> Iterator[Draft]:
    yield _draft("running-add", {}, {"runtimePatches": [ONE]})
    yield _draft("suspended-add", {"suspend": True}, {"runtimePatches": [ONE]}, {"runtimePatches": [ONE, TWO]})
    yield _draft("running-change", {"runtimePatches": [ONE]}, {"runtimePatches": [OTHER]})
    yield _draft("suspended-change", {"runtimePatches": [ONE], "suspend": True}, {"runtimePatches": [OTHER]})
    yield _draft("suspended-remove", {"runtimePatches": [ONE], "suspend": True}, {"runtimePatches": []})
    yield _draft("running-remove", {"runtimePatches": [ONE]}, {"runtimePatches": None})
    yield _draft("running-reorder", {"runtimePatches": [ONE, TWO]}, {"runtimePatches": [TWO, ONE]})
    yield _draft("running-same", {"runtimePatches": [ONE]}, {"runtimePatches": [ONE]})
    yield _draft("resuming", {"runtimePatches": [ONE], "suspend": True}, {"runtimePatches": [OTHER], "suspend": False})
    yield _draft("suspending", {"runtimePatches": [ONE]}, {"runtimePatches": [OTHER], "suspend": True})
    yield _draft("account", {"runtimePatches": [ACCOUNT], "suspend": True}, {"runtimePatches": [ONE]})
    later = {**ACCOUNT, "trainingRuntimeSpec": patch(pod_patch(serviceAccountName="y"))["trainingRuntimeSpec"]}
    yield _draft("account-other", {"runtimePatches": [ACCOUNT], "suspend": True}, {"runtimePatches": [later]})
    yield _draft("unknown-job", {"suspend": True}, {"runtimePatches": [WRONG]})
    yield _draft("bad-manager", {"suspend": True}, {"runtimePatches": [patch(manager="plain")]})
    active = Update({"spec": {"runtimePatches": [ONE]}}, active=("node",))
    yield _draft("active", {"suspend": True}, active)
    yield _draft("active-same", {"suspend": True}, Update({"spec": {"suspend": True}}, active=("node",)))
    gone = (Update({"spec": {"runtimePatches": [ONE], "suspend": True}}, active=("node",)), {"suspend": True})
    yield _draft("active-running", {}, *gone)


def _fields() -> Iterator[Draft]:
    full: Body = {
        "trainer": {"numNodes": 2, "image": "a:1"},
        "activeDeadlineSeconds": 86400,
        "managedBy": "trainer.kubeflow.org/trainjob-controller",
    }
    yield _draft("suspend-resume", {}, {"suspend": True}, {"suspend": False}, {"suspend": None})
    yield _draft("image", full, {"trainer": {"image": "b:1"}})
    yield _draft("nodes", full, {"trainer": {"numNodes": 3}})
    yield _draft("nodes-suspended", {**full, "suspend": True}, {"trainer": {"numNodes": 3}})
    yield _draft("trainer-dropped", full, {"trainer": None})
    yield _draft("trainer-added", {}, {"trainer": {"numNodes": 2}})
    yield _draft("deadline", full, {"activeDeadlineSeconds": 90000}, {"activeDeadlineSeconds": None})
    yield _draft("deadline-added", {}, {"activeDeadlineSeconds": 90000})
    yield _draft("managed-by", full, {"managedBy": "kueue.x-k8s.io/multikueue"})
    yield _draft("runtime", full, {"runtimeRef": {"name": "other"}})
    yield _draft("runtime-kind", full, {"runtimeRef": {"kind": "ClusterTrainingRuntime"}})
    yield _draft("reserved-env", {}, {"trainer": {"env": [{"name": "PET_NNODES", "value": "1"}]}})
    limits = {"resourcesPerNode": {"limits": {"memory": "1.5Gi"}}}
    yield _draft("rewritten", {"trainer": limits}, {"runtimePatches": [ONE], "suspend": True})
    labels = Update({"metadata": {"labels": {"a": "b"}}})
    yield _draft("labels", full, labels)
    load = runtime_spec(initializer("dataset"), trainer(), mlPolicy={"torch": {}})
    spec = {"initializer": {"dataset": {"storageUri": "hf://a/b"}}}
    other = Update({"spec": {"initializer": {"dataset": {"storageUri": "hf://c/d"}}}})
    yield Draft("initializer", load, spec, updates=(other, Update({"spec": {"initializer": None}})))
