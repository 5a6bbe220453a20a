"""A changed scheduler configuration is in force after `up`, and the former one is gone."""

from __future__ import annotations

import pytest
import yaml

from tests.cluster.jobs import train_job
from tests.support import LiveCluster, require

pytestmark = pytest.mark.cluster

PREFIX = "volcano-scheduler-configuration-"


def configurations(platform: LiveCluster) -> dict[str, str]:
    """Return the texts of the scheduler's ConfigMaps by name."""
    items = platform.get("configmaps", "-n", "volcano-system")["items"]
    return {
        body["metadata"]["name"]: body["data"]["volcano-scheduler.conf"]
        for body in items
        if body["metadata"]["name"].startswith(PREFIX)
    }


def test_a_preset_is_changed_and_changed_back(changing_platform: LiveCluster) -> None:
    former = changing_platform.config_file.read_text()
    before = configurations(changing_platform)
    document = yaml.safe_load(former)
    document["config"]["trainyard:scheduler"] = {"preset": "preemption"}
    changing_platform.config_file.write_text(yaml.safe_dump(document, sort_keys=False))
    try:
        require(changing_platform.trainyard("up", "--yes", "--config-file", str(changing_platform.config_file)))
        ((name, text),) = configurations(changing_platform).items()
        assert name not in before
        assert 'actions: "allocate, backfill, preempt, reclaim"' in text
        assert "preempt" in changing_platform.get("platform", "platform")["spec"]["schedulerFeatures"]
        require(changing_platform.apply(train_job("after-rollout", "vision", "torch-distributed-gang")))
        changing_platform.condition("after-rollout", "vision", "Complete")
    finally:
        changing_platform.config_file.write_text(former)
        require(changing_platform.trainyard("up", "--yes", "--config-file", str(changing_platform.config_file)))
    assert configurations(changing_platform) == before


def test_a_configuration_that_volcano_would_drop_changes_nothing(changing_platform: LiveCluster) -> None:
    before = configurations(changing_platform)
    document = yaml.safe_load(changing_platform.config_file.read_text())
    arguments = {"binpack.weight": "5"}
    document["config"]["trainyard:scheduler"] = {"plugins": {"binpack": {"arguments": arguments}}}
    wrong = changing_platform.config_file.with_name("Pulumi.wrong.yaml")
    wrong.write_text(yaml.safe_dump(document, sort_keys=False))
    result = changing_platform.trainyard("up", "--yes", "--config-file", str(wrong))
    assert result.returncode != 0
    assert "trainyard:scheduler.plugins.binpack.arguments[binpack.weight]" in result.stdout + result.stderr
    assert configurations(changing_platform) == before
