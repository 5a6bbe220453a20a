"""The nodes of provider node: names, addresses, files, cgroups and requirements, without root."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from trainyard.errors import TrainyardError
from trainyard.local.cluster.controlplane import control_plane, write_configuration
from trainyard.local.cluster.embedded import EmbeddedProvider
from trainyard.local.cluster.folders import ClusterFolder, cluster_folder
from trainyard.local.cluster.inspection import inspect
from trainyard.local.cluster.node import cleanup, control_groups, network, node_provider, requirements
from trainyard.local.cluster.node.control_groups import Hierarchy
from trainyard.local.cluster.node.node_files import NodePrograms, files, init_file
from trainyard.local.cluster.node.node_objects import system_objects
from trainyard.local.cluster.node.node_plan import machine_name, plan_nodes
from trainyard.local.cluster.node.node_processes import node_processes
from trainyard.local.cluster.node.node_provider import NodeProvider
from trainyard.local.cluster.node.node_storage import storage_objects
from trainyard.local.cluster.node.real_nodes import available, obsolete, ready
from trainyard.local.cluster.ports import PORT_NAMES
from trainyard.local.cluster.state import ClusterState, ProgramFile, load_state, save_state
from trainyard.progress import SilentProgress

PROGRAMS = NodePrograms(Path("/b/kubelet"), Path("/b/kube-proxy"), Path("/usr/bin/containerd"), Path("/usr/lib/cni"))
NODES = plan_nodes("dev", ["a", "b"])
PORTS = {use: 20000 + number for number, use in enumerate(PORT_NAMES)}
NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ClusterFolder:
    monkeypatch.setenv("TRAINYARD_STATE_HOME", str(tmp_path / "state"))
    return cluster_folder("dev")


def cluster(folder: ClusterFolder, *kubelets: str) -> ClusterState:
    """Return the state of a cluster whose certificates are empty files."""
    folder.pki.mkdir(parents=True, exist_ok=True)
    for name in ("ca", "admin", "kube-controller-manager", "kube-scheduler", "kwok", "supervisor"):
        for suffix in ("crt", "key"):
            (folder.pki / f"{name}.{suffix}").touch()
    state = ClusterState(PORTS, {name: ProgramFile("1", f"/b/{name}") for name in NAMES}, 0, kubelets)
    save_state(folder, state)
    write_configuration(folder, state)
    return state


def test_every_node_has_an_address_and_a_range_of_pods_of_its_own() -> None:
    assert [(node.address, node.pods, node.namespace, node.cgroup) for node in NODES] == [
        ("10.98.0.11", "10.245.0.0/24", "trainyard-dev.0", "/trainyard-dev/a"),
        ("10.98.0.12", "10.245.1.0/24", "trainyard-dev.1", "/trainyard-dev/b"),
    ]


@pytest.mark.parametrize("count", [0, 9])
def test_too_many_nodes_and_none_are_refused(count: int) -> None:
    with pytest.raises(TrainyardError, match=f"The fabric has {count} nodes") as raised:
        plan_nodes("dev", [str(number) for number in range(count)])
    assert "declare 1 to 8" in raised.value.fix


def test_the_network_is_made_in_namespaces_only_and_has_no_way_out() -> None:
    commands = network.network_commands("dev", NODES)
    created = [command[-1] for command in commands if command[:2] == ["netns", "add"]]
    assert created == ["trainyard-dev", "trainyard-dev.0", "trainyard-dev.1"]
    others = [command for command in commands if command[0] != "netns"]
    assert {command[0] for command in others} == {"-n"}
    assert {command[1] for command in others} <= set(created)
    hub = [command[2:] for command in others if command[1] == "trainyard-dev"]
    assert not [command for command in hub if "default" in command]
    assert hub[-2:] == [
        ["route", "add", "10.245.0.0/24", "via", "10.98.0.11"],
        ["route", "add", "10.245.1.0/24", "via", "10.98.0.12"],
    ]
    assert ["-n", "trainyard-dev.0", "route", "add", "10.245.1.0/24", "via", "10.98.0.12"] in commands


def test_a_network_is_complete_with_its_nodes_and_all_routes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(network, "NAMESPACE_FOLDER", tmp_path)
    routes = "10.245.0.0/24 via 10.98.0.11 dev nodes\n10.245.1.0/24 via 10.98.0.12 dev nodes\n"
    for name in ("trainyard-dev", "trainyard-dev.0", "trainyard-development", "trainyard-dev.x", "other"):
        (tmp_path / name).touch()
    assert network.namespaces("dev") == ["trainyard-dev", "trainyard-dev.0"]
    assert not network.is_connected("dev", NODES, lambda _: routes)
    (tmp_path / "trainyard-dev.1").touch()
    assert network.is_connected("dev", NODES, lambda _: routes)
    assert not network.is_connected("dev", NODES, lambda _: routes.splitlines()[0])
    assert not network.is_connected("dev", NODES[:1], lambda _: routes)


def test_hierarchies_of_both_versions_are_found() -> None:
    mounts = (
        "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n"
        "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0\n"
        "cgroup /sys/fs/cgroup/systemd cgroup rw,relatime,name=systemd 0 0\n"
        "cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n"
    )
    assert control_groups.hierarchies(mounts) == (
        Hierarchy(Path("/sys/fs/cgroup/cpu,cpuacct"), False, ("cpu", "cpuacct")),
        Hierarchy(Path("/sys/fs/cgroup/systemd"), False, ("name=systemd",)),
        Hierarchy(Path("/sys/fs/cgroup/unified"), True),
    )


def test_a_cgroup_gets_the_processors_of_its_parent(tmp_path: Path) -> None:
    cpuset, pids = tmp_path / "cpuset", tmp_path / "pids"
    for root in (cpuset, pids):
        root.mkdir()
    (cpuset / "cpuset.cpus").write_text("0-1\n")
    (cpuset / "cpuset.mems").write_text("0\n")
    known = (Hierarchy(cpuset, False, ("cpuset",)), Hierarchy(pids, False, ("pids",)))
    assert control_groups.create(NODES[0].cgroup, known) == [cpuset / "trainyard-dev/a", pids / "trainyard-dev/a"]
    assert (cpuset / "trainyard-dev/a/cpuset.cpus").read_text() == "0-1\n"
    control_groups.remove("/trainyard-dev", known[1:])
    assert not (pids / "trainyard-dev").exists()


def test_clusters_of_one_name_with_different_folders_have_different_names_on_the_machine(tmp_path: Path) -> None:
    first, second = (machine_name(tmp_path / state / "clusters" / "dev") for state in ("a", "b"))
    assert first != second
    assert first.startswith("dev-")
    assert first == machine_name(tmp_path / "a" / "clusters" / "dev")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert first == machine_name(tmp_path / "link" / "clusters" / "dev")


@pytest.fixture
def strange(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of the namespaces, with the namespace of this process as one of a node."""
    for module in (cleanup, network):
        monkeypatch.setattr(module, "NAMESPACE_FOLDER", tmp_path)
    (tmp_path / "trainyard-x.0").symlink_to("/proc/self/ns/net")
    return tmp_path


