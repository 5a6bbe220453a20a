"""Horovod: the same as Open MPI, and the arguments of horovodrun as variables."""

from __future__ import annotations

from typing import Any

import pytest

from tests.render.builders import environment, objects, only, pods, train_job, verdict
from tests.render.launched import launched
from trainyard.api import Body

OPEN_MPI = {
    "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
    "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
    "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
    "PRTE_MCA_prte_default_hostfile": "/etc/mpi/hostfile",
    "PRTE_MCA_prte_keep_fqdn_hostnames": "false",
    "PRTE_MCA_plm_ssh_args": "-o ConnectionAttempts=10",
    "PRTE_MCA_plm_ssh_no_tree_spawn": "true",
}


def horovod(**policy: Any) -> Any:
    return launched(framework="horovod", **policy)


@pytest.mark.parametrize(
    ("policy", "trainer", "processes", "lines"),
    [
        ({}, {}, 1, ["job-node-0-0.job slots=1"]),
        ({}, {"numNodes": 3, "numProcPerNode": 4}, 12, [f"job-node-0-{index}.job slots=4" for index in range(3)]),
        (
            {"runLauncherAsNode": True, "numProcPerNode": 2},
            {"numNodes": 2},
            4,
            ["job-node-0-0.job slots=2", "job-launcher-0-0.job slots=2"],
        ),
        (
            {"runLauncherAsNode": True},
            {"resourcesPerNode": {"limits": {"nvidia.com/gpu": 8}}},
            8,
            ["job-launcher-0-0.job slots=8"],
        ),
    ],
)
def test_horovodrun_finds_its_arguments_in_variables(
    policy: Body, trainer: Body, processes: int, lines: list[str]
) -> None:
    job, runtime = train_job(trainer=trainer), horovod(**policy)
    [container] = pods(job, runtime)["launcher"]["spec"]["containers"]
    slots = lines[0].partition("slots=")[2]
    assert environment(container) == {
        **OPEN_MPI,
        "OMPI_MCA_orte_set_default_slots": slots,
        "PRTE_MCA_prte_set_default_slots": slots,
        "HOROVOD_HOSTFILE": "/etc/mpi/hostfile",
        "HOROVOD_NUM_PROC": str(processes),
    }
    assert objects(job, runtime)["ConfigMap"]["data"]["hostfile"].splitlines() == lines


def test_keys_and_host_file_are_those_of_mpi() -> None:
    job = train_job()
    ours, theirs = (objects(job, launched(framework=name, sshAuthMountPath="/keys")) for name in ("horovod", "mpi"))
    assert ours["Secret"] == theirs["Secret"]
    assert ours["ConfigMap"] == theirs["ConfigMap"]
    for pod in ("node", "launcher"):
        volumes = (pods(job, launched(framework=name))[pod]["spec"]["volumes"] for name in ("horovod", "mpi"))
        assert next(volumes) == next(volumes)


@pytest.mark.parametrize("name", ["HOROVOD_HOSTFILE", "HOROVOD_NUM_PROC", "OMPI_MCA_orte_default_hostfile"])
def test_variables_are_reserved(name: str) -> None:
    job = train_job(trainer={"env": [{"name": name, "value": "x"}]})
    assert only(verdict(job, horovod()).errors).message.endswith(f"invalid envs configured: [{name}]")


def test_messages_name_the_framework() -> None:
    finding = only(verdict(train_job(trainer={"numProcPerNode": "auto"}), horovod()).errors)
    assert finding.message == "must have an int value for Horovod TrainJob"
