"""The linter finds what a configuration gives up: limits, shares, predicates, and the choice of victims."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from trainyard.checks.finding import Finding, Severity
from trainyard.scheduling.scheduler.configuration_lint import lint
from trainyard.scheduling.scheduler.presets import preset
from trainyard.scheduling.scheduler.stack_configuration import configuration, effective_configuration
from trainyard.scheduling.scheduler.volcano_options import PREEMPT_VOTERS, RECLAIM_VOTERS
from trainyard.settings.scheduler import SchedulerPreset
from trainyard.settings.stack import StackSettings
from trainyard.settings.stack_loader import parse_stack

Document = dict[str, Any]


def document(change: Callable[[Document], object], name: SchedulerPreset = SchedulerPreset.PREEMPTION) -> str:
    body = yaml.safe_load(preset(name, accelerators=("nvidia.com/gpu",)).text())
    change(body)
    return yaml.safe_dump(body)


def plugin(body: Document, name: str) -> dict[str, Any]:
    return next(each for tier in body["tiers"] for each in tier["plugins"] if each["name"] == name)


def switched(name: str, switch: str, *, on: bool = False) -> Callable[[Document], object]:
    return lambda body: plugin(body, name).update({switch: on})


def argument(name: str, key: str, value: Any) -> Callable[[Document], object]:
    return lambda body: plugin(body, name).setdefault("arguments", {}).update({key: value})


def added(tier: int, name: str, **values: Any) -> Callable[[Document], object]:
    return lambda body: body["tiers"][tier]["plugins"].append({"name": name, **values})


def removed(name: str) -> Callable[[Document], object]:
    def remove(body: Document) -> None:
        for tier in body["tiers"]:
            tier["plugins"] = [each for each in tier["plugins"] if each["name"] != name]

    return remove


def moved(name: str) -> Callable[[Document], object]:
    """Move a plug-in to the second tier."""

    def move(body: Document) -> None:
        entry = plugin(body, name)
        removed(name)(body)
        body["tiers"][1]["plugins"].append(entry)

    return move


def actions(value: str) -> Callable[[Document], object]:
    return lambda body: body.update(actions=value)


def found(text: str) -> list[tuple[str | None, str]]:
    return [(finding.rule, finding.path) for finding in lint(text)]


@pytest.mark.parametrize(
    ("change", "rule", "path"),
    [
        (switched("capacity", "enabledAllocatable"), "scheduler-switch-off", "tiers[0].plugins[3].enabledAllocatable"),
        (switched("capacity", "enableReclaimable"), "scheduler-switch-off", "tiers[0].plugins[3].enableReclaimable"),
        (switched("capacity", "enablePreemptive"), "scheduler-switch-off", "tiers[0].plugins[3].enablePreemptive"),
        (switched("capacity", "enableQueueOrder"), "scheduler-switch-off", "tiers[0].plugins[3].enableQueueOrder"),
        (switched("predicates", "enablePredicate"), "scheduler-switch-off", "tiers[1].plugins[0].enablePredicate"),
        (switched("gang", "enableJobPipelined"), "scheduler-switch-off", "tiers[0].plugins[1].enableJobPipelined"),
        (switched("gang", "enabledSubJobReady"), "scheduler-switch-off", "tiers[0].plugins[1].enabledSubJobReady"),
        (
            switched("gang", "enabledSubJobPipelined"),
            "scheduler-switch-off",
            "tiers[0].plugins[1].enabledSubJobPipelined",
        ),
        *(
            (
                added(1, "extender", arguments={f"extender.{verb}": "verb", "extender.ignorable": True}),
                "scheduler-extender",
                "tiers[1].plugins[4].arguments[extender.ignorable]",
            )
            for verb in ("predicateVerb", "queueOverusedVerb")
        ),
        (
            added(1, "extender", arguments={"extender.jobReadyVerb": "ready"}),
            "scheduler-extender",
            "tiers[1].plugins[4].arguments[extender.jobReadyVerb]",
        ),
        (
            added(1, "extender", arguments={"extender.predicateVerb": "filter", "extender.onSessionOpenVerb": "open"}),
            "scheduler-extender",
            "tiers[1].plugins[4].arguments[extender.onSessionOpenVerb]",
        ),
        (switched("priority", "enableJobOrder"), "scheduler-switch-off", "tiers[0].plugins[0].enableJobOrder"),
        (switched("priority", "enablePreemptable"), "scheduler-switch-off", "tiers[0].plugins[0].enablePreemptable"),
        (
            switched("conformance", "enableReclaimable"),
            "scheduler-switch-off",
            "tiers[0].plugins[2].enableReclaimable",
        ),
        (removed("capacity"), "scheduler-limits", "tiers"),
        (removed("predicates"), "scheduler-predicates", "tiers"),
        (removed("conformance"), "scheduler-conformance", "tiers"),
        (removed("gang"), "scheduler-gang", "tiers"),
        (actions("backfill, preempt, reclaim"), "scheduler-allocate", "actions"),
        (actions("allocate, backfill, preempt"), "scheduler-reclaim-off", "actions"),
        (
            argument("predicates", "predicate.TaintTolerationEnable", False),
            "scheduler-predicates",
            "tiers[1].plugins[0].arguments[predicate.TaintTolerationEnable]",
        ),
        (switched("gang", "enableReclaimable", on=True), "scheduler-reclaim", "tiers[0].plugins[1].enableReclaimable"),
        (switched("gang", "enablePreemptable", on=True), "scheduler-preempt", "tiers[0].plugins[1].enablePreemptable"),
        (added(1, "drf"), "scheduler-preempt", "tiers[1].plugins[4].enablePreemptable"),
        (
            added(1, "pdb", enablePreemptable=False),
            "scheduler-reclaim",
            "tiers[1].plugins[4].enableReclaimable",
        ),
        (added(0, "cdp", enablePreemptable=False), "scheduler-reclaim", "tiers[0].plugins[4].enableReclaimable"),
        (switched("gang", "enableJobStarving", on=True), "scheduler-starving", "tiers[0].plugins[1].enableJobStarving"),
        (switched("priority", "enableJobStarving"), "scheduler-starving", "tiers"),
        (
            added(0, "tdm", enablePreemptable=False),
            "scheduler-starving",
            "tiers[0].plugins[4].enableJobStarving",
        ),
        (
            argument("predicates", "predicate.CacheEnable", True),
            "scheduler-predicate-cache",
            "tiers[1].plugins[0].arguments[predicate.CacheEnable]",
        ),
        (added(1, "nodegroup", enableHierarchy=False), "scheduler-affinity", "tiers[1].plugins[4].enableHierarchy"),
        (
            added(1, "nodegroup", enableHierarchy=True, arguments={"strict": False}),
            "scheduler-affinity",
            "tiers[1].plugins[4].arguments[strict]",
        ),
        (
            added(1, "nodegroup", enableHierarchy=True, arguments={"strct": False}),
            "scheduler-argument",
            "tiers[1].plugins[4].arguments[strct]",
        ),
        (added(1, "rescheduling"), "scheduler-no-effect", "tiers[1].plugins[4]"),
        (added(1, "usage"), "scheduler-no-effect", "tiers[1].plugins[4]"),
        (lambda body: body.update(metrics={"type": "promethus"}), "scheduler-no-effect", "metrics.type"),
        (lambda body: body.update(metrics={"type": "prometheus", "adress": "x"}), "scheduler-key", "metrics.adress"),
        (lambda body: body.update(metrics=["prometheus"]), "scheduler-structure", "metrics"),
    ],
)
def test_what_a_configuration_gives_up_is_found(change: Callable[[Document], object], rule: str, path: str) -> None:
    assert found(document(change)) == [(rule, path)]


def test_without_priority_no_job_evicts_others_either() -> None:
    assert found(document(removed("priority"))) == [("scheduler-priority", "tiers"), ("scheduler-starving", "tiers")]


@pytest.mark.parametrize(
    "change",
    [
        added(1, "pdb", enablePreemptable=False, enableReclaimable=False),
        added(1, "drf", enablePreemptable=False),
        added(1, "tdm", enablePreemptable=False, arguments={"tdm.revocable-zone.rz1": "20:00-06:00"}),
        added(1, "nodegroup", enableHierarchy=True),
        added(1, "extender", arguments={"extender.urlPrefix": "http://127.0.0.1"}),
        added(1, "extender", arguments={"extender.predicateVerb": "filter", "extender.ignorable": False}),
        added(1, "extender", arguments={"extender.jobReadyVerb": "ready", "extender.ignorable": True}),
        added(1, "extender", arguments={"extender.jobEnqueueableVerb": "enqueue", "extender.ignorable": True}),
        added(1, "extender", arguments={"extender.prioritizeVerb": "score", "extender.ignorable": True}),
        added(1, "extender", arguments={"extender.prioritizeVerb": "score", "extender.onSessionOpenVerb": "open"}),
        argument("predicates", "predicate.DynamicResourceAllocationEnable", False),
        switched("gang", "enableJobOrder"),
        lambda body: (
            body.update(metrics={"type": "prometheus", "address": "http://prometheus:9090", "interval": "30s"}),
            added(1, "usage", enablePredicate=False, arguments={"thresholds": {"cpu": 80, "mem": 70}})(body),
        ),
    ],
)
def test_what_keeps_every_promise_is_accepted(change: Callable[[Document], object]) -> None:
    assert found(document(change)) == []


@pytest.mark.parametrize(
    ("name", "arguments", "rule", "message"),
    [
        ("tdm", {"tdm.evict.period": 60}, "scheduler-argument-fatal", "tdm.evict.period is 60"),
        ("tdm", {"tdm.evict.period": "1 min"}, "scheduler-argument-type", "not a duration"),
        ("tdm", {"tdm.revocable-zone.rz1": 1000}, "scheduler-argument-fatal", "tdm.revocable-zone.rz1 is 1000"),
        ("tdm", {"tdm.revocable-zone.rz1": "10-21"}, "scheduler-argument-type", "never be available"),
        ("tdm", {"revocable-zone.rz1": "10:00-21:00"}, "scheduler-argument", "has no argument"),
        ("usage", {"thresholds": {"memory": 80}}, "scheduler-argument", "threshold 'memory'"),
        ("usage", {"thresholds": {"cpu": "80"}}, "scheduler-argument-type", "no pod would be placed"),
        ("usage", {"thresholds": 80}, "scheduler-argument-type", "not a mapping"),
        ("usage", {"usage.weigth": 5}, "scheduler-argument", "usage.weigth"),
        ("rescheduling", {"interval": 5}, "scheduler-argument-fatal", "interval is 5"),
        ("rescheduling", {"interval": "five minutes"}, "scheduler-argument-type", "the default, 5m, is used"),
        ("rescheduling", {"strategies": [{"name": "lowUtilization"}]}, "scheduler-argument", "lowUtilization"),
        (
            "rescheduling",
            {"strategies": [{"name": "lowNodeUtilization", "params": {"thresholds": {"cpu": 20.5}}}]},
            "scheduler-argument-fatal",
            "the scheduler would exit",
        ),
        (
            "rescheduling",
            {"strategies": [{"name": "lowNodeUtilization", "params": {"targetThresholds": {"pods": 20}}}]},
            "scheduler-argument",
            "threshold 'pods'",
        ),
        ("sla", {"sla-waiting-time": "1d"}, "scheduler-argument-type", "not a duration"),
    ],
)
def test_an_argument_with_an_unexpected_effect_is_found(
    name: str, arguments: dict[str, Any], rule: str, message: str
) -> None:
    text = document(added(1, name, arguments=arguments))
    assert any(finding.rule == rule and message in finding.message for finding in lint(text)), lint(text)


def test_conformance_in_another_tier_protects_nothing() -> None:
    (finding,) = [each for each in lint(document(moved("conformance"), SchedulerPreset.TRAINING)) if each.rule]
    assert (finding.rule, finding.fix) == ("scheduler-reclaim", "move it to the tier of capacity")


def test_the_preset_of_volcano_itself_gives_up_shares() -> None:
    text = """