@pytest.mark.usefixtures("strange")
def test_processes_in_the_network_namespace_of_the_machine_are_never_killed() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        for search in (lambda: cleanup.processes_in(["trainyard-x.0"]), lambda: cleanup.clean_up("x")):
            with pytest.raises(TrainyardError, match="is the network namespace of this machine") as raised:
                search()
            assert "`ip netns delete trainyard-x.0`" in raised.value.fix
        assert child.poll() is None


def test_processes_are_found_by_the_network_namespaces_of_their_threads(
    monkeypatch: pytest.MonkeyPatch, strange: Path
) -> None:
    monkeypatch.setattr(cleanup, "_MACHINE", ())
    (strange / "interrupted").touch()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        assert child.pid in cleanup.processes_in(["trainyard-x.0"])
        assert os.getpid() not in cleanup.processes_in(["trainyard-x.0"])
        assert cleanup.processes_in(["interrupted", "absent"]) == set()
        control_groups.kill(child.pid, lambda _: False)
        assert child.poll() is None
        control_groups.kill(child.pid, lambda folder: folder == Path(f"/proc/{child.pid}"))
        assert child.wait() == -9


def test_a_folder_of_namespaces_that_was_mounted_before_stays_mounted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder, mounts, mark = tmp_path / "netns", tmp_path / "mounts", tmp_path / "mark"
    for name, value in (("NAMESPACE_FOLDER", folder), ("_MOUNTS", mounts), ("_MARK", mark)):
        monkeypatch.setattr(network, name, value)
    ran: list[list[str]] = []
    done = subprocess.CompletedProcess([], 0)
    monkeypatch.setattr(network.subprocess, "run", lambda command, **_: (ran.append(command), done)[1])
    here = f"tmpfs {folder} tmpfs rw 0 0\n"
    folder.mkdir()
    mounts.write_text(here)
    network.connect("dev", NODES, lambda _: "")
    network.disconnect([], lambda _: "")
    assert (ran, folder.is_dir()) == ([], True)
    folder.rmdir()
    mounts.write_text("")
    network.connect("dev", NODES, lambda _: "")
    folder.mkdir()
    mounts.write_text(here)
    (folder / "other").touch()
    network.disconnect([], lambda _: "")
    assert (ran, mark.is_file()) == ([], True)
    (folder / "other").unlink()
    network.disconnect([], lambda _: "")
    assert (ran, folder.exists(), mark.exists()) == ([["umount", str(folder)]], False, False)


