"""A TrainJob is warned when its command reaches another container than with Kubeflow Trainer."""

from __future__ import annotations

import pytest

from tests.render.builders import pods, replicated_job, runtime, train_job, verdict
from trainyard.api import Body
from trainyard.checks.finding import Finding

COMMAND = {"trainer": {"numNodes": 2, "command": ["mpirun", "x"]}}


def mpi(launcher: str | None, node: str | None) -> Body:
    jobs = (replicated_job("launcher", ancestor=launcher), replicated_job("node", ancestor=node))
    for job in jobs:
        job["template"]["spec"]["template"]["spec"]["containers"][0]["name"] = "node"
    of: Body = runtime(*jobs, mlPolicy={"mpi": {}})
    return of


def warned(spec: Body, of: Body) -> list[Finding]:
    return [warning for warning in verdict(train_job(**spec), of).warnings if "reaches" in warning.message]


@pytest.mark.parametrize(
    ("launcher", "node", "theirs"),
    [(None, None, "no replicatedJob"), ("trainer", "trainer", "replicatedJob launcher and node")],
)
def test_a_command_that_only_the_launcher_gets_here_is_warned_about(
    launcher: str | None, node: str | None, theirs: str
) -> None:
    of = mpi(launcher, node)
    (warning,) = warned(COMMAND, of)
    assert warning.path == "spec.trainer.command"
    assert "reaches replicatedJob launcher;" in warning.message
    assert warning.message.endswith(f"it reaches {theirs}")
    found = {name: pod["spec"]["containers"][0].get("command") for name, pod in pods(train_job(**COMMAND), of).items()}
    assert found == {"launcher": ["mpirun", "x"], "node": None}


@pytest.mark.parametrize(("launcher", "node"), [("trainer", None), (None, "trainer")])
def test_one_label_decides_as_with_kubeflow_trainer(launcher: str | None, node: str | None) -> None:
    assert warned(COMMAND, mpi(launcher, node)) == []


def test_arguments_alone_are_warned_about_and_no_command_is_not() -> None:
    (warning,) = warned({"trainer": {"numNodes": 2, "args": ["x"]}}, mpi(None, None))
    assert warning.path == "spec.trainer.args"
    assert warned({"trainer": {"numNodes": 2}}, mpi(None, None)) == []
