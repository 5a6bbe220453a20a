"""What the old operators add to pods and jobs refer to: volumes, scripts, host names and DNS."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.convert.conversions import catalog, conversion_of, lost
from trainyard.api import Body
from trainyard.jobs.convert.conversion import Conversion
from trainyard.jobs.convert.conversion_report import as_yaml
from trainyard.jobs.convert.converted_documents import convert_documents
from trainyard.jobs.render.rendered_documents import render_documents

HOSTS = {"name": "mpi-job-config", "mountPath": "/etc/mpi"}
KEYS = {"name": "ssh-auth", "mountPath": "/root/.ssh"}


def mpi(launcher: Body | None = None, worker: Body | None = None, version: str = "v2beta1", **pod: Any) -> Body:
    def role(container: Body | None) -> Body:
        main = {"name": "main", "image": "registry.example/mpi:1"}
        wait = {"name": "wait", "image": "registry.example/mpi:1", **(container or {})}
        return {"template": {"spec": {"containers": [main], "initContainers": [wait], **pod}}}

    roles = {"Launcher": role(launcher), "Worker": {**role(worker), "replicas": 2}}
    metadata = {"name": "old", "namespace": "vision"}
    spec = {"mpiReplicaSpecs": roles}
    return {"apiVersion": f"kubeflow.org/{version}", "kind": "MPIJob", "metadata": metadata, "spec": spec}


def pods(conversion: Conversion) -> dict[str, Body]:
    (answer,) = render_documents({"job": as_yaml(conversion.objects)})
    assert not answer.errors
    job_set = next(body for body in answer.objects if body["kind"] == "JobSet")
    jobs = job_set["spec"]["replicatedJobs"]
    return {part["name"]: part["template"]["spec"]["template"]["spec"] for part in jobs}


def mounts(pod: Body) -> dict[str, str]:
    (container,) = pod["initContainers"]
    return {mount["name"]: mount["mountPath"] for mount in container.get("volumeMounts", ())}


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_volumes_of_the_operator_are_those_of_the_framework(version: str) -> None:
    container = {"volumeMounts": [HOSTS, KEYS]}
    conversion = conversion_of(mpi(container, {"volumeMounts": [KEYS]}, version))
    found = pods(conversion)
    assert mounts(found["launcher"]) == {"mpi-hostfile": "/etc/mpi", "mpi-ssh-auth": "/root/.ssh"}
    assert mounts(found["node"]) == {"mpi-ssh-auth": "/root/.ssh"}
    for pod in found.values():
        assert mounts(pod).keys() <= {volume["name"] for volume in pod["volumes"]}
    assert not lost(conversion)


@pytest.mark.parametrize(
    "mount",
    [
        {"name": "mpi-job-kubectl", "mountPath": "/opt/kube"},
        {**HOSTS, "subPath": "discover_hosts.sh"},
        {**HOSTS, "subPath": "kubexec.sh"},
    ],
)
def test_a_mount_without_a_volume_is_lost(mount: Body) -> None:
    conversion = conversion_of(mpi({"volumeMounts": [mount]}, version="v1"))
    assert mounts(pods(conversion)["launcher"]) == {}
    assert any("Launcher.template.spec.initContainers[0].volumeMounts[0].name" in note for note in lost(conversion))


def test_a_volume_of_the_job_is_its_own() -> None:
    body = mpi({"volumeMounts": [KEYS]}, volumes=[{"name": "ssh-auth", "emptyDir": {}}])
    assert mounts(pods(conversion_of(body))["launcher"]) == {"ssh-auth": "/root/.ssh"}


def test_objects_of_the_operator_are_those_of_the_framework() -> None:
    volumes = [
        {"name": "a", "configMap": {"name": "old-config"}},
        {"name": "b", "secret": {"secretName": "old-ssh"}},
        {"name": "c", "projected": {"sources": [{"secret": {"name": "old-ssh"}}, {"configMap": {"name": "own"}}]}},
    ]
    found = pods(conversion_of(mpi(volumes=volumes)))["launcher"]["volumes"][:3]
    assert found == [
        {"name": "a", "configMap": {"name": "old-mpi-hostfile"}},
        {"name": "b", "secret": {"secretName": "old-mpi-ssh-auth"}},
        {
            "name": "c",
            "projected": {"sources": [{"secret": {"name": "old-mpi-ssh-auth"}}, {"configMap": {"name": "own"}}]},
        },
    ]


@pytest.mark.parametrize("field", ["command", "args"])
def test_the_script_of_hosts_is_lost(field: str) -> None:
    container = {field: ["sh", "-c", "for h in $(/etc/mpi/discover_hosts.sh); do ssh $h true; done"]}
    (note,) = lost(conversion_of(mpi(container)))
    assert "names discover_hosts.sh of the old operator" in note
    assert "/etc/mpi/hostfile" in note


@pytest.mark.parametrize("policy", [None, "ClusterFirst"])
def test_pods_on_the_host_network_find_each_other(policy: str | None) -> None:
    conversion = conversion_of(mpi(hostNetwork=True, **({"dnsPolicy": policy} if policy else {})))
    assert {pod["dnsPolicy"] for pod in pods(conversion).values()} == {"ClusterFirstWithHostNet"}
    assert any("ClusterFirstWithHostNet" in note.message for note in conversion.notes)


def test_a_dns_policy_of_the_job_stays() -> None:
    found = pods(conversion_of(mpi(hostNetwork=True, dnsPolicy="None")))
    assert {pod["dnsPolicy"] for pod in found.values()} == {"None"}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("old-worker-0", True),
        ("ssh root@old-worker-1.old", True),
        ("http://old-worker-0:80/", True),
        ("old-worker-$i", True),
        ("old-worker-{0..3}", True),
        ("old-launcher", True),
        ("old-launcher.old.vision.svc", True),
        ("my-old-worker-0", False),
        ("registry.example/threshold-worker-image:1", False),
        ("old-worker-image", False),
        ("old-launcher-config", False),
        ("folder.old-worker-0", False),
    ],
)
def test_a_host_is_named_by_its_whole_name(text: str, named: bool) -> None:
    assert bool(lost(conversion_of(mpi({"command": ["run", text]})))) == named


def test_a_name_that_is_no_host_is_not_reported_as_one() -> None:
    """Containers, labels and volumes are often named as the operator names its pods."""
    body = mpi(volumes=[{"name": "old-worker-0", "emptyDir": {}}], serviceAccountName="old-launcher")
    launcher = body["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]
    launcher["spec"]["containers"][0]["name"] = "old-launcher"
    launcher["metadata"] = {"labels": {"app": "old-launcher"}}
    launcher["spec"]["affinity"] = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "old-launcher"}}}
            ]
        }
    }
    assert not lost(conversion_of(body))
    launcher["spec"]["containers"][0]["env"] = [{"name": "MASTER", "value": "old-launcher"}]
    assert len(lost(conversion_of(body))) == 1


def role(kind: str, field: str, container: str, **more: Any) -> Body:
    pod = {"containers": [{"name": container, "image": "registry.example/a:1", "command": ["python", "train.py"]}]}
    spec = {field: {"Worker": {"replicas": 2, "template": {"spec": pod}, **more}}}
    return {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": "old"}, "spec": spec}


PYTORCH = ("PyTorchJob", "pytorchReplicaSpecs", "pytorch")


def second(text: str, **metadata: Any) -> Body:
    body = role(*PYTORCH)
    body["metadata"] = {"name": "second", "namespace": "vision", **metadata}
    body["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["args"] = [text]
    return body


@pytest.mark.parametrize(
    ("text", "namespace", "named"),
    [
        ("--server=old-worker-0:80", "vision", True),
        ("old-worker-0.vision.svc", "language", True),
        ("old-worker-$i", "vision", True),
        ("old-worker-0.old", "language", False),
        ("old-worker-image", "vision", False),
        ("old-worker-", "vision", False),
        ("s3://bucket/old-worker-0", "vision", False),
    ],
)
def test_a_host_of_another_job_of_the_input_is_lost_where_it_is_named(text: str, namespace: str, named: bool) -> None:
    documents = json.dumps(second(text, namespace=namespace)), json.dumps(mpi())
    first, other = convert_documents({"a": "\n---\n".join(documents)}, catalog())
    assert not other.lost
    found = [note.path for note in first.lost if "of MPIJob vision/old" in note.message]
    assert found == (["spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].args[0]"] if named else [])


def test_a_host_that_a_config_map_names_is_lost_in_the_job() -> None:
    hosts = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hosts", "namespace": "vision"}}
    hosts["data"] = {"hosts.txt": "old-worker-0\nold-worker-1\n"}
    (note,) = conversion_of(hosts, {"apiVersion": "v1", "kind": "Unnamed"}, mpi()).lost
    assert note.message == "ConfigMap vision/hosts names the host old-worker-0, which is not there any more"
    assert note.fix == "use names such as old-node-0-0.old there"


KINDS = (
    PYTORCH,
    ("PaddleJob", "paddleReplicaSpecs", "paddle"),
    ("JAXJob", "jaxReplicaSpecs", "jax"),
    ("XGBoostJob", "xgbReplicaSpecs", "xgboost"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_logs_are_not_buffered(kind: tuple[str, str, str]) -> None:
    (pod,) = pods(conversion_of(role(*kind))).values()
    assert {"name": "PYTHONUNBUFFERED", "value": "1"} in pod["containers"][0]["env"]


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_images_of_the_mpi_operator_know_their_role(version: str) -> None:
    found = pods(conversion_of(mpi(version=version)))
    roles = {
        name: [entry["value"] for entry in pod["containers"][0].get("env", ()) if entry["name"] == "K_MPI_JOB_ROLE"]
        for name, pod in found.items()
    }
    assert roles == (
        {"launcher": ["launcher"], "node": ["worker"]} if version == "v2beta1" else {"launcher": [], "node": []}
    )


def hidden(conversion: Conversion, name: str) -> dict[str, Any]:
    """Return the variables with which the container runtime of NVIDIA gives a container its devices."""
    found = pods(conversion)[name]["containers"][0].get("env", ())
    return {entry["name"]: entry.get("value", "") for entry in found if entry["name"].startswith("NVIDIA_")}


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
@pytest.mark.parametrize("own", [None, "all"])
def test_a_launcher_does_not_see_the_devices_of_its_node(version: str, own: str | None) -> None:
    """Images of CUDA set the variable to all, and the operators hide the devices from a launcher."""
    body = mpi(version=version)
    if own is not None:
        (container,) = body["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"]
        container["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": own}]
    conversion = conversion_of(body)
    assert hidden(conversion, "launcher") == {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}
    assert hidden(conversion, "node") == {}
    messages = [note.message for note in conversion.notes if note.path.endswith("containers[0].env[0]")]
    assert [bool(own)] == [any("hides" in message for message in messages)]


def test_a_launcher_that_is_a_node_sees_its_devices() -> None:
    body = mpi()
    body["spec"]["runLauncherAsWorker"] = True
    assert hidden(conversion_of(body), "launcher") == {}


@pytest.mark.parametrize(("version", "trains"), [("v1", True), ("v2beta1", False)])
def test_a_launcher_with_gpus_is_a_node_of_the_training_operator(version: str, trains: bool) -> None:
    """MPIJob v1 has no field for it: the operator adds such a launcher to its host file."""
    body = mpi(version=version)
    (container,) = body["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"]
    container["resources"] = {"limits": {"nvidia.com/gpu": 1}}
    conversion = conversion_of(body)
    assert (hidden(conversion, "launcher") == {}) is trains
    policy = next(each for each in conversion.objects if each["kind"] == "TrainingRuntime")["spec"]["mlPolicy"]
    assert (policy["mpi"].get("runLauncherAsNode", False), policy["numNodes"]) == (trains, 2 + trains)


@pytest.mark.parametrize(
    ("policy", "limit", "noted"), [("OnFailure", None, True), ("Never", None, False), ("OnFailure", 3, False)]
)
def test_workers_of_the_mpi_operator_had_no_limit_either(policy: str, limit: int | None, noted: bool) -> None:
    body = mpi()
    body["spec"]["mpiReplicaSpecs"]["Worker"]["restartPolicy"] = policy
    if limit is not None:
        body["spec"]["runPolicy"] = {"backoffLimit": limit}
    notes = [note.path for note in conversion_of(body).notes if "gives up after 6 failures" in note.message]
    assert notes == ["spec.mpiReplicaSpecs.Worker.restartPolicy"] * noted


@pytest.mark.parametrize(
    ("policy", "limit", "noted"),
    [("OnFailure", None, True), ("ExitCode", None, True), ("Never", None, False), ("OnFailure", 3, False)],
)
def test_restarts_without_a_limit_are_noted(policy: str, limit: int | None, noted: bool) -> None:
    """A Job has a limit of its own, which the training operator does not have."""
    body = role(*PYTORCH, restartPolicy=policy)
    if limit is not None:
        body["spec"]["runPolicy"] = {"backoffLimit": limit}
    notes = [note for note in conversion_of(body).notes if "gives up after 6 failures" in note.message]
    assert len(notes) == noted
