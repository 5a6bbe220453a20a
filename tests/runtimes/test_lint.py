"""Mistakes that people make and no rule refuses are warnings, with what to do instead."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.policy.decisions import STACK, checked
from tests.runtimes.test_catalog import OBJECTS
from trainyard.api import ClusterTrainingRuntime, TrainJob, parse
from trainyard.jobs.render.pipeline import render
from trainyard.jobs.render.result import RenderContext, Rendered
from trainyard.jobs.runtimes.runtime_lint import DomainCapacities, lint_runtime, lint_train_job
from trainyard.scheduling.topology.fabric_compiler import compile_fabric
from trainyard.settings.fabric import FabricSettings
from trainyard.settings.stack_loader import load_stack

FABRIC = compile_fabric(
    FabricSettings.model_validate(
        {
            "tierNames": ["rack", "spine"],
            "nodeShape": {"capacity": {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8"}},
            "shapes": {"small": {"capacity": {"cpu": "48", "memory": "512Gi", "nvidia.com/gpu": "4"}}},
            "domains": [
                {"name": "s", "domains": [{"name": "a", "nodes": 4}, {"name": "b", "nodes": 6, "shape": "small"}]}
            ],
        }
    )
)
CAPACITIES = DomainCapacities.of(FABRIC)


def linted(runtime: dict[str, Any], capacities: DomainCapacities | None = CAPACITIES, **trainer: Any) -> list[str]:
    """Return what is said about a TrainJob, as ``path: message (fix)``."""
    body: dict[str, Any] = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "j", "namespace": "n"},
        "spec": {"runtimeRef": {"name": runtime["metadata"]["name"]}, "trainer": trainer},
    }
    tiers = {"rack": 1, "spine": 2}
    outcome = render(parse(TrainJob, body), parse(ClusterTrainingRuntime, runtime), RenderContext(tiers=tiers))
    assert isinstance(outcome, Rendered), outcome
    return [str(finding) for finding in lint_train_job(body, runtime, outcome.objects, lambda: capacities)]


def gpus(count: int, **others: str) -> dict[str, Any]:
    return {"limits": {"nvidia.com/gpu": str(count), **others}}


@pytest.mark.parametrize("name", sorted(OBJECTS))
def test_no_shipped_runtime_has_a_finding(name: str) -> None:
    assert list(lint_runtime(OBJECTS[name])) == []


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (["torchrun train.py"], True),
        (["python -m train --lr 1"], True),
        (["sh", "-c", "python train.py && echo done"], False),
        (["torchrun", "train.py"], False),
        (["torchrun"], False),
        (["  torchrun"], False),
        ([], False),
    ],
)
def test_a_command_in_one_word_is_reported(command: list[str], found: bool) -> None:
    runtime = copy.deepcopy(OBJECTS["plain"])
    jobs = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    jobs[0]["template"]["spec"]["template"]["spec"]["containers"][0]["command"] = command
    assert bool(list(lint_runtime(runtime))) == found


def test_the_fix_of_a_command_can_be_pasted() -> None:
    runtime = copy.deepcopy(OBJECTS["plain"])
    jobs = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    jobs[0]["template"]["spec"]["template"]["spec"]["containers"][0]["command"] = ["torchrun train.py"]
    (said,) = lint_runtime(runtime)
    assert said.message == "is a program name with spaces, 'torchrun train.py'; no shell splits it"
    assert said.fix == 'write ["torchrun", "train.py"], or ["sh", "-c", "…"]'


@pytest.mark.parametrize(
    ("processes", "devices", "message"),
    [
        (8, 8, None),
        (8, 4, "8 processes share 4 devices of a node"),
        (2, 8, "starts 2 processes on a node with 8 devices: 6 stay idle"),
        (8, 0, None),
        (None, 8, None),
    ],
)
@pytest.mark.parametrize("name", ["torch-distributed", "mpi-openmpi", "paddle"])
def test_processes_are_compared_with_devices(
    name: str, processes: int | None, devices: int, message: str | None
) -> None:
    trainer = {"resourcesPerNode": gpus(devices), **({"numProcPerNode": processes} if processes else {})}
    said = linted(OBJECTS[name], **trainer)
    assert [message in each for each in said if message] == ([True] if message else [])
    assert bool(said) == bool(message)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["torchrun", "--nproc_per_node=8", "train.py"], None),
        (["torchrun", "--nproc-per-node", "8", "train.py"], None),
        (["sh", "-c", "cd /x && torchrun --nproc-per-node=8 train.py"], None),
        (["torchrun", "--nproc_per_node=auto", "train.py"], None),
        (["torchrun", "--nproc_per_node=$(GPUS)", "train.py"], None),
        (["torchrun", "--nproc_per_node=2", "train.py"], "starts 2 processes on a node with 8 devices: 6 stay idle"),
        (["torchrun", "--nproc_per_node", "16", "train.py"], "16 processes share 8 devices of a node"),
        (["torchrun", "train.py"], "starts 1 process on a node with 8 devices: 7 stay idle"),
    ],
)
@pytest.mark.parametrize("field", ["command", "args"])
def test_the_argument_of_the_launcher_counts(field: str, command: list[str], message: str | None) -> None:
    """It has precedence over the variable that numProcPerNode sets."""
    said = linted(OBJECTS["torch-distributed"], resourcesPerNode=gpus(8), numProcPerNode=1, **{field: command})
    assert [message in each for each in said if message] == ([True] if message else [])
    assert bool(said) == bool(message)


@pytest.mark.parametrize(
    ("command", "trainer", "field"),
    [
        (["torchrun", "--nproc-per-node", "4"], {"args": ["--epochs", "4"]}, None),
        (["torchrun", "--nproc-per-node=4"], {"args": ["train4.py"]}, None),
        (["torchrun", "--nproc-per-node"], {"args": ["4", "train.py"]}, "args"),
        ([], {"command": ["torchrun", "--nproc-per-node"], "args": ["4", "train.py"]}, "args"),
        ([], {"command": ["torchrun", "--nproc-per-node=4"], "args": ["--epochs", "4"]}, "command"),
        ([], {"command": ["torchrun", "--epochs=4"], "args": ["--nproc-per-node=4", "train.py"]}, "args"),
    ],
)
def test_the_argument_of_the_launcher_is_found_where_the_job_has_it(
    command: list[str], trainer: dict[str, Any], field: str | None
) -> None:
    runtime = copy.deepcopy(OBJECTS["torch-distributed"])
    jobs = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    jobs[0]["template"]["spec"]["template"]["spec"]["containers"][0]["command"] = command
    said = [text.partition(":")[0] for text in linted(runtime, resourcesPerNode=gpus(8), **trainer)]
    assert said == ([f"spec.trainer.{field}"] if field else [])


def test_a_runtime_with_more_processes_than_devices_is_reported() -> None:
    runtime = copy.deepcopy(OBJECTS["torch-distributed"])
    runtime["spec"]["mlPolicy"]["torch"]["numProcPerNode"] = 4
    jobs = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    jobs[0]["template"]["spec"]["template"]["spec"]["containers"][0]["resources"] = gpus(2)
    (finding,) = lint_runtime(runtime)
    assert (finding.path, finding.message[:27]) == ("spec.mlPolicy.torch.numProcPerNode", "4 processes share 2 devices")
    assert "4 processes share 1 device" in linted(runtime, resourcesPerNode=gpus(1))[0]


@pytest.mark.parametrize(
    ("nodes", "resources", "room"),
    [
        (4, gpus(8), None),
        (5, gpus(8), 4),
        (8, gpus(4), None),
        (9, gpus(4), 8),
        (33, gpus(1), 32),
        (2, gpus(16), 0),
        (100, {"limits": {"cpu": "1"}}, None),
        (9, {"requests": {"cpu": "48"}}, 8),
        (1000, {}, None),
    ],
)
def test_a_gang_larger_than_a_rack_is_reported(nodes: int, resources: dict[str, Any], room: int | None) -> None:
    said = linted(OBJECTS["torch-distributed-gang"], numNodes=nodes, resourcesPerNode=resources)
    assert len(said) == (room is not None)
    if room is not None:
        assert f"{nodes} pods of replicatedJob 'node' must be in one rack; the largest can run {room}" in said[0]
    assert linted(OBJECTS["torch-distributed-gang"], None, numNodes=nodes, resourcesPerNode=resources) == []
    assert linted(OBJECTS["torch-distributed"], numNodes=nodes, resourcesPerNode=resources) == []


@pytest.mark.parametrize(
    ("topology", "found"),
    [
        ({"mode": "hard", "highestTierAllowed": 2}, False),
        ({"mode": "soft", "highestTierAllowed": 1}, False),
        ({"mode": "hard", "highestTierName": "rack"}, True),
        ({"mode": "hard", "highestTierName": "spine"}, False),
    ],
)
def test_only_a_limit_that_holds_counts(topology: dict[str, Any], found: bool) -> None:
    runtime = copy.deepcopy(OBJECTS["torch-distributed-gang"])
    runtime["spec"]["podGroupPolicy"]["volcano"]["networkTopology"] = topology
    assert bool(linted(runtime, numNodes=9, resourcesPerNode=gpus(4))) == found


@pytest.mark.parametrize(("size", "found"), [(4, False), (8, True)])
def test_a_group_larger_than_a_rack_is_reported(size: int, found: bool) -> None:
    runtime = copy.deepcopy(OBJECTS["torch-distributed-gang"])
    group = {"name": "node", "subGroupSize": size, "networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
    runtime["spec"]["podGroupPolicy"]["volcano"] = {"subGroupPolicy": [group]}
    said = linted(runtime, numNodes=16, resourcesPerNode=gpus(8))
    assert ["8 pods of replicatedJob 'node' must be in one rack; the largest can run 4" in line for line in said] == (
        [True] * found
    )


def test_a_gang_that_starts_without_its_late_members_is_reported() -> None:
    runtime = copy.deepcopy(OBJECTS["paddle-ps"])
    jobs = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    assert linted(runtime, numNodes=3) == []
    jobs[-1]["dependsOn"] = [{"name": jobs[0]["name"], "status": "Ready"}]
    (said,) = linted(runtime, numNodes=3)
    assert said.startswith(f"spec.runtimeRef: the runtime's replicatedJob '{jobs[-1]['name']}' (3 pods) starts when")
    assert linted(runtime, numNodes=1) == []


async def test_a_check_of_manifests_tells_them_too(tmp_path: Path) -> None:
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "j", "namespace": "vision"},
        "spec": {
            "runtimeRef": {"name": "torch-distributed-gang"},
            "trainer": {"command": ["torchrun x.py"], "numNodes": 5, "resourcesPerNode": gpus(8)},
        },
    }
    runtime = copy.deepcopy(OBJECTS["plain"])
    runtime["metadata"] = {"name": "own", "labels": runtime["metadata"]["labels"]}
    runtime["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0][
        "command"
    ] = ["a b"]
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump_all([job, runtime]))
    document = yaml.safe_load(STACK.read_text())
    document["config"]["trainyard:runtimes"] = {}
    (tmp_path / "stack.yaml").write_text(yaml.safe_dump(document))
    report = await checked(file, settings=load_stack(tmp_path / "stack.yaml"))
    assert [(each.object, each.path) for each in report.warnings if each.rule is None] == [
        (
            "ClusterTrainingRuntime own",
            "spec.template.spec.replicatedJobs[0].template.spec.template.spec.containers[0].command[0]",
        ),
        ("TrainJob vision/j", "spec.trainer.command[0]"),
        ("TrainJob vision/j", "spec.trainer.numNodes"),
    ]
