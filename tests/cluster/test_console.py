"""Console on the whole platform: every page with two tenants, updates, and what a tenant must not see."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.cluster.jobs import lasting, train_job
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


def tenant_kubeconfig(platform: LiveCluster, folder: Path) -> Path:
    """Return a kubeconfig of a user with the roles of tenant vision in its namespace."""
    roles = [each["metadata"]["name"] for each in platform.get("roles", "-n", "vision")["items"]]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": VIEWER, "namespace": "vision"}}
    bindings = [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": f"{VIEWER}-{role}", "namespace": "vision"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": VIEWER, "namespace": "vision"}],
        }
        for role in roles
    ]
    require(platform.apply(account, *bindings))
    token = require(platform.kubectl("create", "token", VIEWER, "-n", "vision")).strip()
    document = copy.deepcopy(yaml.safe_load(platform.kubeconfig.read_text()))
    for user in document["users"]:
        user["user"] = {"token": token}
    path = folder / "kubeconfig"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture
def tenant(platform: LiveCluster, tmp_path: Path) -> Iterator[Path]:
    try:
        yield tenant_kubeconfig(platform, tmp_path)
    finally:
        names = [each["metadata"]["name"] for each in platform.get("rolebindings", "-n", "vision")["items"]]
        for name in [each for each in names if each.startswith(VIEWER)]:
            platform.kubectl("delete", "rolebinding", name, "-n", "vision")
        platform.kubectl("delete", "serviceaccount", VIEWER, "-n", "vision", "--ignore-not-found")


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
