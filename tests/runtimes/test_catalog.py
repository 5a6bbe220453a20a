"""The catalog is what its files say, released versions never change, and the shipped runtimes work."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainyard.api import ClusterTrainingRuntime, TrainJob, parse
from trainyard.api.constants import FRAMEWORK_LABEL
from trainyard.data import data_folder
from trainyard.errors import TrainyardError
from trainyard.jobs.render.frameworks import FRAMEWORKS
from trainyard.jobs.render.pipeline import render
from trainyard.jobs.render.result import RenderContext, Rendered
from trainyard.jobs.render.runtime_admission import validate_runtime
from trainyard.jobs.runtimes.catalog import spec_hash
from trainyard.jobs.runtimes.catalog_loader import load_catalog
from trainyard.policy.rules.plugins import CHILDREN
from trainyard.policy.rules.rule_catalog import load_rules

SHIPPED = data_folder("runtimes")
NAMES = sorted(yaml.safe_load((SHIPPED / "index.yaml").read_text())["runtimes"])
UPSTREAM = {
    "torch-distributed": "torch",
    "torch-distributed-with-cache": "torch",
    "deepspeed-distributed": "deepspeed",
    "mlx-distributed": "mlx",
    "jax-distributed": "jax",
    "xgboost-distributed": "xgboost",
    "flux-distributed": "flux",
    "torchtune-llama3.2-1b": "torchtune",
    "torchtune-llama3.2-3b": "torchtune",
    "torchtune-qwen2.5-1.5b": "torchtune",
}
"""Runtimes that Trainer ships, with their labels of framework: TrainJobs name them."""
OBJECTS = {body["metadata"]["name"]: body for body in load_catalog(SHIPPED).objects()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the shipped catalog to change."""
    return Path(shutil.copytree(SHIPPED, tmp_path / "runtimes"))


def edit(path: Path, change: Callable[[Any], object]) -> None:
    document = yaml.safe_load(path.read_text())
    change(document)
    path.write_text(yaml.safe_dump(document, sort_keys=False))


def rewrite(path: Path, change: Callable[[Any], object]) -> None:
    """Change a spec and its release mark with it."""

    def both(document: Any) -> None:
        change(document)
        document["metadata"]["annotations"]["trainyard.dev/released"] = spec_hash(document["spec"])

    edit(path, both)


def faults(folder: Path) -> str:
    with pytest.raises(TrainyardError) as caught:
        load_catalog(folder)
    assert all(str(folder) in finding.path for finding in caught.value.findings)
    return str(caught.value)


def test_each_version_is_an_object_and_the_plain_name_is_its_alias() -> None:
    names = sorted([*NAMES, "mpi-distributed", *(f"{name}-1.0" for name in NAMES)])
    assert sorted(OBJECTS) == names, "release a draft: trainyard runtimes release NAME 1.0 --alias"
    for name in NAMES:
        alias, version = OBJECTS[name], OBJECTS[f"{name}-1.0"]
        assert (alias["spec"], alias["metadata"]["labels"]) == (version["spec"], version["metadata"]["labels"])
        assert alias["metadata"]["annotations"] == {"trainyard.dev/alias-of": f"{name}-1.0"}
        assert version["metadata"]["annotations"] == {"trainyard.dev/released": spec_hash(version["spec"])}


def test_only_the_wanted_runtimes_are_taken() -> None:
    catalog = load_catalog(SHIPPED, ("plain",))
    assert [body["metadata"]["name"] for body in catalog.objects()] == ["plain-1.0", "plain"]
    with pytest.raises(TrainyardError, match="use one of: deepspeed-distributed, "):
        load_catalog(SHIPPED, ("torch",))


