"""The wheel in a fresh environment: the components, the files that they read, and the examples that import them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.registry import declarations
from tests.components import wheel
from tests.components.wheel import Environment
from tests.support import RARE_COLLECTION
from trainyard.local.cluster.pulumi_home import home_without_logs
from trainyard.local.cluster.toolchain import Toolchain

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
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return wheel.create(tmp_path_factory.mktemp("wheel"))


def test_the_locked_requirements_are_all_that_the_wheel_needs(environment: Environment, tmp_path: Path) -> None:
    result = environment.run("pip", "check", folder=tmp_path)
    assert result.returncode == 0, result.stdout
    assert environment.run("trainyard", "--help", folder=tmp_path).returncode == 0


def test_the_wheel_has_the_components_under_its_own_name(environment: Environment, tmp_path: Path) -> None:
    result = environment.run("python", "-c", PROGRAM, folder=tmp_path)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert not found["clone"]
    assert found["components"] == list(declarations())
    assert found["modules"] == sorted(f"trainyard.components.{name}" for name in declarations())
    assert found["lock"] == str(environment.packages / "trainyard" / "components" / "upstream.lock")
    assert (environment.packages / "trainyard" / "py.typed").is_file(), "type checkers would ignore its types"
    assert found["kubeconfig"]
    assert found["crds"] == 1


UNKNOWN_ID = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""What the engine writes into a plan for the id of a provider."""
STAND_INS = wheel.ROOT / "tests" / "components" / "stand_ins"
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: gpu
clusters: [{name: gpu, cluster: {server: "https://gpu.example:6443"}}]
contexts: [{name: gpu, context: {cluster: gpu, user: gpu}}]
users: [{name: gpu, user: {token: hidden-token}}]
"""


def configuration(folder: Path) -> dict[str, str]:
    """Return the configuration of the examples."""
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    return {"kubeconfig": str(kubeconfig), "context": "gpu", "controllerImage": "registry.example/controller:1"}


def ran(environment: Environment, example: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Preview an example with Pulumi's mock monitor."""
    script = wheel.ROOT / "tests" / "components" / "example_run.py"
    program = wheel.ROOT / "examples" / example
    config = json.dumps(configuration(folder))
    return environment.run("python", "-P", script, program, config, folder=folder, **variables)


def registered(environment: Environment, example: str, folder: Path, **variables: str) -> Mapping[str, Any]:
    """Return what an example registers in a preview with Pulumi's mock monitor."""
    result = ran(environment, example, folder, **variables)
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


def test_the_first_preview_names_the_command_that_downloads_the_manifests(
    environment: Environment, tmp_path: Path
) -> None:
    empty = {"GOMODCACHE": str(tmp_path / "modules"), "TRAINYARD_NO_CLUSTER": "true"}
    result = ran(environment, "existing_cluster", tmp_path, **empty)
    assert result.returncode != 0
    assert "run `trainyard cluster toolchain --manifests`" in result.stderr
    assert not (tmp_path / "modules").exists(), "a preview downloads nothing"


def test_an_existing_cluster_gets_the_whole_platform(environment: Environment, tmp_path: Path) -> None:
    found = registered(environment, "existing_cluster", tmp_path, TRAINYARD_NO_CLUSTER="true")
    assert components_of(found) == set(declarations()) - {"kueue", "console"}
    outputs = outputs_of(found)
    assert outputs["namespaces"] == ["volcano-system", "jobset-system", "kubeflow-system", "vision"]
    assert (outputs["queues"], outputs["kubeconfigContext"]) == (["vision"], "gpu")
    assert "volcano-system/volcano-admission-service" in outputs["services"]


def test_a_cluster_of_the_same_program_is_created_before_every_object(environment: Environment, tmp_path: Path) -> None:
    found = registered(environment, "new_cluster", tmp_path, PYTHONPATH=str(STAND_INS))
    assert components_of(found) == set(declarations()) - {"kueue", "console"}
    resources = found["resources"]
    (provider,) = (urn for urn, each in resources.items() if each["type"] == "pulumi:providers:kubernetes")
    pools = {urn for urn, each in resources.items() if each["type"].startswith("gcp:container/")}
    assert len(pools) == 3
    assert pools <= set(resources[provider]["dependencies"])
    objects = [each for each in resources.values() if each["type"].startswith("kubernetes:")]
    assert len(objects) > 100
    assert all(each["provider"].startswith(provider) for each in objects)


