"""Jobs that a schedule creates are converted once, and servers of the same operators are named as what they are."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.convert import conversions
from trainyard.api import Body
from trainyard.errors import TrainyardError
from trainyard.jobs.convert.conversion import Conversion

IMAGE: Final = "registry.example/app:1"
POD: Final = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": IMAGE}]}}
SPARK: Final = {"type": "Scala", "image": IMAGE, "mainApplicationFile": "local:///a.jar", "driver": {}}
SPARK_JOB: Final = {**SPARK, "executor": {"instances": 3}, "monitoring": {"exposeDriverMetrics": True}}
GROUP: Final = {"rayStartParams": {}, "template": POD}
RAY_JOB: Final = {
    "entrypoint": "python a.py",
    "rayClusterSpec": {"headGroupSpec": GROUP},
    "preRunningDeadlineSeconds": 9,
}
VOLCANO_JOB: Final = {"tasks": [{"name": "a", "replicas": 2, "template": POD}], "runningEstimate": "1h"}
SCHEDULES: Final = [
    ("sparkoperator.k8s.io/v1beta2", "ScheduledSparkApplication", "template", SPARK_JOB, "spec.template.monitoring"),
    ("ray.io/v1", "RayCronJob", "jobTemplate", RAY_JOB, "spec.jobTemplate.preRunningDeadlineSeconds"),
    (
        "batch.volcano.sh/v1alpha1",
        "CronJob",
        "jobTemplate",
        {"metadata": {"labels": {"team": "vision"}}, "spec": VOLCANO_JOB},
        "spec.jobTemplate.spec.runningEstimate",
    ),
]


def conversion_of(version: str, kind: str, spec: Body, **metadata: Any) -> Conversion:
    about = {"name": "nightly", "namespace": "vision", **metadata}
    return conversions.conversion_of({"apiVersion": version, "kind": kind, "metadata": about, "spec": spec})


@pytest.mark.parametrize(("version", "kind", "field", "template", "inner"), SCHEDULES)
def test_the_job_of_a_schedule_is_converted_and_the_schedule_is_lost(
    version: str, kind: str, field: str, template: Any, inner: str
) -> None:
    spec = {"schedule": "@daily", "timeZone": "UTC", "suspend": False, field: template}
    conversion = conversion_of(version, kind, spec)
    assert conversion.source == f"{kind} vision/nightly"
    assert [body["kind"] for body in conversion.objects] == ["TrainingRuntime", "TrainJob"]
    assert conversion.objects[-1]["metadata"]["name"] == "nightly"
    lost = {note.path: note for note in conversion.lost}
    assert "nothing creates jobs at times" in lost["spec.schedule"].message
    assert lost["spec.schedule"].value == "@daily"
    assert {"spec.schedule", inner} == set(lost)
    for note in conversion.notes:
        assert not note.path.startswith("spec.") or note.path.split(".")[1] in {field, *spec}, note


def test_labels_of_a_schedule_that_are_no_object_are_refused_in_words() -> None:
    version, kind, field, template, _ = SCHEDULES[2]
    with pytest.raises(TrainyardError, match=r"metadata\.labels must be an object, but is 'team'"):
        conversion_of(version, kind, {"schedule": "@daily", field: template}, labels="team")


def test_unknown_fields_of_the_schedule_are_lost() -> None:
    spec = {"schedule": "@daily", "template": SPARK_JOB, "unheardOf": 1, "concurrencyPolicy": "Forbid"}
    conversion = conversion_of("sparkoperator.k8s.io/v1beta2", "ScheduledSparkApplication", spec)
    lost = {note.path: note.message for note in conversion.lost}
    assert "is not known here" in lost["spec.unheardOf"]
    notes = {note.path: note.fidelity.value for note in conversion.notes}
    assert notes["spec.concurrencyPolicy"] == "changed"


@pytest.mark.parametrize(("version", "kind", "field", "template", "_inner"), SCHEDULES)
def test_a_schedule_that_is_suspended_gives_a_job_that_is(
    version: str, kind: str, field: str, template: Any, _inner: str
) -> None:
    conversion = conversion_of(version, kind, {"schedule": "@daily", "suspend": True, field: template})
    assert conversion.objects[-1]["spec"]["suspend"] is True
    assert "spec.suspend" in {note.path for note in conversion.notes}
    assert "is not known here" not in str(conversion.notes)


@pytest.mark.parametrize(
    ("version", "kind"), [("ray.io/v1", "RayService"), ("sparkoperator.k8s.io/v1alpha1", "SparkConnect")]
)
def test_servers_are_no_jobs(version: str, kind: str) -> None:
    conversion = conversion_of(version, kind, {})
    assert conversion.objects == ()
    (note,) = conversion.lost
    assert "serves" in note.message
    assert "leave it" in note.fix