def test_a_teams_own_folder_is_read_beside_the_shipped_one(folder: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    (own / "mine").mkdir(parents=True)
    body = yaml.safe_load((folder / "plain" / "1.0.yaml").read_text())
    body["metadata"] = {"name": "mine-0.1", "labels": body["metadata"]["labels"]}
    (own / "mine" / "0.1.yaml").write_text(yaml.safe_dump(body))
    entry = {"owner": "team", "summary": "ours", "versions": {"0.1": {"changes": "draft"}}}
    (own / "index.yaml").write_text(yaml.safe_dump({"runtimes": {"mine": entry}}))
    names = [runtime.name for runtime in load_catalog([SHIPPED, own]).runtimes]
    assert names == sorted([*NAMES, "mine"])
    with pytest.raises(TrainyardError, match="use another name"):
        load_catalog([SHIPPED, folder])


def test_a_released_version_that_was_changed_is_refused(folder: Path) -> None:
    edit(folder / "plain" / "1.0.yaml", lambda body: body["spec"]["mlPolicy"].update(numNodes=2))
    text = faults(folder)
    assert "plain/1.0.yaml: metadata.annotations[trainyard.dev/released]" in text
    assert "restore the spec and make the change in a new version" in text


def test_formatting_and_comments_of_a_released_version_may_change(folder: Path) -> None:
    edit(folder / "torch-distributed" / "1.0.yaml", lambda body: None)
    assert load_catalog(folder) is not None


def test_a_deprecated_version_and_its_alias_say_so(folder: Path) -> None:
    deprecated = {"since": "2027-01-01", "removeAfter": "2027-07-01"}
    edit(
        folder / "index.yaml", lambda index: index["runtimes"]["plain"]["versions"]["1.0"].update(deprecated=deprecated)
    )
    for body in load_catalog(folder, ("plain",)).objects():
        assert body["metadata"]["labels"]["trainer.kubeflow.org/support"] == "deprecated"
        annotations = body["metadata"]["annotations"]
        assert annotations["trainyard.dev/deprecated-since"] == "2027-01-01"
        assert annotations["trainyard.dev/remove-after"] == "2027-07-01"


def test_versions_are_ordered_as_numbers_and_the_alias_moves(folder: Path) -> None:
    for version in ("1.2", "1.10"):
        path = folder / "plain" / f"{version}.yaml"
        shutil.copy(folder / "plain" / "1.0.yaml", path)
        edit(path, lambda body, version=version: body["metadata"].update(name=f"plain-{version}"))

    def add(index: Any) -> None:
        plain = index["runtimes"]["plain"]
        plain["alias"] = "1.10"
        for version in ("1.10", "1.2"):
            plain["versions"][version] = {"released": "2027-01-01", "changes": "more"}

    edit(folder / "index.yaml", add)
    (plain,) = load_catalog(folder, ("plain",)).runtimes
    assert [version.version for version in plain.versions] == ["1.0", "1.2", "1.10"]
    assert plain.objects()[-1]["metadata"]["annotations"]["trainyard.dev/alias-of"] == "plain-1.10"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda body: body["metadata"].update(name="plain"), "not 'plain-1.0'"),
        (lambda body: body["metadata"].pop("labels"), "the SDK would not list the runtime"),
        (lambda body: body.update(kind="TrainingRuntime"), "not 'ClusterTrainingRuntime'"),
        (lambda body: body["metadata"]["annotations"].clear(), "is missing on a released version"),
        (lambda body: body.pop("spec"), "spec: is missing"),
        (
            lambda body: body["metadata"]["annotations"].update({"trainyard.dev/alias-of": "x"}),
            "set alias in index.yaml",
        ),
    ],
)
def test_a_file_that_is_not_what_it_must_be_is_refused(
    folder: Path, change: Callable[[Any], object], message: str
) -> None:
    edit(folder / "plain" / "1.0.yaml", change)
    assert message in faults(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda job: job["template"]["metadata"].pop("labels"), "no entry has the trainer step"),
        (
            lambda job: job["template"]["spec"]["template"]["spec"]["containers"][0].update(name="main"),
            "step trainer needs a container named 'node'",
        ),
    ],
)
def test_a_runtime_without_its_steps_is_refused(folder: Path, change: Callable[[Any], object], message: str) -> None:
    rewrite(folder / "plain" / "1.0.yaml", lambda body: change(body["spec"]["template"]["spec"]["replicatedJobs"][0]))
    assert message in faults(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda index: index["runtimes"]["plain"].update(alias="2.0"), "alias 2.0 is not one of the versions 1.0"),
        (lambda index: index["runtimes"]["plain"].pop("owner"), "runtimes.plain.owner"),
        (lambda index: index["runtimes"]["plain"].update(versions={1.1: {"changes": "x"}}), "quote versions"),
        (lambda index: index["runtimes"].pop("plain"), "plain/1.0.yaml: is not in index.yaml"),
        (
            lambda index: index["runtimes"]["plain"]["versions"].update({"1.1": {"changes": "x"}}),
            "1.1.yaml: cannot be read",
        ),
        (
            lambda index: index["runtimes"]["plain"]["versions"]["1.0"].update(
                deprecated={"since": "2027-02-01", "removeAfter": "2027-01-01"}
            ),
            "is before since",
        ),
    ],
)
def test_an_index_that_does_not_fit_is_refused(folder: Path, change: Callable[[Any], object], message: str) -> None:
    edit(folder / "index.yaml", change)
    assert message in faults(folder)


