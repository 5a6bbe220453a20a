"""Volcano Jobs: which task trains, flags of plug-ins, names of hosts, and gang settings of other schedulers."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tests.convert.conversions import conversion_of, own_runtime, pod_templates, replicated_jobs
from trainyard.api import Body
from trainyard.jobs.convert.conversion import Conversion
from trainyard.jobs.convert.conversion_report import as_text

IMAGE: Final = "registry.example/app:1"
COMPLETES: Final = {"policies": [{"event": "TaskCompleted", "action": "CompleteJob"}]}
SECRET: Final = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow"


def task(name: str, replicas: int, text: str = "true", pod: Body | None = None, **fields: Any) -> Body:
    container = {"name": "main", "image": IMAGE, "command": ["sh", "-c", text]}
    spec = {"restartPolicy": "Never", "containers": [container], **(pod or {})}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **fields}


def job(*tasks: Body, metadata: Body | None = None, **spec: Any) -> Body:
    about = {"name": "old", "namespace": "vision", **(metadata or {})}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": about,
        "spec": {"tasks": [*tasks], **spec},
    }


def trainer(conversion: Conversion) -> str:
    label = "trainer.kubeflow.org/trainjob-ancestor-step"
    (found,) = [
        name
        for name, each in replicated_jobs(conversion).items()
        if each["template"].get("metadata", {}).get("labels", {}).get(label) == "trainer"
    ]
    return found


def messages(conversion: Conversion) -> dict[str, str]:
    return {note.path: f"{note.fidelity.value}: {note.message}" for note in conversion.notes}


@pytest.mark.parametrize(
    ("tasks", "spec", "wanted"),
    [
        ([task("ps", 2), task("worker", 2, **COMPLETES)], {}, "worker"),
        ([task("worker", 2, **COMPLETES), task("ps", 2)], {}, "worker"),
        ([task("ps", 4), task("chief", 1, **COMPLETES)], {}, "chief"),
        ([task("ps", 2, minAvailable=0), task("worker", 2, minAvailable=2)], {}, "worker"),
        ([task("ps", 4), task("worker", 2)], {"minSuccess": 2}, "worker"),
        ([task("ps", 4, minAvailable=0), task("worker", 2)], {}, "worker"),
        ([task("ps", 2), task("worker", 2)], {}, "ps"),
        ([task("ps", 2), task("worker", 4)], {}, "worker"),
        (
            [task("ps", 2), task("worker", 2, policies=[{"events": ["TaskCompleted"], "action": "CompleteJob"}])],
            {},
            "worker",
        ),
    ],
)
def test_the_task_that_completes_the_job_trains(tasks: list[Body], spec: Body, wanted: str) -> None:
    assert trainer(conversion_of(job(*tasks, **spec))) == wanted


def test_keys_are_mounted_where_the_plugin_says_with_either_plugin() -> None:
    for plugins in (
        {"ssh": ["--ssh-key-file-path=/home/u/.ssh"]},
        {"ssh": ["--ssh-key-file-path", "/home/u/.ssh"], "mpi": []},
    ):
        conversion = conversion_of(job(task("master", 1), task("worker", 2), plugins=plugins))
        runtime = conversion.objects[0]
        assert runtime["spec"]["mlPolicy"]["mpi"]["sshAuthMountPath"] == "/home/u/.ssh"
        for pod in pod_templates(conversion).values():
            assert pod["spec"]["securityContext"]["fsGroup"] == 1000


def test_the_group_of_the_keys_is_that_of_the_pod_where_it_has_one() -> None:
    pod = {"securityContext": {"runAsUser": 2000, "runAsGroup": 3000}}
    body = job(task("master", 1, pod=pod), task("worker", 2, pod={"securityContext": {"fsGroup": 7}}))
    body["spec"]["plugins"] = {"ssh": ["--ssh-key-file-path=/home/u/.ssh"]}
    pods = pod_templates(conversion_of(body))
    groups = {name: each["spec"]["securityContext"]["fsGroup"] for name, each in pods.items()}
    assert groups == {"launcher": 3000, "node": 7}
    body["spec"]["plugins"] = {"ssh": []}
    assert "fsGroup" not in json.dumps(replicated_jobs(conversion_of(body))["launcher"])


@pytest.mark.parametrize("arguments", [[f"--ssh-private-key={SECRET}"], ["--ssh-private-key", SECRET]])
@pytest.mark.parametrize("tasks", [2, 3])
def test_a_private_key_is_never_printed(arguments: list[str], tasks: int) -> None:
    every = [task(f"t{index}", index + 1) for index in range(tasks)]
    conversion = conversion_of(job(*every, plugins={"ssh": [*arguments, "--ssh-public-key=ssh-rsa AAAA"]}))
    assert "MIIEow" not in json.dumps(conversion.as_json())
    assert "MIIEow" not in as_text([conversion], every=True)
    assert "MIIEow" not in repr(conversion)
    assert "is not carried over" in messages(conversion)["spec.plugins.ssh[0]"]


@pytest.mark.parametrize(
    ("plugins", "path", "words"),
    [
        ({"ssh": ["--no-root"]}, "spec.plugins.ssh[0]", "changed: "),
        ({"ssh": ["--unheard-of=1"]}, "spec.plugins.ssh[0]", "lost: "),
        ({"svc": ["--publish-not-ready-addresses=true"]}, "spec.plugins.svc[0]", "lossless: "),
        ({"svc": ["--disable-network-policy"]}, "spec.plugins.svc[0]", "lossless: "),
        ({"pytorch": ["--port=24000"]}, "spec.plugins.pytorch[0]", "lossless: "),
        ({"pytorch": ["--wait-master-enabled=true"]}, "spec.plugins.pytorch[0]", "changed: "),
        ({"mpi": ["--port=2222"]}, "spec.plugins.mpi[0]", "changed: "),
        ({"tensorflow": ["--port=2223"]}, "spec.plugins.tensorflow[0]", "changed: "),
        ({"ray": ["--port=6380", "--dashboardPort=8000"]}, "spec.plugins.ray[1]", "changed: "),
        ({"env": ["--x"]}, "spec.plugins.env[0]", "lost: "),
    ],
)
def test_every_flag_of_a_plugin_is_noted(plugins: Body, path: str, words: str) -> None:
    names = ("head", "worker") if "ray" in plugins else ("master", "worker")
    conversion = conversion_of(job(task(names[0], 1, "a"), task(names[1], 2, "b"), plugins=plugins))
    assert messages(conversion)[path].startswith(words)


def test_pods_that_the_plugin_kept_others_away_from_are_said() -> None:
    found = {note.path: note.fix for note in conversion_of(job(task("a", 1), plugins={"svc": []})).notes}
    assert "networkPolicies" in found["spec.plugins.svc"]
    body = job(task("a", 1), plugins={"svc": ["--disable-network-policy=true"]})
    found = {note.path: note.fix for note in conversion_of(body).notes}
    assert not found["spec.plugins.svc"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("ssh old-worker-0", True),
        ("ssh root@old-worker-0.old", True),
        ("curl tcp://old-worker-1:2222", True),
        ("for i in 0 1; do ping old-worker-$i; done", True),
        ("echo\nold-worker-0", True),
        ("HOSTS=old-worker-0,old-worker-1", True),
        ("cat s3://bucket/old-worker-0/a", False),
        ("echo very-old-worker-0", False),
        ("echo old-worker-data", False),
        ("echo old-worker-0th", False),
        ("echo threshold-worker-0", False),
    ],
)
def test_a_host_name_is_a_name_and_no_part_of_another_text(text: str, named: bool) -> None:
    conversion = conversion_of(job(task("worker", 2, text)))
    assert bool(conversion.lost) is named


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("labels", "yunikorn.apache.org/app-id"),
        ("annotations", "yunikorn.apache.org/task-group-name"),
        ("annotations", "yunikorn.apache.org/task-groups"),
        ("labels", "kueue.x-k8s.io/pod-group-name"),
        ("annotations", "kueue.x-k8s.io/pod-group-total-count"),
        ("labels", "scheduling.x-k8s.io/pod-group"),
        ("annotations", "scheduling.volcano.sh/group-min-member"),
        ("labels", "pod-group.scheduling.sigs.k8s.io/name"),
        ("labels", "pod-group.scheduling.sigs.k8s.io"),
    ],
)
def test_gang_settings_of_other_schedulers_do_not_stay_on_the_pods(kind: str, key: str) -> None:
    body = job(task("a", 2), metadata={kind: {key: "1"}})
    body["spec"]["tasks"][0]["template"]["metadata"] = {kind: {key: "1"}}
    conversion = conversion_of(body)
    assert key not in json.dumps(conversion.objects)
    found = messages(conversion)
    assert found[f"metadata.{kind}[{key}]"].startswith("changed: ")
    assert found[f"spec.tasks[0].template.metadata.{kind}[{key}]"].startswith("changed: ")


@pytest.mark.parametrize("kind", ["labels", "annotations"])
def test_a_queue_of_yunikorn_is_no_queue_of_volcano_yet(kind: str) -> None:
    body = job(task("a", 2), metadata={kind: {"yunikorn.apache.org/queue": "root.vision"}}, schedulerName="yunikorn")
    conversion = conversion_of(body)
    assert messages(conversion)[f"metadata.{kind}[yunikorn.apache.org/queue]"].startswith("changed: ")
    patch = conversion.objects[-1]["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]
    assert list(patch["metadata"]["annotations"].values()) == ["root.vision"]
    found = messages(conversion_of(job(task("a", 2), queue="root.vision", schedulerName="yunikorn")))
    assert found["spec.queue"].startswith("changed: ")
    assert messages(conversion_of(job(task("a", 2), queue="lq")))["spec.queue"].startswith("lossless: ")


def test_pods_on_the_network_of_their_node_still_find_names_of_the_cluster() -> None:
    conversion = conversion_of(
        job(task("a", 2, pod={"hostNetwork": True}), task("b", 1, pod={"hostNetwork": True, "dnsPolicy": "None"}))
    )
    pods = pod_templates(conversion)
    assert pods["a"]["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert pods["b"]["spec"]["dnsPolicy"] == "None"
    assert messages(conversion)["spec.tasks[0].template.spec.hostNetwork"].startswith("changed: ")


def test_a_queue_of_kueue_on_the_pods_is_that_of_the_job() -> None:
    body = job(task("a", 2))
    body["spec"]["tasks"][0]["template"]["metadata"] = {"labels": {"kueue.x-k8s.io/queue-name": "lq"}}
    conversion = conversion_of(body)
    assert conversion.objects[-1]["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "lq"}
    assert "kueue" not in json.dumps(replicated_jobs(conversion))
    path = "spec.tasks[0].template.metadata.labels[kueue.x-k8s.io/queue-name]"
    assert messages(conversion)[path].startswith("changed: ")


def test_any_of_several_tasks_that_complete_the_job_ends_it() -> None:
    conversion = conversion_of(job(task("a", 1, **COMPLETES), task("b", 2, **COMPLETES), task("c", 1)))
    assert own_runtime(conversion)["successPolicy"] == {"operator": "Any", "targetReplicatedJobs": ["a", "b"]}
    conversion = conversion_of(job(task("a", 1), task("b", 2), **COMPLETES))
    assert own_runtime(conversion)["successPolicy"] == {"operator": "Any", "targetReplicatedJobs": ["a", "b"]}
    assert not conversion.lost
    conversion = conversion_of(job(task("a", 1), task("b", 2, **COMPLETES)))
    assert own_runtime(conversion)["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["b"]}


def test_the_service_of_plug_in_ray_is_named_as_lost() -> None:
    tasks = [task("head", 1), task("worker", 2), task("submit", 1, "ray job submit --address http://old-head-svc:8265")]
    conversion = conversion_of(job(*tasks, plugins={"ray": []}))
    assert "names the host old-head-svc" in messages(conversion)["spec.tasks[2].template.spec.containers"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [({}, True), ({"maxRetry": 2}, False), ({"policies": [{"event": "PodFailed", "action": "RestartPod"}]}, False)],
)
def test_containers_that_started_again_without_end_have_a_limit(fields: Body, said: bool) -> None:
    conversion = conversion_of(job(task("a", 2, pod={"restartPolicy": "OnFailure"}, **fields)))
    found = [each.message for each in conversion.notes if "gives up after 6 failures" in each.message]
    assert len(found) == said


def test_a_name_of_a_pod_that_a_program_reads_is_said_to_change() -> None:
    body = job(task("a", 2))
    container = body["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    path = "spec.tasks[0].template.spec.containers[0].env[0].valueFrom.fieldRef.fieldPath"
    assert messages(conversion_of(body))[path].startswith("changed: ends in random letters")


@pytest.mark.parametrize(("least", "fidelity"), [(0, "lossless"), (1, "changed"), (2, "lossless")])
def test_no_minimum_is_the_whole_gang(least: int, fidelity: str) -> None:
    """Volcano's webhook sets a minimum of 0 to all pods."""
    found = messages(conversion_of(job(task("a", 2), minAvailable=least)))["spec.minAvailable"]
    assert found == f"{fidelity}: the gang is all pods of the job"


