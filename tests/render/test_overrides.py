"""The three generations of overrides: what they change, in which order, and what they may name."""

from __future__ import annotations

from typing import Any

import pytest

from tests.render.builders import (
    ANCESTOR,
    container,
    initializer,
    node,
    objects,
    only,
    patch,
    pod_patch,
    pods,
    replicated_job,
    runtime,
    torch,
    train_job,
    trainer,
    verdict,
)

GENERATIONS = ("podSpecOverrides", "podTemplateOverrides", "runtimePatches")


def override(field: str, pod: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return one entry of a generation for some replicatedJobs."""
    names = names or ("node",)
    if field == "runtimePatches":
        return patch(*(pod_patch(name, **pod) for name in names))
    targets = [{"name": name} for name in names]
    return {"targetJobs": targets, **(pod if field == "podSpecOverrides" else {"spec": pod})}


def spec_of(of: Any, **spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = pods(train_job(**spec), of)["node"]["spec"]
    return found


RUNTIME = runtime(
    trainer(
        containers=[
            container(volumeMounts=[{"name": "v", "mountPath": "/v"}]),
            container("side", env=[{"name": "A", "value": "1"}, {"name": "B", "value": "1"}]),
        ],
        pod={
            "initContainers": [container("setup")],
            "nodeSelector": {"zone": "a"},
            "serviceAccountName": "runtime",
            "tolerations": [{"key": "old"}],
            "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}],
        },
    )
)
MERGES = {
    "serviceAccountName": ("mine", "mine"),
    "nodeSelector": ({"disk": "ssd"}, {"zone": "a", "disk": "ssd"}),
    "tolerations": ([{"key": "new"}], [{"key": "new"}]),
    "volumes": (
        [{"name": "x", "emptyDir": {}}, {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        [
            {"name": "x", "emptyDir": {}},
            {"name": "v", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "w", "emptyDir": {}},
        ],
    ),
    "schedulingGates": ([{"name": "g"}], [{"name": "g"}]),
}
LATER = {
    "affinity": ({"nodeAffinity": {}}, {"nodeAffinity": {}}),
    "imagePullSecrets": ([{"name": "s"}], [{"name": "s"}]),
}


@pytest.mark.parametrize(
    ("generation", "field"),
    [
        *((generation, field) for generation in GENERATIONS for field in MERGES),
        *((generation, field) for generation in GENERATIONS[1:] for field in LATER),
        ("runtimePatches", "securityContext"),
        ("runtimePatches", "terminationGracePeriodSeconds"),
    ],
)
def test_fields_of_pods_are_merged_the_way_kubernetes_does(generation: str, field: str) -> None:
    only_patches = {"securityContext": ({"runAsUser": 1}, {"runAsUser": 1}), "terminationGracePeriodSeconds": (5, 5)}
    given, merged = {**MERGES, **LATER, **only_patches}[field]
    assert spec_of(RUNTIME, **{generation: [override(generation, {field: given})]})[field] == merged


@pytest.mark.parametrize("generation", GENERATIONS)
def test_variables_and_mounts_of_containers_are_merged_in_kubernetes_order(generation: str) -> None:
    given = {
        "initContainers": [{"name": "setup", "env": [{"name": "S", "value": "1"}]}],
        "containers": [
            {"name": "side", "env": [{"name": "C", "value": "2"}, {"name": "B", "value": "2"}]},
            {"name": "node", "volumeMounts": [{"name": "v", "mountPath": "/w"}]},
        ],
    }
    spec = spec_of(RUNTIME, **{generation: [override(generation, given)]})
    assert spec["initContainers"][0]["env"] == [{"name": "S", "value": "1"}]
    by_name = {entry["name"]: entry for entry in spec["containers"]}
    assert [(entry["name"], entry["value"]) for entry in by_name["side"]["env"]] == [("C", "2"), ("A", "1"), ("B", "2")]
    assert [entry["mountPath"] for entry in by_name["node"]["volumeMounts"]] == ["/w", "/v"]


def test_labels_and_annotations_of_pods_come_from_the_newer_generations() -> None:
    metadata = {"labels": {"a": "1"}, "annotations": {"b": "2"}, "name": "ignored", "finalizers": ["x"]}
    target = [{"name": "node"}]
    old = pods(train_job(podTemplateOverrides=[{"targetJobs": target, "metadata": metadata}]), runtime(trainer()))
    assert old["node"]["metadata"] == {"labels": {"a": "1"}, "annotations": {"b": "2"}}
    new = patch({"name": "node", "template": {"spec": {"template": {"metadata": {"labels": {"a": "1"}}}}}})
    assert pods(train_job(runtimePatches=[new]), runtime(trainer()))["node"]["metadata"] == {"labels": {"a": "1"}}


def test_job_templates_take_metadata_from_patches() -> None:
    new = patch({"name": "node", "template": {"metadata": {"labels": {"a": "1"}}}})
    job = objects(train_job(runtimePatches=[new]), runtime(trainer()))["JobSet"]["spec"]["replicatedJobs"][0]
    assert job["template"]["metadata"]["labels"] == {ANCESTOR: "trainer", "a": "1"}


def test_generations_apply_in_the_order_of_their_versions() -> None:
    given = {
        generation: [
            override(generation, {"serviceAccountName": generation.lower(), "nodeSelector": {generation: "1"}})
        ]
        for generation in reversed(GENERATIONS)
    }
    for last in (3, 2, 1):
        named = {generation: given[generation] for generation in GENERATIONS[:last]}
        spec = spec_of(RUNTIME, **named)
        assert spec["serviceAccountName"] == GENERATIONS[last - 1].lower()
        assert spec["nodeSelector"] == {"zone": "a", **dict.fromkeys(GENERATIONS[:last], "1")}


@pytest.mark.parametrize("generation", GENERATIONS[:2])
def test_a_job_named_twice_takes_the_later_entry(generation: str) -> None:
    entries = [
        override(generation, {"serviceAccountName": "first", "nodeSelector": {"a": "1"}}),
        override(generation, {"serviceAccountName": "second"}, "node"),
    ]
    spec = spec_of(RUNTIME, **{generation: entries})
    assert (spec["serviceAccountName"], spec["nodeSelector"]) == ("second", {"zone": "a", "a": "1"})


def test_jobs_named_by_one_entry_share_nothing_afterwards() -> None:
    of = torch(replicated_job("other"), trainer())
    shared = {"volumes": [{"name": "v", "emptyDir": {}}], "nodeSelector": {"a": "1"}}
    templates = pods(train_job(podSpecOverrides=[override("podSpecOverrides", shared, "other", "node")]), of)
    for field in shared:
        assert templates["other"]["spec"][field] == templates["node"]["spec"][field]
        assert templates["other"]["spec"][field] is not templates["node"]["spec"][field]


def test_labels_of_the_job_set_are_the_runtimes_then_the_jobs_then_the_patches() -> None:
    of = runtime(
        trainer(), template={"metadata": {"labels": dict.fromkeys("abc", "runtime"), "annotations": {"x": "runtime"}}}
    )
    spec = {
        "labels": dict.fromkeys("bc", "spec"),
        "annotations": {"x": "spec", "y": "spec"},
        "runtimePatches": [
            patch(metadata={"labels": {"c": "first", "d": "first"}}, manager="acme.io/one"),
            patch(metadata={"labels": {"d": "second"}, "annotations": {"y": "second"}}, manager="acme.io/two"),
        ],
    }
    metadata = objects(train_job(**spec), of)["JobSet"]["metadata"]
    assert metadata["labels"] == {"a": "runtime", "b": "spec", "c": "first", "d": "second"}
    assert metadata["annotations"] == {"x": "spec", "y": "second"}


TARGETS = {"podSpecOverrides": "targetJob", "podTemplateOverrides": "targetJob", "runtimePatches": "replicated job"}


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize(
    ("names", "pod", "message"),
    [
        (("absent",), {}, "must not have {target} that doesn't exist in the runtime job template"),
        (
            ("node",),
            {"containers": [{"name": "absent"}]},
            "must not have container that doesn't exist in the runtime job node",
        ),
        (
            ("node",),
            {"initContainers": [{"name": "absent"}]},
            "must not have initContainer that doesn't exist in the runtime job node",
        ),
        (
            ("node",),
            {"containers": [{"name": "node", "env": [{"name": "A", "value": "1"}]}]},
            "must not have envs for the dataset-initializer, model-initializer, node containers",
        ),
        (
            ("dataset-initializer",),
            {"containers": [{"name": "dataset-initializer", "env": [{"name": "A", "value": "1"}]}]},
            "must not have envs for the dataset-initializer, model-initializer, node containers",
        ),
    ],
)
def test_what_is_not_there_or_not_theirs_is_refused(
    generation: str, names: tuple[str, ...], pod: dict[str, Any], message: str
) -> None:
    of = runtime(initializer(), trainer())
    error = only(verdict(train_job(**{generation: [override(generation, pod, *names)]}), of).errors)
    assert error.path == f"spec.{generation}"
    assert error.message.startswith(message.format(target=TARGETS[generation]))


@pytest.mark.parametrize("generation", GENERATIONS)
def test_fields_of_the_wrong_shape_are_found_with_their_path(generation: str) -> None:
    given = {"volumes": [{"emptyDir": {}}], "containers": [{"name": "side", "volumeMounts": [{"name": "v"}]}]}
    paths = [error.path for error in verdict(train_job(**{generation: [override(generation, given)]}), RUNTIME).errors]
    assert [path.rpartition("[0].")[2] for path in paths] == ["name", "mountPath"]
    assert all(path.startswith(f"spec.{generation}[0].") for path in paths)


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"labels": {"a": "no label"}}, "spec.labels[a]"),
        ({"annotations": {"a b": "c"}}, "spec.annotations[a b]"),
        (
            {"runtimePatches": [patch(metadata={"labels": {"-": "a"}})]},
            "spec.runtimePatches.trainingRuntimeSpec.template.metadata.labels[-]",
        ),
    ],
)
def test_labels_that_the_api_server_refuses_are_refused(spec: dict[str, Any], path: str) -> None:
    assert only(verdict(train_job(**spec), runtime(trainer())).errors).path == path


def relabelled(name: str, step: str, *, pod: bool = False) -> dict[str, Any]:
    metadata = {"labels": {ANCESTOR: step}}
    template = {"spec": {"template": {"metadata": metadata}}} if pod else {"metadata": metadata}
    return patch({"name": name, "template": template})


@pytest.mark.parametrize("pod", [False, True])
def test_a_patch_that_attaches_the_trainer_is_warned_about_and_works(pod: bool) -> None:
    of = torch(replicated_job("node"))
    job = train_job(trainer={"numNodes": 3}, runtimePatches=[relabelled("node", "trainer", pod=pod)])
    answer = verdict(job, of)
    assert answer.allowed
    assert "from none to trainer" in only(answer.warnings).message
    rendered = objects(job, of)["JobSet"]["spec"]["replicatedJobs"][0]
    assert (rendered["replicas"], rendered["template"]["spec"]["parallelism"]) == (1, 3)
    assert {"name": "PET_NNODES", "value": "3"} in node(job, of)["env"]


def test_a_patch_that_detaches_the_trainer_is_warned_about_and_works() -> None:
    job = train_job(trainer={"image": "mine"}, runtimePatches=[relabelled("node", "postprocess")])
    messages = [warning.message for warning in verdict(job, runtime(trainer())).warnings]
    assert any("from trainer to postprocess" in message for message in messages)
    assert node(job, runtime(trainer()))["image"] == "image"


def test_a_patch_cannot_attach_the_trainer_to_what_cannot_train() -> None:
    of = runtime(replicated_job("workers", replicas=2))
    errors = verdict(train_job(runtimePatches=[relabelled("workers", "trainer")]), of).errors
    assert [error.path for error in errors] == ["spec.runtimePatches"] * 2
    assert "always must be 1, but is 2" in errors[0].message
    assert "must contain the required container for the ancestor: trainer" in errors[1].message


def test_a_patch_can_mount_the_claim_that_no_container_of_the_runtime_mounts() -> None:
    claims = {"volumeClaimPolicies": [{"templates": [{"metadata": {"name": "data"}}]}]}
    of = runtime(trainer(), jobset=claims)
    assert "no container mounts 'data'" in only(verdict(train_job(), of).errors).message
    mount = pod_patch(containers=[{"name": "node", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}])
    assert verdict(train_job(runtimePatches=[patch(mount)]), of).allowed
    clash = pod_patch(
        containers=[{"name": "node", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
        volumes=[{"name": "data", "emptyDir": {}}],
    )
    assert (
        "is also a volume of a replicatedJob"
        in only(verdict(train_job(runtimePatches=[patch(clash)]), of).errors).message
    )


def test_a_target_that_is_named_often_is_changed_once() -> None:
    targets = [{"name": "node"}] * 10_000
    spec = {"podTemplateOverrides": [{"targetJobs": targets, "spec": {"nodeSelector": {"a": "b"}}}]}
    assert pods(train_job(**spec), runtime(trainer()))["node"]["spec"]["nodeSelector"] == {"a": "b"}


@pytest.mark.parametrize(
    ("field", "entry"), [("podTemplateOverrides", {"spec": {}}), ("podSpecOverrides", {"nodeSelector": {"a": "b"}})]
)
def test_more_changes_than_are_merged_are_one_error(field: str, entry: dict[str, Any]) -> None:
    override = {"targetJobs": [{"name": "node"}], **entry}
    assert verdict(train_job(**{field: [override] * 256}), runtime(trainer())).allowed
    error = only(verdict(train_job(**{field: [override] * 257}), runtime(trainer())).errors)
    assert (error.path, error.message) == (f"spec.{field}", "changes 257 targetJobs; at most 256 are supported")


def test_errors_of_one_job_are_bounded() -> None:
    containers = [{"name": f"unknown-{number}"} for number in range(200)]
    override = {"targetJobs": [{"name": f"job-{number}"} for number in range(200)], "spec": {"containers": containers}}
    assert len(verdict(train_job(podTemplateOverrides=[override]), runtime(trainer())).errors) == 100
