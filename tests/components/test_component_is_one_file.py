"""A component is one file, and one for its settings and its host programs: a new one is known to everything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.extended_tree import extended, run

pytestmark = pytest.mark.slow

EXTENSION = Path(__file__).with_name("extension")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the project with the new component."""
    added = {
        "components/cache.py": EXTENSION / "cache.py",
        "trainyard/settings/sections/cache.py": EXTENSION / "cache_section.py",
        "trainyard/local/cluster/supervisor/host_programs/cache.py": EXTENSION / "cache_programs.py",
    }
    return extended(tmp_path_factory.mktemp("extended"), added)


@pytest.fixture(scope="module")
def known(tree: Path) -> dict[str, Any]:
    """Return what the program declares, asked in a process of its own."""
    found: dict[str, Any] = json.loads(run(tree, str(EXTENSION / "questions.py")).stdout)
    return found


def test_the_program_installs_it_before_the_tenants(known: dict[str, Any]) -> None:
    assert {"trainyard:cache:Cache", "kubernetes:cache.example.com/v1:Shelf"} <= set(known["types"])
    assert "Deployment/cache-system/cache" in known["before-tenants"]


def test_it_is_installed_after_those_that_it_needs_and_before_those_that_need_it(known: dict[str, Any]) -> None:
    assert known["order"] == [
        *(
            "volcano",
            "jobset",
            "kueue",
            "console",
            "topology",
            "cache",
            "trainer",
            "platform",
            "policies",
            "queues",
            "runtimes",
        ),
        "tenants",
    ]
    assert any(name.startswith("HyperNode/") for name in known["before"])


def test_its_settings_are_a_section_of_the_stack(known: dict[str, Any]) -> None:
    assert known["shelf"] == {"shards": 3}
    assert "## trainyard:cache" in known["page"]
    assert "| `cache.shards` | number, at least 1 | `2` | Number of shards |" in known["page"]


def test_its_image_may_be_replaced(known: dict[str, Any]) -> None:
    assert "cache" in known["images"]
    assert known["image"] == "mirror.example.com/cache:v1"


def test_its_pods_follow_the_settings_of_the_platforms_pods(known: dict[str, Any]) -> None:
    assert known["node-selector"] == {"pool": "system"}
    assert known["limits"] == {"memory": "1Gi", "cpu": "2"}


def test_its_namespace_belongs_to_the_platform(known: dict[str, Any]) -> None:
    assert known["namespaces"] == [
        "volcano-system",
        "jobset-system",
        "kubeflow-system",
        "cache-system",
        "trainyard-console",
    ]
    assert "cache-system" in known["exempt"]


def test_the_controller_issues_its_certificate(known: dict[str, Any]) -> None:
    (issued,) = (each for each in known["certificates"] if each["namespace"] == "cache-system")
    assert issued["secret"] == "cache-webhook-cert"
    assert issued["dnsNames"][0] == "cache-webhook.cache-system.svc"
    assert issued["validatingWebhookConfigurations"] == ["cache-shelves"]
    assert known["home"] == ["Deployment", "PodDisruptionBudget", "Role", "RoleBinding"]


def test_its_webhooks_require_the_trainer(known: dict[str, Any]) -> None:
    assert known["refused"] == ["trainyard:cache.install"]


def test_objects_of_others_are_detected(known: dict[str, Any]) -> None:
    assert "shelves" in known["kinds"]


def test_its_upstream_files_are_locked(known: dict[str, Any]) -> None:
    assert known["manifests"]["cache"] == ["1.2.0"]


def test_the_embedded_cluster_runs_its_program(known: dict[str, Any]) -> None:
    assert known["programs"][-1] == "cache"
    assert known["ports"] == ["cache/webhook", "0.cache/webhook", "0.cache/health"]
    assert known["webhook-programs"] == ["vc-webhook-manager", "jobset", "trainyard-controller", "kueue", "cache"]
    assert known["processes"][0] == "cache"
