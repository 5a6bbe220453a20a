"""Trees that the webhook accepts and the scheduler mishandles, by scheduler and version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.queues.trees import CAPACITY, GPU, gpus, rules, stack, tree
from tools.reference.queue_rules import rule_table
from trainyard.checks.finding import Finding, Severity
from trainyard.scheduling.queues.queue import Queue
from trainyard.scheduling.queues.rules import RULES
from trainyard.scheduling.queues.scheduling import VOLCANO_VERSIONS, Scheduling, SharePlugin
from trainyard.scheduling.queues.tree_checks import check_queues, check_tree

TREE = Scheduling()
FLAT = Scheduling(plugins=frozenset({SharePlugin.CAPACITY}))
PROPORTION = Scheduling(plugins=frozenset({SharePlugin.PROPORTION}))
BOTH = Scheduling(plugins=frozenset({SharePlugin.TREE, SharePlugin.PROPORTION}))
NEWER = Scheduling(version="1.15.1")


def found(queues: dict[str, Queue], scheduling: Scheduling = TREE, **more: Any) -> list[Finding]:
    return check_tree(queues, **{"capacity": CAPACITY, **more}, scheduling=scheduling)


def of(rule: str, findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.rule == rule]


SHARED = tree(a={"deserved": gpus(32)}, b={"deserved": gpus(32)})


def chain(depth: int) -> dict[str, Queue]:
    return tree(**{f"q{i}": {"parent": f"q{i - 1}" if i else "root", "deserved": gpus(1)} for i in range(depth)})


@pytest.mark.parametrize(
    ("rule", "queues", "more", "message"),
    [
        (
            "queue-deserved-overcommit",
            tree(a={"capability": gpus(8)}, m={"parent": "a"}, b={"parent": "m", "deserved": gpus(9)}),
            {},
            "have deserved 9 of nvidia.com/gpu, but the limit of m is 8",
        ),
        (
            "queue-guarantee-silent",
            tree(a={"deserved": gpus(8)}, b={"parent": "a", "deserved": gpus(8), "guarantee": gpus(4)}),
            {},
            "4 of nvidia.com/gpu are guaranteed below it, to b (4), but its own guarantee is unset",
        ),
        (
            "queue-reclaim-unreachable",
            tree(
                a={"deserved": gpus(32)},
                b={"deserved": gpus(8), "reclaimable": False},
                c={"deserved": gpus(24)},
            ),
            {},
            "but b may borrow until only 0 remain, and is not reclaimable",
        ),
        (
            "queue-deserved-device",
            tree(a={"deserved": gpus(32)}, b={"deserved": {"cpu": 96}}),
            {},
            "'b' has no share of nvidia.com/gpu, but other queues have one",
        ),
        ("queue-reclaim-enqueue", SHARED, {"scheduling": Scheduling(enqueue=True)}, "prevents a, b from reclaiming"),
        ("queue-reclaim-off", SHARED, {"scheduling": Scheduling(reclaim=False)}, "action reclaim is off"),
        ("queue-deserved-ignored", SHARED, {"scheduling": PROPORTION}, "which plug-in proportion ignores"),
        (
            "queue-weight-ignored",
            tree(a={"deserved": gpus(8), "weight": 4}),
            {},
            "a set weight, which plug-in capacity ignores",
        ),
        (
            "queue-plugins-both",
            tree(a={"deserved": gpus(48)}, b={"deserved": gpus(16)}),
            {"scheduling": BOTH},
            "'a' has deserved 48 of nvidia.com/gpu; if all queues have demand, its weight of 1 of 2 gives it 32",
        ),
        (
            "queue-tree-ignored",
            tree(a={"capability": gpus(8)}, b={"parent": "a", "deserved": gpus(8)}),
            {"scheduling": FLAT},
            "a limit their child queues, but the scheduler ignores the tree",
        ),
        (
            "queue-affinity-ignored",
            tree(a={"deserved": gpus(8), "affinity": {"nodeGroupAffinity": {"required": ["x"]}}}),
            {},
            "plug-in nodegroup is off",
        ),
        (
            "queue-affinity-groups",
            tree(a={"deserved": gpus(8), "affinity": {"nodeGroupAffinity": {"required": ["x"]}}}),
            {"node_groups": ["h100"]},
            "runs in node group x, which no node has",
        ),
        (
            "queue-affinity-nowhere",
            tree(a={"deserved": gpus(8), "affinity": {"nodeGroupAntiAffinity": {"required": ["x"]}}}),
            {},
            "excludes every node group",
        ),
        ("queue-state-parent", tree(a={"state": "closed"}, b={"parent": "a"}), {}, "its parent 'a' is closed"),
        (
            "queue-closed-guarantee",
            tree(a={"state": "retired", "deserved": gpus(8), "guarantee": gpus(8)}),
            {},
            "is retired but has a guarantee of 8 nvidia.com/gpu",
        ),
        ("queue-root-amounts", SHARED, {"root": Queue(deserved=gpus(32))}, "root has deserved, which the scheduler"),
        ("queue-depth", chain(6), {"scheduling": NEWER}, "'q5' is on level 6 below root, the maximum is 5"),
    ],
)
def test_a_failure_mode_is_reported_with_its_numbers(
    rule: str, queues: dict[str, Queue], more: dict[str, Any], message: str
) -> None:
    finding, *others = of(rule, check_tree(queues, **{"capacity": CAPACITY, **more}))
    assert len(others) <= 1
    assert message in finding.message
    assert finding.fix
    assert finding.severity is RULES[rule].severity


@pytest.mark.parametrize(
    ("rule", "queues", "scheduling"),
    [
        ("queue-parent-default", tree(a={"parent": "default", "deserved": gpus(8)}), FLAT),
        ("queue-deserved-absent", tree(a={}), PROPORTION),
        ("queue-deserved-fabric", tree(a={"deserved": gpus(65)}), PROPORTION),
        ("queue-weight-ignored", tree(a={"weight": 2}), PROPORTION),
        ("queue-depth", chain(6), TREE),
        ("queue-deserved-ignored", SHARED, TREE),
        ("queue-tree-ignored", tree(a={"capability": gpus(8)}, b={"parent": "a"}), TREE),
        ("queue-reclaim-enqueue", SHARED, Scheduling(plugins=FLAT.plugins, enqueue=True)),
        (
            "queue-reclaim-unreachable",
            tree(a={"deserved": gpus(32)}, b={"deserved": gpus(32), "capability": gpus(32), "reclaimable": False}),
            TREE,
        ),
        (
            "queue-affinity-nowhere",
            tree(
                a={"affinity": {"nodeGroupAffinity": {"required": ["x"]}, "nodeGroupAntiAffinity": {"required": ["y"]}}}
            ),
            TREE,
        ),
        (
            "queue-deserved-device",
            tree(a={"deserved": gpus(32)}, b={"deserved": {"cpu": 96}, "capability": {"cpu": 96, GPU: 0}}),
            TREE,
        ),
    ],
)
def test_a_rule_is_silent_where_it_does_not_apply(rule: str, queues: dict[str, Queue], scheduling: Scheduling) -> None:
    assert rule not in rules(found(queues, scheduling))


@pytest.mark.parametrize(
    ("queues", "older", "newer"),
    [
        (tree(a={"deserved": gpus(8), "capability": {"cpu": 1}}), "queue-deserved-capability", None),
        (
            tree(a={"deserved": gpus(8), "capability": gpus(4)}),
            "queue-deserved-capability",
            "queue-deserved-capability",
        ),
        (tree(a={}, b={"parent": "a", "capability": gpus(8)}), "queue-capability-parent", None),
        (
            tree(a={"capability": gpus(8)}, m={"parent": "a"}, b={"parent": "m", "capability": gpus(9)}),
            "queue-capability-parent",
            "queue-capability-parent",
        ),
        (tree(a={}, b={"parent": "a", "deserved": gpus(8)}), None, "queue-deserved-sum"),
        (tree(a={"capability": gpus(8)}, b={"parent": "a", "deserved": gpus(8)}), None, "queue-deserved-sum"),
        (
            tree(
                p={"deserved": {"cpu": "1000.2m"}},
                a={"parent": "p", "deserved": {"cpu": "500.1m"}},
                b={"parent": "p", "deserved": {"cpu": "500.1m"}},
            ),
            "queue-deserved-sum",
            "queue-deserved-sum",
        ),
        (tree(a={"deserved": {"cpu": "1.0001"}, "capability": {"cpu": "1.0002"}}), None, None),
        (tree(a={"guarantee": {"cpu": "1.0002"}, "deserved": {"cpu": "1.0001"}}), None, "queue-guarantee-deserved"),
        (tree(a={"guarantee": {"gpu": 1}}), None, "queue-guarantee-deserved"),
    ],
)
def test_versions_reject_different_trees(queues: dict[str, Queue], older: str | None, newer: str | None) -> None:
    for version, expected in zip(VOLCANO_VERSIONS, (older, newer), strict=True):
        findings = check_tree(queues, scheduling=Scheduling(version=version))
        refused = {each.rule for each in findings if version in RULES[each.rule or ""].rejected_by}
        assert refused == ({expected} if expected else set()), version


def test_without_the_tree_guarantees_of_inner_queues_count_too() -> None:
    queues = tree(
        a={"deserved": gpus(40), "guarantee": gpus(40)},
        b={"parent": "a", "deserved": gpus(40), "guarantee": gpus(40)},
    )
    assert "queue-guarantee-fabric" not in rules(found(queues))
    (finding,) = of("queue-guarantee-fabric", found(queues, FLAT))
    assert "80 of nvidia.com/gpu are guaranteed to queues, but the fabric has 64" in finding.message


def test_default_is_reported_when_nothing_remains_for_it() -> None:
    queues = tree(a={"deserved": gpus(64), "guarantee": gpus(64)})
    (finding,) = of("queue-starved", found(queues))
    assert finding.object == "default"
    queues["default"] = tree(default={"deserved": gpus(8), "guarantee": gpus(8)})["default"]
    assert of("queue-starved", found(queues)) == []
    assert of("queue-guarantee-fabric", found(queues))


def test_a_queue_with_a_guarantee_of_its_own_is_not_starved_by_others() -> None:
    queues = tree(
        p={"deserved": gpus(32), "capability": gpus(32)},
        a={"parent": "p", "deserved": gpus(24), "guarantee": gpus(24)},
        b={"parent": "p", "deserved": gpus(8), "guarantee": gpus(8)},
    )
    assert of("queue-starved", found(queues)) == []


def test_gangs_that_fit_in_no_queue_of_a_tenant_are_reported() -> None:
    queues = {"small": {"deserved": gpus(8), "capability": gpus(8)}, "large": {"deserved": gpus(32)}}
    gangs = {"llm": {GPU: "16", "pods": "4000"}, "toy": {GPU: "1"}}
    both = stack(queues, {"t": {"queues": ["small", "large"]}})
    assert of("queue-capability-gang", check_queues(both, gangs=gangs)) == []
    one = stack(queues, {"t": {"queues": ["small"], "runtimes": ["llm", "toy"]}})
    (finding,) = of("queue-capability-gang", check_queues(one, gangs=gangs))
    assert finding.path == f"trainyard:queues.small.capability[{GPU}]"
    assert "is 8 of nvidia.com/gpu, but a gang of llm" in finding.message
    other = stack(queues, {"t": {"queues": ["small"], "runtimes": ["toy"]}})
    assert of("queue-capability-gang", check_queues(other, gangs=gangs)) == []


def test_the_fabric_limits_gangs_too() -> None:
    settings = stack({"a": {"deserved": gpus(8)}}, {"t": {"queues": ["a"]}}, nodes=1)
    (finding,) = of("queue-capability-gang", check_queues(settings, gangs={"llm": {GPU: "16"}}))
    assert "is 8 of" in finding.message


TOPOLOGY = Scheduling(topology=True)
PATIENT = {"priorityClasses": {"patient": {"value": 1, "preempts": False}, "urgent": {"value": 2}}}
OWNERS = {"a": {"deserved": gpus(8)}, "b": {"deserved": gpus(8)}}


def test_a_tenant_whose_gangs_cannot_wait_for_a_whole_domain_is_reported() -> None:
    tenants = {"t": {"queues": ["a"]}, "u": {"queues": ["b"], "priorityClasses": ["patient"]}}
    settings = stack(OWNERS, tenants, **PATIENT)
    (finding,) = of("queue-reclaim-topology", check_queues(settings, scheduling=TOPOLOGY, strict={"gang"}))
    assert finding.path == "trainyard:tenants.t.priorityClasses"
    assert "a gang of gang of tenant 't' must stay in one domain" in finding.message


@pytest.mark.parametrize(
    ("queues", "tenant", "scheduling", "strict"),
    [
        (OWNERS, {}, TREE, {"gang"}),
        (OWNERS, {}, Scheduling(topology=True, reclaim=False), {"gang"}),
        (OWNERS, {}, TOPOLOGY, set()),
        (OWNERS, {"runtimes": ["other"]}, TOPOLOGY, {"gang"}),
        (OWNERS, {"priorityClasses": ["urgent", "patient"]}, TOPOLOGY, {"gang"}),
        ({"a": {}, "b": {"deserved": gpus(8)}}, {}, TOPOLOGY, {"gang"}),
        ({"a": {"deserved": gpus(8)}, "b": {"deserved": gpus(8), "reclaimable": False}}, {}, TOPOLOGY, {"gang"}),
    ],
)
def test_without_reclaim_across_domains_there_is_no_finding(
    queues: dict[str, Any], tenant: dict[str, Any], scheduling: Scheduling, strict: set[str]
) -> None:
    settings = stack(queues, {"t": {"queues": ["a"], **tenant}}, **PATIENT)
    found = check_queues(settings, scheduling=scheduling, strict=strict)
    assert of("queue-reclaim-topology", found) == []


def test_states_are_reported_for_the_tenants_that_use_them() -> None:
    queues = {
        "open": {"deserved": gpus(8)},
        "closed": {"deserved": gpus(8), "state": "closed"},
        "retired": {"state": "retired"},
    }
    tenants = {"a": {"queues": ["closed", "open"]}, "b": {"queues": ["open", "closed"]}, "c": {"queues": ["retired"]}}
    found = {(each.rule, each.path) for each in check_queues(stack(queues, tenants))}
    assert found == {
        ("queue-closed-used", "trainyard:tenants.a.defaultQueue"),
        ("queue-retired-used", "trainyard:tenants.c.queues"),
    }


def test_a_tenant_in_an_inner_queue_is_harmless_without_the_tree() -> None:
    settings = stack({"p": {}, "c": {"parent": "p"}}, {"t": {"queues": ["p"]}})
    assert "queue-not-leaf" in rules(check_queues(settings))
    assert "queue-not-leaf" not in rules(check_queues(settings, scheduling=FLAT))
    assert "queue-not-leaf" not in rules(check_queues(settings, scheduling=PROPORTION))


def test_every_rule_is_complete() -> None:
    for rule in RULES.values():
        assert set(rule.rejected_by) <= set(rule.versions) <= set(VOLCANO_VERSIONS)
        assert rule.severity is Severity.ERROR or not rule.rejected_by


@pytest.mark.parametrize(
    ("actions", "plugins", "expected"),
    [
        (["allocate", "reclaim"], [("capacity", {"enableHierarchy": True})], TREE),
        (["enqueue", "allocate"], [("capacity", {})], Scheduling(plugins=FLAT.plugins, enqueue=True, reclaim=False)),
        (
            ["reclaim"],
            [("capacity", {"enableHierarchy": True}), ("capacity", {}), ("proportion", {}), ("nodegroup", {})],
            Scheduling(plugins=BOTH.plugins, node_groups=True),
        ),
    ],
)
def test_the_scheduler_is_read_from_its_configuration(
    actions: list[str], plugins: list[tuple[str, dict[str, Any]]], expected: Scheduling
) -> None:
    assert Scheduling.of(actions, plugins) == expected


def test_the_documentation_has_the_current_rules() -> None:
    documentation = (Path(__file__).resolve().parents[2] / "docs" / "queues.md").read_text()
    assert rule_table() in documentation
