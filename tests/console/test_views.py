"""View models: lent shares, places in queues, reasons, the bounded drawing, history and reports."""

from __future__ import annotations

import datetime
import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.console.recorded_platform import platform
from tests.explain.recorded_clusters import GPU, NOW, Cluster, body
from trainyard.cluster_state.observed import Kind
from trainyard.errors import TrainyardError
from trainyard.insight.console.state_history import StateHistory
from trainyard.insight.console.views.fabric_drawing import MAX_ELEMENTS
from trainyard.insight.console.views.fabric_map import COLORINGS, FabricQuery, fabric_map
from trainyard.insight.console.views.job_list import JobQuery, job_list
from trainyard.insight.console.views.job_page import job_page
from trainyard.insight.console.views.platform_health import health
from trainyard.insight.console.views.platform_view import PlatformView, age_text
from trainyard.insight.console.views.queue_bars import WIDTH, borrowed, lent_amounts, queue_bars
from trainyard.insight.console.views.scenario_reports import scenario_report
from trainyard.insight.explain.job_state import ExplainedState
from trainyard.scheduling.queues.amounts import text, units
from trainyard.scheduling.queues.usage import QueueUsage

FIELDS = ("name", "queue", "pods", "arrived", "started", "waited", "restarts", "state", "job", "began", "ended", "jobs")


def usage(queue: str, deserved: int, used: int, parent: str = "root", depth: int = 1) -> QueueUsage:
    return QueueUsage(
        queue, parent, depth, "Open", {}, units({GPU: str(deserved)}), {}, units({GPU: str(used)}), 0, 0, {}
    )


def lent(found: list[QueueUsage]) -> dict[str, str]:
    return {name: text(GPU, amount) for name, amount in lent_amounts(found, GPU).items()}


def test_what_siblings_borrow_is_lent_in_proportion_to_free_shares() -> None:
    found = [usage("a", 10, 40), usage("b", 20, 10), usage("c", 30, 10)]
    assert lent(found) == {"a": "0", "b": "10", "c": "20"}
    assert lent([usage("a", 10, 13), *found[1:]]) == {"a": "0", "b": "1", "c": "2"}


def test_other_parents_do_not_lend() -> None:
    found = [usage("a", 10, 40), usage("below", 20, 0, "a", 2), usage("b", 5, 0)]
    assert lent(found) == {"a": "0", "below": "0", "b": "5"}


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=8))
def test_lent_amounts_are_what_is_borrowed_and_free(pairs: list[tuple[int, int]]) -> None:
    found = [usage(f"q{number}", *pair) for number, pair in enumerate(pairs)]
    amounts = {name: int(amount) for name, amount in lent(found).items()}
    borrowed = sum(max(0, used - deserved) for deserved, used in pairs)
    free = [max(0, deserved - used) for deserved, used in pairs]
    assert sum(amounts.values()) == min(borrowed, sum(free))
    assert all(0 <= amounts[f"q{number}"] <= most for number, most in enumerate(free))


def test_bars_are_inside_their_width_and_have_no_gap() -> None:
    for bar in queue_bars(PlatformView(platform().observed), GPU):
        edges = [(each.left, each.left + each.width) for each in bar.segments]
        assert [left for left, _ in edges[1:]] == [right for _, right in edges[:-1]]
        assert not edges or (edges[0][0] == 0 and edges[-1][1] <= WIDTH)


def test_places_follow_the_order_of_the_scheduler() -> None:
    cluster = Cluster()
    cluster.job("late", minutes=5)
    cluster.job("early", minutes=50)
    cluster.job("urgent", priority_class="training-urgent", minutes=1)
    cluster.fill("vision", cluster.names[:1])
    rows = {row.name: row for row in PlatformView(cluster.observed).jobs}
    places = {name: (row.place, row.ahead) for name, row in rows.items()}
    assert places == {"urgent": (1, 3), "early": (2, 3), "late": (3, 3), "busy-vision": (0, 0)}
    assert rows["busy-vision"].state is ExplainedState.RUNNING
    assert rows["urgent"].devices == "16 nvidia.com/gpu"


def test_objects_below_a_job_are_no_jobs() -> None:
    cluster = Cluster()
    cluster.job("one")
    assert [row.key for row in PlatformView(cluster.observed).jobs] == ["trainjob/vision/one"]


def test_reasons_are_those_of_explain() -> None:
    view = PlatformView(platform().observed)
    (row,) = [row for row in view.jobs if row.needs_reason]
    assert view.reason(row) is None
    assert (health(view).explained, health(view).unexplained) == (0, 1)
    explanation = view.explain(row.key)
    assert explanation is not None
    reason = view.reason(row)
    assert reason is not None
    assert (reason.cause, reason.message) == (explanation.cause, explanation.message)
    (waiting,) = health(view).waiting
    assert (waiting.cause, waiting.count, waiting.jobs) == (explanation.cause, 1, (row,))


