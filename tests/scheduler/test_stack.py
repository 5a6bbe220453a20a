"""A stack sets a preset and changes; the result is checked, and the Platform lists its features."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from typer import Typer
from typer.testing import CliRunner

from tests.golden import assert_golden
from trainyard.cli import scheduler
from trainyard.errors import TrainyardError
from trainyard.policy.stack_objects import platform_object
from trainyard.scheduling.scheduler.configuration_lint import lint
from trainyard.scheduling.scheduler.lint_rules import RULES
from trainyard.scheduling.scheduler.presets import preset
from trainyard.scheduling.scheduler.stack_configuration import check_stack, configuration, effective_configuration
from trainyard.scheduling.scheduler.volcano_options import PLUGINS
from trainyard.settings.scheduler import PluginName, SchedulerPreset
from trainyard.settings.stack import StackSettings
from trainyard.settings.stack_loader import parse_stack

ROOT = Path(__file__).resolve().parents[2]
TOPOLOGY = "network-topology-aware"


def stack(queues: dict[str, Any] | None = None, **scheduler: Any) -> StackSettings:
    values = {"cluster": {"provider": "embedded"}, "scheduler": scheduler, "queues": queues or {}}
    return parse_stack(values, source="test")


def generated(**scheduler: Any) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(configuration(stack(**scheduler)))
    return document


def plugin(document: dict[str, Any], name: str) -> dict[str, Any] | None:
    return next((each for tier in document["tiers"] for each in tier["plugins"] if each["name"] == name), None)


def refused(**scheduler: Any) -> str:
    with pytest.raises(TrainyardError) as raised:
        configuration(stack(**scheduler))
    return str(raised.value)


@pytest.mark.parametrize("name", list(SchedulerPreset))
def test_a_preset_is_valid_and_has_a_reason_for_each_line(name: SchedulerPreset) -> None:
    chosen = preset(name, accelerators=("nvidia.com/gpu",))
    assert lint(chosen.text()) == []
    assert all(action.reason for action in chosen.actions)
    assert all(each.reason for tier in chosen.tiers for each in tier)
    assert_golden(Path(__file__).parent / "golden" / f"{name}.conf", chosen.text())


@pytest.mark.parametrize(
    ("name", "actions", "tree", "topology"),
    [
        ("training", "allocate, backfill, reclaim", True, True),
        ("hierarchical", "allocate, backfill, reclaim", True, False),
        ("topology", "allocate, backfill, reclaim", False, True),
        ("preemption", "allocate, backfill, preempt, reclaim", True, True),
    ],
)
def test_what_distinguishes_the_presets(name: str, actions: str, tree: bool, topology: bool) -> None:
    document = generated(preset=name)
    capacity = plugin(document, "capacity")
    assert document["actions"] == actions
    assert capacity is not None
    assert capacity["enableHierarchy"] is tree
    assert (plugin(document, TOPOLOGY) is not None) is topology


def test_every_plug_in_of_the_settings_has_its_options() -> None:
    assert set(get_args(PluginName)) == set(PLUGINS)


def test_settings_change_only_their_part_of_the_preset() -> None:
    document = generated(
        actions=["allocate", "preempt", "backfill"],
        plugins={
            "binpack": {"arguments": {"binpack.weight": 10, "binpack.resources": None}},
            "gang": {"switches": {"enableJobOrder": False}},
            "nodeorder": {"enabled": False},
            "sla": {"tier": 1, "arguments": {"sla-waiting-time": "12h"}},
            "resource-strategy-fit": {"arguments": {"resources": {"cpu": {"type": "MostAllocated", "weight": 2}}}},
        },
        action_arguments={"preempt": {"enableTopologyAwarePreemption": True}},
    )
    assert document["actions"] == "allocate, preempt, backfill"
    assert [each["name"] for each in document["tiers"][0]["plugins"]] == [
        "priority",
        "gang",
        "conformance",
        "capacity",
        "sla",
    ]
    gang = {"enablePreemptable": False, "enableReclaimable": False, "enableJobStarving": False}
    assert plugin(document, "gang") == {"name": "gang", **gang, "enableJobOrder": False}
    assert plugin(document, "nodeorder") is None
    binpack = plugin(document, "binpack")
    assert binpack is not None
    assert binpack["arguments"] == {"binpack.weight": 10, "binpack.resources.nvidia.com/gpu": 10}
    fit = plugin(document, "resource-strategy-fit")
    assert fit is not None
    assert fit["arguments"]["resources"] == {"cpu": {"type": "MostAllocated", "weight": 2}}
    assert document["configurations"] == [{"name": "preempt", "arguments": {"enableTopologyAwarePreemption": True}}]


@pytest.mark.parametrize(
    ("scheduler", "path"),
    [
        ({"actions": ["allocate", "preemt"]}, "trainyard:scheduler.actions[1]"),
        ({"plugins": {"binpak": {}}}, "trainyard:scheduler.plugins.binpak"),
        ({"plugins": {"gang": {"switches": {"enableJobRedy": True}}}}, "trainyard:scheduler.plugins.gang.switches"),
        ({"plugins": {"gang": {"switches": {"enableJobReady": "true"}}}}, "plugins.gang.switches.enableJobReady"),
        ({"plugins": {"gang": {"enabled": "no"}}}, "trainyard:scheduler.plugins.gang.enabled"),
        ({"plugins": {"gang": {"tier": 3}}}, "trainyard:scheduler.plugins.gang.tier"),
        ({"plugins": {"gang": {"tier": True}}}, "trainyard:scheduler.plugins.gang.tier"),
    ],
)
def test_an_unknown_name_or_wrong_type_is_rejected_by_the_settings(scheduler: dict[str, Any], path: str) -> None:
    with pytest.raises(TrainyardError) as raised:
        stack(**scheduler)
    assert any(path in finding.path for finding in raised.value.findings), raised.value


@pytest.mark.parametrize(
    ("scheduler", "message"),
    [
        (
            {"plugins": {"binpack": {"arguments": {"binpack.weight": "10"}}}},
            "trainyard:scheduler.plugins.binpack.arguments[binpack.weight]: binpack.weight is '10', not a whole number",
        ),
        (
            {"plugins": {TOPOLOGY: {"switches": {"enabledHyperNodeGradient": False}}}},
            f"trainyard:scheduler.plugins.{TOPOLOGY}.switches.enabledHyperNodeGradient: ",
        ),
        (
            {"plugins": {"resource-strategy-fit": {"arguments": {"resourceStrategyFitWeight": 1.5}}}},
            "the scheduler would exit, again after each restart",
        ),
        ({"plugins": {"gang": {"enabled": False}}}, "trainyard:scheduler.plugins: no plug-in gang"),
        ({"plugins": {"pdb": {"enabled": False}}}, "trainyard:scheduler.plugins.pdb: plug-in pdb is turned off"),
        ({"plugins": {"proportion": {}}}, "capacity and proportion are both on"),
        ({"plugins": {"overcommit": {}}}, "plug-in overcommit only affects action enqueue"),
        (
            {"actions": ["enqueue", "allocate", "backfill", "reclaim"]},
            "trainyard:scheduler.actions: enqueue with a queue tree",
        ),
        (
            {"action_arguments": {"preempt": {"enableTopologyAwarePreemption": True}}},
            "trainyard:scheduler.actionArguments.preempt: action preempt has arguments but is not among the actions",
        ),
        (
            {"action_arguments": {"allocate": {"predicateErrorCacheEnabled": True}}},
            "trainyard:scheduler.actionArguments.allocate[predicateErrorCacheEnabled]",
        ),
        (
            {"preset": "topology", "queues": {"a": {}, "b": {"parent": "a"}}},
            "trainyard:scheduler.preset: queues b have a parent, but the tree is off",
        ),
    ],
)
def test_options_that_volcano_ignores_are_rejected_by_setting(scheduler: dict[str, Any], message: str) -> None:
    assert message in refused(**scheduler)


def test_every_rule_of_the_linter_is_documented() -> None:
    page = (ROOT / "docs" / "scheduler.md").read_text()
    assert [rule for rule in RULES if f"`{rule}`" not in page] == []


@pytest.mark.parametrize(
    ("scheduler", "topology"),
    [
        ({}, True),
        ({"preset": "topology"}, True),
        ({"preset": "preemption"}, True),
        ({"preset": "hierarchical"}, False),
        ({"plugins": {TOPOLOGY: {"enabled": False}}}, False),
        ({"plugins": {TOPOLOGY: {"switches": {"enabledHyperNodeGradient": False}}}}, False),
        ({"preset": "hierarchical", "plugins": {TOPOLOGY: {"arguments": {"weight": 5}}}}, True),
    ],
)
def test_the_platform_lists_the_features_of_the_scheduler(scheduler: dict[str, Any], topology: bool) -> None:
    features = platform_object(stack(**scheduler))["spec"]["schedulerFeatures"]
    assert (TOPOLOGY in features) is topology
    assert features == effective_configuration(stack(**scheduler)).features
    assert {"gang", "allocate", "reclaim"} <= set(features)


def test_the_commands_take_the_settings_of_a_stack(tmp_path: Path) -> None:
    app = Typer()
    scheduler.register(app)
    local = ROOT / "stacks" / "Pulumi.local.yaml"
    assert CliRunner().invoke(app, ["scheduler", "check", str(local)]).exit_code == 0
    shown = CliRunner().invoke(app, ["scheduler", "show", str(local)])
    assert shown.exit_code == 0
    assert lint(shown.output) == []
    document = yaml.safe_load(local.read_text())
    document["config"]["trainyard:scheduler"] = {"plugins": {"binpack": {"arguments": {"binpack.cpu": "1"}}}}
    changed = tmp_path / "Pulumi.local.yaml"
    changed.write_text(yaml.safe_dump(document))
    result = CliRunner().invoke(app, ["scheduler", "check", str(changed)])
    assert result.exit_code == 1
    assert "trainyard:scheduler.plugins.binpack.arguments[binpack.cpu]" in result.output


def test_a_valid_stack_has_no_findings() -> None:
    assert check_stack(stack()) == []
