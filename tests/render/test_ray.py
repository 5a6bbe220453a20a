"""Ray: who is head, worker and driver, what each runs, and when the job has succeeded."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest

from tests.render.builders import (
    container,
    environment,
    objects,
    only,
    pods,
    replicated_job,
    runtime,
    train_job,
    trainer,
    verdict,
)

GPU = "nvidia.com/gpu"
DRIVER = ["python", "train.py", "--name", "two words"]


def ray(*jobs: Any, **policy: Any) -> Any:
    return runtime(*(jobs or (trainer(),)), mlPolicy={"ray": {}, **policy})


def part(name: str, *, pods: int = 1, main: Any = None, **fields: Any) -> Any:
    return replicated_job(name, containers=[main or container()], job={"parallelism": pods}, **fields)


def launcher(**fields: Any) -> Any:
    return part("launcher", ancestor="trainer", **fields)


def mains(job: Any, of: Any) -> dict[str, Any]:
    return {name: pod["spec"]["containers"][0] for name, pod in pods(job, of).items()}


def counts(job: Any, of: Any) -> dict[str, int]:
    job_set = objects(job, of)["JobSet"]["spec"]
    return {entry["name"]: entry["template"]["spec"]["parallelism"] for entry in job_set["replicatedJobs"]}


def variables(head: str, nodes: int) -> dict[str, str]:
    return {
        "RAY_HEAD_HOST": head,
        "RAY_ADDRESS": f"{head}:6379",
        "RAY_API_SERVER_ADDRESS": f"http://{head}:8265",
        "RAY_NODE_COUNT": str(nodes),
    }


def starts_head(main: Any) -> bool:
    return "ray start --head" in main["command"][2]


def joins(main: Any) -> bool:
    return "ray start --address=" in main["command"][2]


def test_nodes_alone_are_the_cluster_and_the_first_is_head_and_driver() -> None:
    job = train_job(trainer={"numNodes": 3, "command": DRIVER[:1], "args": DRIVER[1:]})
    node = mains(job, ray())["node"]
    assert environment(node) == variables("job-node-0-0.job", 3)
    assert starts_head(node)
    assert joins(node)
    assert "JOB_COMPLETION_INDEX" in node["command"][2]
    assert node["args"] == DRIVER
    assert [port["containerPort"] for port in node["ports"]] == [6379, 8265, 10001]
    spec = objects(job, ray())["JobSet"]["spec"]
    assert spec["replicatedJobs"][0]["template"]["spec"]["successPolicy"] == {"rules": [{"succeededIndexes": "0"}]}
    assert "successPolicy" not in spec


def test_one_node_is_only_a_head() -> None:
    node = mains(train_job(trainer={"command": DRIVER}), ray())["node"]
    assert starts_head(node)
    assert not joins(node)
    (job,) = objects(train_job(), ray())["JobSet"]["spec"]["replicatedJobs"]
    assert "successPolicy" not in job["template"]["spec"]


def test_without_a_command_the_head_serves() -> None:
    node = mains(train_job(), ray())["node"]
    assert starts_head(node)
    assert "args" not in node


def test_a_launcher_is_a_head_beside_the_nodes() -> None:
    limits = {"limits": {GPU: "4", "cpu": "8"}}
    asked = {"numNodes": 2, "resourcesPerNode": limits, "image": "mine", "env": [{"name": "A", "value": "1"}]}
    job = train_job(trainer={**asked, "command": DRIVER})
    of = ray(launcher(main=container(resources={"limits": {"cpu": "1"}})), part("node"))
    found = mains(job, of)
    assert counts(job, of) == {"launcher": 1, "node": 2}
    assert found["launcher"]["resources"] == {"limits": {"cpu": "1"}}
    assert found["node"]["resources"] == limits
    assert starts_head(found["launcher"])
    assert "--num-cpus=1 " in found["launcher"]["command"][2]
    assert found["launcher"]["args"] == DRIVER
    assert joins(found["node"])
    assert "--num-cpus=8 --num-gpus=4 " in found["node"]["command"][2]
    for name in ("launcher", "node"):
        assert found[name]["image"] == "mine"
        assert environment(found[name]) == {**variables("job-launcher-0-0.job", 3), "A": "1"}
    policy = objects(job, of)["JobSet"]["spec"]["successPolicy"]
    assert policy == {"operator": "All", "targetReplicatedJobs": ["launcher"]}


STALE = {"requests": {"cpu": "1"}, "limits": {"cpu": "9"}}


def cores(main: Any) -> str:
    (found,) = re.findall(r"--num-cpus=(\d+) ", main["command"][2].replace("\n", " "))[:1]
    return str(found)


@pytest.mark.parametrize(
    ("asked", "of_workers"),
    [
        ({"limits": {"cpu": "3"}}, "3"),
        ({"limits": {"cpu": "3"}, "requests": {"cpu": "2"}}, "2"),
        ({"requests": {"cpu": "5"}}, "5"),
        ({"limits": {"memory": "1Gi"}}, "1"),
    ],
)
def test_the_cores_that_the_job_names_count_and_not_the_request_of_the_runtime(asked: Any, of_workers: str) -> None:
    main = container(resources=STALE)
    job = train_job(trainer={"numNodes": 2, "resourcesPerNode": asked})
    alone = mains(job, ray(trainer(containers=[main])))
    assert cores(alone["node"]) == of_workers
    for jobs in (
        (launcher(main=main), part("node", main=main)),
        (part("head", main=main), trainer(containers=[main])),
        (part("head", main=main), part("node", main=main), launcher()),
    ):
        found = mains(job, ray(*jobs))
        assert cores(found["node"]) == of_workers
        assert cores(found[jobs[0]["name"]]) == "1"


def test_an_unlabelled_head_runs_the_command_of_labelled_nodes() -> None:
    job = train_job(trainer={"numNodes": 2, "command": DRIVER, "image": "mine"})
    of = ray(part("head", pods=4), trainer())
    found = mains(job, of)
    assert counts(job, of) == {"head": 1, "node": 2}
    assert found["head"]["args"] == DRIVER
    assert found["head"]["image"] == "mine"
    assert joins(found["node"])
    assert "args" not in found["node"]
    assert environment(found["node"]) == variables("job-head-0-0.job", 3)
    assert objects(job, of)["JobSet"]["spec"]["successPolicy"]["targetReplicatedJobs"] == ["head"]


def test_a_launcher_beside_a_head_submits() -> None:
    submit = ["ray", "job", "submit", "--", "python", "train.py"]
    job = train_job(trainer={"numNodes": 2, "command": submit})
    of = ray(part("head"), part("node"), launcher())
    found = mains(job, of)
    assert counts(job, of) == {"head": 1, "node": 2, "launcher": 1}
    assert starts_head(found["head"])
    assert "args" not in found["head"]
    assert found["launcher"]["command"] == submit
    assert environment(found["launcher"]) == {
        **variables("job-head-0-0.job", 3),
        "RAY_ADDRESS": "http://job-head-0-0.job:8265",
    }
    assert objects(job, of)["JobSet"]["spec"]["successPolicy"]["targetReplicatedJobs"] == ["launcher"]


def test_numnodes_of_neither_side_leaves_the_parallelism_of_the_nodes() -> None:
    assert counts(train_job(), ray(launcher(), part("node", pods=5))) == {"launcher": 1, "node": 5}
    assert counts(train_job(), ray(launcher(), part("node", pods=5), numNodes=2)) == {"launcher": 1, "node": 2}


def test_containers_that_start_ray_themselves_are_left_alone() -> None:
    own = ["bash", "-c", "ray start --head --num-cpus=0 && python train.py"]
    of = ray(launcher(main=container(command=own)), part("node", main=container(command=["worker"], args=["x"])))
    found = mains(train_job(), of)
    assert found["launcher"]["command"] == own
    assert (found["node"]["command"], found["node"]["args"]) == (["worker"], ["x"])


def test_the_object_store_has_memory() -> None:
    own = container(volumeMounts=[{"name": "shm", "mountPath": "/dev/shm"}])
    found = pods(train_job(), ray(launcher(main=own), part("node")))
    assert [mount["name"] for mount in found["launcher"]["spec"]["containers"][0]["volumeMounts"]] == ["shm"]
    assert found["node"]["spec"]["volumes"] == [{"name": "ray-shared-memory", "emptyDir": {"medium": "Memory"}}]


def test_a_policy_of_the_runtime_decides_about_success() -> None:
    own = {"operator": "Any", "targetReplicatedJobs": ["node"]}
    of = runtime(launcher(), part("node"), mlPolicy={"ray": {}}, jobset={"successPolicy": own})
    assert objects(train_job(), of)["JobSet"]["spec"]["successPolicy"] == own


def test_rejections() -> None:
    job = train_job(trainer={"env": [{"name": "RAY_ADDRESS", "value": "x"}]})
    assert only(verdict(job, ray()).errors).path == "spec.trainer.env"
    assert only(verdict(train_job(), ray(part("head", replicas=2), trainer())).errors).path == "spec.runtimeRef"


@pytest.mark.parametrize("name", ["node", "launcher"])
def test_the_scripts_are_shell_and_kubernetes_expands_nothing_in_them(name: str) -> None:
    of = ray(launcher(), part("node")) if name == "launcher" else ray()
    for main in mains(train_job(trainer={"numNodes": 2, "command": DRIVER}), of).values():
        script = main["command"][2]
        assert "$(" not in script
        assert "$$" not in script
        subprocess.run(["/bin/bash", "-n", "-c", script], check=True)