MOVED = """
def labelled(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
    if not args.type_.endswith(":Queue"):
        return None
    metadata = args.props["metadata"]
    labels = {**metadata["labels"], "example.com/cost-center": "research"}
    return pulumi.ResourceTransformResult({**args.props, "metadata": {**metadata, "labels": labels}}, args.opts)


team = pulumi.ComponentResource("example:index:Team", "team")
options = pulumi.ResourceOptions(parent=team, aliases=[pulumi.Alias(parent=None)], transforms=[labelled])
platform = TrainingPlatform("training", args, options)
"""


def test_queues_and_fabric_alone_accept_transforms_and_move_below_a_parent_with_an_alias(
    environment: Environment, tmp_path: Path
) -> None:
    engine = Engine(environment, "queues_and_fabric", tmp_path)
    first = engine.preview()
    assert {each["op"] for each in first} == {"create"}
    types = {each["newState"]["type"] for each in first}
    assert types == {
        "pulumi:pulumi:Stack",
        "trainyard:index:TrainingPlatform",
        "pulumi:providers:kubernetes",
        "trainyard:queues:Queues",
        "kubernetes:scheduling.volcano.sh/v1beta1:Queue",
        "trainyard:topology:Topology",
        "kubernetes:topology.volcano.sh/v1alpha1:HyperNode",
    }
    engine.record(first)
    engine.edit('platform = TrainingPlatform("training", args)\n', MOVED)
    moved = engine.preview()
    operations = {name_of(each): each["op"] for each in moved}
    assert operations.pop("team") == "create"
    # The provider's state has fields that a plan does not have, so an object without changes is an update here.
    assert set(operations.values()) <= {"same", "update"}
    before, after = ({name_of(each): each["newState"].get("inputs") for each in steps} for steps in (first, moved))
    assert after["Queue/vision"]["metadata"]["labels"].pop("example.com/cost-center") == "research"
    for name in ("training-kubernetes", "Queue/vision", "HyperNode/rack-a"):
        assert after[name] == before[name]


def name_of(step: Mapping[str, Any]) -> str:
    name: str = step["urn"].rpartition("::")[2]
    return name


class Engine:
    """Pulumi's own engine and providers on an example, with a file backend and without a cluster."""

    def __init__(self, environment: Environment, example: str, folder: Path) -> None:
        self.folder = folder / "project"
        self.folder.mkdir()
        for file in (wheel.ROOT / "examples" / example).iterdir():
            if file.is_file():
                (self.folder / file.name).write_text(file.read_text())
        project = yaml.safe_load((self.folder / "Pulumi.yaml").read_text())["name"]
        config = {f"{project}:{key}": value for key, value in configuration(folder).items()}
        (self.folder / "Pulumi.test.yaml").write_text(yaml.safe_dump({"config": config}))
        (folder / "state").mkdir()
        self._environment = environment
        self._variables = {
            "PATH": os.pathsep.join([str(environment.folder / "bin"), *map(str, Toolchain().folders()), os.defpath]),
            "PULUMI_HOME": str(home_without_logs(folder / "home", folder / "none")),
            **RARE_COLLECTION,
            "PULUMI_BACKEND_URL": f"file://{folder / 'state'}",
            "PULUMI_CONFIG_PASSPHRASE": "",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "TRAINYARD_NO_CLUSTER": "true",
        }
        self.pulumi("stack", "init", "test")

    def pulumi(self, *arguments: str) -> str:
        """Run Pulumi's command line and return what it printed."""
        command = ["pulumi", "--non-interactive", *arguments]
        result = self._environment.run(*command, folder=self.folder, **self._variables)
        assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
        return result.stdout

    def preview(self) -> list[dict[str, Any]]:
        """Return the steps of a preview."""
        steps: list[dict[str, Any]] = json.loads(self.pulumi("preview", "--stack", "test", "--json"))["steps"]
        return steps

    def edit(self, before: str, after: str) -> None:
        """Replace a part of the program."""
        file = self.folder / "__main__.py"
        assert before in file.read_text()
        file.write_text(file.read_text().replace(before, after))

    def record(self, steps: list[dict[str, Any]]) -> None:
        """Make the state that of an `up` with these steps."""
        state = json.loads(self.pulumi("stack", "export", "--stack", "test"))
        state["deployment"]["resources"] = [_created(each["newState"]) for each in steps]
        file = self.folder / "state.json"
        file.write_text(json.dumps(state))
        self.pulumi("stack", "import", "--stack", "test", "--file", str(file))


def _created(planned: dict[str, Any]) -> dict[str, Any]:
    """Return the state of a resource after it was created as planned."""
    found = {key: value for key, value in planned.items() if key not in ("sourcePosition", "stackTrace")}
    if found["custom"]:
        found |= {"id": UNKNOWN_ID if "providers" in found["type"] else found["urn"], "outputs": found["inputs"]}
    return found
