"""The fabric changes under running gangs: the scheduler lives on, and new gangs are placed in the new domains."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import live
from tests.support import LiveCluster, awaited, environment, require, stack_file, trainyard
from trainyard.scheduling.topology.fabric_compiler import compile_fabric
from trainyard.settings.fabric import FabricSettings

pytestmark = pytest.mark.cluster

NAMESPACE = "kube-system"
"""A namespace that the admission rules leave alone, where pods need no TrainJob."""

Spines = Mapping[str, tuple[str, ...]]

START: Spines = {"s0": ("ra", "rb"), "s1": ("rc", "rd")}
CHANGES: dict[str, Spines] = {
    "a rack is added": {"s0": ("ra", "rb", "re"), "s1": ("rc", "rd")},
    "a rack moves": {"s0": ("ra", "re"), "s1": ("rb", "rc", "rd")},
    "all racks change places": {"s0": ("rb", "rc", "rd"), "s1": ("ra", "re")},
    "a spine goes and its racks stay": {"s0": ("ra", "rb", "rc", "rd", "re")},
    "a rack goes": {"s0": ("ra", "rb", "rc", "rd")},
    "a spine appears and takes racks": {"s0": ("ra", "rb"), "s2": ("rc", "rd")},
}
SAMPLE = ("all racks change places", "a spine appears and takes racks")
"""Those that need the most steps; every step of any change is tested in tests/topology."""


def fabric(spines: Spines, *, nvlink: bool = False) -> dict[str, Any]:
    """Return settings of racks with two nodes each; with NVLink domains of one node each, if wanted."""

    def rack(name: str) -> dict[str, Any]:
        nodes = [f"{name}-node-0", f"{name}-node-1"]
        if not nvlink:
            return {"name": name, "nodes": nodes}
        return {"name": name, "domains": [{"name": f"{node}-nvl", "nodes": [node]} for node in nodes]}

    domains = [{"name": spine, "domains": [rack(name) for name in racks]} for spine, racks in spines.items()]
    return {"tierNames": [*(["nvlink"] if nvlink else []), "rack", "spine"], "domains": domains}


@pytest.fixture(scope="module")
def changing(state_home: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """A platform whose fabric the tests change."""

    def started(config: dict[str, Any]) -> None:
        config["trainyard:fabric"] = fabric(START)

    env, config = environment(state_home), stack_file(tmp_path_factory.mktemp("fabric"), "fabric", started)
    try:
        require(trainyard("cluster", "up", "--name", "fabric", env=env))
        require(trainyard("up", "--yes", "--config-file", str(config), env=env))
        yield live("fabric", config, env)
    finally:
        trainyard("cluster", "down", "--name", "fabric", "--delete", env=env)


def up(cluster: LiveCluster, settings: Mapping[str, Any]) -> None:
    document = yaml.safe_load(cluster.config_file.read_text())
    document["config"]["trainyard:fabric"] = dict(settings)
    cluster.config_file.write_text(yaml.safe_dump(document, sort_keys=False))
    require(cluster.trainyard("up", "--yes", "--config-file", str(cluster.config_file)))


def scheduler(cluster: LiveCluster) -> tuple[int, str]:
    """Return the process of the scheduler and what it has logged."""
    status = cluster.status(healthy=True)
    (process,) = [each for each in status["processes"] if each["name"] == "vc-scheduler"]
    return process["pid"], require(cluster.trainyard("cluster", "logs", "vc-scheduler", "--name", cluster.name))


def gang(cluster: LiveCluster, name: str, pods: int, tier: int) -> None:
    """Submit a gang of whole nodes that must be inside one domain of a tier; its pods run until they are deleted."""
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "minMember": pods,
            "queue": "default",
            "networkTopology": {"mode": "hard", "highestTierAllowed": tier},
        },
    }
    resources = {"nvidia.com/gpu": "8", "cpu": "1", "memory": "1Gi"}
    container = {"name": "c", "image": "example.com/none", "resources": {"requests": resources, "limits": resources}}
    members = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{name}-{number}",
                "namespace": NAMESPACE,
                "labels": {"gang": name},
                "annotations": {"scheduling.k8s.io/group-name": name},
            },
            "spec": {"schedulerName": "volcano", "containers": [container]},
        }
        for number in range(pods)
    ]
    require(cluster.apply(group, *members))


def placed(cluster: LiveCluster, name: str, pods: int) -> set[str]:
    """Wait until a gang is bound and return its nodes."""

    def nodes() -> set[str] | None:
        items = cluster.get("pods", "-n", NAMESPACE, "-l", f"gang={name}")["items"]
        names = {pod["spec"].get("nodeName") for pod in items}
        return names if len(items) == pods and None not in names else None

    return awaited(f"gang {name}", nodes, timeout=60)


def remove(cluster: LiveCluster, name: str) -> None:
    require(cluster.kubectl("delete", "pods", "-n", NAMESPACE, "-l", f"gang={name}", "--force", "--grace-period=0"))
    require(cluster.kubectl("delete", "podgroup", name, "-n", NAMESPACE))


def specs(hyper_nodes: list[dict[str, Any]]) -> dict[str, Any]:
    return {body["metadata"]["name"]: body["spec"] for body in hyper_nodes}


def test_the_fabric_changes_while_gangs_run_and_wait(changing: LiveCluster) -> None:
    gang(changing, "running", 2, tier=1)
    stays = placed(changing, "running", 2)
    gang(changing, "waiting", 5, tier=1)  # no rack holds it: the scheduler looks at the topology all the time
    pid, _ = scheduler(changing)
    for change in CHANGES if os.environ.get("TRAINYARD_CELLS") == "all" else SAMPLE:
        spines = CHANGES[change]
        settings = fabric(spines)
        up(changing, settings)
        compiled = compile_fabric(FabricSettings.model_validate(settings))
        assert specs(changing.get("hypernodes")["items"]) == specs(compiled.hyper_nodes), change
        name = f"after-{len(change)}-{len(spines)}"
        gang(changing, name, 2, tier=1)
        racks = {node.rpartition("-node-")[0] for node in placed(changing, name, 2)}
        assert len(racks) == 1, change
        remove(changing, name)
        assert scheduler(changing)[0] == pid, change
    assert placed(changing, "running", 2) == stays
    assert not {
        pod["spec"].get("nodeName") for pod in changing.get("pods", "-n", NAMESPACE, "-l", "gang=waiting")["items"]
    } - {None}
    said = scheduler(changing)[1]
    assert "already has a parent" not in said
    assert "cyclic dependency" not in said
    remove(changing, "waiting")
    remove(changing, "running")


def test_a_tier_is_put_in_below_and_taken_out_again(changing: LiveCluster) -> None:
    pid, _ = scheduler(changing)
    gang(changing, "waiting", 5, tier=1)
    for nvlink, pods in ((True, 1), (False, 2)):
        settings = fabric(START, nvlink=nvlink)
        up(changing, settings)
        compiled = compile_fabric(FabricSettings.model_validate(settings))
        assert specs(changing.get("hypernodes")["items"]) == specs(compiled.hyper_nodes)
        gang(changing, f"tier-{pods}", pods, tier=1)
        assert len(placed(changing, f"tier-{pods}", pods)) == pods
        remove(changing, f"tier-{pods}")
        assert scheduler(changing)[0] == pid
    remove(changing, "waiting")


def labeled_node(cluster: LiveCluster, name: str, folder: Path, **labels: str) -> None:
    """Create a node like a simulated one, which `up` does not know."""
    model = cluster.get("node", "ra-node-0")
    kept = {key: value for key, value in model["metadata"]["labels"].items() if not key.startswith("trainyard.dev/")}
    metadata = {
        "name": name,
        "labels": {**kept, "kubernetes.io/hostname": name, **labels},
        "annotations": {"kwok.x-k8s.io/node": "fake"},
    }
    amounts = {field: model["status"][field] for field in ("capacity", "allocatable")}
    body = folder / f"{name}.json"
    body.write_text(json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": amounts}))
    require(cluster.kubectl("create", "-f", str(body)))


def test_domains_by_label_hold_gangs_and_a_relabeled_node_follows(changing: LiveCluster, tmp_path: Path) -> None:
    racks = [{"name": f"r{pod}", "nodes": {"matchLabels": {"pod": pod}, "count": 2}} for pod in "ab"]
    selecting = {"tierNames": ["rack", "spine"], "domains": [{"name": "s0", "domains": racks}]}
    up(changing, selecting)
    compiled = compile_fabric(FabricSettings.model_validate(selecting))
    assert specs(changing.get("hypernodes")["items"]) == specs(compiled.hyper_nodes)
    labeled_node(changing, "guest", tmp_path, pod="a")
    try:
        gang(changing, "in-a", 3, tier=1)
        assert placed(changing, "in-a", 3) == {"ra-node-0", "ra-node-1", "guest"}
        remove(changing, "in-a")
        require(changing.kubectl("label", "node", "guest", "pod=b", "--overwrite"))
        up(changing, selecting)
        gang(changing, "in-b", 3, tier=1)
        assert placed(changing, "in-b", 3) == {"rb-node-0", "rb-node-1", "guest"}
        gang(changing, "in-a", 3, tier=1)
        gang(changing, "beside", 2, tier=1)  # the scheduler has seen the gang above when this one is placed
        assert placed(changing, "beside", 2) == {"ra-node-0", "ra-node-1"}
        for name in ("in-a", "in-b", "beside"):
            remove(changing, name)
    finally:
        require(changing.kubectl("delete", "node", "guest"))


def test_a_foreign_hyper_node_in_the_way_is_named(changing: LiveCluster) -> None:
    foreign = {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": "foreign"},
        "spec": {"tier": 2, "members": [{"type": "HyperNode", "selector": {"exactMatch": {"name": "rx"}}}]},
    }
    require(changing.apply(foreign))
    try:
        with pytest.raises(AssertionError, match="HyperNode/foreign: lists rx"):
            up(changing, fabric({**START, "s0": ("ra", "rb", "rx")}))
    finally:
        require(changing.kubectl("delete", "hypernode", "foreign"))
    up(changing, fabric(START))  # the racks are selected by name again


def test_the_live_fabric_is_sound_and_read_back_from_its_nodes(changing: LiveCluster, tmp_path: Path) -> None:
    live_objects = tmp_path / "live.json"
    live_objects.write_text(require(changing.kubectl("get", "hypernodes,nodes", "-o", "json")))
    assert require(changing.trainyard("topology", "check", str(live_objects))) == "No issues found.\n"
    imported = changing.trainyard("topology", "import", "--from", "nodes", "--kubeconfig", str(changing.kubeconfig))
    (tmp_path / "fabric.yaml").write_text(require(imported))
    compiled = require(changing.trainyard("topology", "compile", str(tmp_path / "fabric.yaml"), "-o", "json"))
    assert specs(json.loads(compiled)["items"]) == specs(changing.get("hypernodes")["items"])
