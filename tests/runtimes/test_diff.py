"""A comparison says what changes for a job, in the words of the job."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.runtimes.test_catalog import NAMES, OBJECTS
from trainyard.errors import TrainyardError
from trainyard.jobs.runtimes.changes.diff import Aspect, compare, read_job
from trainyard.jobs.runtimes.changes.diff_report import as_json, as_markdown, as_text

Body = dict[str, Any]


def changed(name: str, change: Callable[[Body], object]) -> tuple[Body, Body]:
    """Return a runtime, and the same after a change under another version."""
    before = OBJECTS[f"{name}-1.0"]
    after = copy.deepcopy(before)
    after["metadata"]["name"] = f"{name}-1.1"
    change(after["spec"])
    return before, after


def job(spec: Body, index: int = -1) -> Body:
    found: Body = spec["template"]["spec"]["replicatedJobs"][index]
    return found


def pod(spec: Body, index: int = -1) -> Body:
    found: Body = job(spec, index)["template"]["spec"]["template"]["spec"]
    return found


def node(spec: Body) -> Body:
    found: Body = pod(spec)["containers"][0]
    return found


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("plain", lambda spec: node(spec).update(image="x:1"), ("images", "node/node", "image", "x:1")),
        ("plain", lambda spec: node(spec).update(command=["a", "b"]), ("command", "node/node", "command", ["a", "b"])),
        (
            "plain",
            lambda spec: node(spec).update(env=[{"name": "A", "value": "1"}]),
            ("env", "node/node", "env.A", "1"),
        ),
        (
            "plain",
            lambda spec: node(spec).update(resources={"limits": {"cpu": "9"}}),
            ("resources", "node/node", "resources.limits.cpu", "9"),
        ),
        ("plain", lambda spec: spec["mlPolicy"].update(numNodes=3), ("nodes", "node", "parallelism", 3)),
        (
            "plain",
            lambda spec: spec.update(podGroupPolicy={"kai": {}}),
            ("gang", "node", "schedulerName", "kai-scheduler"),
        ),
        ("plain", lambda spec: spec.pop("podGroupPolicy"), ("gang", "PodGroup", "spec.minMember", None)),
        ("plain", lambda spec: pod(spec).update(nodeSelector={"a": "b"}), ("placement", "node", "nodeSelector.a", "b")),
        ("mpi-openmpi", lambda spec: job(spec).pop("dependsOn"), ("ordering", "launcher", "dependsOn", None)),
        (
            "plain",
            lambda spec: pod(spec).update(volumes=[{"name": "v", "emptyDir": {}}]),
            ("volumes", "node", "volumes.v.emptyDir", {}),
        ),
        (
            "plain",
            lambda spec: job(spec)["template"]["spec"].update(backoffLimit=9),
            ("failures", "node", "backoffLimit", 9),
        ),
        (
            "plain",
            lambda spec: pod(spec).update(securityContext={"runAsUser": 7}),
            ("security", "node", "securityContext.runAsUser", 7),
        ),
        (
            "plain",
            lambda spec: spec["template"]["spec"].update(suspend=True, ttlSecondsAfterFinished=5),
            ("failures", "JobSet", "ttlSecondsAfterFinished", 5),
        ),
        ("plain", lambda spec: pod(spec).update(dnsPolicy="None"), ("other", "node", "dnsPolicy", "None")),
        (
            "mpi-openmpi",
            lambda spec: spec["mlPolicy"]["mpi"].update(numProcPerNode=4),
            ("files", "ConfigMap", "sample-mpi-hostfile.data.hostfile", "sample-launcher-0-0.sample slots=4\n"),
        ),
    ],
)
def test_a_change_is_reported_by_its_subject(
    name: str, change: Callable[[Body], object], expected: tuple[str, str, str, Any]
) -> None:
    found = {(each.aspect.value, each.where, each.what): each.after for each in compare(*changed(name, change))}
    assert found.get(expected[:3], "absent") == expected[3], found


def test_equal_specs_change_nothing_whatever_their_names() -> None:
    for name in NAMES:
        assert compare(OBJECTS[name], OBJECTS[f"{name}-1.0"]) == []


def test_a_runtime_that_takes_no_job_any_more_is_reported() -> None:
    before, after = changed("plain", lambda spec: node(spec).update(name="main"))
    (first, *_) = compare(before, after)
    assert (first.aspect, first.what) == (Aspect.VERDICT, "errors")


def test_the_comparison_can_be_for_a_job_of_ones_own() -> None:
    text = "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: j, namespace: a}\nspec:\n  "
    mine = read_job(f"{text}trainer: {{image: 'own:1', numNodes: 3}}\n", "job.yaml")
    before, after = changed("plain", lambda spec: (node(spec).update(image="x:1"), spec["mlPolicy"].update(numNodes=5)))
    assert compare(before, after, mine) == []
    for wrong, message in (
        ("a: [", "not valid YAML"),
        ("a: b", "contains 0 TrainJobs"),
        (text.rstrip() + " {}\n---\n" + text + "{}", "contains 2"),
    ):
        with pytest.raises(TrainyardError, match=message):
            read_job(wrong, "job.yaml")


def test_reports_read_well() -> None:
    changes = compare(*changed("plain", lambda spec: node(spec).update(image="x:1", command=["a|b", "c\nd"])))
    text = as_text("plain-1.0", "plain-1.1", changes)
    assert text.splitlines()[:4] == [
        "plain-1.0 → plain-1.1",
        "images",
        "  node/node: image: docker.io/library/python:3.13.1-slim-bookworm → x:1",
        "command",
    ]
    assert '| command | `node/node` | `command` |  | `["a\\|b", "c\\\\nd"]` |' in as_markdown("a", "b", changes)
    assert as_json("a", "b", changes)["changes"][0] == {
        "aspect": "images",
        "where": "node/node",
        "what": "image",
        "before": "docker.io/library/python:3.13.1-slim-bookworm",
        "after": "x:1",
    }
    assert as_text("a", "b", []).endswith("Nothing changes for a job.")
    assert as_markdown("a", "b", []).endswith("Nothing changes for a job.")
