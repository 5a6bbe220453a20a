"""What others installed is read from their Deployments, and compared with the settings."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from components.common.existing_components import findings_of_existing
from components.common.target import Target
from components.registry import declarations, image_repositories
from trainyard import upstream
from trainyard.checks.finding import Severity
from trainyard.kube.client import Client
from trainyard.kube.kinds import CONFIG_MAPS, DEPLOYMENTS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from trainyard.kube.resource import Resource
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.platform.takeover.installations import InstalledProgram, LiveInstallation, read_installation
from trainyard.platform.takeover.job_set_gates import check_gates
from trainyard.platform.takeover.scheduler_drift import check_scheduler
from trainyard.settings.stack import StackSettings
from trainyard.settings.stack_loader import parse_stack

INSTALLER = "installer/volcano-development.yaml"
VALIDATING, MUTATING = "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"
KINDS: Mapping[Resource, str] = {
    DEPLOYMENTS: "Deployment",
    VALIDATING_WEBHOOKS: VALIDATING,
    MUTATING_WEBHOOKS: MUTATING,
    CONFIG_MAPS: "ConfigMap",
}
CONFIGURATION = "volcano-scheduler.conf"


class Cluster:
    """Contains the objects of an installer."""

    def __init__(self, objects: list[dict[str, Any]]) -> None:
        self.objects = objects

    async def list(self, resource: Resource, *, namespace: str | None = None) -> list[dict[str, Any]]:
        return [each for each in self._of(resource) if namespace in (None, each["metadata"].get("namespace"))]

    async def find(self, resource: Resource, name: str, *, namespace: str | None = None) -> dict[str, Any] | None:
        found = await self.list(resource, namespace=namespace)
        return next((each for each in found if each["metadata"]["name"] == name), None)

    def _of(self, resource: Resource) -> Iterable[dict[str, Any]]:
        return (each for each in self.objects if each["kind"] == KINDS[resource])


def installed() -> list[dict[str, Any]]:
    """Return what Volcano's own installer creates, with the images of a release."""
    objects = copy.deepcopy(upstream.documents("volcano", "1.14.1", INSTALLER, kinds=tuple(KINDS.values())))
    for each in objects:
        if each["kind"] == "Deployment":
            for container in each["spec"]["template"]["spec"]["containers"]:
                container["image"] = container["image"].partition(":")[0] + ":v1.14.1"
    return objects


def read(objects: list[dict[str, Any]], namespace: str = "volcano-system") -> LiveInstallation:
    return asyncio.run(read_installation(cast("Client", Cluster(objects)), namespace))


def settings(**sections: Any) -> StackSettings:
    return parse_stack(
        {"cluster": {"provider": "embedded"}, "volcano": {"install": "existing"}, **sections}, source="stack"
    )


def configured(text: str) -> LiveInstallation:
    program = InstalledProgram(
        "volcano-scheduler", "vc-scheduler:v1.14.1", (f"--scheduler-conf=/conf/{CONFIGURATION}",), {"/conf": "conf"}
    )
    return LiveInstallation("volcano-system", (program,), {"conf": {CONFIGURATION: text}})


def test_the_programs_of_upstreams_installer_are_found() -> None:
    live = read(installed())
    names = ("vc-scheduler", "vc-controller-manager", "vc-webhook-manager")
    assert [live.program(name) is not None for name in names] == [True] * 3
    scheduler = live.program("vc-scheduler")
    assert scheduler is not None
    assert scheduler.version == "1.14.1"
    text = live.file(scheduler, scheduler.argument("scheduler-conf") or "")
    assert text is not None
    assert "actions:" in text
    assert {each["kind"] for each in live.webhooks} == {VALIDATING, MUTATING}


def test_upstreams_default_configuration_is_not_what_the_presets_say() -> None:
    """It has neither topology nor shares: a stack that says so is rejected before anything is written."""
    findings = [each for each in check_scheduler(settings(), read(installed())) if each.severity is Severity.ERROR]
    missing = next(each for each in findings if "of the settings" in each.message)
    assert missing.path.startswith("ConfigMap volcano-system/")
    assert "capacity" in missing.message
    assert "network-topology-aware" in missing.message