actions: "enqueue, allocate, backfill, reclaim, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
    rules = {finding.rule for finding in lint(text)}
    assert rules == {"scheduler-reclaim", "scheduler-preempt", "scheduler-starving"}


def test_switches_of_an_action_that_is_off_do_not_matter() -> None:
    change = switched("conformance", "enablePreemptable")
    assert found(document(change, SchedulerPreset.TRAINING)) == []
    assert found(document(change, SchedulerPreset.PREEMPTION)) != []


def victims(body: Document, action: str, votes: dict[str, set[int]]) -> set[int]:
    """Return the victims as Volcano 1.14.1 chooses them, see ``Reclaimable`` in ``session_plugins.go``."""
    switch = {"reclaim": "enableReclaimable", "preempt": "enablePreemptable"}[action]
    known = {"reclaim": RECLAIM_VOTERS - {"drf", "extender"}, "preempt": PREEMPT_VOTERS - {"extender"}}[action]
    for tier in body["tiers"]:
        chosen: set[int] | None = None
        for each in tier["plugins"]:
            if each["name"] not in known or each.get(switch) is False:
                continue
            candidates = votes[each["name"]]
            if not candidates:
                chosen = None
                break
            chosen = candidates if chosen is None else (chosen & candidates or None)
        if chosen is not None:
            return chosen
    return set()