def test_the_jobs_of_a_reason_are_those_that_are_counted() -> None:
    cluster = platform()
    for number in range(3):
        cluster.job(f"more-{number}", "language", pods=4)
    cluster.find("TrainJob", "more-0")["spec"]["suspend"] = True
    cluster.job("gang-is-full", "vision", pods=99)
    view = PlatformView(cluster.observed)
    for row in view.jobs:
        view.explain(row.key)
    found = health(view)
    assert dict(found.states) == {"Waiting": 4, "Suspended": 1, "Running": 1}
    assert (found.explained, found.unexplained) == (4, 0)
    assert len(found.waiting) > 1
    assert sum(each.count for each in found.waiting) == 4
    for each in found.waiting:
        listed = job_list(view, JobQuery.of({"state": "Waiting", "cause": each.cause}))
        assert listed.found == each.count
        assert job_list(view, JobQuery.of({"cause": each.cause[:-1]})).found == 0
        assert (each.cause, each.title) in listed.causes


def test_devices_of_nodes_that_take_no_pods_are_lost() -> None:
    cluster = Cluster()
    cluster.fill("vision", cluster.names[:2], gpus=4)
    cluster.find("Node", cluster.names[0])["spec"] = {"unschedulable": True}
    cluster.find("Node", cluster.names[3])["status"]["conditions"][0]["status"] = "Unknown"
    cluster.find("Node", cluster.names[4])["status"]["capacity"] = {GPU: "8"}
    cluster.find("Node", cluster.names[4])["status"]["allocatable"][GPU] = "7"
    (found,) = PlatformView(cluster.observed).devices
    assert [found.shown(each) for each in (found.used, found.free, found.lost)] == ["8", "43", "13"]
    assert found.shown(found.whole) == "64"


def test_unread_kinds_are_named_and_nothing_is_invented() -> None:
    observed = replace(platform().observed, unread=frozenset({Kind.NODE, Kind.DEPLOYMENT}), objects=())
    found = health(PlatformView(observed))
    assert found.unread == ("Deployment", "Node")
    assert found.issues == ()
    assert found.authorities is None


@pytest.mark.parametrize("bundle", ["", "!!", "aGVsbG8=", "A" * 2_000_000])
def test_an_invalid_ca_bundle_is_left_out(bundle: str) -> None:
    cluster = platform()
    cluster.find("ValidatingWebhookConfiguration", "trainyard")["webhooks"][0]["clientConfig"]["caBundle"] = bundle
    authorities = health(PlatformView(cluster.observed)).authorities
    assert authorities is not None
    assert [each.days for each in authorities] == [300]


@pytest.fixture(scope="module")
def large() -> PlatformView:
    """A cluster of 10,000 nodes with 240 gangs across racks."""
    cluster = Cluster(racks=1250, nodes_per_rack=8)
    names = cluster.names
    for number in range(240):
        cluster.job(f"job-{number}", f"tenant-{number % 30}", pods=10, nodes=names[number * 40 : number * 40 + 10])
    return PlatformView(cluster.observed)


@pytest.mark.slow
@pytest.mark.parametrize("color", COLORINGS)
def test_ten_thousand_nodes_have_a_bounded_drawing(large: PlatformView, color: str) -> None:
    found = fabric_map(large, FabricQuery(color=color))
    svg = str(found.svg)
    assert len(re.findall(r"<[a-z]", svg)) == found.elements <= MAX_ELEMENTS
    squares = [path for kind, path in re.findall(r'<path class="(\w+)[^"]*" d="([^"]+)"', svg) if kind != "gang"]
    assert sum(path.count("M") for path in squares) == 10_000
    assert sum(count for _, _, count in found.legend) == 10_000
    assert (found.nodes, found.outlined) == (10_000, 200)


@pytest.mark.slow
def test_a_rack_of_a_large_fabric_shows_each_node(large: PlatformView) -> None:
    found = fabric_map(large, FabricQuery(domain="rack-7"))
    assert found.detail == "a node"
    assert all(f"rack-7-node-{number}: " in found.svg for number in range(8))
    assert found.above == ("spine-0",)


