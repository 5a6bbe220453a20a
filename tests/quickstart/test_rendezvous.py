"""The smoke job in containers: its image, and its training code as processes of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support import ROOT
from trainyard.local.cluster.ports import is_free
from trainyard.platform.quickstart import rendezvous
from trainyard.platform.quickstart.smoke import smoke_job
from trainyard.settings.stack_loader import load_stack

SOURCE = Path(rendezvous.__file__).read_text()


def trainer(stack: str) -> dict[str, object]:
    spec: dict[str, object] = smoke_job(load_stack(ROOT / "stacks" / f"Pulumi.{stack}.yaml"))["spec"]["trainer"]
    return spec


def worker(code: str, port: int, rank: int, workers: int) -> subprocess.Popen[str]:
    variables = {"PET_MASTER_ADDR": "127.0.0.1", "PET_MASTER_PORT": port, "PET_NODE_RANK": rank, "PET_NNODES": workers}
    environment = os.environ | {name: str(value) for name, value in variables.items()}
    return subprocess.Popen(
        [sys.executable, "-I", "-c", code], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def test_the_smoke_job_of_nodes_with_kubelets_runs_in_an_image_that_they_have() -> None:
    assert str(trainer("node")["image"]).startswith("localhost/trainyard/trainyard-controller:v")
    assert "image" not in trainer("local")


def test_workers_find_each_other_and_add_up_their_ranks() -> None:
    command = trainer("node")["command"]
    assert isinstance(command, list)
    assert command[-1] == SOURCE
    port = next(port for port in range(34500, 34600) if is_free(port))
    workers = [worker(command[-1], port, rank, 3) for rank in (2, 1, 0)]
    outputs = [process.communicate(timeout=60) for process in workers]
    assert [process.returncode for process in workers] == [0, 0, 0], outputs
    assert {output.rpartition("is ")[2].strip() for output, _ in outputs} == {"3"}


def test_a_worker_that_is_alone_is_its_own_sum() -> None:
    port = next(port for port in range(34600, 34700) if is_free(port))
    process = worker(SOURCE, port, 0, 1)
    assert "the sum of all ranks is 0" in process.communicate(timeout=60)[0]
    assert process.returncode == 0
