"""kind: its configuration, what is missing on a machine, and the containers that it starts and stops."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import trainyard.local.cluster.kind as module
import trainyard.local.cluster.kind_requirements as requirements
from tests.images.small_project import builder, project
from trainyard.errors import TrainyardError
from trainyard.local.cluster import provider
from trainyard.local.cluster.folders import cluster_folder
from trainyard.local.cluster.kind import OWN_NODE_IMAGE, KindProvider, kind_configuration
from trainyard.local.cluster.kind_requirements import find_kind, missing_for
from trainyard.local.cluster.state import ClusterState, save_state
from trainyard.local.images.container_engine import ENGINE_VARIABLE, ContainerEngine, describe_engine
from trainyard.progress import SilentProgress
from trainyard.settings.cluster import ClusterSettings
from trainyard.settings.fabric import FabricSettings

FABRIC = FabricSettings.model_validate(
    {
        "tierNames": ["rack"],
        "nodeShape": {"labels": {"node.kubernetes.io/instance-type": "gpu"}},
        "domains": [{"name": "rack-0", "nodes": 2}],
    }
)
GIB = 1 << 30

GOLDEN = """\
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
name: dev
nodes:
- role: control-plane
- role: worker
  labels:
    trainyard.dev/fabric-node: platform-0
    trainyard.dev/platform: 'true'
- role: worker
  labels:
    trainyard.dev/fabric-node: rack-0-node-0
    node.kubernetes.io/instance-type: gpu
    topology.trainyard.dev/rack: rack-0
- role: worker
  labels:
    trainyard.dev/fabric-node: rack-0-node-1
    node.kubernetes.io/instance-type: gpu
    topology.trainyard.dev/rack: rack-0
"""


@pytest.fixture(autouse=True)
def _own_homes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRAINYARD_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TRAINYARD_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(ENGINE_VARIABLE, raising=False)
    monkeypatch.setattr(requirements, "MODULES", tmp_path)


def podman_info(**host: Any) -> str:
    """Return what podman 4.3.1 reports of a suitable machine, with changes."""
    known = {
        "cgroupVersion": "v1",
        "memTotal": 8 * GIB,
        "ociRuntime": {"name": "runc"},
        "security": {"rootless": False},
    }
    return json.dumps({"host": known | host})


def docker_info(**changes: Any) -> str:
    known = {"CgroupVersion": "2", "MemTotal": 8 * GIB, "DefaultRuntime": "runc", "SecurityOptions": ["name=seccomp"]}
    return json.dumps(known | changes)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., list[str]]:
    """Put programs on PATH that answer from files and record their commands; return the record."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    record = tmp_path / "commands"
    record.touch()

    def install(*, engine: str = "podman", info: str | None = None, created: bool = False, stopped: str = "") -> Path:
        (tmp_path / "info.json").write_text(podman_info() if info is None else info)
        (tmp_path / "stopped").write_text(stopped)
        (tmp_path / "clusters").write_text("dev" if created else "")
        nodes = "dev-control-plane dev-worker dev-worker2 dev-worker3"
        said = f'echo "$(basename $0) ${{{ENGINE_VARIABLE}:-}} $*" >> {record}'
        kind = f"""#!/bin/sh
{said}
case "$1 $2" in
"get clusters") cat {tmp_path}/clusters ;;
"get nodes") echo {nodes} ;;
"get kubeconfig") echo kubeconfig ;;
esac
"""
        program = f"""#!/bin/sh
{said}
case "$1" in
info) cat {tmp_path}/info.json ;;
image) exit 1 ;;
inspect) if grep -q -w -- "$4" {tmp_path}/stopped; then echo false; else echo true; fi ;;
esac
"""
        for name, text in (("kind", kind), (engine, program)):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        return record

    built = builder(project(tmp_path / "project")).build()
    imported: list[Any] = []

    async def ready(_kubeconfig: Path, names: set[str], _report: object) -> None:
        assert names == {"dev-control-plane", "dev-worker", "dev-worker2", "dev-worker3"}

    monkeypatch.setattr(module, "image_builder", lambda **_: type("Builder", (), {"build": lambda *_: built}))
    monkeypatch.setattr(module, "import_images", lambda inside, images: imported.append((inside, images)) or 4)
    monkeypatch.setattr(module, "await_nodes", ready)

    def run(action: Callable[[], object] | None = None, **options: Any) -> list[str]:
        # Another engine of this machine must not be found before the one of the test.
        monkeypatch.setenv(ENGINE_VARIABLE, options.get("engine", "podman"))
        record = install(**options)
        (action or (lambda: KindProvider("dev").up(FABRIC, SilentProgress())))()
        return record.read_text().splitlines()

    return run


def test_the_configuration_has_a_labelled_worker_for_every_node_of_the_fabric() -> None:
    assert kind_configuration("dev", FABRIC) == GOLDEN


def test_the_kubelet_accepts_cgroup_version_1_where_the_machine_has_it() -> None:
    (patch,) = yaml.safe_load(kind_configuration("dev", FABRIC, cgroup_version=1))["kubeadmConfigPatches"]
    assert yaml.safe_load(patch) == {"kind": "KubeletConfiguration", "failCgroupV1": False}


def test_services_need_nftables_only_where_the_nodes_have_the_kube_proxy_of_this_project() -> None:
    own = yaml.safe_load(kind_configuration("dev", FABRIC, image=OWN_NODE_IMAGE))
    assert own["networking"] == {"kubeProxyMode": "nftables"}
    pushed = yaml.safe_load(kind_configuration("dev", FABRIC, image="registry.example:5000/ml/kind-node@sha256:1f"))
    assert pushed["networking"] == {"kubeProxyMode": "nftables"}
    assert "networking" not in yaml.safe_load(kind_configuration("dev", FABRIC, image="docker.io/kindest/node:v1"))


