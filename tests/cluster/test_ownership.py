"""What belongs to others, what must not be deleted, and what was changed behind the program's back.

Helm itself, which the Kubernetes provider contains, has installed the charts of Volcano and JobSet.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import live
from tests.support import ROOT, LiveCluster, environment, require, run, stack_file, trainyard
from trainyard import upstream
from trainyard.settings.versions import component_release, supported_versions

pytestmark = pytest.mark.cluster

CLASS, NAMESPACE = "training", "jobset-system"
"""A PriorityClass and a namespace under names of ours that another owner made before."""

QUOTA = ("resourcequota", "-n", "vision")
CHARTS = {"volcano": "installer/helm/chart/volcano", "jobset": "charts/jobset"}
HELM = """
import json
from pulumi_kubernetes.helm.v3 import Release

for name, (chart, values) in json.load(open("charts.json")).items():
    Release(
        name,
        name=name,
        namespace=f"{name}-system",
        chart=chart,
        values=values,
        create_namespace=True,
        skip_await=True,
        disable_webhooks=True,
        disable_crd_hooks=True,
    )
"""
"""Without hooks: Volcano's is a Job that issues the certificate of its webhooks."""
RECORDS = ("secrets", "-A", "-l", "owner=helm")
QUEUE = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": "research"},
    "spec": {"weight": 1, "parent": "root", "reclaimable": True},
}


class Helm:
    """Two releases of Helm, made by a program of Pulumi."""

    def __init__(self, folder: Path, cluster: LiveCluster) -> None:
        self._folder, self._env = folder, cluster.env
        runtime = {"name": "python", "options": {"virtualenv": str(ROOT / ".venv")}}
        (folder / "Pulumi.yaml").write_text(yaml.safe_dump({"name": "helm", "runtime": runtime}))
        (folder / "__main__.py").write_text(HELM)

    def install(self, **values: Any) -> None:
        """Install or upgrade the charts of the pinned modules, with values for Volcano's."""
        charts = {}
        for name, chart in CHARTS.items():
            release = component_release(name, supported_versions(name)[0])
            folder = upstream.module_cache() / f"{release.module}@{release.tag}" / chart
            charts[name] = (str(folder), values if name == "volcano" else {})
        (self._folder / "charts.json").write_text(json.dumps(charts))
        self._pulumi("up", "--yes", "--skip-preview", "--stack", "helm")

    def create(self) -> None:
        """Create the stack."""
        self._pulumi("stack", "init", "helm")

    def uninstall(self) -> None:
        """Uninstall the releases."""
        self._pulumi("destroy", "--yes", "--skip-preview", "--stack", "helm", "--remove")

    def _pulumi(self, *arguments: str) -> None:
        require(run("pulumi", "-C", self._folder, "--non-interactive", *arguments, env=self._env))


