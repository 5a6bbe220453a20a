"""A queue tree is checked with exact numbers, and every finding has queue, resource, numbers and fix."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.golden import assert_golden
from tests.queues.trees import CAPACITY, GPU, gpus, rules, stack, tree
from tests.queues.webhook import refused, refused_by_1_15
from trainyard.checks.finding import Severity
from trainyard.errors import TrainyardError
from trainyard.scheduling.queues.queue import KINDS, Queue
from trainyard.scheduling.queues.queue_bodies import queue_objects
from trainyard.scheduling.queues.rules import RULES
from trainyard.scheduling.queues.scheduling import Scheduling
from trainyard.scheduling.queues.tree_checks import check_queues, check_tree
from trainyard.scheduling.queues.webhook_checks import rejections
from trainyard.settings.stack_loader import load_stack

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["local", "kind", "production"])
def test_the_queues_of_a_shipped_stack(name: str) -> None:
    shipped = load_stack(ROOT / "stacks" / f"Pulumi.{name}.yaml")
    assert check_queues(shipped) == []
    text = yaml.safe_dump_all(queue_objects(shipped), sort_keys=False)
    assert_golden(Path(__file__).parent / "golden" / f"{name}.yaml", text)


def test_parents_come_before_children_and_set_the_fields_that_volcano_defaults() -> None:
    objects = queue_objects(stack({"a": {"parent": "c"}, "b": {}, "c": {"parent": "b"}}))
    assert [body["metadata"]["name"] for body in objects] == ["b", "c", "a"]
    assert objects[2] == {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "a"},
        "spec": {"parent": "c", "weight": 1, "reclaimable": True},
    }


def test_a_guarantee_is_written_under_resource() -> None:
    (body,) = queue_objects(stack({"a": {"guarantee": gpus(8), "deserved": gpus(8), "priority": 3}}))
    assert body["spec"]["guarantee"] == {"resource": {GPU: "8"}}
    assert body["spec"]["priority"] == 3


def test_a_finding_has_queue_resource_numbers_and_fix() -> None:
    (finding,) = check_tree(tree(vision={"deserved": gpus(48), "capability": gpus(32)}))
    assert finding.path == f"trainyard:queues.vision.deserved[{GPU}]"
    assert finding.message == f"queue 'vision': deserved of {GPU} is 48, more than its capability of 32"
    assert finding.fix == "raise the capability of vision to 48 or lower the deserved"
    assert finding.rule == "queue-deserved-capability"


def test_a_sum_shows_its_parts() -> None:
    findings = check_tree(
        tree(
            p={"deserved": {"cpu": "1000.2m"}},
            a={"parent": "p", "deserved": {"cpu": "333.4m"}},
            b={"parent": "p", "deserved": {"cpu": "333.4m"}},
            c={"parent": "p", "deserved": {"cpu": "333.4m"}},
        )
    )
    (finding,) = [each for each in findings if each.severity is Severity.ERROR]
    assert finding.rule == "queue-deserved-sum"
    assert "334m (a) + 334m (b) + 334m (c) = 1002m of cpu" in finding.message
    assert "1001m" in finding.message


@pytest.mark.parametrize(
    ("queues", "rule"),
    [
        (tree(a={"deserved": gpus(8), "capability": {"cpu": "1"}}), "queue-deserved-capability"),
        (tree(a={"deserved": gpus(0), "capability": {"cpu": "1"}}), "queue-deserved-capability"),
        (tree(a={"guarantee": gpus(8)}), "queue-guarantee-deserved"),
        (
            tree(a={"guarantee": gpus(8), "deserved": gpus(8), "capability": gpus(4)}),
            "queue-guarantee-capability",
        ),
        (tree(a={}, b={"parent": "a", "capability": gpus(8)}), "queue-capability-parent"),
        (
            tree(a={"capability": gpus(8)}, b={"parent": "a", "deserved": gpus(9)}),
            "queue-deserved-sum",
        ),
        (
            tree(
                a={"deserved": gpus(8), "guarantee": gpus(8)},
                b={"parent": "a", "deserved": gpus(8), "guarantee": gpus(4)},
                c={"parent": "a", "guarantee": gpus(5), "deserved": gpus(0)},
            ),
            "queue-guarantee-sum",
        ),
        (tree(a={"deserved": {GPU: "500m"}}), "queue-resource-fraction"),
        (tree(a={"deserved": {"gpu": "8"}}), "queue-resource-name"),
        (tree(a={"deserved": {"requests.nvidia.com/gpu": "8"}}), "queue-resource-name"),
        (tree(a={"parent": "b"}), "queue-parent-unknown"),
        (tree(a={"parent": "default"}), "queue-parent-default"),
        (tree(a={"parent": "a"}), "queue-parent-self"),
        (tree(a={"parent": "c"}, b={"parent": "a"}, c={"parent": "b"}), "queue-cycle"),
        (
            tree(
                a={"capability": gpus(8)},
                b={"parent": "a"},
                c={"parent": "b", "deserved": gpus(16), "guarantee": gpus(16)},
            ),
            "queue-guarantee-ancestor",
        ),
        (
            tree(a={"deserved": gpus(40), "guarantee": gpus(40)}, b={"deserved": gpus(40), "guarantee": gpus(40)}),
            "queue-guarantee-fabric",
        ),
    ],
)
def test_an_error_is_found(queues: dict[str, Queue], rule: str) -> None:
    findings = check_tree(queues, capacity=CAPACITY)
    assert rule in rules(findings)
    assert RULES[rule].severity is Severity.ERROR
    assert all(finding.fix and finding.path.startswith("trainyard:queues") for finding in findings)


@pytest.mark.parametrize(
    ("queues", "rule"),
    [
        (tree(a={"deserved": gpus(40)}, b={"deserved": gpus(40)}), "queue-deserved-fabric"),
        (tree(a={}), "queue-deserved-absent"),
        (tree(a={"deserved": gpus(8), "capability": {"cpu": "0", GPU: "8"}}), "queue-capability-zero"),
        (tree(a={"deserved": {"nvidia.com/gpus": "8"}}), "queue-resource-offered"),
        (tree(a={"deserved": gpus(64), "guarantee": gpus(64)}), "queue-starved"),
    ],
)
def test_a_warning_is_found(queues: dict[str, Queue], rule: str) -> None:
    findings = check_tree(queues, capacity=CAPACITY)
    assert rule in rules(findings)
    assert {finding.severity for finding in findings} == {Severity.WARNING}


def test_starvation_is_reported_wherever_the_guarantees_are() -> None:
    queues = tree(
        p={"deserved": gpus(32), "capability": gpus(32)},
        taker={"parent": "p", "deserved": gpus(32), "guarantee": gpus(32)},
        starved={"parent": "p", "deserved": gpus(0)},
    )
    starved = [each for each in check_tree(queues, capacity=CAPACITY) if each.rule == "queue-starved"]
    assert [finding.path for finding in starved] == ["trainyard:queues.starved"]
    assert "taker (32)" in starved[0].message


def test_a_cycle_is_reported_once_and_hides_no_other_finding() -> None:
    queues = tree(a={"parent": "b"}, b={"parent": "a"}, tail={"parent": "a"}, bad={"deserved": {"gpu": "1"}})
    findings = check_tree(queues, capacity=CAPACITY)
    cycles = [finding for finding in findings if finding.rule == "queue-cycle"]
    assert [finding.message for finding in cycles] == ["queues form a cycle: a → b → a; the scheduler would crash"]
    assert "queue-resource-name" in rules(findings)


def test_a_tenant_may_not_use_an_inner_queue() -> None:
    settings_ = stack({"p": {}, "c": {"parent": "p"}}, {"t": {"queues": ["p"]}})
    (finding,) = [each for each in check_queues(settings_) if each.rule == "queue-not-leaf"]
    assert finding.path == "trainyard:tenants.t.queues"
    assert finding.fix == "use one of c"


def test_errors_prevent_objects_and_warnings_do_not() -> None:
    assert rules(check_queues(stack({"a": {}}))) == {"queue-deserved-absent"}
    assert len(queue_objects(stack({"a": {}}))) == 1
    with pytest.raises(TrainyardError, match="queue tree is invalid"):
        queue_objects(stack({"a": {"parent": "a"}}))


def test_without_a_fabric_nothing_is_compared_with_it() -> None:
    assert check_tree(tree(a={"deserved": gpus(1000), "guarantee": gpus(1000)})) == []


def test_one_byte_too_many_is_seen_beyond_floating_point() -> None:
    queues = tree(a={"capability": {"memory": "9007199254740992"}, "deserved": {"memory": "9007199254740993"}})
    assert rules(check_tree(queues)) == {"queue-deserved-capability"}


AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "pods", GPU, "ephemeral-storage", "gpu"]),
    st.sampled_from(["0", "1", "2", "3", "1.5", "333.4m", "500m", "2.0001", "1Ki", "1025"]),
    max_size=3,
)


@st.composite
def forests(draw_: st.DrawFn) -> dict[str, Queue]:
    names = ["a", "b", "c", "d"][: draw_(st.integers(1, 4))]
    queues = {}
    for position, name in enumerate(names):
        parent = draw_(st.sampled_from(["root", *names[:position]]))
        queues[name] = Queue(parent, draw_(AMOUNTS), draw_(AMOUNTS), draw_(AMOUNTS))
    return queues


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(forests())
def test_the_checks_agree_with_the_webhook(queues: dict[str, Queue]) -> None:
    findings = check_tree(queues)
    predicted = {finding.rule for finding in findings if finding.rule and RULES[finding.rule].rejected_by}
    assert bool(predicted) is refused(queues), predicted


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(forests())
def test_the_checks_agree_with_the_newer_webhook(queues: dict[str, Queue]) -> None:
    version = "1.15.1"
    findings = check_tree(queues, scheduling=Scheduling(version))
    predicted = {finding.rule for finding in findings if version in RULES[finding.rule or ""].rejected_by}
    assert bool(predicted) is refused_by_1_15(queues), predicted


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(forests(), forests())
def test_a_change_is_rejected_like_the_resulting_tree(live: dict[str, Queue], wanted: dict[str, Queue]) -> None:
    """A queue that is created or changed in all its amounts is validated with all related queues."""
    name = "a"
    if refused(live):
        return
    changed = {**live, name: replace(wanted["a"], parent="root")}
    step = rejections(live, name, changed[name])
    if step:
        assert refused(changed)
    elif live.get(name) and any(live[name].quantities(kind) != changed[name].quantities(kind) for kind in KINDS):
        assert not refused(changed)


@pytest.mark.slow
@settings(deadline=None)
@given(forests())
def test_a_valid_tree_yields_every_queue_once_after_its_parent(queues: dict[str, Queue]) -> None:
    dumped = {
        name: {
            "parent": queue.parent,
            "deserved": queue.deserved,
            "guarantee": queue.guarantee,
            "capability": queue.capability,
        }
        for name, queue in queues.items()
    }
    try:
        objects = queue_objects(stack(dumped, nodes=1000))
    except TrainyardError:
        return
    seen = {"root"}
    for body in objects:
        assert body["spec"]["parent"] in seen
        seen.add(body["metadata"]["name"])
    assert seen == {"root", *queues}
