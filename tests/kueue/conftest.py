"""A platform whose tenant vision queues with Kueue, and whose tenant language queues with Volcano."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import live, until_its_last_test
from tests.support import LiveCluster, environment, require, stack_file, trainyard
from trainyard.local.cluster.toolchain import Toolchain
from trainyard.settings.versions import PROGRAMS

GPUS = 32
"""Quota of each ClusterQueue, half of the fabric."""
HOST_LABELS = ["node.kubernetes.io/instance-type", "kubernetes.io/hostname"]


@pytest.fixture(scope="session")
def kueue_built() -> None:
    """Skip where Kueue is not built, which takes minutes."""
    (found,) = Toolchain().resolve([program for program in PROGRAMS if program.name == "kueue"])
    if found.path is None:
        pytest.skip("Kueue is not built; `make test-kueue` builds it and runs these tests")


def with_kueue(config: dict[str, Any]) -> None:
    """Change the settings of the local stack."""
    quotas = {"cpu": "384", "memory": "4Ti", "nvidia.com/gpu": str(GPUS)}
    config["trainyard:kueue"] = {
        "install": True,
        "topologies": {
            "fabric": {
                "levels": ["topology.trainyard.dev/spine", "topology.trainyard.dev/rack", "kubernetes.io/hostname"]
            }
        },
        "flavors": {
            "any": {},
            "placed": {"nodeLabels": {"node.kubernetes.io/instance-type": "simulated-8gpu"}, "topology": "fabric"},
        },
        "clusterQueues": {
            "vision": {
                "resourceGroups": [{"flavors": [{"flavor": "any", "quotas": quotas}]}],
                "preemption": {"withinClusterQueue": "LowerPriority"},
            },
            "placed": {"resourceGroups": [{"flavors": [{"flavor": "placed", "quotas": quotas}]}]},
        },
        "localQueues": [
            {"tenant": "vision", "name": "training", "clusterQueue": "vision"},
            {"tenant": "vision", "name": "placed", "clusterQueue": "placed"},
        ],
        "workloadPriorityClasses": {"ordinary": {"value": 10}, "urgent": {"value": 1000}},
        "waitForPodsReady": {"timeoutSeconds": 45, "backoffBaseSeconds": 1, "backoffLimitCount": 1},
    }
    config["trainyard:tenants"]["vision"]["priorityClasses"] += ["ordinary", "urgent"]
    config["trainyard:queues"]["vision"] = {"parent": "research", "reclaimable": False}
    config["trainyard:policies"] |= {"parameters": {"TEN-005": {"nodeLabels": HOST_LABELS}}}
    config["trainyard:runtimes"] = {"include": ["torch-distributed", "torch-distributed-gang", "mpi-openmpi"]}


@pytest.fixture(scope="session")
def kueue_platform(
    request: pytest.FixtureRequest, kueue_built: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveCluster]:
    """The platform, installed by the program."""
    env = environment(request.getfixturevalue("state_home"))
    config = stack_file(tmp_path_factory.mktemp("kueue"), "kueue", with_kueue)
    with until_its_last_test(request) as ends:
        ends.callback(trainyard, "cluster", "down", "--name", "kueue", "--delete", env=env)
        require(trainyard("cluster", "up", "--name", "kueue", env=env))
        cluster = live("kueue", config, env)
        require(cluster.trainyard("up", "--yes", "--config-file", str(config)))
        yield cluster