def test_the_configuration_of_the_stack_itself_is_verified() -> None:
    from trainyard.scheduling.scheduler.stack_configuration import configuration

    chosen = settings()
    assert list(check_scheduler(chosen, configured(configuration(chosen)))) == []


def test_a_plugin_that_is_off_and_one_that_is_new_are_named() -> None:
    from trainyard.scheduling.scheduler.stack_configuration import configuration

    chosen = settings()
    text = configuration(chosen).replace("name: network-topology-aware", "name: sla")
    findings = list(check_scheduler(chosen, configured(text)))
    assert any("network-topology-aware of the settings is not on" in each.message for each in findings)
    assert any("sla is on, which the settings do not say" in each.message for each in findings)


def test_a_scheduler_without_a_readable_configuration_is_not_verified() -> None:
    for program in (
        InstalledProgram("volcano-scheduler", "vc-scheduler:v1.14.1"),
        InstalledProgram("volcano-scheduler", "vc-scheduler:v1.14.1", ("--scheduler-conf=/elsewhere/x.conf",), {}),
    ):
        (finding,) = check_scheduler(settings(), LiveInstallation("volcano-system", (program,)))
        assert "is not verified" in finding.message


@pytest.mark.parametrize("text", ["tiers: []", "actions: 3", "- a", "a: [", ""])
def test_an_invalid_configuration_is_a_finding(text: str) -> None:
    assert list(check_scheduler(settings(), configured(text)))


def test_every_scheduler_of_the_namespace_is_linted() -> None:
    """A second one places pods too, whatever the first one's configuration is."""
    from trainyard.scheduling.scheduler.stack_configuration import configuration

    chosen = settings()
    live = configured(configuration(chosen))
    second = InstalledProgram(
        "second", "vc-scheduler:v1.14.1", (f"--scheduler-conf=/other/{CONFIGURATION}",), {"/other": "other"}
    )
    files = {**live.files, "other": {CONFIGURATION: "actions: allocate"}}
    found = list(check_scheduler(chosen, LiveInstallation(live.namespace, (*live.programs, second), files)))
    assert found
    assert all(each.path.startswith("ConfigMap volcano-system/other") for each in found)


def volcano_findings(objects: list[dict[str, Any]]) -> list[str]:
    stack = settings(tenants={"vision": {"queues": ["vision"]}}, queues={"vision": {}})
    target = Target.of(stack, ClusterAccess("local", Path("kubeconfig"), "local"), image_repositories())
    found = findings_of_existing(declarations()["volcano"], stack, read(objects), target)
    return [str(each) for each in found if not each.path.startswith("ConfigMap")]


UPSTREAM_LACKS = (
    "trainyard:volcano: no webhook in namespace volcano-system sets defaults of podgroups.scheduling.volcano.sh: "
    "they are stored as they are sent"
)
"""Upstream's manifest has no webhook that gives PodGroups the queue of their namespace."""


def edited(kind: str, name: str, **changes: Any) -> list[str]:
    """Return the findings about upstream's installer, of which one webhook has other fields; None: it is not there."""
    objects = installed()
    for each in objects:
        if each["kind"] != kind:
            continue
        for webhook in each["webhooks"]:
            if webhook["name"] == name:
                operations = changes.pop("operations", None)
                webhook.update(changes)
                for rule in webhook["rules"]:
                    rule.update({"operations": operations} if operations is not None else {})
    return [each for each in volcano_findings(objects) if each != UPSTREAM_LACKS]


def test_kinds_that_no_webhook_reviews_are_named() -> None:
    assert volcano_findings(installed()) == [UPSTREAM_LACKS]
    objects = [each for each in installed() if each["kind"] != VALIDATING or "queues" not in each["metadata"]["name"]]
    assert volcano_findings(objects) == [
        "trainyard:volcano: no webhook in namespace volcano-system reviews queues.scheduling.volcano.sh: invalid ones "
        "are stored",
        UPSTREAM_LACKS,
    ]
    objects = [each for each in installed() if each["kind"] != MUTATING]
    (finding,) = volcano_findings(objects)
    assert "sets defaults of jobs.batch.volcano.sh, podgroups.scheduling.volcano.sh, queues.sch" in finding


