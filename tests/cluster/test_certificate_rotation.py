"""Renewed webhook certificates reach every server, and no request is rejected meanwhile.

``TRAINYARD_ROTATION_SECONDS`` is the time for which requests are sent; ``make certificate-rotation`` sends them for ten
minutes.
"""

from __future__ import annotations

import functools
import json
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import yaml
from cryptography import x509

from tests.cluster.jobs import train_job
from tests.support import LiveCluster, awaited, repeated, require
from trainyard.controller.certificates import SERVED_ANNOTATION
from trainyard.kube.blocking import BlockingSession

pytestmark = pytest.mark.cluster

SECONDS = float(os.environ.get("TRAINYARD_ROTATION_SECONDS", "135"))
LIFETIME = 120
"""Seconds for which a certificate is valid here: a server that keeps its first one is out of service after them."""
NAMESPACE, CONTROLLER = "kubeflow-system", "deployment/kubeflow-trainer-controller-manager"
VOLCANO, ADMISSION = "volcano-system", "deployment/volcano-admission"
SERVERS = ((ADMISSION, VOLCANO), ("deployment/jobset-controller-manager", "jobset-system"), (CONTROLLER, NAMESPACE))
"""The Deployments that serve webhooks, and their namespaces."""
QUEUE = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "rotation"}, "spec": {}}
JOB_SET = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "metadata": {"name": "rotation", "namespace": "vision"},
    "spec": {
        "suspend": True,
        "replicatedJobs": [
            {
                "name": "node",
                "template": {
                    "spec": {
                        "template": {
                            "spec": {"restartPolicy": "Never", "containers": [{"name": "node", "image": "a.example/b"}]}
                        }
                    }
                },
            }
        ],
    },
}
REQUESTS = {
    "volcano": ("/apis/scheduling.volcano.sh/v1beta1/queues", QUEUE),
    "jobset": ("/apis/jobset.x-k8s.io/v1alpha2/namespaces/vision/jobsets", JOB_SET),
    "trainer": (
        "/apis/trainer.kubeflow.org/v1alpha1/namespaces/vision/trainjobs",
        train_job("rotation", "vision", "torch-distributed-gang"),
    ),
}
"""Path and body of a request that a webhook of each server reviews."""
CONFIGURATIONS = {
    "volcano": "volcano-admission-service-queues-validate",
    "jobset": "jobset-validating-webhook-configuration",
    "trainer": "validator.trainer.kubeflow.org",
}


def configured(platform: LiveCluster, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the configuration of the controller and restart it."""
    stored = platform.get("configmap", "trainyard-controller-config", "-n", NAMESPACE)
    configuration = yaml.safe_load(stored["data"]["config.yaml"])
    change(configuration)
    patch = json.dumps({"data": {"config.yaml": yaml.safe_dump(configuration)}})
    require(
        platform.kubectl(
            "patch", "configmap", "trainyard-controller-config", "-n", NAMESPACE, "--type=merge", "-p", patch
        )
    )
    require(platform.kubectl("rollout", "restart", CONTROLLER, "-n", NAMESPACE))
    require(platform.kubectl("rollout", "status", CONTROLLER, "-n", NAMESPACE, timeout=120))


def expire_secrets(platform: LiveCluster) -> None:
    """Delete the certificates, so that their lifetime counts from now on."""
    for secret, namespace in (
        ("volcano-admission-secret", VOLCANO),
        ("jobset-webhook-server-cert", "jobset-system"),
        ("kubeflow-trainer-webhook-cert", NAMESPACE),
    ):
        require(platform.kubectl("delete", "secret", secret, "-n", namespace))


def scaled(platform: LiveCluster, replicas: dict[tuple[str, str], int]) -> None:
    """Scale Deployments, and wait until every replica is available."""
    for (deployment, namespace), number in replicas.items():
        require(platform.kubectl("scale", deployment, "-n", namespace, f"--replicas={number}"))
    for deployment, namespace in replicas:
        require(platform.kubectl("rollout", "status", deployment, "-n", namespace, timeout=120))


@pytest.fixture
def short_lived(changing_platform: LiveCluster) -> Iterator[LiveCluster]:
    """The platform with the replicas of stack production, and certificates that are valid for two minutes."""

    def shorten(configuration: dict[str, Any]) -> None:
        configuration["certificateSeconds"] = LIFETIME

    before = {
        (name, namespace): changing_platform.get(name, "-n", namespace)["spec"]["replicas"]
        for name, namespace in SERVERS
    }
    try:
        scaled(changing_platform, dict.fromkeys(SERVERS, 2))
        configured(changing_platform, shorten)
        yield changing_platform
    finally:
        configured(changing_platform, lambda configuration: configuration.pop("certificateSeconds", None))
        scaled(changing_platform, before)


def address(platform: LiveCluster, component: str) -> tuple[str, int]:
    """Return host and port of a webhook server."""
    kind = "validatingwebhookconfiguration"
    url = platform.get(kind, CONFIGURATIONS[component])["webhooks"][0]["clientConfig"]["url"]
    host, port = url.split("/")[2].split(":")
    return host, int(port)


def serial(server: tuple[str, int]) -> int:
    """Return the serial number of the certificate that new connections are served with."""
    with socket.create_connection(server, timeout=10) as plain:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with context.wrap_socket(plain) as connection:
            return x509.load_der_x509_certificate(connection.getpeercert(binary_form=True) or b"").serial_number


def renewed(server: tuple[str, int], before: int) -> bool:
    """Return whether a server has another certificate; not if it ends a connection, as one that is restarted."""
    try:
        return serial(server) != before
    except OSError:
        return False


def dry_run(session: BlockingSession, component: str) -> str:
    path, body = REQUESTS[component]
    answer = session.request("POST", path, body, dry_run=True)
    return "accepted" if answer.ok else f"{component}: {answer.status} {answer.message}"


def test_renewed_certificates_reach_every_server_and_no_request_is_rejected(short_lived: LiveCluster) -> None:
    platform = short_lived
    servers = {component: address(platform, component) for component in REQUESTS}
    before = {component: serial(server) for component, server in servers.items()}
    expire_secrets(platform)
    for component, server in servers.items():
        awaited(f"{component} serves another certificate", lambda c=component, s=server: renewed(s, before[c]))
    with ExitStack() as streams:
        sessions = {component: streams.enter_context(BlockingSession(platform.kubeconfig)) for component in REQUESTS}
        answers = {
            component: streams.enter_context(repeated(functools.partial(dry_run, session, component), every=1.0))
            for component, session in sessions.items()
        }
        serials = {
            component: streams.enter_context(repeated(functools.partial(serial, server), every=1.0))
            for component, server in servers.items()
        }
        awaited(
            "requests to every webhook", lambda: min(map(len, answers.values())) >= SECONDS, timeout=SECONDS * 3 + 60
        )
    assert {answer for each in answers.values() for answer in each} == {"accepted"}
    assert all(len(set(seen)) > SECONDS // LIFETIME for seen in serials.values()), serials
    template = platform.get(ADMISSION, "-n", VOLCANO)["spec"]["template"]
    assert template["metadata"]["annotations"][SERVED_ANNOTATION]
