"""Precedence: runtime, patches in their order, the framework, the TrainJob's trainer and initializer."""

from __future__ import annotations

import pytest

from tests.render.builders import (
    ANCESTOR,
    container,
    environment,
    initializer,
    node,
    objects,
    patch,
    pod_patch,
    pods,
    replicated_job,
    runtime,
    torch,
    train_job,
    trainer,
)


def value(name: str, text: str) -> dict[str, str]:
    return {"name": name, "value": text}


def test_the_trainer_replaces_image_command_and_arguments() -> None:
    of = torch(trainer(containers=[container(command=["a"], args=["b"]), container("sidecar", command=["c"])]))
    changed = node(train_job(trainer={"image": "mine", "command": ["x"], "args": []}), of)
    assert (changed["image"], changed["command"], changed["args"]) == ("mine", ["x"], [])
    kept = node(train_job(trainer={}), of)
    assert (kept["image"], kept["command"], kept["args"]) == ("image", ["a"], ["b"])
    sidecar = pods(train_job(trainer={"image": "mine"}), of)["node"]["spec"]["containers"][1]
    assert (sidecar["image"], sidecar["command"]) == ("image", ["c"])


def test_the_trainers_variables_replace_in_place_or_follow() -> None:
    of = runtime(trainer(containers=[container(env=[value("A", "1"), value("B", "2")])]))
    changed = node(train_job(trainer={"env": [value("C", "3"), value("A", "9")]}), of)
    assert changed["env"] == [value("A", "9"), value("B", "2"), value("C", "3")]


def test_a_variables_source_is_kept_whole_and_wins_over_its_value() -> None:
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}
    changed = node(train_job(trainer={"env": [{"name": "A", "value": "x", "valueFrom": source}]}), runtime(trainer()))
    assert changed["env"] == [{"name": "A", "valueFrom": source}]


def test_resources_are_merged_key_by_key() -> None:
    of = torch(trainer(containers=[container(resources={"limits": {"cpu": "1", "memory": "1Gi"}})]))
    job = train_job(trainer={"resourcesPerNode": {"limits": {"cpu": "4"}, "requests": {"cpu": "2"}}})
    assert node(job, of)["resources"] == {"limits": {"cpu": "4", "memory": "1Gi"}, "requests": {"cpu": "2"}}


def test_the_number_of_nodes_is_the_jobs_then_the_policys_then_one() -> None:
    def counts(of: object, **trainer_fields: int) -> dict[str, tuple[int, int]]:
        jobs = objects(train_job(trainer=trainer_fields), of)["JobSet"]["spec"]["replicatedJobs"]
        return {
            job["name"]: (job["template"]["spec"]["parallelism"], job["template"]["spec"]["completions"])
            for job in jobs
        }

    def of(**spec: object) -> object:
        other = replicated_job("other", job={"parallelism": 3, "completions": 9})
        return runtime(other, trainer(job={"parallelism": 5}), **spec)

    assert counts(of(mlPolicy={"numNodes": 2}), numNodes=7) == {"other": (3, 3), "node": (7, 7)}
    assert counts(of(mlPolicy={"numNodes": 2})) == {"other": (3, 3), "node": (2, 2)}
    assert counts(of(mlPolicy={})) == {"other": (3, 3), "node": (1, 1)}
    assert counts(of()) == {"other": (3, 3), "node": (5, 5)}


def test_later_patches_win_and_the_trainer_wins_over_patches() -> None:
    of = runtime(trainer(pod={"serviceAccountName": "runtime", "nodeSelector": {"a": "1"}}))
    patches = [
        patch(pod_patch(serviceAccountName="first", nodeSelector={"b": "1", "c": "1"}), manager="a.io/one"),
        patch(pod_patch(serviceAccountName="second", nodeSelector={"c": "2"}), manager="a.io/two"),
    ]
    spec = pods(train_job(runtimePatches=patches), of)["node"]["spec"]
    assert spec["serviceAccountName"] == "second"
    assert spec["nodeSelector"] == {"a": "1", "b": "1", "c": "2"}