def test_a_file_that_is_not_yaml_is_refused(folder: Path) -> None:
    (folder / "plain" / "1.0.yaml").write_text("a: [")
    assert "plain/1.0.yaml: is not a single YAML document" in faults(folder)


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    assert "this folder does not exist" in faults(tmp_path / "none")


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_runtime_is_valid(name: str) -> None:
    verdict = validate_runtime(parse(ClusterTrainingRuntime, OBJECTS[name]))
    assert verdict.errors == ()
    assert verdict.warnings == ()


def test_every_name_of_upstreams_runtimes_is_there_and_takes_its_jobs() -> None:
    """Upstream's set over all releases; mpi-distributed was there in v2.0, without a label."""
    for name in (*UPSTREAM, "mpi-distributed"):
        runtime = parse(ClusterTrainingRuntime, OBJECTS[name])
        assert runtime.metadata.annotations is not None
        assert "trainyard.dev/alias-of" in runtime.metadata.annotations
        assert isinstance(render(train_job(name), runtime, RenderContext()), Rendered)


def train_job(name: str) -> TrainJob:
    """Return a TrainJob of two nodes; of one for a model that torchtune trains on one."""
    nodes = 1 if name.startswith("torchtune-") else 2
    gpus = {"nvidia.com/gpu": "2"}
    trainer: dict[str, Any] = {"numNodes": nodes, "resourcesPerNode": {"requests": gpus, "limits": gpus}}
    spec: dict[str, Any] = {"runtimeRef": {"name": name}, "trainer": trainer}
    if name.startswith("torchtune-"):
        trainer["command"] = ["tune", "run"]
    if name.startswith("torch-with-model"):
        spec["initializer"] = {"model": {"storageUri": "hf://meta-llama/Llama-3.2-1B"}}
    elif name.startswith("torch-with-dataset-gs"):
        spec["initializer"] = {"dataset": {"storageUri": "gs://bucket/alpaca"}}
    elif name.startswith(("torch-with-dataset", "torch-distributed-with-cache")) and "-pvc" not in name:
        spec["initializer"] = {"dataset": {"storageUri": "hf://tatsu-lab/alpaca"}}
    body = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "j", "namespace": "n"},
    }
    return parse(TrainJob, {**body, "spec": spec})


def least(name: str) -> int:
    """Return the pods that the gang of `train_job` needs to start."""
    one = ("deepspeed", "mlx", "mpi", "horovod", "torchtune", "torch-elastic")
    more = {"ray": 3, "paddle-ps": 3, "tensorflow-ps": 4}
    return 1 if name.startswith(one) else more.get(name, 2)


@pytest.mark.parametrize("version", ["", "-1.0"])
@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_runtime_renders_a_gang_without_a_finding(name: str, version: str) -> None:
    runtime = parse(ClusterTrainingRuntime, OBJECTS[f"{name}{version}"])
    context = RenderContext(default_queue="q", priority_classes=None, tiers={"rack": 1, "spine": 2})
    outcome = render(train_job(f"{name}{version}"), runtime, context)
    assert isinstance(outcome, Rendered), outcome
    assert outcome.warnings == ()
    by_kind = {each["kind"]: each for each in outcome.objects}
    if name == "torch-distributed-kai":
        assert "PodGroup" not in by_kind
        return
    assert by_kind["PodGroup"]["spec"]["minMember"] == least(name), "list a runtime of another minimum in least()"
    topology = by_kind["PodGroup"]["spec"].get("networkTopology")
    assert topology == ({"mode": "hard", "highestTierAllowed": 1} if name.endswith("-gang") else None)


@pytest.mark.parametrize("name", NAMES)
def test_the_names_of_config_maps_and_secrets_are_reserved(name: str) -> None:
    outcome = render(train_job(name), parse(ClusterTrainingRuntime, OBJECTS[name]), RenderContext())
    assert isinstance(outcome, Rendered), outcome
    for body in outcome.objects:
        if body["kind"] in CHILDREN:
            suffix = body["metadata"]["name"].removeprefix("j")
            assert suffix in CHILDREN[body["kind"]]


