"""Takeover of an installation made from upstream's manifests, with queues, a job and running pods in use.

The stack that takes it over has the replicas of production; `destroy` gives the former installation back.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml

from tests.cluster.elections import REPLICATED, holder_of, leaders, ready_replicas
from tests.conftest import live
from tests.support import (
    LiveCluster,
    awaited,
    environment,
    plain_project,
    require,
    run,
    stack_file,
    stack_versions,
    trainyard,
)
from trainyard import upstream
from trainyard.kube.client import Client
from trainyard.local.cluster.embedded import EmbeddedProvider
from trainyard.local.simulate.volcano_install import CONFIGURATION, install
from trainyard.scheduling.scheduler.stack_configuration import effective_configuration
from trainyard.settings.stack_loader import load_stack
from trainyard.settings.versions import component_release, supported_versions

pytestmark = pytest.mark.cluster

NAME = "taken"
INSTALLER = "installer/volcano-development.yaml"
USED = ("queues", "jobs.batch.volcano.sh", "podgroups", "pods", "jobsets")
"""Kinds of the objects of users."""
STACK = "trainyard.dev/stack"
BINDINGS = ("clusterrolebindings", "rolebindings")
WEBHOOKS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
INSTALLED = (*BINDINGS, *WEBHOOKS, "clusterroles", "roles", "deployments", "queues", "namespaces", "serviceaccounts")
INSTALLED += ("configmaps", "services", "customresourcedefinitions", "priorityclasses")
"""Kinds of the objects of an installation."""
METADATA_ONLY = ("Namespace", "CustomResourceDefinition")


def queue(name: str, parent: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"weight": 1, "parent": parent, "reclaimable": True}
    if name == "research":
        spec["capability"] = {"cpu": "768", "memory": "8Ti", "nvidia.com/gpu": "64"}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
    }


def volcano_job(name: str = "training") -> dict[str, Any]:
    annotations = {"trainyard.dev/simulated-duration": "1h"}
    container = {"name": "worker", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    task = {
        "name": "worker",
        "replicas": 2,
        "template": {
            "metadata": {"annotations": annotations},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        },
    }
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "vision"},
        "spec": {"schedulerName": "volcano", "minAvailable": 2, "queue": "vision", "tasks": [task]},
    }


def job_set() -> dict[str, Any]:
    job = {
        "parallelism": 1,
        "completions": 1,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "worker", "image": "busybox"}]}},
    }
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "held", "namespace": "vision"},
        "spec": {"suspend": True, "replicatedJobs": [{"name": "node", "replicas": 1, "template": {"spec": job}}]},
    }


@pytest.fixture(scope="module")
def former(state_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """A control plane with Volcano as its installer makes it, its programs running, JobSet's manifests, and jobs."""
    env, config = environment(state_home), stack_file(tmp_path_factory.mktemp(NAME), NAME)
    try:
        require(trainyard("cluster", "up", "--name", NAME, env=env))
        cluster = live(NAME, config, env)
        with mock.patch.dict(os.environ, env):
            asyncio.run(_install(EmbeddedProvider(NAME)))
        version = supported_versions("volcano")[0]
        rest = upstream.documents(
            "volcano", version, INSTALLER, kinds=("Namespace", "Service", "Role", "RoleBinding", "Job")
        )
        require(cluster.apply(*(each for each in rest if each["metadata"]["name"] != "volcano-system")))
        require(cluster.apply(*(queue(name, "root") for name in ("research", "legacy", "obsolete"))))
        require(cluster.kubectl("create", "namespace", "vision"))
        create(cluster, queue("vision", "research"))
        create(cluster, volcano_job())
        awaited("two running pods", lambda: len(running_pods(cluster)) == 2)
        release = component_release("jobset", supported_versions("jobset")[0])
        folder = upstream.module_cache() / f"{release.module}@{release.tag}" / "config" / "default"
        manifests = list(yaml.safe_load_all(require(cluster.kubectl("kustomize", str(folder)))))
        definitions = [each for each in manifests if each["kind"] == "CustomResourceDefinition"]
        require(cluster.apply(*definitions))
        create(cluster, job_set())
        require(cluster.apply(*(each for each in manifests if each not in definitions)))
        yield cluster
    finally:
        trainyard("cluster", "down", "--name", NAME, "--delete", env=env)