@pytest.mark.parametrize("provider", [EmbeddedProvider, NodeProvider])
def test_nodes_are_stopped_whatever_the_provider_of_the_command_is(
    folder: ClusterFolder, monkeypatch: pytest.MonkeyPatch, provider: type[EmbeddedProvider]
) -> None:
    cluster(folder, "a")
    cleaned: list[str] = []
    monkeypatch.setattr(cleanup, "clean_up", cleaned.append)
    provider("dev").down(delete=True, progress=SilentProgress())
    assert cleaned == [machine_name(folder.root)]
    assert not folder.root.exists()


def test_a_user_who_may_not_stop_nodes_gets_one_message(folder: ClusterFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster(folder, "a")

    def refuse(_: str) -> int:
        raise PermissionError("trainyard-dev belongs to root")

    monkeypatch.setattr(cleanup, "clean_up", refuse)
    with pytest.raises(TrainyardError, match="may not stop the nodes of cluster dev: trainyard-dev belongs") as raised:
        EmbeddedProvider("dev").down(delete=True, progress=SilentProgress())
    assert raised.value.fix == "run the command as root"
    assert folder.root.is_dir()


def test_all_that_a_machine_lacks_is_named_with_its_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(requirements, "_PLUGIN_FOLDERS", (tmp_path,))
    monkeypatch.setattr(requirements, "_kernel", list)
    found = {finding.path: finding.fix for finding in requirements.missing(lambda _: None, root=False, linux=True)}
    assert found["user"] == "run the command as root"
    assert "apt-get install containerd" in found["containerd"]
    assert "apt-get install nftables" in found["nft"]
    assert "apt-get install containernetworking-plugins" in found["CNI plug-ins"]
    assert [finding.path for finding in requirements.missing(root=True, linux=False)] == ["system"]


def test_cgroups_of_version_2_are_refused_with_one_finding(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    monkeypatch.setattr(requirements, "hierarchies", lambda: (Hierarchy(tmp_path, True),))
    (finding,) = [each for each in requirements._kernel() if each.path == "cgroups"]
    assert finding.message == "version 2 has the controllers cpu, cpuset, memory, pids; nodes need version 1"
    hybrid = (Hierarchy(tmp_path, True), Hierarchy(tmp_path, False, ("cpu", "cpuset", "memory", "pids")))
    monkeypatch.setattr(requirements, "hierarchies", lambda: hybrid)
    assert [each for each in requirements._kernel() if each.path == "cgroups"] == []


def test_cgroups_that_cannot_be_written_are_named_in_both_versions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "cgroup.controllers").touch()
    monkeypatch.setattr(requirements, "hierarchies", lambda: (Hierarchy(tmp_path, True),))
    monkeypatch.setattr(requirements.os, "access", lambda *_: False)
    assert str(tmp_path) in [finding.path for finding in requirements._kernel()]


def test_a_program_that_nodes_would_not_see_is_named() -> None:
    found = requirements.missing(lambda name: f"/var/lib/{name}", root=True, linux=True)
    named = {finding.path: finding.message for finding in found}
    assert named["containerd"] == "/var/lib/containerd is below a folder that nodes have of their own"


def test_the_refusal_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = requirements.missing(lambda _: None, root=False, linux=True)
    monkeypatch.setattr(requirements, "missing", lambda: everything)
    with pytest.raises(TrainyardError, match="cannot run the nodes of cluster dev") as raised:
        requirements.require_suitable_machine("dev")
    assert raised.value.findings == tuple(everything)
    assert "--provider embedded" in raised.value.fix


def test_a_node_offers_what_the_fabric_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements.os, "cpu_count", lambda: 8)
    assert requirements.reserved({"cpu": "2500m", "pods": "110"}, "a") == {"cpu": "5500m"}
    assert [requirements.most_pods({"pods": pods}) for pods in ("20", "1000")] == [20, 253]
    assert requirements.most_pods({}) == 110
    monkeypatch.setattr(requirements.psutil, "virtual_memory", lambda: SimpleNamespace(total=8 << 30))
    assert [requirements.reserved({"memory": memory}, "a") for memory in ("4Gi", "8191Mi", "8Gi")] == [
        {"memory": str((4096 - 100) << 20)},
        {"memory": "0"},
        {"memory": "0"},
    ]
    with pytest.raises(TrainyardError, match=r"Node a of the fabric has cpu 96, but this machine has 8"):
        requirements.reserved({"cpu": "96"}, "a")