@pytest.fixture(scope="module")
def helm(owned: LiveCluster, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Both charts, with a queue in use; nothing runs that would answer Volcano's webhooks."""
    helm = Helm(tmp_path_factory.mktemp("helm"), owned)
    helm.create()
    helm.install(custom={"admission_enable": False})
    require(owned.apply(QUEUE))
    helm.install(custom={"admission_enable": True})  # Helm reuses the former values where an upgrade has none.
    return helm


@pytest.fixture(scope="module")
def owned(state_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """A control plane with nothing installed but two objects of another owner."""
    env, config = environment(state_home), stack_file(tmp_path_factory.mktemp("owned"), "owned")
    try:
        require(trainyard("cluster", "up", "--name", "owned", env=env))
        cluster = live("owned", config, env)
        priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        priority |= {"value": 1000, "preemptionPolicy": "Never"}  # which may not be changed later
        home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": {"owner": "other"}}}
        require(cluster.apply({**priority, "metadata": {"name": CLASS}}, home))
        yield cluster
    finally:
        trainyard("cluster", "down", "--name", "owned", "--delete", env=env)


def configure(cluster: LiveCluster, **settings: Any) -> None:
    document = yaml.safe_load(cluster.config_file.read_text())
    document["config"] |= {f"trainyard:{key}": value for key, value in settings.items()}
    cluster.config_file.write_text(yaml.safe_dump(document, sort_keys=False))


def operate(cluster: LiveCluster, command: str, *arguments: str) -> dict[str, Any]:
    """Run a command of the program and return what it changed: operation by resource."""
    output = cluster.trainyard(command, *arguments, "--config-file", str(cluster.config_file), "-o", "json")
    return {change["resource"]: change["operation"] for change in json.loads(require(output))["changes"]}


def refused(cluster: LiveCluster, command: str, *arguments: str) -> str:
    result = cluster.trainyard(command, *arguments, "--config-file", str(cluster.config_file))
    assert result.returncode == 2, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    return result.stderr


def quota(cluster: LiveCluster) -> dict[str, Any]:
    body: dict[str, Any] = cluster.get(*QUOTA)["items"][0]
    return body


def names(cluster: LiveCluster, *kinds: str) -> set[str]:
    return {f"{kind}/{item['metadata']['name']}" for kind in kinds for item in cluster.get(kind)["items"]}


def test_objects_of_others_are_listed_and_refused_before_anything_is_made(owned: LiveCluster) -> None:
    before = names(owned, "namespaces", "clusterroles", "customresourcedefinitions")
    for command in (("preview",), ("up", "--yes")):
        said = refused(owned, *command)
        assert f"PriorityClass {CLASS}" in said
        assert f"Namespace {NAMESPACE}" in said
        assert "trainyard:adopt" in said
    assert names(owned, "namespaces", "clusterroles", "customresourcedefinitions") == before


def plan(cluster: LiveCluster) -> tuple[int, dict[str, dict[str, Any]]]:
    """Return the exit code of a plan of the takeover, and what it lists, by kind and name."""
    result = cluster.trainyard("adopt", "--plan", "--config-file", str(cluster.config_file), "-o", "json")
    assert result.returncode in (0, 1), result.stderr
    return result.returncode, {f"{each['kind']}/{each['name']}": each for each in json.loads(result.stdout)["objects"]}


def uids(cluster: LiveCluster, *kinds: str) -> dict[str, str]:
    items = cluster.get(",".join(kinds), "-A")["items"]
    return {f"{each['kind']}/{each['metadata']['name']}": each["metadata"]["uid"] for each in items}


@pytest.fixture(scope="module")
def forgotten(owned: LiveCluster, helm: Helm) -> dict[str, Any]:
    """The records of Helm's releases, which the fixes of a plan delete."""
    code, planned = plan(owned)
    rejected = {name: each for name, each in planned.items() if each["action"] == "reject"}
    assert code == 1
    assert {"Deployment/volcano-scheduler", "CustomResourceDefinition/queues.scheduling.volcano.sh"} <= rejected.keys()
    assert "ValidatingWebhookConfiguration/jobset-validating-webhook-configuration" in rejected
    assert {each["reason"].partition(" (")[0] for each in rejected.values()} == {
        f"it belongs to Helm release {name}-system/{name}" for name in CHARTS
    }
    records: dict[str, Any] = owned.get(*RECORDS)
    assert {each["type"] for each in records["items"]} == {"helm.sh/release.v1"}
    for fix in {each["fix"] for each in rejected.values()}:
        require(owned.kubectl(*fix.partition("kubectl ")[2].split()))
    assert owned.get(*RECORDS)["items"] == []
    return records


def test_an_installation_by_helm_is_taken_once_helm_has_forgotten_it(
    owned: LiveCluster, forgotten: dict[str, Any]
) -> None:
    code, planned = plan(owned)
    assert code == 0, [each for each in planned.values() if each["action"] == "reject"]
    programs = ("scheduler", "controllers", "admission")
    assert {planned[f"Deployment/volcano-{name}"]["action"] for name in programs} == {"replace"}
    taken = ("Queue/research", "CustomResourceDefinition/queues.scheduling.volcano.sh", "ClusterRole/volcano-scheduler")
    assert {planned[name]["action"] for name in taken} == {"take"}
    left = planned["Deployment/jobset-controller"]
    assert (left["action"], left["runs"]) == ("leave", True)
    assert left["fix"] == "kubectl delete deployment jobset-controller -n jobset-system"


def test_adopted_objects_become_what_the_settings_say(owned: LiveCluster, forgotten: dict[str, Any]) -> None:
    kept, replaced = uids(owned, "queues", "customresourcedefinitions"), uids(owned, "deployments")
    configure(owned, adopt=True)
    operate(owned, "up", "--yes")
    assert kept.items() <= uids(owned, "queues", "customresourcedefinitions").items()
    after = uids(owned, "deployments")
    assert {name for name, uid in replaced.items() if after[name] == uid} == {"Deployment/jobset-controller"}
    for kind, name in (("priorityclass", CLASS), ("namespace", NAMESPACE)):
        metadata = owned.get(kind, name)["metadata"]
        assert metadata["annotations"]["trainyard.dev/adopted"] == "true"
        assert metadata["labels"]["trainyard.dev/stack"] == "local"
    assert owned.get("namespace", NAMESPACE)["metadata"]["labels"]["owner"] == "other"
    assert operate(owned, "up", "--yes") == {}


def test_refresh_sees_what_others_changed_and_up_puts_it_back(owned: LiveCluster) -> None:
    declared = quota(owned)["spec"]["hard"]
    name, resource = quota(owned)["metadata"]["name"], next(iter(sorted(declared)))
    patch = json.dumps({"spec": {"hard": {resource: "1"}}})
    require(owned.kubectl("patch", *QUOTA, name, "--type=merge", "-p", patch))
    require(owned.kubectl("delete", "role", "author", "-n", "vision"))

    configure(owned, protect=True)  # which changes no object; the next test shows it
    seen = operate(owned, "refresh")
    assert (seen[f"ResourceQuota/vision/{name}"], seen["Role/vision/author"]) == ("update", "delete")
    done = operate(owned, "up", "--yes")
    assert done == {f"ResourceQuota/vision/{name}": "update", "Role/vision/author": "create"}
    assert quota(owned)["spec"]["hard"] == declared
    assert owned.get("role", "author", "-n", "vision") is not None
    assert operate(owned, "up", "--yes") == {}


def test_a_protected_stack_is_not_destroyed_and_says_what_holds_it(owned: LiveCluster) -> None:
    before = names(owned, "namespaces", "queues", "customresourcedefinitions", "deployments", "clusterroles")
    said = refused(owned, "destroy", "--yes")
    for held in ("Queue/vision", "Namespace/vision", "CustomResourceDefinition/queues.scheduling.volcano.sh"):
        assert held in said
    assert "trainyard:protect" in said
    assert names(owned, "namespaces", "queues", "customresourcedefinitions", "deployments", "clusterroles") == before


def test_destroy_keeps_what_was_adopted(
    owned: LiveCluster, helm: Helm, forgotten: dict[str, Any], tmp_path: Path
) -> None:
    configure(owned, protect=False)
    operate(owned, "up", "--yes")
    operate(owned, "destroy", "--yes")
    left = names(owned, "namespaces", "priorityclasses", "customresourcedefinitions")
    assert {f"namespaces/{NAMESPACE}", f"priorityclasses/{CLASS}"} <= left
    assert not left & {"namespaces/vision", "namespaces/kubeflow-system", "priorityclasses/training-urgent"}
    assert not [name for name in left if name.endswith((".trainyard.dev", ".kubeflow.org"))]
    # With its records, Helm has the installation back, and deletes what it made.
    assert {f"namespaces/{NAMESPACE}", "customresourcedefinitions/queues.scheduling.volcano.sh"} <= left
    (tmp_path / "releases.json").write_text(json.dumps(forgotten))
    require(owned.kubectl("create", "-f", str(tmp_path / "releases.json")))
    helm.uninstall()
    assert owned.get("deployments", "-A")["items"] == []
    left = names(owned, "customresourcedefinitions", "clusterroles")
    assert not left & {"customresourcedefinitions/queues.scheduling.volcano.sh", "clusterroles/volcano-scheduler"}
