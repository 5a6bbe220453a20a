"""What a pod of a platform Deployment asks of the local kubelet."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from trainyard.errors import TrainyardError
from trainyard.local.cluster.supervisor.pod_requirements import (
    VolumeSource,
    ended,
    ending,
    grace_period,
    local_paths,
    owned,
    parse,
    programs,
    unscheduled,
)

POD: dict[str, Any] = {
    "metadata": {
        "name": "volcano-scheduler-5d-x",
        "namespace": "volcano-system",
        "uid": "u-1",
        "labels": {"app": "s", "trainyard.dev/host-process": "vc-scheduler"},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "volcano-scheduler-5d", "controller": True}],
    },
    "spec": {
        "nodeName": "platform-0",
        "serviceAccountName": "volcano-scheduler",
        "terminationGracePeriodSeconds": 40,
        "containers": [
            {
                "name": "s",
                "image": "mirror:5000/volcanosh/vc-scheduler:v1.14.1@sha256:abc",
                "command": ["/vc-scheduler"],
                "args": ["--scheduler-conf=/volcano.scheduler/x.conf", "--name=$(NAME)", "$(UNKNOWN)"],
                "env": [{"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "readinessProbe": {"periodSeconds": 5, "failureThreshold": 2},
                "volumeMounts": [
                    {"name": "conf", "mountPath": "/volcano.scheduler/"},
                    {"name": "one", "mountPath": "/etc/one.yaml", "subPath": "one.yaml"},
                    {"name": "kube-api-access-x", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
                ],
            }
        ],
        "volumes": [
            {"name": "conf", "configMap": {"name": "scheduler", "items": [{"key": "a", "path": "x.conf"}]}},
            {"name": "one", "secret": {"secretName": "one", "optional": True}},
            {"name": "unused", "hostPath": {"path": "/"}},
            {"name": "kube-api-access-x", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
        ],
    },
}
DEPLOYMENT: dict[str, Any] = {
    "metadata": {"name": "volcano-scheduler", "namespace": "volcano-system"},
    "spec": {"selector": {"matchLabels": {"app": "s"}}},
}


def changed(**container: Any) -> dict[str, Any]:
    body = copy.deepcopy(POD)
    body["spec"]["containers"][0].update(container)
    return body


def with_metadata(**metadata: Any) -> dict[str, Any]:
    return POD | {"metadata": POD["metadata"] | metadata}


def test_program_version_account_arguments_volumes_and_probe_are_read() -> None:
    found = parse(POD, "vc-scheduler")
    assert (found.program, found.version, found.service_account) == ("vc-scheduler", "1.14.1", "volcano-scheduler")
    assert found.arguments == (
        "/vc-scheduler",
        "--scheduler-conf=/volcano.scheduler/x.conf",
        "--name=volcano-scheduler-5d-x",
        "$(UNKNOWN)",
    )
    assert found.mounts == {"/volcano.scheduler": ("conf", ""), "/etc/one.yaml": ("one", "one.yaml")}
    assert found.volumes == (
        VolumeSource("conf", "configMap", "scheduler", False, (("a", "x.conf"),)),
        VolumeSource("one", "secret", "one", True),
    )
    assert (found.probe_period, found.probe_failures) == (5, 2)


def test_another_pod_or_image_means_another_process() -> None:
    same = parse(POD, "vc-scheduler").pod
    assert parse(copy.deepcopy(POD), "vc-scheduler").pod == same
    assert parse(changed(image="mirror/vc-scheduler:v1.14.2"), "vc-scheduler").pod != same
    assert parse(with_metadata(uid="u-2"), "vc-scheduler").pod != same


def test_a_further_container_is_a_program_of_its_own_in_the_same_pod() -> None:
    body = changed()
    sidecar = {
        "name": "opa",
        "image": "openpolicyagent/opa:1.22.0",
        "command": ["/opa"],
        "volumeMounts": [{"name": "scratch", "mountPath": "/run/x"}],
    }
    body["spec"]["containers"].append(sidecar)
    body["spec"]["volumes"].append({"name": "scratch", "emptyDir": {}})
    assert programs(body) == ("vc-scheduler", "opa")
    found = parse(body, "opa")
    assert (found.program, found.version, found.arguments) == ("opa", "1.22.0", ("/opa",))
    assert found.volumes == (VolumeSource("scratch", "emptyDir"),)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (changed(env=[{"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]), "variable X"),
        (changed(volumeMounts=[{"name": "unused", "mountPath": "/x"}]), "volume unused"),
    ],
)
def test_what_a_host_process_cannot_have_is_refused(body: dict[str, Any], message: str) -> None:
    with pytest.raises(TrainyardError, match=message):
        parse(body, "vc-scheduler")


def test_a_pod_belongs_to_the_deployment_whose_replica_set_made_it() -> None:
    assert owned(POD, DEPLOYMENT)
    assert not owned(with_metadata(namespace="vision"), DEPLOYMENT)
    assert not owned(with_metadata(labels={}), DEPLOYMENT)
    assert not owned(with_metadata(ownerReferences=[]), DEPLOYMENT)
    stranger = {"kind": "ReplicaSet", "name": "other-5d", "controller": True}
    assert not owned(with_metadata(ownerReferences=[stranger]), DEPLOYMENT)


def test_a_deleted_pod_ends_within_its_grace_period() -> None:
    assert not ending(POD)
    assert grace_period(POD) == 40
    deleted = with_metadata(deletionTimestamp="2026-01-01T00:00:00Z", deletionGracePeriodSeconds=5)
    assert ending(deleted)
    assert not ended(deleted)
    assert grace_period(deleted) == 5
    assert ended(with_metadata(annotations={"trainyard.dev/host-process-ended": "true"}))
    assert ended(POD | {"status": {"phase": "Failed"}})
    assert grace_period({"metadata": {}, "spec": {}}) == 30


def test_a_pod_without_a_node_says_what_the_scheduler_says() -> None:
    assert unscheduled(POD) is None
    status = {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/8 nodes are available"}]}
    body = POD | {"spec": {}, "status": status}
    assert unscheduled(body) == "pod volcano-system/volcano-scheduler-5d-x has no node yet: 0/8 nodes are available"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--conf=/etc/x/a.conf", "--conf=/l/x/a.conf"),
        ("/etc/x", "/l/x"),
        ("--dirs=/etc/x,/etc/x/y/z", "--dirs=/l/x,/deep/z"),
        ("--conf=/etc/xylophone", "--conf=/etc/xylophone"),
        ("--conf=/opt/etc/x", "--conf=/opt/etc/x"),
        ("certDir: /etc/x\n", "certDir: /l/x\n"),
    ],
)
def test_paths_below_a_mount_become_local_and_the_longest_mount_wins(text: str, expected: str) -> None:
    assert local_paths(text, {"/etc/x": Path("/l/x"), "/etc/x/y": Path("/deep")}) == expected