@pytest.mark.parametrize("kind", ["labels", "annotations"])
def test_what_volcano_copies_to_its_pods_is_set_there(kind: str) -> None:
    conversion = conversion_of(job(task("a", 1), task("b", 2), metadata={kind: {"volcano.sh/preemptable": "true"}}))
    for template in pod_templates(conversion).values():
        assert template["metadata"][kind] == {"volcano.sh/preemptable": "true"}
    assert kind not in conversion.objects[-1]["metadata"]
    assert messages(conversion)[f"metadata.{kind}[volcano.sh/preemptable]"].startswith("changed: ")


@pytest.mark.parametrize("key", ["sla-waiting-time", "volcano.sh/task-topology-affinity"])
@pytest.mark.parametrize("kind", ["Job", "PyTorchJob"])
def test_what_the_scheduler_reads_from_the_pod_group_is_lost(kind: str, key: str) -> None:
    body = job(task("a", 2))
    if kind != "Job":
        roles = {"Worker": {"replicas": 2, "template": body["spec"]["tasks"][0]["template"]}}
        body |= {"apiVersion": "kubeflow.org/v1", "kind": kind, "spec": {"pytorchReplicaSpecs": roles}}
    body["metadata"]["annotations"] = {key: "1h", "team": "a"}
    conversion = conversion_of(body)
    assert conversion.objects[-1]["metadata"]["annotations"] == {"team": "a"}
    assert key in " ".join(note.path for note in conversion.lost)


def test_a_label_that_a_plug_in_may_read_from_the_pod_group_is_said_to_change() -> None:
    conversion = conversion_of(job(task("a", 2), metadata={"labels": {"fault-scheduling": "grace"}}))
    assert conversion.objects[-1]["metadata"]["labels"] == {"fault-scheduling": "grace"}
    assert messages(conversion)["metadata.labels.fault-scheduling"].startswith("changed: ")
