"""Converted jobs pass the rules, and a sample of every kind runs to completion on the platform."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.jobs import claim
from tests.convert.conversions import FOLDER, converted
from tests.support import LiveCluster, awaited, environment, require, trainyard
from trainyard.api import Body

pytestmark = pytest.mark.cluster

_SAMPLE = (
    "pytorch-simple",
    "pytorch-roles",
    "pytorch-elastic",
    "tensorflow-parameter-server",
    "mpi-v1",
    "mpi-v2beta1",
    "xgboost-roles",
    "paddle-servers",
    "jax-simple",
    "ray-job",
    "ray-job-submitter",
    "ray-cluster",
    "spark-pi",
    "volcano-plain",
    "volcano-mpi",
    "volcano-pytorch-roles",
)
EVERYTHING = os.environ.get("TRAINYARD_CELLS") == "all"
_NOT_RUN = ("list", "ray-job-selector", "pytorch-coscheduling", "pytorch-kai")
"""Several jobs or none, and those of schedulers that are not there."""

RUN = tuple(sorted({path.stem for path in (FOLDER / "inputs").glob("*.yaml")} - {*_NOT_RUN})) if EVERYTHING else _SAMPLE
"""Inputs whose jobs are run: at least one of every kind, or all."""


@pytest.fixture(scope="module")
def jobs(platform: LiveCluster) -> Iterator[dict[str, Any]]:
    """The TrainJobs after their end, by the name of their input."""
    made = {name: converted(name, runtime="auto" if name == "pytorch-simple" else "always")[0].objects for name in RUN}
    objects = [body for bodies in made.values() for body in bodies]
    names = {
        name: body["metadata"]["name"] for name, bodies in made.items() for body in bodies if body["kind"] == "TrainJob"
    }
    try:
        require(platform.apply(*claims(objects), *(body for body in objects if body["kind"] != "TrainJob")))
        require(platform.apply(*(body for body in objects if body["kind"] == "TrainJob")))
        found: dict[str, Any] = {}

        def ended() -> bool:
            items = platform.get("trainjobs", "-n", "language")["items"]
            bodies = {item["metadata"]["name"]: item for item in items}
            found.update({name: bodies[job] for name, job in names.items()})
            return all(conditions(body) & {"Complete", "Failed", "Suspended"} for body in found.values())

        with suppress(AssertionError):
            awaited("the end of every converted job", ended, timeout=300 if EVERYTHING else 60)
        yield found
    finally:
        delete(platform, [*claims(objects), *objects])


def claims(objects: list[Body]) -> list[Body]:
    """Return the volumes that the inputs take for granted."""
    made = {body["metadata"]["name"] for body in objects if body["kind"] == "PersistentVolumeClaim"}
    named = set(re.findall(r"'claimName': '([^']+)'", str(objects))) - made
    return [claim(name, "language") for name in sorted(named)]


def conditions(body: Body) -> set[str]:
    found = body.get("status", {}).get("conditions", [])
    return {condition["type"] for condition in found if condition["status"] == "True"}


def delete(platform: LiveCluster, objects: list[Body]) -> None:
    for kind in ("TrainJob", "TrainingRuntime", "ConfigMap", "PersistentVolumeClaim"):
        names = [body["metadata"]["name"] for body in objects if body["kind"] == kind]
        if names:
            platform.kubectl("delete", kind, *names, "-n", "language", "--ignore-not-found", "--wait=false")


@pytest.mark.parametrize("name", RUN)
def test_a_converted_job_completes(jobs: dict[str, Any], name: str) -> None:
    expected = "Suspended" if jobs[name]["spec"].get("suspend") else "Complete"
    assert expected in conditions(jobs[name]), jobs[name].get("status")


def test_converted_jobs_pass_the_rules(tmp_path: Path) -> None:
    """Every input, with a runtime of its own, as the tenant of the local stack."""
    env = environment(tmp_path / "state")
    inputs = str(FOLDER / "inputs")
    converted_all = trainyard("convert", inputs, "--runtime", "always", "--out", str(tmp_path / "jobs"), env=env)
    assert converted_all.returncode == 1, "ray-job-selector is skipped"
    report = trainyard("check", "--stack", "local", "-o", "json", str(tmp_path / "jobs"), env=env)
    results = json.loads(report.stdout)["results"]
    assert not [each for each in results if each["severity"] == "error"]
