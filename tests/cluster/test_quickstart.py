"""What `make up` prints, and that doing it again changes nothing."""

from __future__ import annotations

import json

import pytest

from tests.support import LiveCluster, require

pytestmark = pytest.mark.cluster


def test_the_summary_shows_processes_queues_fabric_and_the_job(
    platform: LiveCluster, platform_output: dict[str, str]
) -> None:
    text = platform_output["quickstart"]
    for expected in (
        "kube-apiserver",
        "1.36.3",
        "vc-scheduler",
        "research",
        "vision",
        "rack-0",
        "Complete=True",
        str(platform.kubeconfig),
    ):
        assert expected in text
    assert "Traceback" not in text


def test_every_program_is_healthy(platform: LiveCluster) -> None:
    status = json.loads(require(platform.trainyard("cluster", "status", "--name", platform.name, "-o", "json")))
    assert status["healthy"] is True
    assert {process["name"] for process in status["processes"]} >= {
        "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok",
        "vc-scheduler", "vc-controller-manager", "vc-webhook-manager", "jobset", "trainyard-controller", "opa",
    }  # fmt: skip


def test_a_second_run_changes_nothing_and_says_so(platform: LiveCluster) -> None:
    before = platform.get("trainjob", "smoke", "-n", "language")["metadata"]
    text = require(platform.trainyard("quickstart", "--config-file", str(platform.config_file)))
    assert "nothing changed" in text.lower()
    assert platform.get("trainjob", "smoke", "-n", "language")["metadata"]["uid"] == before["uid"]