async def _install(provider: EmbeddedProvider) -> None:
    access = provider.access()
    async with Client.from_kubeconfig(access.kubeconfig, access.context) as client:
        await install(client, access, provider.status)


def create(cluster: LiveCluster, body: dict[str, Any]) -> None:
    """Create an object, as soon as its kind is served and its webhook knows what it refers to."""
    awaited(f"{body['kind']} {body['metadata']['name']}", lambda: cluster.apply(body).returncode == 0)


def running_pods(cluster: LiveCluster) -> list[str]:
    pods = cluster.get("pods", "-n", "vision")["items"]
    return [each["metadata"]["name"] for each in pods if each.get("status", {}).get("phase") == "Running"]


def uids(cluster: LiveCluster, *kinds: str, namespace: str = "") -> dict[str, str]:
    where = ("-n", namespace) if namespace else ("-A",)
    return {
        f"{each['kind']}/{each['metadata']['name']}": each["metadata"]["uid"]
        for kind in kinds
        for each in cluster.get(kind, *where)["items"]
    }


def used(cluster: LiveCluster) -> dict[str, str]:
    return uids(cluster, "queues") | uids(cluster, *USED[1:], namespace="vision")


def labeled(cluster: LiveCluster, *kinds: str) -> set[str]:
    found = cluster.get(",".join(kinds), "-A", "-l", STACK)["items"]
    return {f"{each['kind']}/{each['metadata']['name']}" for each in found}


def contents(cluster: LiveCluster) -> dict[str, Any]:
    """Return the objects of an installation by kind, namespace and name, without what the API server sets."""
    found = {}
    for each in cluster.get(",".join(INSTALLED), "-A", "--show-managed-fields")["items"]:
        metadata = each["metadata"]
        if metadata["name"].startswith("system:") or metadata.get("namespace", "").startswith("kube-"):
            continue
        kept = {key: metadata.get(key) or {} for key in ("labels", "annotations")}
        kept["annotations"].pop("deployment.kubernetes.io/revision", None)  # The controller of Deployments counts.
        body = (
            {} if each["kind"] in METADATA_ONLY else {k: v for k, v in each.items() if k not in ("metadata", "status")}
        )
        for webhook in body.get("webhooks", ()):
            webhook["clientConfig"].pop("caBundle", None)  # The running programs write it.
        if (each["kind"], metadata["name"]) == ("Queue", "root"):
            for computed in ("deserved", "guarantee"):  # Volcano's scheduler writes the sums of its children.
                body["spec"].pop(computed, None)
        managers = {entry["manager"] for entry in metadata.get("managedFields", ())}
        key = f"{each['kind']}/{metadata.get('namespace', '')}/{metadata['name']}"
        found[key] = {**body, **kept, "stack": "trainyard" in managers}
    return found


@pytest.fixture(scope="module")
def before_takeover(former: LiveCluster) -> dict[str, Any]:
    """The objects of the former installation."""
    return contents(former)


def configure(cluster: LiveCluster, **settings: Any) -> None:
    document = yaml.safe_load(cluster.config_file.read_text())
    document["config"] |= {f"trainyard:{key}": value for key, value in settings.items()}
    cluster.config_file.write_text(yaml.safe_dump(document, sort_keys=False))


def plan(cluster: LiveCluster) -> tuple[int, dict[tuple[str, str], dict[str, Any]]]:
    """Return the exit code of a plan, and what it lists, by kind and name."""
    result = cluster.trainyard("adopt", "--plan", "--config-file", str(cluster.config_file), "-o", "json")
    assert result.returncode in (0, 1), result.stderr
    return result.returncode, {(each["kind"], each["name"]): each for each in json.loads(result.stdout)["objects"]}


