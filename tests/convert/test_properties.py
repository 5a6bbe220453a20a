"""What holds for every job: no field disappears, the result renders, and the pods are those of the old job."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.convert import conversions
from tests.convert.conversions import NAMES, bodies_of, catalog
from tests.convert.generated_jobs import KEEPING_COMMANDS, KINDS
from trainyard.api import Body
from trainyard.api.go_types import stored_form
from trainyard.errors import TrainyardError
from trainyard.jobs.convert.conversion import AUTO, Conversion
from trainyard.jobs.convert.conversion_report import as_yaml
from trainyard.jobs.convert.field_finding import Fidelity
from trainyard.jobs.render.rendered_documents import RenderedTrainJob, render_documents
from trainyard.manifests.documents import objects

EXAMPLES = 10
JUNK = st.sampled_from((None, True, -1, 10**12, "", "x", [], {}, ["x"], {"x": 1}, [{}], [1], 1.5))


conversion_of = partial(conversions.conversion_of, runtime=AUTO)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from leaves(inner, (*path, index))
    elif value is not None and value not in ({}, []):
        yield path, value


def written(path: tuple[Any, ...]) -> str:
    text = ""
    for part in path:
        plain = not isinstance(part, int) and "." not in part and "/" not in part
        text += (f".{part}" if text else part) if plain else f"[{part}]"
    return text


def last_key(path: tuple[Any, ...]) -> Any:
    return next((part for part in reversed(path) if not isinstance(part, int)), None)


def unaccounted(body: Body, conversion: Conversion) -> list[str]:
    """Return the leaves that are neither in the new objects by value nor in the notes."""
    carried = {(last_key(path), type(value), value) for each in conversion.objects for path, value in leaves(each)}
    texts = {value for _, _, value in carried if isinstance(value, str)}
    noted = {note.path for note in conversion.notes if note.fidelity is not Fidelity.LOSSLESS}
    same = {note.path for note in conversion.notes if note.fidelity is Fidelity.LOSSLESS}
    left_out = {note.path for note in conversion.notes if note.message.startswith(("left out", "the same template"))}
    found = []
    for path, value in leaves(body):
        prefixes = {written(path[:length]) for length in range(1, len(path) + 1)}
        by_value = (last_key(path), type(value), value) in carried or (isinstance(value, str) and value in texts)
        by_value |= isinstance(value, float) and (last_key(path), str, str(value)) in carried
        if not (by_value or prefixes & (noted | left_out) or written(path) in same):
            found.append(written(path))
    return found


IDENTITY = {"apiVersion", "kind"}


@pytest.mark.parametrize("name", NAMES)
def test_no_field_of_an_input_disappears(name: str) -> None:
    for body in bodies_of(name):
        if body["kind"] != "ConfigMap":
            assert set(unaccounted(body, conversion_of(body))) <= IDENTITY


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_no_field_disappears_and_the_result_renders(kind: str, data: st.DataObject) -> None:
    body = data.draw(KINDS[kind])
    conversion = conversion_of(body)
    assert conversion == conversion_of(body)
    assert set(unaccounted(body, conversion)) <= IDENTITY
    answer = rendered(conversion)
    lost = {note.message for note in conversion.lost}
    assert all("Kueue" in error.message and any(error.message in text for text in lost) for error in answer.errors)
    assert not [warning for warning in answer.warnings if "unknown field" in warning.message]


@pytest.mark.parametrize("runtime", ["auto", "always"])
def test_a_number_for_an_amount_is_written_as_text(runtime: str) -> None:
    """A Pod accepts a number, the schemas of TrainJobs and runtimes only text or a whole number."""
    resources = {"limits": {"cpu": 1.5, "memory": "1Gi"}, "requests": {"cpu": 0.5}}
    volume = {"name": "scratch", "emptyDir": {"sizeLimit": 1000000.5}}
    main = {"name": "pytorch", "image": "registry.example/a:1", "resources": resources}
    roles = {"Worker": {"replicas": 1, "template": {"spec": {"containers": [main], "volumes": [volume]}}}}
    body = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "half"}}
    conversion = conversion_of({**body, "spec": {"pytorchReplicaSpecs": roles}}, runtime=runtime)
    assert not conversion.lost
    assert {value for path, value in leaves(list(conversion.objects)) if path[-1] in ("cpu", "sizeLimit")} == {
        "1.5",
        "0.5",
        "1000000.5",
    }
    assert not rendered(conversion).errors


@pytest.mark.parametrize("name", ["pytorch-elastic", "mpi-v1"])
def test_a_job_in_a_queue_of_kueue_runs_the_pods_that_kueue_counts(name: str) -> None:
    (body,) = bodies_of(name)
    labels = {"kueue.x-k8s.io/queue-name": "team"}
    answer = rendered(conversion_of({**body, "metadata": {**body["metadata"], "labels": labels}}))
    assert not answer.errors, answer.errors


def test_a_job_that_another_controller_manages_is_admitted_like_any_other() -> None:
    (body,) = bodies_of("mpi-v1")
    body["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}
    body["spec"] |= {"mpiImplementation": "Intel", "runPolicy": {"managedBy": "kueue.x-k8s.io/multikueue"}}
    conversion = conversion_of({**body, "apiVersion": "kubeflow.org/v2beta1"})
    assert any("not supported by Kueue" in note.message for note in conversion.lost)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KEEPING_COMMANDS)
@settings(max_examples=EXAMPLES)
@given(data=st.data(), runtime=st.sampled_from(("auto", "always")))
def test_the_pods_are_those_of_the_old_job(kind: str, data: st.DataObject, runtime: str) -> None:
    body = data.draw(KEEPING_COMMANDS[kind])
    conversion = conversion_of(body, runtime=runtime)
    if conversion.objects[-1]["spec"].get("managedBy"):
        return
    answer = rendered(conversion)
    if answer.errors:
        assert all("Kueue" in error.message for error in answer.errors), answer.errors
        return
    assert new_pods(answer) == old_pods(body)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_a_spoilt_job_is_converted_or_refused_in_words(kind: str, data: st.DataObject) -> None:
    body = json.loads(json.dumps(data.draw(KINDS[kind])))
    for _ in range(data.draw(st.integers(1, 3))):
        spoil(body, data)
    try:
        conversion = conversion_of(body)
    except TrainyardError:
        return
    assert set(unaccounted(body, conversion)) <= IDENTITY
    lost = {note.message for note in conversion.lost}
    assert not rendered(conversion).errors or any("are rejected" in message for message in lost)


def spoil(body: Body, data: st.DataObject) -> None:
    """Replace one value below the specification or in the metadata by something else."""
    value: Any = body
    key: Any = data.draw(st.sampled_from(("metadata", "spec", "spec", "spec")))
    while True:
        inner = value[key]
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner))) if isinstance(inner, list) else []
        if not keys or (value is not body and data.draw(st.integers(0, 3)) == 0):
            value[key] = json.loads(json.dumps(data.draw(JUNK)))
            return
        value, key = inner, data.draw(st.sampled_from(keys))


def rendered(conversion: Conversion) -> RenderedTrainJob:
    used = [
        catalog()[body["spec"]["runtimeRef"]["name"]]
        for body in conversion.objects
        if body["kind"] == "TrainJob" and body["spec"]["runtimeRef"]["kind"] == "ClusterTrainingRuntime"
    ]
    answers = render_documents({"generated": as_yaml([*used, *conversion.objects])})
    return answers[0] if answers else RenderedTrainJob("")


def essence(container: Body) -> str:
    kept = {key: container.get(key) for key in ("image", "command", "args", "resources") if container.get(key)}
    amounts = {
        kind: {name: str(amount) for name, amount in given.items()}
        for kind, given in (kept.get("resources") or {}).items()
    }
    kept["resources"] = stored_form("core.ResourceRequirements", amounts)
    mounts = [mount["mountPath"] for mount in container.get("volumeMounts", ())]
    names = {variable["name"] for variable in container.get("env", ())} & {"SEED", "MODE", "TZ", "NODE"}
    kept |= {"env": sorted(names), "scratch": "/scratch" in mounts}
    return json.dumps(kept, sort_keys=True)


def pod_of(template: Body) -> tuple[tuple[str, ...], tuple[str, ...]]:
    pod = template["spec"]
    return (
        tuple(sorted(essence(each) for each in pod["containers"])),
        tuple(essence(each) for each in pod.get("initContainers", ())),
    )


def new_pods(answer: RenderedTrainJob) -> Counter[Any]:
    jobs = next(body for body in answer.objects if body["kind"] == "JobSet")["spec"]["replicatedJobs"]
    found: Counter[Any] = Counter()
    for job in jobs:
        spec = job["template"]["spec"]
        found[pod_of(spec["template"])] += job.get("replicas", 1) * spec["parallelism"]
    return found


def old_pods(body: Body) -> Counter[Any]:
    spec = next(iter(objects(json.dumps(body["spec"]))))
    found: Counter[Any] = Counter()
    parts = spec.get("tasks") or next(value for key, value in spec.items() if key.endswith("ReplicaSpecs")).values()
    elastic = spec.get("elasticPolicy", {})
    for part in parts:
        template = part["template"]
        for entry in spec.get("volumes", ()):
            for container in template["spec"]["containers"]:
                container.setdefault("volumeMounts", []).append({"name": "v", "mountPath": entry["mountPath"]})
        found[pod_of(template)] += part["replicas"]
    if elastic.get("metrics") and len(found) == 1:
        workers = spec["pytorchReplicaSpecs"]["Worker"]["replicas"]
        least, most = elastic.get("minReplicas"), elastic.get("maxReplicas")
        if "--nnodes=2" not in words_of_the_trainer(spec):
            found[next(iter(found))] = most or least or workers
        elif (least or 1) <= 2 <= (most or 1):  # The operator's autoscaler reached the number of the command.
            found[next(iter(found))] = 2
    return found


def words_of_the_trainer(spec: Body) -> list[str]:
    containers = spec["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    trainer = next(each for each in containers if each["name"] == "pytorch")
    return [*trainer.get("command", ()), *trainer.get("args", ())]
