"""Node image of kind: its manifests, the names of its images, and the program of its pod network."""

from __future__ import annotations

import importlib.util
import json
import re
from types import ModuleType
from typing import Any

import pytest
import yaml

from tests.support import ROOT
from trainyard.local.cluster.kind import OWN_NODE_IMAGE
from trainyard.local.cluster.node.node_storage import storage_objects
from trainyard.local.images.recipe import LOCAL, read_recipes
from trainyard.settings.versions import KUBERNETES_VERSION, PROGRAMS

FILES = ROOT / "images" / "kind"
RECIPES = read_recipes(ROOT / "images")
NODE = RECIPES["kind-node"]
CONTAINED = {name for layer in NODE.layers for name in layer.images}


def reference(name: str) -> str:
    """Return the name and tag of an image whose version is that of a program, or is in its recipe."""
    recipe = RECIPES[name]
    kind, *rest = recipe.version.split()
    version = next(each.version for each in PROGRAMS if each.name == rest[0]) if kind == "program" else kind
    return f"{recipe.repository}:{recipe.tag.format(version=version)}"


@pytest.fixture(scope="module")
def pod_network() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pod_network", FILES / "pod_network.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_node_image_is_the_one_that_the_provider_looks_for() -> None:
    assert reference("kind-node") == OWN_NODE_IMAGE
    assert (FILES / "node" / "kind" / "version").read_text().strip() == f"v{KUBERNETES_VERSION}"


def test_the_manifests_and_the_runtime_name_images_that_the_node_contains() -> None:
    known = {reference(name) for name in CONTAINED}
    texts = [FILES / "network.yaml", FILES / "storage.yaml", FILES / "node" / "etc" / "containerd" / "config.toml"]
    named = {each for file in texts for each in re.findall(rf"{LOCAL}/[\w.-]+:[\w.]+", file.read_text())}
    assert named <= known
    assert len(named) >= 4


def test_the_images_of_kubeadm_have_the_names_of_its_registry() -> None:
    upstream = {RECIPES[name].replaces for name in CONTAINED if RECIPES[name].replaces}
    control_plane = {
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kube-proxy",
        "etcd",
        "coredns/coredns",
    }
    assert upstream >= {f"registry.k8s.io/{name}" for name in control_plane}
    assert reference("etcd").rpartition(":")[2] == "v3.6.8-0".lstrip("v")


def test_the_storage_of_the_node_image_is_that_of_provider_node() -> None:
    expected = storage_objects(reference("local-path-provisioner"), reference("volume-folders"))
    assert list(yaml.safe_load_all((FILES / "storage.yaml").read_text())) == [each for _, each in expected]


def node(name: str, subnet: str | None, address: str) -> dict[str, Any]:
    addresses = [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": address}]
    spec = {"podCIDR": subnet} if subnet else {}
    return {"metadata": {"name": name}, "spec": spec, "status": {"addresses": addresses}}


def test_pods_of_other_nodes_are_reached_through_their_node(pod_network: ModuleType) -> None:
    nodes = [
        node("a", "10.244.0.0/24", "10.89.0.2"),
        node("b", "10.244.1.0/24", "10.89.0.3"),
        node("new", None, "10.89.0.4"),
    ]
    assert pod_network.routes(nodes, "a") == {"10.244.1.0/24": "10.89.0.3"}


def test_pods_get_addresses_of_their_node_and_keep_them_within_the_cluster(pod_network: ModuleType) -> None:
    first = json.loads(pod_network.configuration("10.244.1.0/24", 1400))["plugins"][0]
    assert (first["type"], first["ipMasq"], first["mtu"]) == ("ptp", False, 1400)
    assert first["ipam"]["ranges"] == [[{"subnet": "10.244.1.0/24"}]]
    assert "ip saddr 10.244.0.0/16 ip daddr != 10.244.0.0/16" in pod_network.masquerade("10.244.0.0/16")
