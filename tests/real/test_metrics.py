"""Prometheus scrapes the platform, over TLS with a token where a program supports it; each documented metric exists."""

from __future__ import annotations

import base64
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.real.conftest import RealCluster
from tests.real.prometheus import fetched, is_ready, prometheus, query
from tests.real.real_jobs import WAIT, job
from tests.real.test_job_lifecycle import delete_job
from tests.real.test_network_policies import connects, pod
from tests.support import ROOT, awaited, require
from trainyard.errors import TrainyardError

pytestmark = pytest.mark.real

SPACE = "monitoring"
PROGRAMS = {
    "trainer": ("kubeflow-system", "kubeflow-trainer-controller-manager", 8443),
    "opa": ("kubeflow-system", "kubeflow-trainer-controller-manager", 8443),
    "jobset": ("jobset-system", "jobset-controller-manager", 8443),
    "scheduler": ("volcano-system", "volcano-scheduler", 8080),
    "controllers": ("volcano-system", "volcano-controllers", 8081),
}
"""Namespace, Deployment and port of metrics; those of OPA are served by the controller beside it."""
ANONYMOUS = " without a token"
REPORT = """
import json, os, ssl, urllib.request
request = urllib.request.Request(
    os.environ["KUBEFLOW_TRAINER_SERVER_URL"],
    json.dumps({"trainerStatus": {"lastUpdatedTime": "2026-01-01T00:00:00Z", "progressPercentage": 42}}).encode(),
    {
        "Authorization": "Bearer " + open(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read(),
        "Content-Type": "application/json",
    },
)
context = ssl.create_default_context(cafile=os.environ["KUBEFLOW_TRAINER_SERVER_CA_CERT"])
print(urllib.request.urlopen(request, context=context).status, flush=True)
"""


def documented() -> set[str]:
    """Return the metrics that the documentation names."""
    texts = [path.read_text() for path in (ROOT / "docs").glob("*.md")]
    return {name for text in texts for name in re.findall(r"`(trainyard_[a-z_]+)`", text)}


def addresses(real: RealCluster, namespace: str, deployment: str) -> list[str]:
    selector = real.cluster.get("deployment", deployment, "-n", namespace)["spec"]["selector"]["matchLabels"]
    labels = ",".join(f"{key}={value}" for key, value in selector.items())
    pods = real.cluster.get("pods", "-n", namespace, "-l", labels)["items"]
    started = [each for each in pods if "podIP" in each["status"]]
    return [each["status"]["podIP"] for each in started if "deletionTimestamp" not in each["metadata"]]


def account() -> list[dict[str, Any]]:
    """Return the account of Prometheus, which may read metrics."""
    metadata = {"name": "prometheus"}
    subject = {"kind": "ServiceAccount", "name": "prometheus", "namespace": SPACE}
    rbac = "rbac.authorization.k8s.io"
    role = {"apiGroup": rbac, "kind": "ClusterRole", "name": "prometheus"}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**metadata, "namespace": SPACE}},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRole",
            "metadata": metadata,
            "rules": [{"nonResourceURLs": ["/metrics", "/metrics/opa"], "verbs": ["get"]}],
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": metadata,
            "roleRef": role,
            "subjects": [subject],
        },
    ]