@pytest.fixture(scope="module")
def three_tiers() -> PlatformView:
    """10,000 nodes in 1,250 racks, 40 spines and one core."""
    cluster = Cluster(racks=1250, nodes_per_rack=8)
    cluster.bodies.remove(cluster.find("HyperNode", "spine-0"))
    spines = [[f"rack-{rack}" for rack in range(start, min(start + 32, 1250))] for start in range(0, 1250, 32)]
    members = {f"spine-{number}": (2, "spine", racks) for number, racks in enumerate(spines)}
    members["core"] = (3, "core", list(members))
    for name, (tier, tier_name, below) in members.items():
        listed = [{"type": "HyperNode", "selector": {"exactMatch": {"name": each}}} for each in below]
        spec = {"tier": tier, "tierName": tier_name, "members": listed}
        cluster.bodies.append(body("topology.volcano.sh/v1alpha1", "HyperNode", name, spec=spec))
    cluster.fill("vision", [f"rack-{rack}-node-0" for rack in range(64, 70)])
    return PlatformView(cluster.observed)


@pytest.mark.slow
def test_a_spine_of_a_large_fabric_shows_its_racks_and_nodes(three_tiers: PlatformView) -> None:
    found = fabric_map(three_tiers, FabricQuery(domain="spine-2", color="job"))
    svg = str(found.svg)
    assert found.nodes == 256
    assert found.detail == "a node"
    assert found.elements == len(re.findall(r"<[a-z]", svg)) <= MAX_ELEMENTS
    assert [row.name for row in found.rows] == [f"rack-{rack}" for rack in range(64, 96)]
    assert all(f'<a href="/fabric?color=job&amp;domain=rack-{rack}"><text' in svg for rack in range(64, 96))
    assert 'domain=spine-2"' not in svg, "no link to the page itself"
    assert found.above == ("core",)
    assert (found.before, found.after) == ("spine-1", "spine-3")
    assert "vision/busy-vision: 6 nodes in several racks" in svg


@pytest.mark.slow
def test_the_whole_of_a_large_fabric_leads_to_each_spine(three_tiers: PlatformView) -> None:
    for domain in ("", "core"):
        found = fabric_map(three_tiers, FabricQuery(domain=domain))
        svg = str(found.svg)
        assert found.elements == len(re.findall(r"<[a-z]", svg)) <= MAX_ELEMENTS
        assert all(f'domain=spine-{spine}"><text' in svg for spine in range(40)), found.detail
        squares = [path for kind, path in re.findall(r'<path class="(\w+)[^"]*" d="([^"]+)"', svg) if kind != "gang"]
        assert sum(path.count("M") for path in squares) == 10_000
    assert [row.name for row in found.rows] == [f"spine-{spine}" for spine in range(40)]
    ends = [fabric_map(three_tiers, FabricQuery(domain=name)) for name in ("spine-0", "spine-39", "core")]
    assert [(each.before, each.after) for each in ends] == [("", "spine-1"), ("spine-38", ""), ("", "")]


def test_the_largest_gang_of_each_tier() -> None:
    cluster = Cluster(racks=3)
    cluster.fill("vision", cluster.names[:3])
    cluster.fill("language", [cluster.names[4]], gpus=1)
    fits = fabric_map(PlatformView(cluster.observed), FabricQuery()).fits
    found = [(each.tier, each.pods, each.domain, each.together) for each in fits]
    assert found == [("rack", 4, "rack-2", 8), ("spine", 8, "spine-0", 8)]


def test_nodes_outside_of_all_domains_are_drawn() -> None:
    cluster = Cluster()
    cluster.bodies = [each for each in cluster.bodies if each["kind"] != "HyperNode"]
    found = fabric_map(PlatformView(cluster.observed), FabricQuery())
    assert all(f"{name}: free" in found.svg for name in cluster.names)
    assert found.fits == ()


def test_domains_that_contain_each_other_do_not_hang() -> None:
    cluster = Cluster()
    cluster.find("HyperNode", "rack-0")["spec"]["members"].append(
        {"type": "HyperNode", "selector": {"exactMatch": {"name": "spine-0"}}}
    )
    assert fabric_map(PlatformView(cluster.observed), FabricQuery()).nodes == 8


def test_history_records_changes_and_is_bounded() -> None:
    history = StateHistory(changes=4, samples=3)
    cluster = Cluster()
    job = cluster.job("one")
    history.observe(PlatformView(cluster.observed))
    assert history.steps("trainjob/vision/one") == ()
    for running in (True, False, True, False, True):
        for pod, node in zip(job.pods, cluster.names, strict=False):
            pod["spec"] = {**pod["spec"], "nodeName": node if running else None}
            pod["status"] = {"phase": "Running" if running else "Pending"}
        history.observe(PlatformView(cluster.observed))
    texts = [step.text for step in history.steps("trainjob/vision/one")]
    lost = "taken back or restarted: waits again"
    assert texts == [lost, "Waiting → Running", lost, "Waiting → Running"]
    assert [sample.waiting for sample in history.samples] == [0, 1, 0]
    page = job_page(PlatformView(cluster.observed), "trainjob/vision/one", history.steps("trainjob/vision/one"))
    assert page is not None
    assert page.timeline[0].text == "created"
    assert texts[0] in [step.text for step in page.timeline]
    kinds = [each.kind for each in page.phases.phases]
    assert set(kinds) <= {"waiting", "running"}
    assert history.by_job({"trainjob/vision/one", "none"}) == {
        "trainjob/vision/one": history.steps("trainjob/vision/one"),
        "none": (),
    }


