"""Console on the whole platform: every page with two tenants, updates, and what a tenant must not see."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cluster.jobs import lasting, train_job
from tests.cluster.platform_changes import kubeconfig_of_token
from tests.console import browser as driver
from tests.console.served_console import command
from tests.support import LiveCluster, awaited, require

pytestmark = pytest.mark.cluster

NAMES = {"vision": "cs-bright", "language": "cs-spoken"}
"""A job of each tenant that runs."""
WAITS = "cs-large"
"""A job of vision that is larger than the cluster."""
PAGES = ("/", "/queues", "/fabric?color=job", "/jobs", "/runtimes", "/scenarios")
VIEWER = "cs-viewer"


def job(name: str, namespace: str, nodes: int = 1) -> dict[str, Any]:
    return train_job(name, namespace, "torch-distributed", nodes=nodes, runtimePatches=[lasting("1h")])


@pytest.fixture
def jobs(platform: LiveCluster) -> Iterator[LiveCluster]:
    """The platform with a running job of each tenant and one that waits; they are gone afterwards."""
    try:
        require(platform.apply(*(job(name, home) for home, name in NAMES.items()), job(WAITS, "vision", 9)))
        for home, name in NAMES.items():
            awaited(
                f"{name} to run",
                lambda name=name, home=home: [
                    p for p in platform.pods(name, home) if p["status"]["phase"] == "Running"
                ],
            )
        awaited(f"pods of {WAITS}", lambda: len(platform.pods(WAITS, "vision")) == 9 or None)
        yield platform
    finally:
        for home in NAMES:
            listed = [each["metadata"]["name"] for each in platform.get("trainjobs", "-n", home)["items"]]
            for name in [each for each in listed if each.startswith("cs-")]:
                platform.kubectl("delete", "trainjob", name, "-n", home, "--ignore-not-found")
                awaited(f"pods of {name} to go", lambda name=name, home=home: not platform.pods(name, home))


def client_of(address: str) -> httpx.Client:
    client = httpx.Client(base_url=address.partition("/?")[0], follow_redirects=True, timeout=60)
    assert client.get(address).status_code == 200
    return client


def shown(client: httpx.Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.text


def requests(client: httpx.Client) -> int:
    """Return the number of requests that the console has sent to the API server."""
    found = re.search(r", (\d+) API requests", shown(client, "/"))
    assert found is not None
    return int(found[1])


def tenant_token(platform: LiveCluster, home: str) -> str:
    """Return the token of a user with the roles of a tenant in its namespace."""
    roles = [each["metadata"]["name"] for each in platform.get("roles", "-n", home)["items"]]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": VIEWER, "namespace": home}}
    bindings = [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": f"{VIEWER}-{role}", "namespace": home},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": VIEWER, "namespace": home}],
        }
        for role in roles
    ]
    require(platform.apply(account, *bindings))
    return require(platform.kubectl("create", "token", VIEWER, "-n", home)).strip()


@pytest.fixture
def tokens(platform: LiveCluster) -> Iterator[dict[str, str]]:
    """Return the token of a user of each tenant; the users are gone afterwards."""
    try:
        yield {home: tenant_token(platform, home) for home in NAMES}
    finally:
        for home in NAMES:
            names = [each["metadata"]["name"] for each in platform.get("rolebindings", "-n", home)["items"]]
            for name in [each for each in names if each.startswith(VIEWER)]:
                platform.kubectl("delete", "rolebinding", name, "-n", home)
            platform.kubectl("delete", "serviceaccount", VIEWER, "-n", home, "--ignore-not-found")


@pytest.fixture
def tenant(platform: LiveCluster, tokens: dict[str, str], tmp_path: Path) -> Path:
    return kubeconfig_of_token(platform, tmp_path, tokens["vision"])


def test_pages_of_two_tenants_and_of_one(jobs: LiveCluster, tenant: Path) -> None:
    with command("--kubeconfig", str(jobs.kubeconfig)) as (address, _):
        client = client_of(address)
        for path in PAGES:
            shown(client, path)
        now = shown(client, "/")
        assert "No issues found." in now, now
        assert now.count(" is-running") >= 5, now  # five programs
        assert "trainyard-webhooks" in now
        listed = shown(client, "/jobs")
        assert all(f">{home}/{name}</a>" in listed for home, name in NAMES.items())
        assert f"vision/{WAITS}" in shown(client, "/queues")
        assert NAMES["language"] in shown(client, "/fabric?color=job")
        assert "alias of torch-distributed-" in shown(client, "/runtimes")
        page = shown(client, f"/jobs/trainjob/vision/{WAITS}")
        assert "gang of 9 pods" in page or "9 pods" in page
        awaited("the reason on the first page", lambda: "larger than the cluster" in shown(client, "/") or None)
        pod = jobs.pods(NAMES["vision"], "vision")[0]["metadata"]["name"]
        logs = client.get(f"/jobs/trainjob/vision/{NAMES['vision']}/logs?pod={pod}&container=node")
        assert logs.status_code in (200, 422)
        before = requests(client)
        updated(client, jobs)
        assert requests(client) - before < 100  # watches that end and Leases, but no page
    with command("--kubeconfig", str(tenant), "--namespace", "vision") as (address, _):
        client = client_of(address)
        assert NAMES["vision"] in shown(client, "/jobs")
        for path in PAGES:
            assert "spoken" not in shown(client, path), path
        assert client.get(f"/jobs/trainjob/language/{NAMES['language']}").status_code == 404
        assert "Not read in all namespaces" in shown(client, "/")


def updated(client: httpx.Client, platform: LiveCluster) -> None:
    """Submit a job while a page is open, and wait until it is shown without a reload."""
    late = job("cs-late", "language")
    if driver.reason_to_skip():
        with client.stream("GET", "/events") as events:
            lines = events.iter_lines()
            require(platform.apply(late))
            while "cs-late" not in shown(client, "/jobs"):
                next(lines)
        return
    with driver.browser() as found:
        base = str(client.base_url).rstrip("/")
        found.sign_in(base, client.cookies)
        for path in (*PAGES, f"/jobs/trainjob/vision/{WAITS}"):
            found.open(base + path)
            assert found.errors() == [], path
            assert found.violations() == [], path
        found.open(base + "/jobs")
        found.run("window.kept = true")
        require(platform.apply(late))
        text = "return document.querySelector('#page').innerText.includes('cs-late')"
        found.wait(text, 60)
        assert found.run("return window.kept")
        assert found.errors() == []


ACCOUNT = "system:serviceaccount:trainyard-console:trainyard-console"


@contextlib.contextmanager
def signed_in(platform: LiveCluster, token: str) -> Iterator[httpx.Client]:
    """Return a client of the component's console that has signed in over its own certificate."""
    status = json.loads(require(platform.trainyard("cluster", "status", "--name", platform.name, "-o", "json")))
    (address,) = {each["address"] for each in status["processes"] if each["name"] == "trainyard-console"}
    certificates = platform.get("secret", "trainyard-console-cert", "-n", "trainyard-console")["data"]
    trust = ssl.create_default_context(cadata=base64.b64decode(certificates["ca.crt"]).decode())
    base = f"https://{address}"
    with httpx.Client(base_url=base, verify=trust, timeout=60, follow_redirects=True) as client:
        assert client.get("/jobs").status_code == 401
        answer = client.post("/sign-in", data={"token": token, "to": "/jobs"}, headers={"origin": base})
        assert answer.status_code == 200, answer.text
        assert answer.url.path == "/jobs"
        yield client


