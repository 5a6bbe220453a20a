"""What a Deployment asks of the local kubelet."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from trainyard.cluster.supervisor.pods import VolumeSource, local_paths, parse, programs, serves
from trainyard.problem import TrainyardError

DEPLOYMENT: dict[str, Any] = {
    "metadata": {
        "name": "volcano-scheduler",
        "namespace": "volcano-system",
        "labels": {"trainyard.dev/host-process": "vc-scheduler"},
    },
    "spec": {
        "replicas": 1,
        "template": {
            "metadata": {"labels": {"app": "s"}},
            "spec": {
                "serviceAccountName": "volcano-scheduler",
                "containers": [
                    {
                        "name": "s",
                        "image": "mirror:5000/volcanosh/vc-scheduler:v1.14.1@sha256:abc",
                        "command": ["/vc-scheduler"],
                        "args": [
                            "--scheduler-conf=/volcano.scheduler/x.conf",
                            "--namespace=$(NAMESPACE)",
                            "$(UNKNOWN)",
                        ],
                        "env": [{"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}],
                        "volumeMounts": [
                            {"name": "conf", "mountPath": "/volcano.scheduler/"},
                            {"name": "one", "mountPath": "/etc/one.yaml", "subPath": "one.yaml"},
                        ],
                    }
                ],
                "volumes": [
                    {"name": "conf", "configMap": {"name": "scheduler", "items": [{"key": "a", "path": "x.conf"}]}},
                    {"name": "one", "secret": {"secretName": "one", "optional": True}},
                    {"name": "unused", "hostPath": {"path": "/"}},
                ],
            },
        },
    },
}


def changed(**container: Any) -> dict[str, Any]:
    body = copy.deepcopy(DEPLOYMENT)
    body["spec"]["template"]["spec"]["containers"][0].update(container)
    return body


def test_program_version_account_arguments_and_volumes_are_read() -> None:
    found = parse(DEPLOYMENT)
    assert (found.program, found.version, found.service_account) == ("vc-scheduler", "1.14.1", "volcano-scheduler")
    assert found.arguments == (
        "/vc-scheduler",
        "--scheduler-conf=/volcano.scheduler/x.conf",
        "--namespace=volcano-system",
        "$(UNKNOWN)",
    )
    assert found.mounts == {"/volcano.scheduler": ("conf", ""), "/etc/one.yaml": ("one", "one.yaml")}
    assert found.volumes == (
        VolumeSource("conf", "configMap", "scheduler", False, (("a", "x.conf"),)),
        VolumeSource("one", "secret", "one", True),
    )


def test_a_change_of_the_pod_template_is_noticed() -> None:
    assert parse(DEPLOYMENT).template == parse(copy.deepcopy(DEPLOYMENT)).template
    assert parse(DEPLOYMENT).template != parse(changed(args=["-v=4"])).template


def test_a_pod_of_an_older_template_is_not_served() -> None:
    pod = {"spec": copy.deepcopy(DEPLOYMENT["spec"]["template"]["spec"])}
    assert serves(DEPLOYMENT, pod)
    assert not serves(changed(image="mirror/vc-scheduler:v1.14.2"), pod)


def test_a_further_container_is_a_program_of_its_own_in_the_same_pod() -> None:
    body = changed()
    sidecar = {
        "name": "opa",
        "image": "openpolicyagent/opa:1.22.0",
        "command": ["/opa"],
        "volumeMounts": [{"name": "scratch", "mountPath": "/run/x"}],
    }
    body["spec"]["template"]["spec"]["containers"].append(sidecar)
    body["spec"]["template"]["spec"]["volumes"].append({"name": "scratch", "emptyDir": {}})
    assert programs(body) == ("vc-scheduler", "opa")
    found = parse(body, "opa")
    assert (found.program, found.version, found.arguments) == ("opa", "1.22.0", ("/opa",))
    assert found.volumes == (VolumeSource("scratch", "emptyDir"),)
    assert parse(body) == parse(body, "vc-scheduler")
    pod = {"spec": copy.deepcopy(body["spec"]["template"]["spec"])}
    assert serves(body, pod)
    assert not serves(DEPLOYMENT, pod)
    pod["spec"]["containers"][1]["args"] = ["other"]
    assert not serves(body, pod)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (changed(env=[{"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]), "variable X"),
        (changed(volumeMounts=[{"name": "unused", "mountPath": "/x"}]), "volume unused"),
    ],
)
def test_what_a_host_process_cannot_have_is_refused(body: dict[str, Any], message: str) -> None:
    with pytest.raises(TrainyardError, match=message):
        parse(body)


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