def test_operations_that_no_webhook_reviews_are_named() -> None:
    assert edited(VALIDATING, "validatequeue.volcano.sh", operations=["DELETE"]) == [
        "trainyard:volcano: no webhook in namespace volcano-system reviews queues.scheduling.volcano.sh (CREATE, "
        "UPDATE): invalid ones are stored"
    ]


@pytest.mark.parametrize(
    ("changes", "limit"),
    [
        ({"failurePolicy": "Ignore"}, "failurePolicy: Ignore"),
        ({"namespaceSelector": {"matchLabels": {"team": "infrastructure"}}}, "namespaceSelector"),
        (
            {
                "namespaceSelector": {
                    "matchExpressions": [
                        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["vision", "kube-system"]}
                    ]
                }
            },
            "namespaceSelector",
        ),
        ({"namespaceSelector": {"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}}, "namespaceSelector"),
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, "objectSelector"),
        ({"matchConditions": [{"name": "never", "expression": "false"}]}, "matchConditions"),
        (
            {"failurePolicy": "Ignore", "objectSelector": {"matchLabels": {"a": "b"}}},
            "failurePolicy: Ignore, objectSelector",
        ),
    ],
)
def test_webhooks_that_may_not_see_every_object_are_not_verified(changes: dict[str, Any], limit: str) -> None:
    assert edited(VALIDATING, "validatejob.volcano.sh", **changes) == [
        "trainyard:volcano: webhook validatejob.volcano.sh may not receive every one of jobs.batch.volcano.sh, because "
        f"of {limit}: not verified"
    ]


@pytest.mark.parametrize("groups", [["*"], ["batch.volcano.sh", "*"]])
def test_rules_for_everything_review_each_kind(groups: list[str]) -> None:
    rule = {"apiGroups": groups, "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]}
    assert edited(VALIDATING, "validatejob.volcano.sh", rules=[rule]) == []


def test_a_selector_that_selects_each_tenant_limits_nothing() -> None:
    selector = {"matchExpressions": [{"key": "trainyard.dev/tenant", "operator": "Exists"}]}
    assert edited(VALIDATING, "validatejob.volcano.sh", namespaceSelector=selector) == []


def test_another_version_an_unknown_one_and_a_missing_program_are_named() -> None:
    objects = installed()
    images = {"vc-scheduler": "vc-scheduler:v1.12.0", "vc-controller-manager": "vc-controller-manager:latest"}
    for each in list(objects):
        if each["kind"] != "Deployment":
            continue
        (container,) = each["spec"]["template"]["spec"]["containers"]
        name = container["image"].rpartition("/")[2].partition(":")[0]
        if name in images:
            container["image"] = f"mirror.example/volcano/{images[name]}"
        else:
            objects.remove(each)
    text = "\n".join(volcano_findings(objects))
    assert "vc-scheduler 1.12.0 runs; the rules are verified with 1.14.1" in text
    assert "the version of vc-controller-manager is unknown" in text
    assert "no Deployment in namespace volcano-system runs vc-webhook-manager" in text


@pytest.mark.parametrize(
    ("program", "missing"),
    [
        (InstalledProgram("m", "jobset:v0.12.0"), ["InPlaceRestart"]),
        (InstalledProgram("m", "jobset:v0.12.0", ("--feature-gates=InPlaceRestart=false",)), ["InPlaceRestart"]),
        (InstalledProgram("m", "jobset:v0.12.0", ("--feature-gates", "RestartJob=true,InPlaceRestart=true")), []),
        (InstalledProgram("m", "jobset:v0.12.0", ("--config=/conf/file",), {"/conf": "conf"}), []),
        (InstalledProgram("m", "jobset:v0.12.0", ("--config=/conf/other",), {"/conf": "conf"}), ["InPlaceRestart"]),
    ],
)
def test_gates_of_the_settings_are_on_in_the_live_manager(program: InstalledProgram, missing: list[str]) -> None:
    files = {"conf": {"file": "featureGates: {InPlaceRestart: true}", "other": "featureGates: ["}}
    live = LiveInstallation("jobset-system", (program,), files)
    stack = settings(jobset={"install": "existing", "featureGates": ["InPlaceRestart"]})
    assert [each.message.split()[1] for each in check_gates(stack, live)] == missing
