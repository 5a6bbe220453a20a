"""Shares in units of settings become exact plain amounts, rounded down to whole devices."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.queues.trees import GPU, NODE, rules, stack
from trainyard import quantity
from trainyard.errors import TrainyardError
from trainyard.scheduling.queues.capacity import Capacity
from trainyard.scheduling.queues.queue_bodies import queue_objects
from trainyard.scheduling.queues.tree_checks import check_queues
from trainyard.scheduling.queues.units import Compiled, compile_queues, queue_tree
from trainyard.settings.tenancy import QueueSettings

TOTAL = {"cpu": "768", "memory": "8Ti", GPU: "64", "pods": "880"}
CAPACITY = Capacity(total=TOTAL, node=NODE, devices=(GPU,))


def compiled(capacity: Capacity = CAPACITY, /, **queues: dict[str, Any]) -> Compiled:
    return compile_queues({name: QueueSettings.model_validate(each) for name, each in queues.items()}, capacity)


def test_nodes_are_converted_to_their_allocatable_resources() -> None:
    (queue,) = compiled(a={"deserved": {"nodes": 4}}).queues.values()
    assert queue.deserved == {"cpu": "384", "memory": "4Ti", GPU: "32"}


def test_a_named_resource_takes_precedence_over_nodes_and_over_all() -> None:
    queues = compiled(
        a={"deserved": {"nodes": 2, "cpu": 10, "pods": 50}}, b={"deserved": {"all": "25%", "gpu": "3"}}
    ).queues
    assert queues["a"].deserved == {"cpu": "10", "memory": "2Ti", GPU: "16", "pods": "50"}
    assert queues["b"].deserved == {"cpu": "192", "memory": "2Ti", GPU: "3"}


def test_nodes_of_several_shapes_are_added() -> None:
    shapes = {"h100": {"cpu": "96", "example.com/h100": "8"}, "a100": {"cpu": "64", "example.com/a100": "4"}}
    (queue,) = compiled(Capacity(shapes=shapes), a={"deserved": {"nodes/h100": 2, "nodes/a100": 1}}).queues.values()
    assert queue.deserved == {"cpu": "256", "example.com/h100": "16", "example.com/a100": "4"}


def test_shapes_come_from_the_fabric_of_a_stack() -> None:
    shapes = {"h100": {"capacity": {"cpu": "96", "example.com/h100": "8"}}}
    domains = [{"name": "r", "nodes": 2}, {"name": "s", "nodes": 1, "shape": "h100"}]
    fabric = {"tierNames": ["rack"], "nodeShape": {"capacity": NODE}, "shapes": shapes, "domains": domains}
    settings = stack({"a": {"deserved": {"nodes/h100": 1}}, "b": {"deserved": {"gpu": "50%"}}}, fabric=fabric)
    queues = queue_tree(settings).queues
    assert queues["a"].deserved == {"cpu": "96", "example.com/h100": "8"}
    assert queues["b"].deserved == {GPU: "8"}


@pytest.mark.parametrize("name", ["gpu", "gpus", GPU])
def test_devices_have_a_short_name(name: str) -> None:
    assert compiled(a={"deserved": {name: 8}}).queues["a"].deserved == {GPU: "8"}


def test_percentages_are_of_the_parent_whatever_the_order_of_the_entries() -> None:
    queues = compiled(
        leaf={"parent": "team", "deserved": "50%", "capability": {"gpu": "100%"}},
        team={"deserved": "50%", "capability": {"gpu": 48}},
    ).queues
    assert queues["team"].deserved == {"cpu": "384", "memory": "4Ti", GPU: "32"}
    assert queues["leaf"].deserved == {"cpu": "192", "memory": "2Ti", GPU: "16"}
    assert queues["leaf"].capability == {GPU: "48"}


def test_plain_quantities_are_unchanged() -> None:
    amounts = {"cpu": "1500m", "memory": "1024Mi", GPU: "8", "gpu.example.com/x": "08"}
    assert compiled(a={"deserved": amounts}).queues["a"].deserved == amounts


def test_remainders_are_recorded_and_reported_from_one_device() -> None:
    result = compiled(
        p={"deserved": {"gpu": 7, "cpu": 1}},
        a={"parent": "p", "deserved": "50%"},
        b={"parent": "p", "deserved": "50%"},
    )
    assert result.queues["a"].deserved == {GPU: "3", "cpu": "500m"}
    (remainder, _) = result.remainders
    assert (remainder.queue, remainder.resource) == ("a", GPU)
    assert remainder.exact - remainder.given == Fraction(1, 2)
    (finding,) = result.findings
    assert finding.rule == "queue-share-rounded"
    assert "a 3.5 → 3, b 3.5 → 3" in finding.message
    assert "1 nvidia.com/gpu remain" in finding.fix


def test_a_remainder_of_less_than_one_device_is_not_reported() -> None:
    thirds = {name: {"deserved": {"gpu": "33.3%"}} for name in "abc"}
    result = compiled(**thirds)
    assert len(result.remainders) == 3
    assert result.findings == ()


def test_a_share_of_less_than_one_device_is_reported() -> None:
    (finding,) = compiled(a={"deserved": {"gpu": "1%"}}).findings
    assert finding.rule == "queue-share-rounded"
    assert "a 0.64 → 0" in finding.message


@pytest.mark.parametrize(
    ("queues", "capacity", "rule", "message"),
    [
        ({"a": {"deserved": "50%"}}, Capacity(node=NODE), "queue-percent-base", "the fabric has no nodes"),
        ({"a": {"deserved": {"x.com/y": "50%"}}}, CAPACITY, "queue-percent-base", "the fabric has none"),
        (
            {"p": {}, "a": {"parent": "p", "deserved": "50%"}},
            CAPACITY,
            "queue-percent-base",
            "deserved of its parent 'p' is unset",
        ),
        (
            {"p": {"deserved": {"cpu": 1}}, "a": {"parent": "p", "deserved": {"gpu": "50%"}}},
            CAPACITY,
            "queue-percent-base",
            "does not set it",
        ),
        ({"a": {"deserved": {"nodes": "50%"}}}, CAPACITY, "queue-nodes-shape", "a percentage"),
        (
            {"a": {"deserved": {"nodes": 2}}},
            Capacity(TOTAL, devices=(GPU,)),
            "queue-nodes-shape",
            "have different shapes",
        ),
        ({"a": {"deserved": {"nodes/x": 2}}}, CAPACITY, "queue-nodes-shape", "has no shape 'x'"),
        (
            {"a": {"deserved": {"gpu": 2}}},
            Capacity(devices=(GPU, "amd.com/gpu")),
            "queue-resource-ambiguous",
            "nvidia.com/gpu or amd.com/gpu",
        ),
        ({"a": {"deserved": {"gpu": 2, GPU: 3}}}, CAPACITY, "queue-resource-ambiguous", "set twice"),
    ],
)
def test_amounts_that_cannot_be_computed_are_findings(
    queues: dict[str, Any], capacity: Capacity, rule: str, message: str
) -> None:
    (finding,) = compiled(capacity, **queues).findings
    assert finding.rule == rule
    assert message in finding.message
    assert finding.object == "a"
    assert finding.path.startswith("trainyard:queues.a.deserved")
    assert finding.fix


def test_unknown_short_names_are_findings_of_the_check() -> None:
    assert "queue-resource-name" in rules(check_queues(stack({"a": {"deserved": {"tpus": 8}}})))


def test_invalid_edges_do_not_stop_the_arithmetic() -> None:
    queues = compiled(
        a={"parent": "b", "deserved": "50%"}, b={"parent": "a", "deserved": {"gpu": 2}}, c={"parent": "nobody"}
    ).queues
    assert queues["b"].deserved == {GPU: "2"}


def test_objects_contain_the_checked_amounts() -> None:
    settings = stack(
        {
            "team": {"deserved": {"nodes": 8}},
            "a": {
                "parent": "team",
                "deserved": "75%",
                "weight": 3,
                "type": "training",
                "affinity": {"nodeGroupAffinity": {"required": ["h100"]}},
            },
        }
    )
    parent, child = queue_objects(settings)
    assert parent["spec"]["deserved"] == {"cpu": "768", "memory": "8Ti", GPU: "64"}
    assert child["spec"] == {
        "parent": "team",
        "weight": 3,
        "reclaimable": True,
        "deserved": {"cpu": "576", "memory": "6Ti", GPU: "48"},
        "type": "training",
        "affinity": {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["h100"]}},
    }
    assert queue_tree(settings).queues["a"].deserved == child["spec"]["deserved"]
    with pytest.raises(TrainyardError, match="nodes is 50%"):
        queue_objects(stack({"a": {"deserved": {"nodes": "50%"}}}))


PERCENTS = st.lists(st.decimals(0, 100, places=3, allow_nan=False), min_size=1, max_size=6)


@settings(deadline=None)
@given(st.integers(0, 10**6), PERCENTS.filter(lambda each: sum(each) <= 100))
def test_parts_never_exceed_the_whole_and_lose_less_than_a_device_each(whole: int, percents: list[Any]) -> None:
    parts = {f"q{i}": {"parent": "p", "deserved": {"gpu": f"{percent}%"}} for i, percent in enumerate(percents)}
    result = compiled(p={"deserved": {"gpu": whole}}, **parts)
    given_ = [quantity.parse(result.queues[name].deserved[GPU]) for name in parts]
    exact = [Fraction(whole) * Fraction(str(percent)) / 100 for percent in percents]
    assert all(0 <= e - g < 1 and g.denominator == 1 for e, g in zip(exact, given_, strict=True))
    assert sum(given_) <= whole
    assert sum((each.exact - each.given for each in result.remainders), Fraction(0)) == sum(exact) - sum(given_)


@settings(deadline=None)
@given(st.integers(1, 400).map(lambda tenths: f"{tenths / 10:g}"))
def test_nodes_are_the_node_shape_times_their_number(nodes: str) -> None:
    (queue,) = compiled(a={"deserved": {"nodes": nodes}}).queues.values()
    assert quantity.parse(queue.deserved[GPU]) == Fraction(nodes) * 8 // 1
    assert quantity.parse(queue.deserved["cpu"]) == Fraction(nodes) * 96