def test_the_programs_of_a_node_use_its_own_files_only() -> None:
    written = files(NODES[1], PROGRAMS, "localhost/trainyard/pause:v1", {"cpu": "1000m"}, 20)
    kubelet = yaml.safe_load(written["etc/kubelet.yaml"])
    assert (kubelet["cgroupRoot"], kubelet["address"]) == ("/trainyard-dev/b", "10.98.0.12")
    assert kubelet["maxPods"] == 20
    assert kubelet["systemReserved"] == {"cpu": "1000m"}
    assert not kubelet["authentication"]["anonymous"]["enabled"]
    cni = json.loads(written["etc/cni/10-pods.conflist"])
    assert cni["plugins"][0]["ipam"]["ranges"] == [[{"subnet": "10.245.1.0/24"}]]
    assert 'sandbox_image = "localhost/trainyard/pause:v1"' in written["etc/containerd.toml"]
    first = json.loads(init_file(NODES[1], Path("/state/b"), Path("/state"), PROGRAMS, [Path("/sys/fs/cgroup/pids/x")]))
    assert [program["name"] for program in first["programs"]] == ["containerd", "kubelet", "kube-proxy"]
    assert (first["folder"], first["hidden"]) == ("/state/b", "/state")
    assert first["files"] == {"kubelet": "/b/kubelet", "kube-proxy": "/b/kube-proxy"}
    assert first["programs"][1]["command"][0] == "/run/programs/kubelet"
    assert kubelet["volumePluginDir"] == "/var/lib/kubelet/volume-plugins"
    assert cni["plugins"][0]["ipam"]["dataDir"] == "/var/lib/cni", "a started node gives no address twice"
    scores = [yaml.safe_load(written[f"etc/{name}.yaml"])["oomScoreAdj"] for name in ("kubelet", "kube-proxy")]
    assert scores == [0, 0], "programs of the machine do not end before those of nodes"


def test_the_api_server_reaches_nodes_through_the_relay_only_if_they_have_kubelets(folder: ClusterFolder) -> None:
    def arguments(state: ClusterState) -> str:
        return " ".join(control_plane(folder, state)[1].spec.command)

    alone = arguments(cluster(folder))
    assert "egress" not in alone
    assert "NodeRestriction" not in alone
    state = cluster(folder, "a", "b")
    assert load_state(folder) == state
    assert "--enable-admission-plugins=NodeRestriction" in arguments(state)
    assert f"--egress-selector-config-file={folder.configuration / 'egress.yaml'}" in arguments(state)
    egress = yaml.safe_load((folder.configuration / "egress.yaml").read_text())["egressSelections"]
    assert [(each["name"], each["connection"]["transport"]["uds"]["udsName"]) for each in egress] == [
        ("cluster", str(folder.relay_socket))
    ]