def test_the_component_shows_each_viewer_what_its_token_may_read(jobs: LiveCluster, tokens: dict[str, str]) -> None:
    may = {
        (verb, kind): jobs.kubectl("auth", "can-i", verb, kind, "-A", "--as", ACCOUNT).stdout.strip()
        for verb, kind in (("create", "tokenreviews.authentication.k8s.io"), ("list", "pods"), ("get", "secrets"))
    }
    assert list(may.values()) == ["no", "no", "no"]
    with contextlib.ExitStack() as stack:
        clients = {home: stack.enter_context(signed_in(jobs, token)) for home, token in tokens.items()}
        for home, client in clients.items():
            (other,) = NAMES.keys() - {home}
            assert NAMES[home] in shown(client, "/jobs")
            for path in PAGES:
                assert NAMES[other] not in shown(client, path), path
            assert client.get(f"/jobs/trainjob/{other}/{NAMES[other]}").status_code == 404
            assert client.get(f"/jobs/trainjob/{home}/{NAMES[home]}").status_code == 200
        require(jobs.kubectl("delete", "serviceaccount", VIEWER, "-n", "vision"))
        awaited("the end of the session", lambda: clients["vision"].get("/session").status_code == 401, timeout=60)
        assert NAMES["vision"] not in clients["vision"].get("/jobs").text
        assert clients["language"].get("/session").status_code == 204