def test_a_pod_that_its_node_rejected_shows_the_reason() -> None:
    cluster = Cluster()
    job = cluster.job("one", nodes=cluster.names[:2])
    job.pods[0]["status"] = {"phase": "Failed", "reason": "UnexpectedAdmissionError"}
    page = job_page(PlatformView(cluster.observed), "trainjob/vision/one", ())
    assert page is not None
    assert [(pod.phase, pod.detail) for pod in page.pods] == [("Failed", "UnexpectedAdmissionError"), ("Running", "")]


def test_another_job_of_the_same_name_has_a_history_of_its_own() -> None:
    history = StateHistory()
    cluster = Cluster()
    job = cluster.job("one")
    for uid, suspend in (("a", False), ("a", True), ("b", False)):
        job.train_job["metadata"]["uid"] = uid
        job.train_job["spec"]["suspend"] = suspend
        history.observe(PlatformView(cluster.observed))
    assert [step.text for step in history.steps("a")] == ["Waiting → Suspended"]
    assert [step.text for step in history.steps("b")] == ["new → Waiting"]


def test_domains_that_do_not_exist_are_drawn_once() -> None:
    view = PlatformView(platform().observed)
    drawn = {str(fabric_map(view, FabricQuery(domain=f"none-{number}")).svg) for number in range(3)}
    assert len(drawn) == 1
    assert len(view._memo) == 1


def test_a_report_is_bounded() -> None:
    jobs = ",".join(f'{{"name": "j{number}", "arrived": 0, "started": null}}' for number in range(600))
    report = scenario_report("x", f'{{"scenario": "s", "seconds": 10, "jobs": [{jobs}]}}')
    assert (len(report.jobs), report.more) == (500, 100)
    for content in ("", "[]", "{}", '{"scenario": 1, "jobs": []}', '{"scenario": "a", "jobs": {}}'):
        with pytest.raises(TrainyardError, match="is no report"):
            scenario_report("x", content)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(max_size=3),
        lambda each: st.lists(each, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), each, max_size=6),
        max_leaves=12,
    )
)
def test_no_report_of_any_shape_is_an_unexpected_error(value: object) -> None:
    for report in (value, {"scenario": "s", "jobs": [value], "runs": [value], "seconds": value}):
        try:
            found = scenario_report("x", json.dumps(report))
        except TrainyardError:
            continue
        assert all(0 <= bar.left <= WIDTH and bar.width <= WIDTH + 2 for _, bars in found.jobs for bar in bars)


def test_a_deep_or_large_report_is_no_report() -> None:
    for content in ("[" * 100_000, '{"scenario": "s", "jobs": [], "seconds": ' + "9" * 5000 + "}"):
        with pytest.raises(TrainyardError, match="is no report"):
            scenario_report("x", content)


def test_a_name_with_a_slash_stops_nothing() -> None:
    cluster = platform()
    cluster.find("TrainJob", "waits")["metadata"]["name"] = "a/b c"
    rows = PlatformView(cluster.observed).jobs
    assert "/jobs/trainjob/language/a%2Fb%20c" in {row.path for row in rows}


def test_borrowed_is_what_the_scheduler_takes_back() -> None:
    other = "example.com/other"
    each = replace(usage("a", 4, 6), used={**units({GPU: "6"}), **units({other: "3"})}, guarantee=units({GPU: "5"}))
    assert {name: text(name, borrowed(each, name)) for name in (GPU, other)} == {GPU: "1", other: "0"}
    assert text(GPU, borrowed(usage("a", 0, 6), GPU)) == "6"  # a queue without a share lends nothing
    assert text(GPU, borrowed(replace(each, depth=0), GPU)) == "0"


@pytest.mark.parametrize(
    ("minutes", "text"), [(0, "0 s"), (1, "1 min"), (61, "1 h 1 min"), (60 * 24, "1 d"), (60 * 25, "1 d 1 h")]
)
def test_ages(minutes: int, text: str) -> None:
    assert age_text(NOW, NOW - datetime.timedelta(minutes=minutes)) == text
