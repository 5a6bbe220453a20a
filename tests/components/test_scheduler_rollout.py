"""A changed scheduler configuration is a new object that the scheduler starts with; the former one goes afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi import RunError

from tests.components.recording import Recording, record, stack_config
from trainyard.scheduling.scheduler.configuration_lint import lint

SCHEDULER = "Deployment/volcano-system/volcano-scheduler"


def mounted(recording: Recording) -> str:
    spec = recording.one(SCHEDULER).inputs["spec"]["template"]["spec"]
    return next(str(each["configMap"]["name"]) for each in spec["volumes"] if "configMap" in each)


def changed(**scheduler: Any) -> dict[str, Any]:
    return stack_config(scheduler=scheduler)


@pytest.mark.slow
def test_the_scheduler_mounts_the_configuration_that_is_named_by_its_content(
    local: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = record(changed(preset="preemption"), monkeypatch)
    assert mounted(local) != mounted(other)
    for recording, action in ((local, "allocate, backfill, reclaim"), (other, "allocate, backfill, preempt, reclaim")):
        conf = recording.one(f"ConfigMap/volcano-system/{mounted(recording)}")
        text = conf.inputs["data"]["volcano-scheduler.conf"]
        assert f'actions: "{action}"' in text
        assert lint(text) == []
        assert conf.name in recording.before(recording.one(SCHEDULER))


def test_the_rules_learn_of_the_change_in_the_same_run(monkeypatch: pytest.MonkeyPatch) -> None:
    without = record(changed(plugins={"network-topology-aware": {"enabled": False}}), monkeypatch)
    (platform,) = without.of("Platform")
    assert "network-topology-aware" not in platform.inputs["spec"]["schedulerFeatures"]


def test_a_configuration_with_a_finding_registers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    plugins = {"binpack": {"arguments": {"binpack.weight": "5"}}}
    with pytest.raises(RunError, match=r"binpack\.weight is '5', not a whole number"):
        record(changed(plugins=plugins), monkeypatch)
