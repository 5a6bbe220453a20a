"""Metrics of the controller and of its policy server: over TLS, and with a token of a user who may read them."""

from __future__ import annotations

import base64
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support import LiveCluster, require

pytestmark = pytest.mark.cluster

NAMESPACE = "vision"
ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "metrics-reader"},
    "rules": [{"nonResourceURLs": ["/metrics", "/metrics/opa"], "verbs": ["get"]}],
}


@pytest.fixture(scope="module")
def tokens(platform: LiveCluster) -> Iterator[dict[str, str]]:
    """Tokens of two accounts: one may read metrics."""
    names = ("reader", "stranger")
    accounts = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}}
        for name in names
    ]
    binding = {
        "apiVersion": ROLE["apiVersion"],
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "metrics-reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "metrics-reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": NAMESPACE}],
    }
    require(platform.apply(*accounts, ROLE, binding))
    yield {name: require(platform.kubectl("create", "token", name, "-n", NAMESPACE)).strip() for name in names}
    require(platform.kubectl("delete", "serviceaccount", *names, "-n", NAMESPACE))
    require(platform.kubectl("delete", "clusterrole,clusterrolebinding", "metrics-reader"))


def ports(platform: LiveCluster) -> list[int]:
    """Return the port of metrics of each controller process of the platform."""
    kubeconfigs = str(Path(platform.env["TRAINYARD_STATE_HOME"]))
    flag = "--metrics-port="
    commands = [each.info["cmdline"] or [] for each in psutil.process_iter(["cmdline"])]
    return [
        int(argument.removeprefix(flag))
        for command in commands
        if "controller" in command and any(f"{kubeconfigs}/clusters/platform/" in part for part in command)
        for argument in command
        if argument.startswith(flag)
    ]


def read(platform: LiveCluster, port: int, path: str, token: str | None) -> tuple[int, str]:
    webhooks = platform.get("validatingwebhookconfiguration", "validator.trainer.kubeflow.org")["webhooks"]
    authority = base64.b64decode(webhooks[0]["clientConfig"]["caBundle"]).decode()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"https://127.0.0.1:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(
            request, context=ssl.create_default_context(cadata=authority), timeout=20
        ) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_metrics_are_for_those_whom_the_api_server_allows(platform: LiveCluster, tokens: dict[str, str]) -> None:
    found = ports(platform)
    assert len(found) == 2, "each replica has its own"
    for port in found:
        for path, name in (("/metrics", "trainyard_informer_errors_total"), ("/metrics/opa", "go_goroutines")):
            status, text = read(platform, port, path, tokens["reader"])
            assert (status, name in text) == (200, True), text
            assert read(platform, port, path, None) == (401, "Unauthorized")
            assert read(platform, port, path, "invalid") == (401, "Unauthorized")
            assert read(platform, port, path, tokens["stranger"]) == (403, "Forbidden")


def test_the_policy_server_itself_tells_strangers_nothing(platform: LiveCluster, tokens: dict[str, str]) -> None:
    flag = "--diagnostic-addr="
    addresses = [
        argument.removeprefix(flag)
        for each in psutil.process_iter(["cmdline"])
        for argument in each.info["cmdline"] or ()
        if argument.startswith(flag) and "clusters/platform/" in " ".join(each.info["cmdline"])
    ]
    assert addresses
    for address in addresses:
        for token in ("", tokens["reader"]):
            request = urllib.request.Request(f"http://{address}/metrics", headers={"Authorization": f"Bearer {token}"})
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=20)
            assert refused.value.code == 401
