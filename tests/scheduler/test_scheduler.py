"""The scheduler configuration has a reason for each line, and errors that Volcano ignores are found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from typer import Typer
from typer.testing import CliRunner

from tests.golden import assert_golden
from trainyard.cli import scheduler
from trainyard.scheduling.scheduler.configuration_lint import lint
from trainyard.scheduling.scheduler.presets import preset
from trainyard.scheduling.scheduler.stack_configuration import configuration
from trainyard.settings.scheduler import SchedulerPreset
from trainyard.settings.stack_loader import load_stack

ROOT = Path(__file__).resolve().parents[2]
TRAINING = preset(SchedulerPreset.TRAINING, accelerators=("nvidia.com/gpu",))


def changed(change: Any) -> str:
    document = yaml.safe_load(TRAINING.text())
    change(document)
    return yaml.safe_dump(document)


def plugin(document: dict[str, Any], name: str) -> dict[str, Any]:
    entries: list[dict[str, Any]] = [entry for tier in document["tiers"] for entry in tier["plugins"]]
    return next(entry for entry in entries if entry["name"] == name)


def rules(text: str) -> set[str | None]:
    return {finding.rule for finding in lint(text)}


def test_the_configuration_of_the_local_stack() -> None:
    text = configuration(load_stack(ROOT / "stacks" / "Pulumi.local.yaml"))
    assert lint(text) == []
    assert_golden(Path(__file__).parent / "golden" / "local.conf", text)


def test_training_has_a_queue_tree_and_no_enqueue() -> None:
    document = yaml.safe_load(TRAINING.text())
    assert document["actions"] == "allocate, backfill, reclaim"
    assert plugin(document, "capacity")["enableHierarchy"] is True
    gang = {"enablePreemptable": False, "enableReclaimable": False, "enableJobStarving": False}
    assert plugin(document, "gang") == {"name": "gang", **gang}
    assert [entry["name"] for entry in document["tiers"][0]["plugins"]] == [
        "priority",
        "gang",
        "conformance",
        "capacity",
    ]
    assert plugin(document, "nodeorder")["arguments"] == {"leastrequested.weight": 0}
    assert plugin(document, "binpack")["arguments"]["binpack.resources"] == "nvidia.com/gpu"
    assert plugin(document, "network-topology-aware")["arguments"]["weight"] == 10


def test_every_action_and_plug_in_has_a_reason() -> None:
    assert all(action.reason for action in TRAINING.actions)
    assert all(each.reason for tier in TRAINING.tiers for each in tier)


@pytest.mark.parametrize("accelerators", [(), ("nvidia.com/gpu", "amd.com/gpu")])
def test_any_accelerators_give_a_valid_configuration(accelerators: tuple[str, ...]) -> None:
    assert lint(preset(SchedulerPreset.TRAINING, accelerators=accelerators).text()) == []


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("actions: [", "scheduler-structure"),
        ("", "scheduler-structure"),
        (changed(lambda d: d.update(actions=["allocate"])), "scheduler-action"),
        (changed(lambda d: d.update(actions="allocate, backfil")), "scheduler-action"),
        (changed(lambda d: d.update(actions="allocate,")), "scheduler-action"),
        (changed(lambda d: d.update(actions="allocate, gangreclaim")), "scheduler-action"),
        (changed(lambda d: d.pop("actions")), "scheduler-action"),
        (changed(lambda d: d.update(tier=d.pop("tiers"))), "scheduler-key"),
        (changed(lambda d: d.update(tier=d.pop("tiers"))), "scheduler-structure"),
        (changed(lambda d: plugin(d, "capacity").update(enableHierachy=True)), "scheduler-key"),
        (changed(lambda d: plugin(d, "capacity").update(enableHierarchy="true")), "scheduler-switch-type"),
        (changed(lambda d: plugin(d, "capacity").update(name="capasity")), "scheduler-plugin"),
        (
            changed(lambda d: plugin(d, "binpack")["arguments"].update({"binpack.weight": "5"})),
            "scheduler-argument-type",
        ),
        (changed(lambda d: plugin(d, "binpack")["arguments"].update({"binpack.cpu": 1.0})), "scheduler-argument-type"),
        (changed(lambda d: plugin(d, "binpack")["arguments"].update({"binpack.gpu": 1})), "scheduler-argument"),
        (
            changed(
                lambda d: d["tiers"][1]["plugins"].append(
                    {"name": "resource-strategy-fit", "arguments": {"resourceStrategyFitWeight": "10"}}
                )
            ),
            "scheduler-argument-fatal",
        ),
        (
            changed(
                lambda d: d["tiers"][1]["plugins"].append(
                    {
                        "name": "deviceshare",
                        "arguments": {"deviceshare.GPUSharingEnable": True, "deviceshare.GPUNumberEnable": True},
                    }
                )
            ),
            "scheduler-argument-fatal",
        ),
        (changed(lambda d: d["tiers"][0]["plugins"].append({"name": "capacity"})), "scheduler-duplicate"),
        (changed(lambda d: d["tiers"][1]["plugins"].append({"name": "proportion"})), "scheduler-conflict"),
        (
            changed(
                lambda d: d["tiers"][1]["plugins"].extend(
                    [{"name": "proportion"}, {"name": "drf", "enableHierarchy": True}]
                )
            ),
            "scheduler-conflict",
        ),
        (changed(lambda d: plugin(d, "gang").update(name="pdb")), "scheduler-gang"),
        (changed(lambda d: d.update(actions="enqueue, allocate, backfill, reclaim")), "scheduler-enqueue"),
        (changed(lambda d: d.update(configurations=[{"name": "alocate"}])), "scheduler-action"),
        (
            changed(
                lambda d: d.update(
                    configurations=[{"name": "allocate", "arguments": {"predicateErrorCacheEnable": "yes"}}]
                )
            ),
            "scheduler-argument-type",
        ),
    ],
)
def test_a_mistake_is_found(text: str, rule: str) -> None:
    findings = lint(text)
    assert rule in {finding.rule for finding in findings}
    assert all(finding.fix for finding in findings)


def test_the_fix_for_a_misspelled_switch_is_the_right_one() -> None:
    (finding,) = lint(changed(lambda d: plugin(d, "capacity").update(enablehierarchy=True)))
    assert finding.path == "tiers[0].plugins[3].enablehierarchy"
    assert finding.fix == "did you mean enableHierarchy?"


def test_the_last_of_two_equal_keys_counts_as_in_volcano() -> None:
    assert lint(f"actions: nothing\n{TRAINING.text()}") == []


def test_the_config_map_can_be_checked() -> None:
    body = {"kind": "ConfigMap", "data": {"volcano-scheduler.conf": TRAINING.text()}}
    assert lint(yaml.safe_dump(body)) == []
    assert rules(yaml.safe_dump({"kind": "ConfigMap", "data": {}})) == {"scheduler-structure"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(["allocate", "binpack"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["actions", "tiers", "plugins", "name", "arguments", "configurations", "x"]), inner
        )
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(JSON)
def test_lint_accepts_any_document(document: Any) -> None:
    assert isinstance(lint(yaml.safe_dump(document)), list)


def test_the_command_returns_its_exit_code(tmp_path: Path) -> None:
    app = Typer()
    scheduler.register(app)
    good, bad = tmp_path / "good.conf", tmp_path / "bad.conf"
    good.write_text(TRAINING.text())
    bad.write_text(changed(lambda d: d.update(actions="allocate, preemt")))
    assert CliRunner().invoke(app, ["scheduler", "check", str(good)]).exit_code == 0
    result = CliRunner().invoke(app, ["scheduler", "check", str(bad)])
    assert result.exit_code == 1
    assert "did you mean preempt?" in result.output