def test_the_framework_of_each_runtime_is_one_that_the_rules_know() -> None:
    (rule,) = (rule for rule in load_rules() if rule.id == "LBL-002")
    known = rule.parameter_values({})["frameworks"]
    labels = {name: OBJECTS[name]["metadata"]["labels"][FRAMEWORK_LABEL] for name in NAMES}
    assert isinstance(known, list)
    assert set(labels.values()) <= set(known)
    assert {name: labels[name] for name in UPSTREAM} == UPSTREAM


@pytest.mark.parametrize("name", NAMES)
def test_the_framework_of_each_runtime_is_that_of_its_name_and_of_its_policy(name: str) -> None:
    """A runtime whose name begins with no framework has the one of its policy."""
    (rule,) = (rule for rule in load_rules() if rule.id == "LBL-002")
    known = rule.parameter_values({})["frameworks"]
    assert isinstance(known, list)
    of_policy = next((each for each in FRAMEWORKS if each in OBJECTS[name]["spec"]["mlPolicy"]), "plainml")
    of_name = name.partition("-")[0]
    label = OBJECTS[name]["metadata"]["labels"][FRAMEWORK_LABEL]
    assert label == (of_name if of_name in known else of_policy)
    assert label == of_policy or label not in FRAMEWORKS


def pods(name: str) -> list[dict[str, Any]]:
    jobs = OBJECTS[name]["spec"]["template"]["spec"]["replicatedJobs"]
    return [job["template"]["spec"]["template"]["spec"] for job in jobs]


@pytest.mark.parametrize("name", NAMES)
def test_the_pods_pass_pod_security_baseline(name: str) -> None:
    for pod in pods(name):
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
        assert set(pod.get("securityContext", {})) <= {"fsGroup"}
        kinds = {"name", "emptyDir", "persistentVolumeClaim"}
        assert all(set(volume) <= kinds for volume in pod.get("volumes", []))
        for container in pod["containers"]:
            user = container["securityContext"].get("runAsUser", 1000)
            assert {**container["securityContext"], "runAsUser": user} == {
                "allowPrivilegeEscalation": False,
                "runAsUser": 1000,
            }
            assert not any("hostPort" in port for port in container.get("ports", []))


@pytest.mark.parametrize("name", NAMES)
def test_shared_memory_is_bounded(name: str) -> None:
    for pod in pods(name):
        mounted = {mount["mountPath"] for each in pod["containers"] for mount in each.get("volumeMounts", [])}
        volumes = [volume for volume in pod.get("volumes", []) if volume["name"] == "shared-memory"]
        assert ("/dev/shm" in mounted) == bool(volumes)
        assert all(set(volume["emptyDir"]) == {"medium", "sizeLimit"} for volume in volumes)


@pytest.mark.parametrize("name", NAMES)
def test_images_are_exact(name: str) -> None:
    for pod in pods(name):
        for container in pod["containers"]:
            _, _, tag = container["image"].rpartition(":")
            assert any(character.isdigit() for character in tag)
            assert "latest" not in tag


INITIALIZED = {
    "torch-with-dataset": ("ReadWriteMany", ["dataset-initializer"]),
    "torch-with-dataset-gs": ("ReadWriteMany", ["dataset-initializer"]),
    "torch-with-model": ("ReadWriteMany", ["model-initializer"]),
    **{name: ("ReadWriteOnce", ["dataset-initializer", "model-initializer"]) for name in NAMES if "tune-" in name},
}


@pytest.mark.parametrize("name", INITIALIZED)
def test_data_is_on_a_volume_that_every_step_mounts(name: str) -> None:
    mode, steps = INITIALIZED[name]
    spec = OBJECTS[name]["spec"]["template"]["spec"]
    (policy,) = spec["volumeClaimPolicies"]
    (claim,) = policy["templates"]
    assert claim["spec"]["accessModes"] == [mode]
    for pod in pods(name):
        mounts = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
        assert mounts[claim["metadata"]["name"]] == "/workspace"
    waiting = spec["replicatedJobs"][-1]
    assert waiting["dependsOn"] == [{"name": step, "status": "Complete"} for step in steps]


@pytest.mark.parametrize("name", NAMES)
def test_limits_name_a_device_that_the_sdk_knows(name: str) -> None:
    """Kubeflow's SDK fails on a container whose limits name neither processors nor accelerators."""
    for job in OBJECTS[name]["spec"]["template"]["spec"]["replicatedJobs"]:
        for container in job["template"]["spec"]["template"]["spec"]["containers"]:
            limits = container.get("resources", {}).get("limits")
            assert limits is None or limits.keys() & {"cpu", "nvidia.com/gpu"}
