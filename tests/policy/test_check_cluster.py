"""The audit of a cluster: what is read, how it is reviewed, and the PolicyReports that are written."""

from __future__ import annotations

import pytest
from aiohttp import web

from tests.kube.fake_api import FakeApi, error, serving
from tests.policy.decisions import NOW, QUEUE, RULES, Decisions, admission_context
from trainyard.checks.finding import Finding, Severity
from trainyard.checks.report.report import Report
from trainyard.errors import TrainyardError
from trainyard.policy.check.audit import existing
from trainyard.policy.check.checker import Checker
from trainyard.policy.check.policy_reports import policy_reports, write_reports
from trainyard.policy.check.report_kinds import report_definitions
from trainyard.policy.check.world import CheckContext

REPORTS = "/apis/wgpolicyk8s.io/v1alpha2/policyreports"


def cluster() -> FakeApi:
    api = FakeApi()
    for name in ("vision", "other"):
        api.put("/api/v1/namespaces", {"metadata": {"name": name, "labels": {"a": name}}})
    api.put(
        "/apis/trainyard.dev/v1alpha1/tenantpolicies",
        {"metadata": {"name": "tenant", "namespace": "vision"}, "spec": {"queues": ["vision"]}},
    )
    for name, queue in (("good", "vision"), ("bad", "foreign")):
        metadata = {"name": name, "namespace": "vision", "annotations": {QUEUE: queue}}
        api.put("/api/v1/pods", {"metadata": metadata, "spec": {}})
    return api


async def audited(api: FakeApi, decisions: Decisions) -> Report:
    async with serving(api), api.client() as client:
        sources, context = await existing(client, RULES)
        checker = Checker(RULES, CheckContext(None, context.manifests), admission_context(), live=True)
        return await checker.check(sources, decisions)


async def test_objects_are_reviewed_with_the_clusters_own_tenants() -> None:
    decisions = Decisions()
    report = await audited(cluster(), decisions)
    assert [(result.file, result.object) for result in report.findings] == [("cluster", "Pod vision/bad")]
    assert "Pod vision/good" in [name for _, name in report.checked]
    request = next(each for each in decisions.asked if each["request"]["object"]["kind"] == "Pod")
    assert request["params"]["tenantPolicy"] == {"queues": ["vision"]}
    assert request["request"]["namespaceLabels"] == {"a": "vision"}


async def test_audited_rules_show() -> None:
    assert len((await audited(cluster(), Decisions("audit"))).warnings) == 1


async def test_a_kind_that_is_not_installed_is_noted() -> None:
    api = cluster()
    api.unserved.add("jobsets")
    report = await audited(api, Decisions())
    assert [note for note in report.notes if "jobsets" in note]


async def test_a_cluster_that_may_not_be_read_is_an_error() -> None:
    api = cluster()

    def refuse(_: FakeApi, request: web.Request) -> web.StreamResponse | None:
        return error(403, "Forbidden", "no") if request.path.endswith("/pods") else None

    api.fault = refuse
    with pytest.raises(TrainyardError, match="cannot be read"):
        await audited(api, Decisions())


def report(count: int = 1) -> Report:
    results = tuple(
        Finding("spec.queue", "foreign", "fix", "QUE-002", object=f"Pod vision/p{number:04}", file="cluster")
        for number in range(count)
    )
    checked = (*((result.file, result.object) for result in results), ("cluster", "Pod vision/fine"))
    return Report(
        (*results, Finding("", "odd", "", "LBL-002", severity=Severity.WARNING, object="Namespace x", file="cluster")),
        checked,
    )


def test_reports_have_the_fields_of_the_api() -> None:
    clustered, other, vision = policy_reports(report(), RULES, ["vision", "other"], NOW)
    assert (clustered["kind"], "namespace" in clustered["metadata"]) == ("ClusterPolicyReport", False)
    assert clustered["summary"] == {"pass": 0, "fail": 0, "warn": 1, "error": 0, "skip": 0}
    assert (other["metadata"]["namespace"], other["results"]) == ("other", [])
    assert vision["apiVersion"] == "wgpolicyk8s.io/v1alpha2"
    assert vision["summary"] == {"pass": 1, "fail": 1, "warn": 0, "error": 0, "skip": 0}
    assert vision["results"] == [
        {
            "source": "trainyard",
            "policy": "QUE-002",
            "rule": "QUE-002",
            "category": "tenancy",
            "severity": "high",
            "result": "fail",
            "scored": True,
            "timestamp": {"seconds": int(NOW.timestamp()), "nanos": 0},
            "resources": [{"kind": "Pod", "namespace": "vision", "name": "p0000"}],
            "message": "spec.queue: foreign",
            "properties": {"path": "spec.queue", "fix": "fix"},
        }
    ]


def test_many_findings_become_several_reports() -> None:
    bodies = [body for body in policy_reports(report(1200), RULES, [], NOW) if body["kind"] == "PolicyReport"]
    assert [body["metadata"]["name"] for body in bodies] == ["trainyard", "trainyard-2", "trainyard-3"]
    assert [body["summary"]["pass"] for body in bodies] == [1, 0, 0]


async def test_reports_replace_older_ones() -> None:
    api = cluster()

    def discovery(_: FakeApi, request: web.Request) -> web.StreamResponse | None:
        found = request.path == "/apis/wgpolicyk8s.io/v1alpha2"
        return web.json_response({"kind": "APIResourceList"}) if found else None

    api.fault = discovery
    async with serving(api), api.client() as client:
        await write_reports(client, policy_reports(report(600), RULES, ["vision"], NOW))
        assert len(api.of("policyreports")) == 2
        assert await write_reports(client, policy_reports(report(1), RULES, ["vision"], NOW)) == 2
    (left,) = api.of("policyreports")
    assert left["summary"]["fail"] == 1


async def test_a_cluster_without_the_kind_says_how_to_get_it() -> None:
    api = cluster()

    def discovery(_: FakeApi, request: web.Request) -> web.StreamResponse | None:
        return error(404, "NotFound", "no") if request.path.startswith("/apis/wgpolicyk8s.io") else None

    api.fault = discovery
    async with serving(api), api.client() as client:
        with pytest.raises(TrainyardError, match="does not serve wgpolicyk8s") as caught:
            await write_reports(client, [])
    assert "policies.reports" in caught.value.fix


def test_the_kinds_take_the_reports_that_are_written() -> None:
    definitions = {body["spec"]["names"]["kind"]: body for body in report_definitions()}
    for body in policy_reports(report(), RULES, ["vision"], NOW):
        definition = definitions[body["kind"]]
        group, version = body["apiVersion"].split("/")
        (served,) = definition["spec"]["versions"]
        assert (definition["spec"]["group"], served["name"]) == (group, version)
        assert definition["spec"]["scope"] == ("Namespaced" if "namespace" in body["metadata"] else "Cluster")
        schema = served["schema"]["openAPIV3Schema"]["properties"]
        assert set(body) <= set(schema)
        entry = schema["results"]["items"]["properties"]
        for result in body["results"]:
            assert set(result) <= set(entry)
            assert result["severity"] in entry["severity"]["enum"]
            assert result["result"] in entry["result"]["enum"]
