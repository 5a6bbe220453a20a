"""The wheel: components under their name there, with the files that they read, and the examples that import them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from components.registry import declarations
from tests.components import wheel

pytestmark = pytest.mark.slow

PROGRAM = """
import importlib.util, json
from trainyard import upstream
from trainyard.components import registry, stack
from trainyard.components.common.offline import OFFLINE_KUBECONFIG
print(json.dumps({
    "clone": importlib.util.find_spec("components") is not None,
    "components": list(registry.declarations()),
    "modules": sorted({each.install.__module__ for each in registry.declarations().values()}),
    "lock": str(upstream.lock_file()),
    "kubeconfig": OFFLINE_KUBECONFIG.is_file(),
    "crds": len(upstream.documents("volcano", "1.14.1", registry.declarations()["volcano"].manifests[0])),
}))
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel.build(tmp_path_factory.mktemp("wheel"))


def test_the_wheel_has_the_components_under_its_own_name(packages: Path, tmp_path: Path) -> None:
    result = wheel.run(packages, "-c", tmp_path, PROGRAM)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert not found["clone"]
    assert found["components"] == list(declarations())
    assert found["modules"] == sorted(f"trainyard.components.{name}" for name in declarations())
    assert found["lock"] == str(packages / "trainyard" / "components" / "upstream.lock")
    assert found["kubeconfig"]
    assert found["crds"] == 1


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: gpu
clusters: [{name: gpu, cluster: {server: "https://gpu.example:6443"}}]
contexts: [{name: gpu, context: {cluster: gpu, user: gpu}}]
users: [{name: gpu, user: {token: hidden-token}}]
"""


def preview(packages: Path, example: str, folder: Path, **variables: str) -> Mapping[str, Any]:
    """Return what an example registers in a preview."""
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    config = {"kubeconfig": str(kubeconfig), "context": "gpu", "controllerImage": "registry.example/controller:1"}
    script = wheel.ROOT / "tests" / "components" / "example_run.py"
    result = wheel.run(
        packages, script, folder, str(wheel.ROOT / "examples" / example), json.dumps(config), **variables
    )
    assert result.returncode == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    assert not found["clone"]
    return found


def components_of(found: Mapping[str, Any]) -> set[str]:
    types = {each["type"] for each in found["resources"].values()}
    return {each.split(":")[1] for each in types if each.startswith("trainyard:")} - {"index"}


def outputs_of(found: Mapping[str, Any]) -> Mapping[str, Any]:
    (outputs,) = (value for urn, value in found["outputs"].items() if urn.endswith(":TrainingPlatform::training"))
    return outputs


def test_an_existing_cluster_gets_the_whole_platform(packages: Path, tmp_path: Path) -> None:
    found = preview(packages, "existing_cluster", tmp_path, TRAINYARD_NO_CLUSTER="true")
    assert components_of(found) == set(declarations()) - {"kueue"}
    outputs = outputs_of(found)
    assert outputs["namespaces"] == ["volcano-system", "jobset-system", "kubeflow-system", "vision"]
    assert (outputs["queues"], outputs["kubeconfigContext"]) == (["vision"], "gpu")
    assert "volcano-system/volcano-admission-service" in outputs["services"]


def test_queues_and_fabric_alone_declare_nothing_else(packages: Path, tmp_path: Path) -> None:
    found = preview(packages, "queues_and_fabric", tmp_path, TRAINYARD_NO_CLUSTER="true")
    objects = {each["name"] for each in found["resources"].values() if each["type"].startswith("kubernetes:")}
    assert components_of(found) == {"queues", "topology"}
    assert objects == {"Queue/vision", "HyperNode/rack-a"}


def test_a_cluster_of_the_same_program_is_created_before_every_object(packages: Path, tmp_path: Path) -> None:
    found = preview(packages, "new_cluster", tmp_path)
    assert components_of(found) == set(declarations()) - {"kueue"}
    resources = found["resources"]
    (provider,) = (urn for urn, each in resources.items() if each["type"] == "pulumi:providers:kubernetes")
    pools = {urn for urn, each in resources.items() if each["type"].startswith("gcp:container/")}
    assert len(pools) == 3
    assert pools <= set(resources[provider]["dependencies"])
    objects = [each for each in resources.values() if each["type"].startswith("kubernetes:")]
    assert len(objects) > 100
    assert all(each["provider"].startswith(provider) for each in objects)
