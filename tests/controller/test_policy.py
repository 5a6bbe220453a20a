"""Policy decisions in webhooks and reconciler: precise messages, before any write, never assumed."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.controller.harness import (
    CLUSTER_RUNTIMES,
    JOB_SETS,
    POLICIES,
    TRAIN_JOBS,
    change,
    conditions,
    controller,
    job_set,
    runtime,
    settled,
    submit,
    train_job,
)
from tests.controller.test_webhooks import VALIDATE, serving
from tests.kube.fake_api import FakeApi, eventually
from tests.support import own_records
from trainyard.controller.configuration import Configuration, PolicyServer
from trainyard.controller.policy_review import policy_client
from trainyard.controller.webhooks import MUTATE_TRAIN_JOB, VALIDATE_PREFIX
from trainyard.errors import TrainyardError
from trainyard.policy.engines.opa.bundle import bundle_files
from trainyard.policy.gate import PolicyGate
from trainyard.policy.review import DecisionUnavailableError
from trainyard.settings.platform import PolicySettings

Body = dict[str, Any]
NAMESPACES = "/api/v1/namespaces"
PLATFORMS = "/apis/trainyard.dev/v1alpha1/platforms"


def finding(rule: str = "QUE-002", state: str = "deny", path: str = "spec.queue") -> Body:
    return {"rule": rule, "severity": "error", "state": state, "path": path, "message": "not yours", "fix": "use yours"}


class Decisions:
    """Answers by the kind of the object, and remembers what it was asked."""

    def __init__(self, **findings: list[Body]) -> None:
        self.findings = findings
        self.away = False
        self.refusals = 0
        self.asked: list[Body] = []

    async def decide_all(self, documents: Body) -> list[Body]:
        if self.away:
            self.refusals += 1
            raise DecisionUnavailableError("the policy server timed out")
        self.asked += [{**each, "params": documents["params"][each["params"]]} for each in documents["requests"]]
        return [self._answer(request["request"]) for request in documents["requests"]]

    def _answer(self, request: Body) -> Body:
        found = self.findings.get(request["object"]["kind"], [])
        of = {state: [each for each in found if each["state"] == state] for state in ("deny", "warn", "audit")}
        return {
            "allowed": not of["deny"],
            "violations": of["deny"],
            "warnings": of["warn"],
            "audits": of["audit"],
            "undecided": [],
            "exempted": [],
        }

    def of(self, kind: str) -> list[Body]:
        return [each for each in self.asked if each["request"]["object"]["kind"] == kind]


def gate(decisions: Decisions, *reported: str) -> PolicyGate:
    return PolicyGate(decisions, PolicySettings(), ("kubeflow-system",), namespace="kubeflow-system", reported=reported)


def messages(api: FakeApi) -> list[tuple[str, str]]:
    return [(event["reason"], event["message"]) for event in api.of("events")]


async def test_a_violation_of_the_job_itself_is_rejected_with_rule_path_and_fix(api: FakeApi) -> None:
    api.put(CLUSTER_RUNTIMES, runtime())
    async with serving(api, gate(Decisions(TrainJob=[finding()]))) as server:
        answer = await server.review(VALIDATE, train_job())
    assert not answer["allowed"]
    assert answer["status"]["code"] == 403
    assert answer["status"]["message"] == "TrainJob job is rejected: QUE-002 spec.queue: not yours (use yours)"


async def test_a_violation_that_only_rendering_shows_is_rejected_and_names_the_object(api: FakeApi) -> None:
    api.put(CLUSTER_RUNTIMES, runtime())
    decisions = Decisions(JobSet=[finding("POD-001", path="spec.replicatedJobs[0]")])
    async with serving(api, gate(decisions)) as server:
        answer = await server.review(VALIDATE, train_job())
    assert "POD-001 JobSet job spec.replicatedJobs[0]: not yours" in answer["status"]["message"]
    [rendered] = decisions.of("JobSet")
    assert rendered["request"]["operation"] == "CREATE"
    assert rendered["request"]["namespace"] == "team"
    assert "system:serviceaccounts:kubeflow-system" in rendered["request"]["user"]["groups"]
    assert decisions.of("PodGroup")


async def test_what_the_job_breaks_is_not_said_again_of_what_is_made_of_it(api: FakeApi) -> None:
    api.put(CLUSTER_RUNTIMES, runtime())
    decisions = Decisions(TrainJob=[finding()], JobSet=[finding(), finding("POD-001")], PodGroup=[finding()])
    async with serving(api, gate(decisions)) as server:
        message = (await server.review(VALIDATE, train_job()))["status"]["message"]
    assert message.count("QUE-002") == 1
    assert message.count("POD-001") == 1


async def test_rules_get_the_platform_the_tenant_the_namespace_the_runtime_and_the_user(api: FakeApi) -> None:
    api.put(CLUSTER_RUNTIMES, runtime())
    decisions = Decisions()
    async with serving(api, gate(decisions)) as server:
        api.freeze_watches()
        api.put(PLATFORMS, {"kind": "Platform", "metadata": {"name": "platform"}, "spec": {"leafQueues": ["a"]}})
        policy = {
            "kind": "TenantPolicy",
            "metadata": {"name": "tenant", "namespace": "team"},
            "spec": {"queues": ["a"]},
        }
        api.put(POLICIES, policy)
        labels = {"trainyard.dev/tenant": "team"}
        api.put(NAMESPACES, {"kind": "Namespace", "metadata": {"name": "team", "labels": labels}})
        assert (await server.review(VALIDATE, train_job(), user={"username": "ann", "groups": ["g"]}))["allowed"]
    [asked] = decisions.of("TrainJob")
    assert asked["params"] == {"platform": {"leafQueues": ["a"]}, "tenantPolicy": {"queues": ["a"]}}
    assert asked["request"]["namespaceLabels"] == labels
    assert asked["request"]["runtime"]["metadata"]["name"] == "torch"
    assert asked["request"]["user"] == {"name": "ann", "groups": ["g"], "administrator": False}


async def test_warnings_are_reported_once_and_short_and_audits_are_annotated(api: FakeApi) -> None:
    api.put(CLUSTER_RUNTIMES, runtime())
    long = {**finding("IMG-001", "warn"), "message": "x" * 400}
    decisions = Decisions(
        TrainJob=[finding("QUE-002", "warn"), long, finding("AUD-001", "audit")], JobSet=[finding("SHM-001", "warn")]
    )
    async with serving(api, gate(decisions, "QUE-002")) as server:
        answer = await server.review(VALIDATE, train_job())
    assert answer["allowed"]
    assert [text[:7] for text in answer["warnings"]] == ["IMG-001", "SHM-001"]
    assert all(len(text) <= 256 for text in answer["warnings"])
    assert answer["auditAnnotations"] == {"violations": "AUD-001 spec.queue: not yours (use yours)"}


@pytest.mark.parametrize("kind", ["trainjob", "clustertrainingruntime"])
async def test_without_a_decision_the_request_is_rejected(api: FakeApi, kind: str) -> None:
    api.put(CLUSTER_RUNTIMES, runtime())
    decisions = Decisions()
    decisions.away = True
    async with serving(api, gate(decisions)) as server:
        answer = await server.review(f"{VALIDATE_PREFIX}{kind}", train_job() if kind == "trainjob" else runtime("new"))
    assert not answer["allowed"]
    assert answer["status"]["code"] == 503
    assert "POL-000 No policy decision: the policy server timed out" in answer["status"]["message"]


async def test_what_frees_an_object_needs_no_decision(api: FakeApi) -> None:
    api.put(CLUSTER_RUNTIMES, runtime())
    decisions = Decisions()
    decisions.away = True
    old = train_job()
    unowned = {**old, "metadata": {**old["metadata"], "finalizers": []}}
    deleted = {**old, "metadata": {**old["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    async with serving(api, gate(decisions)) as server:
        for body in (unowned, deleted):
            assert (await server.review(VALIDATE, body, old))["allowed"]


async def test_a_job_is_stopped_whatever_is_away_or_invalid(api: FakeApi) -> None:
    """The runtime and the TrainJob were stored under bounds that no longer hold, and the policy server is away."""
    unrendered = runtime()
    unrendered["spec"]["mlPolicy"]["numNodes"] = 0
    api.put(CLUSTER_RUNTIMES, unrendered)
    decisions = Decisions()
    decisions.away = True
    trainers: list[dict[str, Any]] = [{}, {"numNodes": 0}, {"numNodes": 2, "command": ["a"] * 200}]
    async with serving(api, gate(decisions)) as server:
        for trainer in trainers:
            for unset in (True, False):
                old = train_job(trainer=trainer, suspend=False)
                if unset:
                    del old["spec"]["suspend"]
                new = {**old, "spec": {**old["spec"], "suspend": True}}
                if unset:  # as `kubectl apply` does
                    applied = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
                    new["metadata"] = {**old["metadata"], "annotations": applied}
                mutated = await server.review(MUTATE_TRAIN_JOB, new, old)
                assert (mutated["allowed"], mutated.get("patch")) == (True, None)
                assert (await server.review(VALIDATE, new, old))["allowed"]
    assert decisions.asked == []


@pytest.mark.parametrize(
    "changed",
    [
        {"spec": {"trainer": {"numNodes": 3}}},
        {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "other"}}},
        {"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": "other"}}},
        {"metadata": {"ownerReferences": [{"kind": "TrainJob", "controller": True}]}},
        {"spec": {"suspend": False}},
    ],
    ids=["spec", "label", "annotation", "owner", "resume"],
)
async def test_nothing_else_passes_with_a_stop(changed: dict[str, Any], api: FakeApi) -> None:
    api.put(CLUSTER_RUNTIMES, runtime())
    decisions = Decisions()
    decisions.away = True
    old = train_job(suspend=changed.get("spec", {}).get("suspend") is False)
    new = {**old, "spec": {**old["spec"], "suspend": True, **changed.get("spec", {})}}
    new["metadata"] = {**old["metadata"], **changed.get("metadata", {})}
    async with serving(api, gate(decisions)) as server:
        answer = await server.review(VALIDATE, new, old)
    assert not answer["allowed"]


async def test_a_change_of_annotations_is_reviewed_but_nothing_is_rendered_for_it(api: FakeApi) -> None:
    api.put(CLUSTER_RUNTIMES, runtime())
    decisions = Decisions()
    old = train_job()
    new = {**old, "metadata": {**old["metadata"], "annotations": {"scheduling.volcano.sh/queue-name": "other"}}}
    async with serving(api, gate(decisions)) as server:
        await server.review(VALIDATE, new, old)
    assert [each["request"]["operation"] for each in decisions.asked] == ["UPDATE"]


async def test_a_job_can_be_suspended_without_being_rendered(api: FakeApi) -> None:
    api.put(CLUSTER_RUNTIMES, runtime())
    decisions = Decisions(JobSet=[finding()])
    async with serving(api, gate(decisions)) as server:
        assert (await server.review(VALIDATE, train_job(suspend=True), train_job(suspend=False)))["allowed"]
        assert not (await server.review(VALIDATE, train_job(suspend=False), train_job(suspend=True)))["allowed"]


async def test_the_loop_makes_nothing_that_is_denied_and_all_of_it_once_the_tenant_policy_allows(api: FakeApi) -> None:
    api.put(CLUSTER_RUNTIMES, runtime())
    policy = {"kind": "TenantPolicy", "metadata": {"name": "tenant", "namespace": "team"}, "spec": {"queues": ["a"]}}
    api.put(POLICIES, {"apiVersion": "trainyard.dev/v1alpha1", **policy})
    api.put(TRAIN_JOBS, train_job())
    decisions = Decisions(JobSet=[finding()])
    async with settled(api, gate=gate(decisions)) as process:
        [(reason, message)] = messages(api)
        assert reason == "PolicyDenied"
        assert "QUE-002 JobSet job spec.queue: not yours (use yours)" in message
        assert not [path for method, path in api.writes if not path.endswith(("/events", "/status"))]
        assert conditions(api) == {"Blocked": ("True", "PolicyDenied")}
        decisions.findings = {}
        change(api, POLICIES, "tenantpolicies", "tenant", spec={"queues": ["a", "b"]})
        await process.settle()
        assert api.find("jobsets", "job", "team") is not None
        assert conditions(api) == {}
    assert decisions.asked[-1]["params"]["tenantPolicy"] == {"queues": ["a", "b"]}


async def test_without_a_decision_the_loop_makes_nothing_and_tries_again(api: FakeApi) -> None:
    submit(api)
    decisions = Decisions()
    decisions.away = True
    async with controller(api, gate=gate(decisions)):
        await eventually(lambda: decisions.refusals > 1)
        assert api.find("jobsets", "job", "team") is None
        assert api.find("configmaps", "job-runtime-snapshot", "team") is None
        decisions.away = False
        await eventually(lambda: api.find("jobsets", "job", "team") is not None)


async def test_a_running_job_is_left_alone_and_can_be_held_back(api: FakeApi) -> None:
    submit(api)
    decisions = Decisions()
    async with settled(api, gate=gate(decisions)) as process:
        decisions.findings, decisions.away = {"JobSet": [finding()]}, True
        change(api, JOB_SETS, "jobsets", "job", status={"restarts": 1})
        await process.settle()
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": True})
        await process.settle()
        held = job_set(api)
        assert held["spec"]["suspend"] is True
        assert not messages(api)


@pytest.mark.parametrize("webhooks", [True, False])
def test_without_a_policy_server_or_webhooks_policies_are_off_and_logged_once(
    webhooks: bool, caplog: pytest.LogCaptureFixture
) -> None:
    server = None if webhooks else PolicyServer(socket=Path("/s"), bundle=Path("/b"), revision="r")
    with caplog.at_level(logging.INFO):
        assert policy_client(Configuration(webhooks=webhooks, policy=server)) is None
    assert [record.getMessage().startswith("policies are off") for record in own_records(caplog)] == [True]


def test_a_controller_does_not_start_beside_other_rules_than_it_was_given(tmp_path: Path) -> None:
    bundle = bundle_files({"a.rego": b"package a"}, ["a"])
    bundle.write(tmp_path / "rules.tar.gz")
    server = PolicyServer(socket=Path("/s"), bundle=tmp_path / "rules.tar.gz", revision=bundle.revision)
    assert policy_client(Configuration(policy=server)) is not None
    with pytest.raises(TrainyardError, match="rules of another revision"):
        policy_client(Configuration(policy=server.model_copy(update={"revision": "f" * 64})))


def test_the_configuration_file_holds_the_policy_server(tmp_path: Path) -> None:
    settings = PolicySettings.model_validate({"states": {"QUE-002": "warn"}})
    server = PolicyServer(socket=Path("/s"), bundle=Path("/b"), revision="r", settings=settings, told=("QUE-002",))
    (tmp_path / "config.yaml").write_text(Configuration(policy=server).as_yaml())
    assert Configuration.load(tmp_path / "config.yaml").policy == server