def test_the_kind_command_of_the_toolchain_is_used_where_none_is_on_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_kind() is None
    monkeypatch.setattr(requirements, "built_kind", lambda: tmp_path / "cache" / "kind")
    assert find_kind() == str(tmp_path / "cache" / "kind")
    (tmp_path / "kind").write_text("#!/bin/sh\n")
    (tmp_path / "kind").chmod(0o755)
    assert find_kind() == str(tmp_path / "kind")


def test_everything_that_is_missing_is_listed_and_the_configuration_is_still_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    kind = provider(ClusterSettings(provider="kind"), "dev")
    with pytest.raises(TrainyardError) as raised:
        kind.up(FABRIC, SilentProgress())
    assert [finding.path for finding in raised.value.findings] == ["kind", "container engine"]
    written = tmp_path / "state" / "clusters" / "dev" / "configuration" / "kind.yaml"
    assert yaml.safe_load(written.read_text())["name"] == "dev"
    assert str(written) in raised.value.fix
    assert not kind.status().healthy


@pytest.mark.parametrize(
    ("info", "path", "message"),
    [
        ("", "container engine", "podman does not respond"),
        (podman_info(ociRuntime={"name": "crun"}), "container runtime", "crun does not start nodes with"),
        (podman_info(security={"rootless": True}), "cgroups", "podman without root needs cgroup version 2, not 1"),
        (podman_info(memTotal=2 * GIB), "memory", "podman has 2048 MiB, but 4 nodes need 2149 MiB"),
    ],
)
def test_an_engine_that_cannot_run_nodes_is_named_with_the_fix(
    info: str, path: str, message: str, machine: Callable[..., list[str]]
) -> None:
    with pytest.raises(TrainyardError) as raised:
        machine(info=info)
    (finding,) = raised.value.findings
    assert finding.path == path
    assert message in finding.message
    assert finding.fix


def test_a_machine_without_the_folder_of_kernel_modules_is_named_with_the_fix(tmp_path: Path) -> None:
    """kind mounts it into every node; podman says only `statfs /lib/modules: no such file or directory`."""
    engine = ContainerEngine("podman", 1, 8 * GIB, "runc")
    (finding,) = missing_for(engine, 1, modules=tmp_path / "modules")
    assert finding.fix == f"mkdir -p {tmp_path / 'modules'}"
    (tmp_path / "modules").mkdir()
    assert missing_for(engine, 1, modules=tmp_path / "modules") == []


def test_the_cluster_is_created_with_the_engine_and_the_image(machine: Callable[..., list[str]]) -> None:
    commands = machine()
    (created,) = (each for each in commands if "create cluster" in each)
    assert created.startswith("kind podman create cluster --config")
    assert "--image docker.io/kindest/node:v" in created
    written = cluster_folder("dev").configuration / "kind.yaml"
    assert "failCgroupV1: false" in written.read_text()
    own = machine(lambda: KindProvider("dev", "mirror/node:1").up(FABRIC, SilentProgress()))
    assert sum("--image mirror/node:1 --wait 180s" in each for each in own) == 1
    assert OWN_NODE_IMAGE.startswith("localhost/")


def test_up_starts_what_down_has_stopped_the_control_plane_first(machine: Callable[..., list[str]]) -> None:
    commands = machine(created=True, stopped="dev-worker2 dev-control-plane")
    assert [each for each in commands if " start " in each] == [
        "podman podman start dev-control-plane",
        "podman podman start dev-worker2",
    ]
    assert not [each for each in commands if "create" in each]


def test_docker_is_used_without_a_variable(machine: Callable[..., list[str]]) -> None:
    commands = machine(engine="docker", info=docker_info())
    assert "docker docker info --format {{json .}}" in commands


def test_down_of_a_cluster_with_processes_of_this_machine_stops_these(
    machine: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files were removed, and its kubelets and programs ran on."""
    stopped: list[bool] = []
    monkeypatch.setattr(module.EmbeddedProvider, "down", lambda _self, *, delete, progress: stopped.append(delete))
    kind = KindProvider("dev")
    kind.folder.root.mkdir(parents=True)
    save_state(kind.folder, ClusterState({}, {}, 0, ("worker-0",)))
    assert machine(lambda: kind.down(delete=True, progress=SilentProgress())) == []
    assert stopped == [True]
    assert kind.folder.state.exists()


def test_what_engines_report() -> None:
    def says(text: str) -> Callable[[list[str]], Any]:
        return lambda command: module.subprocess.CompletedProcess(command, 0, text, "")

    assert describe_engine("podman", says(podman_info())) == ContainerEngine("podman", 1, 8 * GIB, "runc")
    assert describe_engine("docker", says(docker_info())) == ContainerEngine("docker", 2, 8 * GIB, "runc")
    rootless = docker_info(SecurityOptions=["name=rootless"])
    assert describe_engine("nerdctl", says(rootless)).rootless
    with pytest.raises(TrainyardError, match="Cannot connect to the Docker daemon"):
        describe_engine("docker", says(json.dumps({"ServerErrors": ["Cannot connect to the Docker daemon"]})))


def test_only_kind_takes_a_node_image() -> None:
    assert ClusterSettings.model_validate({"provider": "kind", "nodeImage": "a"}).node_image == "a"
    with pytest.raises(ValueError, match="nodeImage requires provider kind, not embedded"):
        ClusterSettings.model_validate({"provider": "embedded", "nodeImage": "a"})