def operate(cluster: LiveCluster, *command: str) -> dict[str, Any]:
    output = cluster.trainyard(*command, "--config-file", str(cluster.config_file), "-o", "json")
    body: dict[str, Any] = json.loads(require(output))
    return body


def test_an_existing_installation_is_compared_with_the_settings(former: LiveCluster) -> None:
    file, (name, key) = former.config_file, CONFIGURATION
    configured, live = file.read_text(), former.get("configmap", name, "-n", "volcano-system")["data"]
    settings = load_stack(file)
    configure(former, adopt=True, volcano={"install": "existing"}, jobset={"install": "existing"})
    try:
        failed = former.trainyard("up", "--yes", "--config-file", str(file))
        assert failed.returncode == 2, failed.stdout + failed.stderr
        missing = "capacity, network-topology-aware, reclaim of the settings are not on in the cluster"
        assert f"ConfigMap volcano-system/{name}: {missing}" in failed.stderr
        assert labeled(former, "clusterroles", "namespaces", "queues") == set()
        patch_data(former, name, {key: effective_configuration(settings).text()})
        notes = operate(former, "preview")["notes"]
        assert any(
            note.startswith("trainyard:volcano: no webhook in namespace volcano-system reviews") for note in notes
        )
    finally:
        patch_data(former, name, live)
        file.write_text(configured)


def patch_data(cluster: LiveCluster, name: str, data: dict[str, str]) -> None:
    patch = json.dumps({"data": data})
    require(cluster.kubectl("patch", "configmap", name, "-n", "volcano-system", "--type=merge", "-p", patch))


def test_the_plan_lists_every_object_and_writes_nothing(former: LiveCluster) -> None:
    before = used(former)
    code, planned = plan(former)
    assert code == 0, [each for each in planned.values() if each["action"] == "reject"]
    actions = {key: each["action"] for key, each in planned.items()}
    programs = ("volcano-admission", "volcano-controllers", "volcano-scheduler", "jobset-controller-manager")
    assert {actions["Deployment", name] for name in programs} == {"replace"}
    assert "spec.selector" in planned["Deployment", "volcano-scheduler"]["reason"]
    taken = [("Namespace", "vision"), ("Queue", "vision"), ("Queue", "research"), ("ClusterRole", "volcano-scheduler")]
    taken += [
        ("CustomResourceDefinition", name) for name in ("queues.scheduling.volcano.sh", "jobsets.jobset.x-k8s.io")
    ]
    assert {actions[key] for key in taken} == {"take"}
    assert all(planned[key]["retained"] for key in taken)
    assert not planned["ClusterRoleBinding", "volcano-scheduler-role"]["retained"]
    left = {(kind, "volcano-admission-init") for kind in ("Job", "Role", "ServiceAccount")}
    assert {actions[key] for key in left} == {"leave"}
    assert ("Queue", "legacy") not in actions
    assert used(former) == before
    assert labeled(former, "customresourcedefinitions", "clusterroles", "deployments") == set()


def test_a_rejection_stops_up_before_the_first_write(former: LiveCluster) -> None:
    release = {"meta.helm.sh/release-name": "volcano", "meta.helm.sh/release-namespace": "volcano-system"}
    values = [f"{key}={value}" for key, value in release.items()]
    require(former.kubectl("annotate", "clusterrole", "volcano-controllers", *values))
    record = {"name": "sh.helm.release.v1.volcano.v1", "namespace": "volcano-system"}
    record |= {"labels": {"owner": "helm", "name": "volcano"}}
    require(former.apply({"apiVersion": "v1", "kind": "Secret", "metadata": record}))
    configure(former, adopt=True)
    code, planned = plan(former)
    assert (code, planned["ClusterRole", "volcano-controllers"]["action"]) == (1, "reject")
    deployments = uids(former, "deployments")
    failed = former.trainyard("up", "--yes", "--config-file", str(former.config_file))
    assert failed.returncode == 2
    assert "ClusterRole volcano-controllers: it belongs to Helm release volcano-system/volcano" in failed.stderr
    assert uids(former, "deployments") == deployments
    assert labeled(former, "customresourcedefinitions", "clusterroles", "namespaces") == set()
    (fix,) = {each["fix"] for each in planned.values() if each["action"] == "reject"}
    require(former.kubectl(*fix.partition("kubectl ")[2].split()))