def test_the_status_of_the_cluster_lists_its_nodes_and_no_program_that_is_a_pod(folder: ClusterFolder) -> None:
    state = cluster(folder, "a", "b")
    names = [process.name for process in inspect(folder).processes]
    assert names == ["supervisor", *NAMES, "relay", "node-a", "node-b"]
    relay, first, _ = node_processes(folder, state)
    assert (relay.depends_on, first.depends_on) == ("kube-apiserver", "relay")
    assert first.probe.address == "10.98.0.11"


def test_a_cluster_of_another_provider_is_not_converted(folder: ClusterFolder) -> None:
    cluster(folder)
    provider = NodeProvider("dev")
    provider.kubelets = ("a",)
    with pytest.raises(TrainyardError, match="was created with simulated nodes"):
        provider._prepare({}, 1)


@pytest.mark.parametrize(
    ("running", "expected"),
    [(("node-a", "node-b"), []), (("node-a",), ["clean up b"]), ((), ["stop all", "connect"])],
)
def test_a_node_that_does_not_run_is_cleaned_up_and_the_others_are_left_alone(
    folder: ClusterFolder, monkeypatch: pytest.MonkeyPatch, running: tuple[str, ...], expected: list[str]
) -> None:
    state = cluster(folder, "a", "b")
    done: list[str] = []
    monkeypatch.setattr(EmbeddedProvider, "_prepare", lambda *_: state)
    monkeypatch.setattr(NodeProvider, "_write", lambda *_: None)
    for name, stub in {
        "is_connected": lambda *_: True,
        "create": lambda *_: [],
        "read_record": lambda _, name: name,
        "alive": lambda name: name in running,
        "clean_up_node": lambda node: done.append(f"clean up {node.name}"),
        "stop_nodes": lambda *_: done.append("stop all"),
        "connect": lambda *_: done.append("connect"),
    }.items():
        monkeypatch.setattr(node_provider, name, stub)
    provider = NodeProvider("dev")
    provider.kubelets = ("a", "b")
    provider._prepare({}, 2)
    assert done == expected


def test_the_log_of_a_program_of_a_node_is_read_from_its_folder(folder: ClusterFolder) -> None:
    cluster(folder, "a")
    log = folder.nodes / "a" / "log" / "kubelet.log"
    log.parent.mkdir(parents=True)
    log.write_text("one\ntwo\n")
    assert NodeProvider("dev").logs("node-a/kubelet", 1) == "two"


def test_pods_of_the_system_are_restricted_and_pull_nothing() -> None:
    objects = [*system_objects(6443, "dns:1"), *storage_objects("provisioner:1", "helper:1")]
    pods = [body["spec"]["template"]["spec"] for resource, body in objects if resource.kind == "Deployment"]
    assert len(pods) == 2
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"]
        (container,) = pod["containers"]
        assert container["imagePullPolicy"] == "Never"
        assert container["securityContext"]["readOnlyRootFilesystem"]


def test_names_are_resolved_at_the_port_that_policies_of_tenants_name() -> None:
    bodies = {(resource.kind, body["metadata"]["name"]): body for resource, body in system_objects(6443, "dns:1")}
    pod = bodies["Deployment", "coredns"]["spec"]["template"]["spec"]
    ports = [port for port in pod["containers"][0]["ports"] if port["name"].startswith("dns-")]
    assert [port["containerPort"] for port in ports] == [53, 53]
    assert bodies["ConfigMap", "coredns"]["data"]["Corefile"].startswith(".:53 {")
    assert pod["securityContext"]["sysctls"] == [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]


def test_a_node_is_ready_and_a_deployment_available_by_their_status() -> None:
    assert ready({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    assert not ready({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}})
    deployment = {
        "metadata": {"generation": 2},
        "spec": {"replicas": 2},
        "status": {"observedGeneration": 2, "availableReplicas": 2, "updatedReplicas": 1},
    }
    assert not available(deployment)
    deployment["status"]["updatedReplicas"] = 2
    assert available(deployment)


def test_nodes_that_left_the_fabric_are_removed_and_others_are_kept() -> None:
    def node(name: str, **annotations: str) -> dict[str, object]:
        return {"metadata": {"name": name, "annotations": {f"trainyard.dev/{key}": "" for key in annotations}}}

    marked = {"node-labels": ""}
    nodes = [node("a", **marked), node("b", **marked), node("c", other=""), {"metadata": {"name": "d"}}]
    assert obsolete(nodes, {"a"}) == ("b",)