NAMES = sorted((RECLAIM_VOTERS | PREEMPT_VOTERS) - {"proportion", "extender"})
VOTES = st.fixed_dictionaries({name: st.frozensets(st.integers(0, 3)).map(set) for name in NAMES})
TIERS = st.permutations([name for name in NAMES if name != "tdm"]).flatmap(
    lambda names: st.tuples(st.just(names), st.integers(0, 8), st.lists(st.booleans(), min_size=16, max_size=16))
)


@pytest.mark.slow
@settings(deadline=None, max_examples=400)
@given(TIERS, VOTES, st.sampled_from(["reclaim", "preempt"]))
def test_without_a_finding_no_one_else_chooses_victims(
    chosen: tuple[list[str], int, list[bool]], votes: dict[str, set[int]], action: str
) -> None:
    names, split, switches = chosen
    switch = {"reclaim": "enableReclaimable", "preempt": "enablePreemptable"}[action]
    entries = [{"name": name, switch: on} for name, on in zip(names, switches, strict=False)]
    body: Document = {
        "actions": f"allocate, {action}",
        "tiers": [{"plugins": entries[:split]}, {"plugins": [*entries[split:], {"name": "predicates"}]}],
    }
    relevant = {"scheduler-reclaim", "scheduler-preempt", "scheduler-switch-off"}
    if relevant & {finding.rule for finding in lint(yaml.safe_dump(body))}:
        return
    owner = {"reclaim": "capacity", "preempt": "priority"}[action]
    assert victims(body, action, votes) <= votes[owner] & votes["conformance"]