def test_up_replaces_the_programs_and_keeps_what_users_have(
    former: LiveCluster, before_takeover: dict[str, Any]
) -> None:
    before, deployments, pods = used(former), uids(former, "deployments"), running_pods(former)
    configure(former, queues=with_obsolete(former))
    preview = operate(former, "preview")
    assert any(
        "Deployment volcano-system/volcano-scheduler is deleted and created again" in n for n in preview["notes"]
    )
    configure(former, volcano={"replicas": 2}, jobset={"replicas": 2})  # as in production
    operate(former, "up", "--yes")
    assert before.items() <= used(former).items()
    assert running_pods(former) == pods
    after = uids(former, "deployments")
    assert all(after[name] != uid for name, uid in deployments.items())
    assert operate(former, "up", "--yes")["changes"] == []
    assert plan(former) == (0, {})
    # `destroy` then keeps their uids, because the state says so: the last tests show it.
    state = Path(former.env["TRAINYARD_STATE_HOME"]) / "clusters" / NAME / "pulumi/.pulumi/stacks/trainyard/local.json"
    resources = json.loads(state.read_text())["checkpoint"]["latest"]["resources"]
    retained = {each["urn"].rpartition("::")[2] for each in resources if each.get("retainOnDelete")}
    assert {"Queue/research", "Queue/vision", "Namespace/vision"} <= retained
    assert not any(name.startswith(("Deployment/", "ClusterRoleBinding/")) for name in retained)


def test_another_replica_leads_after_the_leader_was_killed(former: LiveCluster) -> None:
    assert ready_replicas(former) == [2] * len(REPLICATED)
    before = awaited("a leader of each program", lambda: leaders(former))
    for _, pid in before.values():
        os.kill(pid, signal.SIGKILL)

    def others_lead() -> bool:
        return all(holder_of(former, lease) not in ("", holder) for lease, (holder, _) in before.items())

    awaited("other leaders", others_lead)
    awaited("two ready replicas of each", lambda: ready_replicas(former) == [2] * len(REPLICATED))


def test_up_writes_nothing_if_its_objects_violate_a_mandatory_rule(former: LiveCluster) -> None:
    configured, written = former.config_file.read_text(), stack_versions(former)
    rules = {"states": {"IMG-001": "deny"}, "parameters": {"IMG-001": {"registries": ["mirror.example/"]}}}
    queues = {**yaml.safe_load(configured)["config"]["trainyard:queues"], "unreviewed": {"weight": 1}}
    configure(former, policies={"preview": True, **rules}, queues=queues)
    failed = former.trainyard("up", "--yes", "--config-file", str(former.config_file))
    former.config_file.write_text(configured)
    assert failed.returncode == 2, failed.stdout + failed.stderr
    assert "violate mandatory rules; nothing is written" in failed.stderr
    assert "ClusterTrainingRuntime/torch-distributed-gang: IMG-001" in failed.stderr
    assert stack_versions(former) == written


