"""Runtime snapshots: written so that upstream can read them, read with upstream's checks."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.render.builders import container, objects, only, runtime, train_job, trainer, verdict
from trainyard.api import ClusterTrainingRuntime
from trainyard.errors import TrainyardError
from trainyard.jobs.render.runtime_snapshot import read_snapshot, snapshot_name


def written(of: Any, **fields: Any) -> dict[str, Any]:
    return objects(train_job(uid="1", **fields), of)["ConfigMap"]


def test_a_snapshot_is_json_that_is_yaml_too() -> None:
    config_map = written(runtime(trainer()))
    assert config_map["metadata"]["name"] == snapshot_name("job") == "job-runtime-snapshot"
    text = config_map["data"]["runtime"]
    assert json.loads(text) == yaml.safe_load(text)
    assert json.loads(text)["apiVersion"] == "trainer.kubeflow.org/v1alpha1"
    assert json.loads(text)["kind"] == "ClusterTrainingRuntime"


def test_reading_gives_the_runtime_and_rendering_it_the_same_snapshot() -> None:
    body = runtime(trainer(), mlPolicy={"torch": {}}).body()
    body["metadata"] |= {
        "uid": "r",
        "managedFields": [],
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "yes"},
    }
    first = written(ClusterTrainingRuntime.from_body(body))
    read = read_snapshot(first, train_job(uid="1"))
    assert read.metadata.body() == {"name": "runtime", "uid": "r", "annotations": {"kept": "yes"}}
    assert written(read) == first


def test_a_snapshot_in_yaml_is_read() -> None:
    config_map = written(runtime(trainer()))
    body = {**json.loads(config_map["data"]["runtime"])}
    body["metadata"]["creationTimestamp"] = None
    config_map["data"]["runtime"] = yaml.safe_dump(body) + "# at: 2026-01-01T00:00:00Z\n"
    assert read_snapshot(config_map, train_job(uid="1")).metadata.name == "runtime"


def changed(**fields: Any) -> dict[str, Any]:
    config_map = written(runtime(trainer()))
    return {**config_map, **fields}


@pytest.mark.parametrize(
    ("config_map", "message"),
    [
        (changed(metadata={"name": "job-runtime-snapshot"}), "owned by another object"),
        (changed(metadata={"ownerReferences": [{"uid": "2", "controller": True}]}), "owned by another object"),
        (changed(data={}), 'missing "runtime" data key'),
        (changed(data=None), 'missing "runtime" data key'),
        (changed(data={"runtime": "{a: ["}), "unable to unmarshal"),
        (changed(data={"runtime": "just text"}), "unable to unmarshal"),
        (changed(data={"runtime": "[]"}), "wrong runtime"),
        (changed(data={"runtime": '{"kind":"TrainingRuntime","metadata":{"name":"runtime"}}'}), "wrong runtime"),
    ],
)
def test_what_is_no_snapshot_of_this_job_is_refused(config_map: dict[str, Any], message: str) -> None:
    with pytest.raises(TrainyardError, match=message):
        read_snapshot(config_map, train_job(uid="1"))


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000], ids=["lists", "objects"])
def test_a_snapshot_nested_without_end_is_refused(text: str) -> None:
    with pytest.raises(TrainyardError, match="unable to unmarshal"):
        read_snapshot(changed(data={"runtime": text}), train_job(uid="1"))


def test_a_snapshot_is_nobodys_while_the_job_has_no_uid() -> None:
    with pytest.raises(TrainyardError, match="owned by another object"):
        read_snapshot(changed(metadata={"name": "job-runtime-snapshot"}), train_job())


@pytest.mark.parametrize(("size", "fits"), [(1_000_000, True), (1024 * 1024, False)])
def test_a_runtime_that_no_config_map_can_hold_is_refused(size: int, fits: bool) -> None:
    of = runtime(trainer(containers=[container(args=["x" * size])]))
    answer = verdict(train_job(), of)
    assert answer.allowed == fits
    if not fits:
        assert "at most 1048576" in only(answer.errors).message


def test_a_snapshot_of_another_runtime_is_refused() -> None:
    with pytest.raises(TrainyardError, match="wrong runtime"):
        read_snapshot(written(runtime(trainer(), cluster=False), kind="TrainingRuntime"), train_job(uid="1"))