def scrapes(real: RealCluster, folder: Path) -> list[dict[str, Any]]:
    (folder / "token").write_text(require(real.cluster.kubectl("create", "token", "prometheus", "-n", SPACE)))
    webhooks = real.cluster.get("validatingwebhookconfiguration", "validator.trainer.kubeflow.org")["webhooks"]
    (folder / "ca.crt").write_bytes(base64.b64decode(webhooks[0]["clientConfig"]["caBundle"]))
    name = "kubeflow-trainer-controller-manager.kubeflow-system.svc"
    login = {"authorization": {"credentials_file": str(folder / "token")}}
    # JobSet serves its metrics with a certificate that it signs itself.
    own = {"scheme": "https", "tls_config": {"insecure_skip_verify": True}}
    trainer = {"scheme": "https", "tls_config": {"ca_file": str(folder / "ca.crt"), "server_name": name}}
    opa = {"metrics_path": "/metrics/opa"}
    secured = {
        "trainer": {**trainer, **login},
        "opa": {**trainer, **opa, **login},
        "jobset": {**own, **login},
        "trainer without a token": trainer,
        "opa without a token": {**trainer, **opa},
        "jobset without a token": own,
    }
    programs = {**PROGRAMS, **{f"{each}{ANONYMOUS}": PROGRAMS[each] for each in ("trainer", "opa", "jobset")}}
    return [
        {
            "job_name": key,
            "static_configs": [{"targets": [f"{each}:{port}" for each in addresses(real, namespace, deployment)]}],
            **secured.get(key, {}),
        }
        for key, (namespace, deployment, port) in programs.items()
    ]


def test_prometheus_gets_every_documented_metric_and_no_other_pod_those_without_a_login(
    real: RealCluster, tmp_path: Path
) -> None:
    try:
        fetched()
    except TrainyardError as error:
        pytest.skip(f"Prometheus: {error.message}")
    require(real.cluster.apply(*account()))
    awaited("the account", lambda: real.cluster.get("serviceaccount", "default", "-n", SPACE))
    require(real.cluster.apply(pod("prometheus", SPACE, "worker-2"), pod("stranger", "default", "worker-2")))
    for name in (SPACE, "default"):
        require(real.cluster.kubectl("wait", "--for=condition=Ready", "pods", "--all", "-n", name, "--timeout=90s"))
    (reader,) = real.cluster.get("pods", "-n", SPACE)["items"]
    # Above the share of its tenant, so that the other one lends.
    devices = {"cpu": "200m", "nvidia.com/gpu": "2"}
    require(real.cluster.apply(job("metered", code=REPORT + WAIT, runtime="torch-distributed", resources=devices)))
    with prometheus(tmp_path, reader, scrapes(real, tmp_path)):
        awaited("Prometheus", lambda: is_ready(real.cluster, reader))

        def up() -> dict[str, int]:
            found = Counter[str]()
            for each in query(real.cluster, reader, "up"):
                found[each["metric"]["job"]] += int(each["value"][1])
            return dict(found)

        try:
            refused = dict.fromkeys((f"{each}{ANONYMOUS}" for each in ("trainer", "opa", "jobset")), 0)
            awaited("all targets", lambda: up() == {**dict.fromkeys(PROGRAMS, 2), **refused})
            assert query(real.cluster, reader, 'http_request_duration_seconds_count{job="opa",handler="v1/data"}')
            names = {name: f'count({{__name__="{name}"}})' for name in documented()}
            assert len(names) >= 6
            missing = set(names)

            def all_found() -> bool:
                missing.difference_update([name for name in missing if query(real.cluster, reader, names[name])])
                return not missing

            awaited("every documented metric", all_found, timeout=40)
            (reports,) = query(real.cluster, reader, 'sum(trainyard_trainer_status_reports_total{code="200"})')
            assert float(reports["value"][1]) >= 1
        except AssertionError as error:
            raise AssertionError(f"{error}\n{up()}\n{(tmp_path / 'log').read_text()[-2000:]}") from error
    for namespace, deployment, port in PROGRAMS.values():
        for address in addresses(real, namespace, deployment):
            # JobSet only requires a token; a policy guards the others, although the controller requires one too.
            assert connects(real, "default", address, "stranger", port) == (namespace == "jobset-system"), deployment
    (address, *_) = addresses(real, "kubeflow-system", "kubeflow-trainer-controller-manager")
    assert connects(real, "default", address, "stranger", 9443), "webhooks are for all"
    delete_job(real, "metered", "language")
    require(real.cluster.kubectl("delete", "pod", "stranger", "-n", "default"))
    require(real.cluster.kubectl("delete", "namespace", SPACE, "--timeout=90s"))
    require(real.cluster.kubectl("delete", "clusterrole,clusterrolebinding", "prometheus"))
