"""The program under the plain Pulumi command line, as a platform engineer uses it."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import LiveCluster, plain_project, require, run

pytestmark = pytest.mark.cluster

STACK = "plain"
ATTEMPTS = 3


@pytest.fixture(scope="module")
def project(cluster: LiveCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout's Pulumi.yaml beside one stack file, the program being the project's own."""
    return plain_project(tmp_path_factory.mktemp("project"), cluster.config_file, STACK)


@pytest.fixture(scope="module")
def plain(cluster: LiveCluster, project: Path) -> Iterator[LiveCluster]:
    """The cluster with the stack brought up by `pulumi up`."""
    before = namespaces(cluster)  # Those of earlier files may still be terminating.
    require(pulumi(cluster, project, "stack", "init", STACK))
    require(pulumi(cluster, project, "up", "--yes", "--skip-preview"))
    yield cluster
    destroy(cluster, project)
    assert cluster.get("crd")["items"] == []
    assert namespaces(cluster) <= before
    assert cluster.get("mutatingwebhookconfiguration,validatingwebhookconfiguration")["items"] == []


def destroy(cluster: LiveCluster, project: Path) -> None:
    """Destroy; again, as docs/production.md says, where Volcano's webhook has deleted queues in its cache."""
    for _ in range(ATTEMPTS):
        done = pulumi(cluster, project, "destroy", "--yes", "--skip-preview")
        errors = re.findall(r"^\s+error: (?!update failed)(.*)$", done.stdout, re.MULTILINE)
        if not errors or not all("can not be deleted because it has" in error for error in errors):
            break
    require(done)


def namespaces(cluster: LiveCluster) -> set[str]:
    return {each["metadata"]["name"] for each in cluster.get("namespace")["items"]}


def pulumi(cluster: LiveCluster, project: Path, *arguments: str):
    stack = () if arguments[0] == "stack" else ("--stack", STACK)
    return run("pulumi", "-C", project, "--non-interactive", *arguments, *stack, env=cluster.env, timeout=900)


def test_pulumi_up_makes_the_platform(plain: LiveCluster) -> None:
    for namespace in ("volcano-system", "jobset-system", "kubeflow-system"):
        for deployment in plain.get("deployment", "-n", namespace)["items"]:
            assert deployment["status"]["readyReplicas"] == deployment["spec"]["replicas"]


def test_the_outputs_of_the_stack_name_what_is_installed(plain: LiveCluster, project: Path) -> None:
    text = require(pulumi(plain, project, "stack", "output", "--json", "--stack", STACK))
    kubeconfig = yaml.safe_load(plain.kubeconfig.read_text())

    def labelled(kind: str) -> list[dict[str, Any]]:
        return [each["metadata"] for each in plain.get(kind, "-A", "-l", f"trainyard.dev/stack={STACK}")["items"]]

    assert {key: sorted(value) if isinstance(value, list) else value for key, value in json.loads(text).items()} == {
        "namespaces": sorted(each["name"] for each in labelled("namespaces")),
        "services": sorted(f"{each['namespace']}/{each['name']}" for each in labelled("services")),
        "queues": sorted(each["name"] for each in labelled("queues.scheduling.volcano.sh")),
        "kubeconfigContext": kubeconfig["current-context"],
    }
    assert "volcano-system/volcano-admission-service" in text
    assert "vision" in text


def test_a_second_preview_finds_nothing_to_change(plain: LiveCluster, project: Path) -> None:
    answer = json.loads(require(pulumi(plain, project, "preview", "--json")))
    assert set(answer["changeSummary"]) == {"same"}


@pytest.mark.skipif("TRAINYARD_KILLS" not in os.environ, reason="only in `make kills`")
def test_a_lost_state_is_rebuilt_by_imports(plain: LiveCluster, project: Path) -> None:
    def uids() -> dict[str, str]:
        kinds = "namespaces,deployments,services,queues,customresourcedefinitions,configmaps,roles,resourcequotas"
        found = plain.get(kinds, "-A", "-l", f"trainyard.dev/stack={STACK}")["items"]
        return {f"{each['kind']}/{each['metadata']['name']}": each["metadata"]["uid"] for each in found}

    before = uids()
    require(pulumi(plain, project, "stack", "rm", STACK, "--force", "--preserve-config", "--yes"))
    require(pulumi(plain, project, "stack", "init", STACK))
    importing = LiveCluster(plain.name, plain.config_file, plain.env | {"TRAINYARD_IMPORT": "true"})
    text = require(pulumi(importing, project, "up", "--yes", "--skip-preview"))
    assert "This state has none of the" in text
    assert re.search(r"= \d+ imported", text), text
    assert uids() == before
    answer = json.loads(require(pulumi(plain, project, "preview", "--json")))
    assert set(answer["changeSummary"]) == {"same"}


def test_another_stack_is_refused_what_this_one_made(plain: LiveCluster, project: Path) -> None:
    shutil.copyfile(project / f"Pulumi.{STACK}.yaml", project / "Pulumi.second.yaml")
    require(pulumi(plain, project, "stack", "init", "second"))
    result = run(
        "pulumi", "-C", project, "--non-interactive", "preview", "--stack", "second", env=plain.env, timeout=300
    )
    assert result.returncode != 0
    text = result.stdout + result.stderr
    assert "exist already and have another owner" in text
    assert "Namespace volcano-system" in text
    assert "Traceback" not in text
