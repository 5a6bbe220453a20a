"""The real libraries of other frameworks, with the commands and variables that render returns, in pods of this machine.

They are large, so they are not part of the toolchain: TRAINYARD_FRAMEWORKS names folders of Python environments that
have them (``/venv-a/bin:/venv-b/bin``), and a framework that none of them has is skipped. The pods share their process
ids: on a busy machine, a Ray worker whose start times out runs ``ray stop``, which then ends Ray in all pods.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.launchers.rendered_pods import require_namespaces, run_pods
from tests.render.builders import container, replicated_job, runtime, train_job, trainer
from trainyard.api import Body

pytestmark = pytest.mark.slow

VARIABLE = "TRAINYARD_FRAMEWORKS"
REPORT = """
import os, pathlib, socket
def report(rank, size):
    pathlib.Path(os.environ["RESULTS"], str(rank)).write_text(f"{size} {socket.gethostname()}")
"""
PROGRAMS = {
    "torch": """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank())])
dist.all_reduce(total)
assert total.item() == sum(range(dist.get_world_size()))
report(dist.get_rank(), dist.get_world_size())
""",
    "jax": """
import jax
jax.distributed.initialize(
    os.environ["JAX_COORDINATOR_ADDRESS"], int(os.environ["JAX_NUM_PROCESSES"]), int(os.environ["JAX_PROCESS_ID"])
)
report(jax.process_index(), jax.process_count())
jax.distributed.shutdown()
""",
    "xgboost": """
import numpy
from xgboost import collective
from xgboost.tracker import RabitTracker
names = ("TRACKER_URI", "TRACKER_PORT", "TASK_ID", "NUM_WORKER")
uri, port, task, workers = (os.environ[f"DMLC_{name}"] for name in names)
tracker = RabitTracker(int(workers), host_ip="0.0.0.0", port=int(port), sortby="task") if task == "0" else None
if tracker:
    tracker.start()
with collective.CommunicatorContext(
    dmlc_tracker_uri=uri, dmlc_tracker_port=int(port), dmlc_task_id=task, dmlc_retry=20
):
    assert collective.allreduce(numpy.array([1]), collective.Op.SUM)[0] == int(workers)
    assert collective.get_rank() == int(task)
    report(collective.get_rank(), collective.get_world_size())
if tracker:
    tracker.wait_for()
""",
    "tensorflow": """
import tensorflow
strategy = tensorflow.distribute.MultiWorkerMirroredStrategy()
resolver = tensorflow.distribute.cluster_resolver.TFConfigClusterResolver()
report(resolver.task_id, strategy.num_replicas_in_sync)
""",
    "paddle": """
import paddle, paddle.distributed as dist
paddle.set_device("cpu")
dist.init_parallel_env()
total = paddle.to_tensor([float(dist.get_rank())])
dist.all_reduce(total)
assert total.item() == sum(range(dist.get_world_size()))
report(dist.get_rank(), dist.get_world_size())
""",
    "paddle-ps": """
import time
server = f"server-{os.environ['PADDLE_PORT']}-{os.environ['POD_IP']}"
trains = os.environ["TRAINING_ROLE"] == "TRAINER"
report(os.environ["PADDLE_TRAINER_ID"] if trains else server, os.environ["PADDLE_TRAINERS_NUM"])
time.sleep(3)
""",
    "ray": """
import ray
ray.init(log_to_driver=False)
names = sorted(node["NodeManagerHostname"] for node in ray.nodes())
for rank, name in enumerate(names):
    pathlib.Path(os.environ["RESULTS"], str(rank)).write_text(f"{len(names)} {name}")
""",
}
NODE = "job-node-0-{}"
HEAD_AND_WORKERS = (
    replicated_job("head", ancestor="trainer", containers=[container("node")]),
    replicated_job("node", containers=[container("node")]),
)
TRAINERS_AND_SERVERS = (trainer(), replicated_job("ps", containers=[container("node")], job={"parallelism": 2}))
ELASTIC = {"elasticPolicy": {"minNodes": 1, "maxNodes": 2, "maxRestarts": 1}}
TORCHRUN = ("python3", "-m", "torch.distributed.run")
PADDLE = ("python3", "-m", "paddle.distributed.launch", "--log_dir", "{folder}/logs")
PYTHON = ("python3",)
TWICE = [NODE.format(index) for index in (0, 0, 1, 1)]
ONCE = [NODE.format(index) for index in range(2)]


def environment_with(package: str) -> Path:
    """Return the folder of programs of a Python environment that has a package."""
    for folder in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        found = subprocess.run([f"{folder}/python3", "-c", f"import {package}"], capture_output=True, check=False)
        if found.returncode == 0:
            return Path(folder)
    pytest.skip(f"{VARIABLE} names no environment with {package}")


@pytest.mark.parametrize(
    ("name", "policy", "jobs", "command", "processes", "hosts"),
    [
        ("torch", {}, (trainer(),), TORCHRUN, 2, TWICE),
        ("torch", ELASTIC, (trainer(),), TORCHRUN, 2, TWICE),
        ("jax", {}, (trainer(),), PYTHON, None, ONCE),
        ("xgboost", {}, (trainer(),), PYTHON, None, ONCE),
        ("tensorflow", {}, (trainer(),), PYTHON, None, ONCE),
        ("paddle", {}, (trainer(),), PADDLE, 2, TWICE),
        ("paddle-ps", {}, TRAINERS_AND_SERVERS, PADDLE, 2, TWICE),
        ("ray", {}, (trainer(),), PYTHON, None, ONCE),
        ("ray", {}, HEAD_AND_WORKERS, PYTHON, None, ["job-head-0-0", *ONCE]),
    ],
    ids=["torch", "torch-elastic", "jax", "xgboost", "tensorflow", "paddle", "paddle-ps", "ray", "ray-head"],
)
def test_processes_find_each_other_by_the_variables_of_their_pods(
    tmp_path: Path,
    name: str,
    policy: Body,
    jobs: tuple[Body, ...],
    command: tuple[str, ...],
    processes: int | None,
    hosts: list[str],
) -> None:
    require_namespaces()
    framework = name.partition("-")[0]
    place = environment_with(framework)
    program, results = tmp_path / "program.py", tmp_path / "results"
    program.write_text(REPORT + PROGRAMS[name])
    results.mkdir()
    words = [word.format(folder=tmp_path) for word in command]
    fields: dict[str, Any] = {"numNodes": 2, "command": [*words, str(program)]}
    if processes is not None:
        fields["numProcPerNode"] = processes
    run = run_pods(
        tmp_path / "run",
        train_job(trainer=fields),
        runtime(*jobs, mlPolicy={framework: policy}),
        "job-head-0-0" if jobs is HEAD_AND_WORKERS else NODE.format(0),
        path=place,
        variables={"RESULTS": str(results)},
        interface="net1",
        seconds=200,
    )
    found = {file.name: file.read_text().split() for file in results.iterdir() if file.name.isdigit()}
    expected = {str(rank): [str(len(hosts)), host] for rank, host in enumerate(hosts)}
    assert found == expected, f"{run.output[-2000:]}\n{run.errors[-4000:]}"
    servers = sorted(file.name for file in results.iterdir() if not file.name.isdigit())
    ports = [f"server-36543-job-ps-0-{index}.job" for index in range(2)]
    assert servers == (ports if jobs is TRAINERS_AND_SERVERS else [])
