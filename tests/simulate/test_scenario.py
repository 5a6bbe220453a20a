"""A scenario is read with every mistake named by its path; the shipped ones are sound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.simulate.fake_world import SMALL, scenario
from trainyard.errors import TrainyardError
from trainyard.local.simulate.clock import parse, shown
from trainyard.local.simulate.scenario import load_scenario

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = sorted((ROOT / "tests" / "cluster" / "scenarios").glob("*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_scenario_can_be_read(path: Path) -> None:
    loaded = load_scenario(path)
    assert loaded.file.title
    assert loaded.file.expect


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("2h30m", 9000), ("1d12h", 129600), (45, 45), ("0", 0), ("10m", 600)]
)
def test_a_duration_is_written_as_people_do(text: Any, seconds: int) -> None:
    assert parse(text) == seconds
    assert parse(shown(seconds)) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-5", -5, 1.5, True, None, "5x", "m5"])
def test_what_is_no_duration_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match="such as 90s, 10m or 2h30m"):
        parse(text)


def test_a_domain_may_choose_its_nodes_by_label(tmp_path: Path) -> None:
    racks = [{"name": f"rack-{pod}", "nodes": {"matchLabels": {"pod": pod}, "count": 2}} for pod in "ab"]
    loaded = scenario(
        tmp_path,
        fabric={"domains": [{"name": "spine", "domains": racks}]},
        jobs={"one": {"pods": 2, "for": "1h", "topology": {"mode": "hard", "tier": "rack"}}},
        events=[{"at": "1m", "fail": "rack-b"}],
    )
    assert loaded.nodes(("rack-b",)) == ["rack-b-node-0", "rack-b-node-1"]


def test_a_job_may_have_a_class_of_kubernetes_itself(tmp_path: Path) -> None:
    jobs = {"critical": {"priorityClass": "system-cluster-critical"}}
    assert scenario(tmp_path, jobs=jobs).jobs["critical"].priority_class == "system-cluster-critical"


@pytest.mark.parametrize(
    ("sections", "path", "message"),
    [
        ({"jobs": {}}, "jobs", "at least 1"),
        ({"jobs": {"a": {"pods": 0}}}, "jobs.a.pods", "greater than or equal to 1"),
        ({"jobs": {"a": {"pod": 1}}}, "jobs.a.pod", "unknown setting"),
        ({"jobs": {"a": {"at": "noon"}}}, "jobs.a.at", "such as 90s"),
        ({"jobs": {"a": {"pods": 2, "minMember": 3}}}, "jobs.a.minMember", "exceeds the 2 pods"),
        ({"jobs": {"a": {"kind": "job", "pods": 3, "minMember": 2}}}, "jobs.a.minMember", "of a Job is 1, but is 2"),
        ({"jobs": {"a": {"kind": "vcjob", "topology": {"tier": "rack"}}}}, "jobs.a.topology", "for kind vcjob"),
        ({"jobs": {"a": {"kind": "job", "groups": {"size": 1, "tier": "rack"}}}}, "jobs.a.groups", "for kind job"),
        ({"jobs": {"a": {"queue": "none"}}}, "jobs.a.queue", "not a leaf queue"),
        ({"jobs": {"a": {"tenant": "none"}}}, "jobs.a.tenant", "tenant 'none' does not exist"),
        ({"jobs": {"a": {"priorityClass": "none"}}}, "jobs.a.priorityClass", "PriorityClass 'none' does not exist"),
        ({"jobs": {"a": {"topology": {"tier": "row"}}}}, "jobs.a.topology.tier", "tier 'row' does not exist"),
        ({"jobs": {"a": {"topology": {"mode": "hard"}}}}, "jobs.a.topology.tier", "without a tier"),
        ({"events": [{"at": 0}]}, "events[0]", "exactly one of"),
        ({"events": [{"at": 0, "fail": "rack-z"}]}, "events[0].fail", "unknown node or domain 'rack-z'"),
        ({"events": [{"at": 0, "delete": "two"}]}, "events[0].delete", "unknown job 'two'"),
        ({"events": [{"at": 0, "queue": "q", "change": {"priority": 1}}]}, "events[0].queue", "unknown queue 'q'"),
        (
            {"queues": {"q": {}}, "events": [{"at": 0, "queue": "q", "change": {"priorty": 1}}]},
            "events[0].change.priorty",
            "unknown setting",
        ),
        ({"expect": [{"at": 0}]}, "expect[0]", "expects nothing"),
        ({"expect": [{"job": "one", "uses": {"cpu": "1"}}]}, "expect[0]", "job requires an expectation"),
        ({"expect": [{"job": "one", "count": 1, "pods": 1}]}, "expect[0]", "count requires state"),
        ({"expect": [{"job": "tow", "pods": 1}]}, "expect[0].job", "unknown job 'tow'"),
        ({"expect": [{"job": "one", "within": "row"}]}, "expect[0].within", "unknown tier 'row'"),
        ({"expect": [{"queue": "q", "uses": {"cpu": "1"}}]}, "expect[0].queue", "unknown queue 'q'"),
        ({"fabric": {}}, "fabric", "no nodes"),
        ({"fabric": {"domains": [{"name": "x"}], "tierName": []}}, "fabric.tierName", "unknown setting"),
        ({"scheduler": {"preset": "best"}}, "scheduler.preset", "must be"),
        ({"title": ""}, "title", "at least 1"),
        ({"titel": "x"}, "titel", "unknown setting"),
        ({"stack": 5}, "stack", "must be a path"),
        ({"events": [{"at": 0, "kill": "schedular"}]}, "events[0].kill", "unknown program 'schedular'"),
        (
            {
                "queues": {"root": {"capability": "50%"}},
                "events": [{"at": 0, "queue": "root", "change": {"weight": 2}}],
            },
            "events[0].queue",
            "unknown queue 'root'",
        ),
    ],
)
def test_a_mistake_is_named_by_its_path(tmp_path: Path, sections: dict[str, Any], path: str, message: str) -> None:
    with pytest.raises(TrainyardError) as raised:
        scenario(tmp_path, **sections)
    found = {finding.path: finding for finding in raised.value.findings}
    assert path in found, raised.value
    assert message in found[path].message
    assert found[path].fix


@pytest.mark.parametrize("text", ["", "[]", "title: [", "a: 1\na: 2"])
def test_what_is_no_scenario_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(text)
    with pytest.raises(TrainyardError):
        load_scenario(path)
    with pytest.raises(TrainyardError, match="cannot be read"):
        load_scenario(tmp_path / "missing.yaml")


def test_a_platform_is_replayed_as_its_stack_says(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    stack = ROOT / "stacks" / "Pulumi.local.yaml"
    jobs = {"job": {"tenant": "vision", "pods": 2, "for": "1h", "topology": {"tier": "rack"}}}
    path.write_text(yaml.safe_dump({"title": "Ours", "stack": str(stack), "jobs": jobs}))
    loaded = load_scenario(path)
    assert len(loaded.fabric.nodes) == 8
    job = loaded.jobs["job"]
    assert (job.namespace, job.queue, job.tier, job.per_pod) == ("vision", "vision", 1, {"nvidia.com/gpu": "8"})


def test_a_section_of_the_scenario_wins_over_the_stack(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    stack = ROOT / "stacks" / "Pulumi.local.yaml"
    document = {"title": "Ours", "stack": str(stack), "fabric": {**SMALL, "tierNames": ["rack", "spine"]}}
    path.write_text(yaml.safe_dump({**document, "jobs": {"job": {"tenant": "vision"}}}))
    assert load_scenario(path).fabric.nodes[0].name == "rack-a-node-0"