def test_labels_and_annotations_of_the_job_set_follow_the_patches() -> None:
    of = runtime(trainer(), template={"metadata": {"labels": {"a": "1", "b": "1"}, "annotations": {"x": "1"}}})
    patches = [patch(metadata={"labels": {"b": "2"}, "annotations": {"y": "2"}})]
    metadata = objects(train_job(runtimePatches=patches), of)["JobSet"]["metadata"]
    assert metadata["labels"] == {"a": "1", "b": "2"}
    assert metadata["annotations"] == {"x": "1", "y": "2"}


def test_replicated_jobs_keep_the_runtimes_order() -> None:
    of = runtime(replicated_job("a"), replicated_job("b"), trainer())
    patches = [patch(pod_patch("b"), pod_patch("a"))]
    jobs = objects(train_job(runtimePatches=patches), of)["JobSet"]["spec"]["replicatedJobs"]
    assert [job["name"] for job in jobs] == ["a", "b", "node"]


def test_the_initializer_configures_its_own_containers() -> None:
    of = runtime(initializer(), initializer("model"), trainer())
    job = train_job(
        initializer={
            "dataset": {"storageUri": "hf://a/b", "env": [value("X", "1")], "secretRef": {"name": "token"}},
            "model": {"env": [value("STORAGE_URI", "hf://c/d")]},
        }
    )
    templates = pods(job, of)
    dataset = templates["dataset-initializer"]["spec"]["containers"][0]
    assert dataset["env"] == [value("STORAGE_URI", "hf://a/b"), value("X", "1")]
    assert dataset["envFrom"] == [{"secretRef": {"name": "token"}}]
    model = templates["model-initializer"]["spec"]["containers"][0]
    assert environment(model) == {"STORAGE_URI": "hf://c/d"}
    assert "envFrom" not in model


def test_the_job_set_takes_suspend_and_owner_from_the_train_job() -> None:
    of = runtime(trainer(), jobset={"suspend": True, "ttlSecondsAfterFinished": 5})
    rendered = objects(train_job(uid="1"), of)["JobSet"]
    assert rendered["spec"]["suspend"] is False
    assert rendered["spec"]["ttlSecondsAfterFinished"] == 5
    assert rendered["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "name": "job",
            "uid": "1",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert objects(train_job(suspend=True), of)["JobSet"]["spec"]["suspend"] is True


def test_replicas_of_parts_of_the_train_job_are_one() -> None:
    jobs = objects(train_job(), runtime(initializer(), trainer(), replicated_job("x", replicas=2)))["JobSet"]
    assert [job.get("replicas") for job in jobs["spec"]["replicatedJobs"]] == [1, 1, 2]


def test_every_labelled_job_trains_and_a_launcher_may_name_its_container_so() -> None:
    launcher = replicated_job("launcher", ancestor="trainer", containers=[container("launcher"), container("side")])
    templates = pods(train_job(trainer={"image": "mine"}), runtime(launcher, trainer()))
    assert [entry["image"] for entry in templates["launcher"]["spec"]["containers"]] == ["mine", "image"]
    assert templates["node"]["spec"]["containers"][0]["image"] == "mine"


@pytest.mark.parametrize(("of_job", "trains"), [(None, True), ("postprocess", False)])
def test_the_label_of_the_pod_template_decides_what_the_trainer_configures(of_job: str | None, trains: bool) -> None:
    labelled = replicated_job("node", ancestor=of_job, pod_metadata={"labels": {ANCESTOR: "trainer"}})
    job = train_job(trainer={"image": "mine", "numNodes": 2})
    (found,) = objects(job, torch(labelled))["JobSet"]["spec"]["replicatedJobs"]
    image = found["template"]["spec"]["template"]["spec"]["containers"][0]["image"]
    assert (image, found["template"]["spec"]["parallelism"]) == (("mine", 2) if trains else ("image", 1))
