"""Certificates of webhooks are renewed in mounted Secrets, and no request is rejected meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from cryptography import x509

from tests.cluster.test_certificate_rotation import QUEUE, configured, expire_secrets
from tests.real.conftest import RealCluster
from tests.real.real_jobs import IMAGE, PYTHON, job
from tests.real.test_metrics import addresses
from tests.real.test_network_policies import pod
from tests.support import awaited, repeated, require
from trainyard.kube.blocking import BlockingSession

pytestmark = pytest.mark.real

LIFETIME, SECONDS = 240, 280
"""Validity of a certificate here, and the time for which requests are sent: a server with its first one fails."""
SPACE = "certificates"
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "node", "image": IMAGE}]}}
JOB_SET = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "metadata": {"name": "rotation", "namespace": "vision"},
    "spec": {"suspend": True, "replicatedJobs": [{"name": "node", "template": {"spec": {"template": TEMPLATE}}}]},
}
REQUESTS = {
    "volcano": ("/apis/scheduling.volcano.sh/v1beta1/queues", QUEUE),
    "jobset": ("/apis/jobset.x-k8s.io/v1alpha2/namespaces/vision/jobsets", JOB_SET),
    "trainer": ("/apis/trainer.kubeflow.org/v1alpha1/namespaces/vision/trainjobs", job("rotation", namespace="vision")),
}
"""Path and body of a request that a webhook of each server reviews."""
SERVERS = {
    "volcano": ("volcano-system", "volcano-admission", 8443),
    "jobset": ("jobset-system", "jobset-controller-manager", 9443),
    "trainer": ("kubeflow-system", "kubeflow-trainer-controller-manager", 9443),
}
"""Namespace, Deployment and port of the server of each."""


@pytest.fixture
def short_lived(real: RealCluster) -> Iterator[RealCluster]:
    """The platform with certificates that are valid for four minutes, and a pod that connects to its servers."""

    def shorten(configuration: dict[str, Any]) -> None:
        configuration["certificateSeconds"] = LIFETIME

    require(real.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}))
    awaited("the account", lambda: real.cluster.get("serviceaccount", "default", "-n", SPACE))
    require(real.cluster.apply(pod("client", SPACE, "worker-0")))
    require(real.cluster.kubectl("wait", "--for=condition=Ready", "pod/client", "-n", SPACE, "--timeout=60s"))
    try:
        configured(real.cluster, shorten)
        yield real
    finally:
        configured(real.cluster, lambda configuration: configuration.pop("certificateSeconds", None))
        require(real.cluster.kubectl("delete", "namespace", SPACE, "--timeout=90s"))


def serials(real: RealCluster) -> dict[str, set[int]]:
    """Return the serial numbers of the certificates that the pods of each server serve; empty: one did not answer."""
    found = {}
    for component, (namespace, deployment, port) in SERVERS.items():
        servers = [(each, port) for each in addresses(real, namespace, deployment)]
        code = f"import ssl; [print(ssl.get_server_certificate(each, timeout=5)) for each in {servers}]"
        done = real.cluster.kubectl("exec", "client", "-n", SPACE, "--", PYTHON, "-c", code)
        certificates = x509.load_pem_x509_certificates(done.stdout.encode()) if done.returncode == 0 else []
        found[component] = {each.serial_number for each in certificates}
    return found


def all_others(real: RealCluster, before: dict[str, set[int]]) -> bool:
    """Return whether the pods of each server serve one certificate, which none served before."""
    now = serials(real)
    return all(len(now[component]) == 1 and not now[component] & before[component] for component in SERVERS)


def dry_run(session: BlockingSession, component: str) -> str:
    path, body = REQUESTS[component]
    answer = session.request("POST", path, body, dry_run=True)
    return "accepted" if answer.ok else f"{answer.status} {answer.message}"


def test_renewed_certificates_reach_all_pods_and_no_request_is_rejected(short_lived: RealCluster) -> None:
    real = short_lived
    first = serials(real)
    assert all(first.values())
    expire_secrets(real.cluster)
    awaited("certificates with a short life", lambda: all_others(real, first), timeout=150)
    second = serials(real)
    with ExitStack() as streams:
        answers = {
            component: streams.enter_context(
                repeated(
                    partial(dry_run, streams.enter_context(BlockingSession(real.cluster.kubeconfig)), component),
                    every=1.0,
                )
            )
            for component in REQUESTS
        }
        awaited("requests", lambda: min(map(len, answers.values())) >= SECONDS, timeout=SECONDS * 2)
        awaited("renewed certificates", lambda: all_others(real, second), timeout=150)
    rejected = {name: {each for each in found if each != "accepted"} for name, found in answers.items()}
    assert rejected == {name: set() for name in REQUESTS}