def stack(**scheduler: Any) -> StackSettings:
    return parse_stack({"cluster": {"provider": "embedded"}, "scheduler": scheduler}, source="test")


def test_a_warning_does_not_reject_a_stack() -> None:
    assert configuration(stack(actions=["allocate", "backfill"]))
    (finding,) = lint(configuration(stack(actions=["allocate", "backfill"])))
    assert isinstance(finding, Finding)
    assert (finding.rule, finding.severity) == ("scheduler-reclaim-off", Severity.WARNING)


@pytest.mark.parametrize(
    ("scheduler", "lost"),
    [
        ({"plugins": {"capacity": {"switches": {"enabledAllocatable": False}}}}, {"capacity"}),
        ({"plugins": {"predicates": {"switches": {"enablePredicate": False}}}}, {"predicates"}),
        ({"plugins": {"conformance": {"switches": {"enableReclaimable": False}}}}, {"conformance"}),
        ({"plugins": {"conformance": {"switches": {"enablePreemptable": False}}}}, set()),
        (
            {"preset": "preemption", "plugins": {"conformance": {"switches": {"enablePreemptable": False}}}},
            {"conformance"},
        ),
        ({"plugins": {"binpack": {"switches": {"enableNodeOrder": False}}}}, set()),
    ],
)
def test_a_plug_in_whose_main_switch_is_off_is_no_feature(scheduler: dict[str, Any], lost: set[str]) -> None:
    chosen = effective_configuration(stack(**scheduler))
    on = {each.name for tier in chosen.tiers for each in tier} | {action.name for action in chosen.actions}
    assert set(chosen.features) == on - lost