def test_a_target_is_all_that_a_run_writes(former: LiveCluster, tmp_path: Path) -> None:
    configured, written = former.config_file.read_text(), stack_versions(former)
    amend(former, vision={"weight": 2}, language={"weight": 3})
    require(targeted(former, tmp_path, "vision"))
    after = stack_versions(former)
    assert former.get("queue", "vision")["spec"]["weight"] == 2
    assert {name for name in written.keys() | after.keys() if written.get(name) != after.get(name)} == {"Queue//vision"}
    amend(former, vision={"deserved": {"nvidia.com/gpu": "16"}}, language={"deserved": {"nvidia.com/gpu": "48"}})
    failed = targeted(former, tmp_path, "language")
    former.config_file.write_text(configured)
    text = failed.stdout + failed.stderr
    assert failed.returncode != 0, text
    assert "This change writes Queues before Pulumi does, which --target and --exclude would not limit" in text
    assert "Queue/vision: deserved" in text
    assert stack_versions(former) == after


def test_a_queue_that_was_taken_over_is_retired_in_one_up(former: LiveCluster) -> None:
    """The engine would only forget it; `destroy` does not create it again."""
    assert former.get("queue", "obsolete")["metadata"]["annotations"]["trainyard.dev/adopted"] == "true"
    configure(former, queues=with_obsolete(former, state="retired"))
    notes = operate(former, "preview")["notes"]
    assert any(note.startswith("Queue/obsolete is deleted before the update") for note in notes), notes
    assert former.get("queue", "obsolete")["status"]["state"] == "Open"
    operate(former, "up", "--yes")
    assert former.get("queue", "obsolete") is None
    assert operate(former, "up", "--yes")["changes"] == []


def with_obsolete(cluster: LiveCluster, **more: Any) -> dict[str, Any]:
    """Return the settings of queues with one that is retired later."""
    tree = yaml.safe_load(cluster.config_file.read_text())["config"]["trainyard:queues"]
    return {**tree, "obsolete": {"weight": 1, **more}}


def amend(cluster: LiveCluster, **queues: dict[str, Any]) -> None:
    """Change settings of queues."""
    tree = yaml.safe_load(cluster.config_file.read_text())["config"]["trainyard:queues"]
    configure(cluster, queues={**tree, **{name: tree[name] | change for name, change in queues.items()}})


def targeted(cluster: LiveCluster, folder: Path, queue: str) -> subprocess.CompletedProcess[str]:
    """Run plain `pulumi up` for one queue."""
    project, only = plain_project(folder, cluster.config_file, "local"), f"**::Queue/{queue}"
    options = ("--non-interactive", "--stack", "local", "--yes", "--skip-preview", "--target", only)
    return run("pulumi", "-C", project, "up", *options, env=cluster.env, timeout=300)


def test_destroy_gives_back_the_former_installation(former: LiveCluster, before_takeover: dict[str, Any]) -> None:
    before, definitions = used(former), uids(former, "customresourcedefinitions")
    result = operate(former, "destroy", "--yes")
    assert result["unrestored"] == []
    assert "Deployment volcano-system/volcano-scheduler was created again" in result["restored"]
    assert "Queue research was restored" in result["restored"]
    after = contents(former)
    assert "Queue//obsolete" not in after
    assert {name: after.get(name) for name in before_takeover} == {**before_takeover, "Queue//obsolete": None}
    assert labeled(former, *INSTALLED, "validatingadmissionpolicybindings", "hypernodes") == set()
    users = used(former)
    kept = {"Queue/research", "Queue/vision", "Queue/legacy", "Job/training", "JobSet/held"}
    assert {name: users.get(name) for name in kept} == {name: before[name] for name in kept}
    assert [name for name in before if name.startswith("Pod/") and name not in users] == []
    left = uids(former, "customresourcedefinitions")
    assert left["CustomResourceDefinition/queues.scheduling.volcano.sh"] in definitions.values()
    assert former.get("secrets", "-n", "kube-system", "-l", "app.kubernetes.io/managed-by=trainyard")["items"] == []


def test_the_restored_scheduler_places_a_gang(former: LiveCluster) -> None:
    create(former, volcano_job("restored"))
    awaited("four running pods", lambda: len(running_pods(former)) == 4)
