"""The rules at `pulumi preview`: what is certain, what is not known yet, and what may not be printed."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from google.protobuf import json_format
from pulumi.runtime.proto import analyzer_pb2

from tests.support import ROOT, environment, require, run
from trainyard.errors import TrainyardError
from trainyard.platform.deploy.analyzer import Analyzer
from trainyard.platform.deploy.engine_events import EventLog
from trainyard.policy.pack.review_pack import WHOLE, PackReport, PolicyPack
from trainyard.policy.pack.stack_resources import StackResource
from trainyard.policy.pack.stack_values import (
    NOT_KNOWN,
    SUBSTITUTES,
    Properties,
    masked,
    overlaps,
    paths,
    properties,
    substituted,
)
from trainyard.policy.review import Decision, Review, Violation
from trainyard.settings.platform import PolicyState
from trainyard.settings.stack_loader import parse_stack

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
SECRET = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "value": "hush"}
PLATFORM = {
    "apiVersion": "trainyard.dev/v1alpha1", "kind": "Platform", "metadata": {"name": "platform"},
    "spec": {"leafQueues": ["vision"], "exemptNamespaces": ["kube-system"]},
}  # fmt: skip
TENANT = {
    "apiVersion": "trainyard.dev/v1alpha1", "kind": "TenantPolicy",
    "metadata": {"name": "tenant", "namespace": "vision"},
    "spec": {"queues": ["vision"], "defaultQueue": "vision"},
}  # fmt: skip


ReviewStack = Callable[..., list[PackReport]]


def pod_group(queue: Any, namespace: Any = "vision", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": {"name": "group", "namespace": namespace}, "spec": {"queue": queue, **spec},
    }  # fmt: skip


def resource(body: dict[str, Any], suffix: str = "") -> StackResource:
    kind = f"kubernetes:{body['apiVersion']}:{body['kind']}{suffix}"
    return StackResource(f"urn:pulumi:dev::team::{kind}::{body['metadata']['name']}", kind, properties(body))


def no_program() -> Path:
    raise TrainyardError("opa is not on this machine", fix="run trainyard cluster toolchain")


async def foreign_queues(self: PolicyPack, reviews: Sequence[Review], context: Any) -> list[Decision]:
    """Decide as the server would if there were one rule: a queue is one of the tenant's."""
    exempt = context.exempt_namespaces
    return [_decided(self, review) if review.namespace not in exempt else Decision(True) for review in reviews]


def _decided(pack: PolicyPack, review: Review) -> Decision:
    if (review.object or {})["kind"] != "PodGroup":
        return Decision(True)
    rule = next(rule for rule in pack.rules if rule.id == "QUE-002")
    state = pack.state(rule)
    queue = (review.object or {})["spec"].get("queue")
    if review.tenant_policy is None:
        path, wrong = "parameters", True
    else:
        path, wrong = "spec.queue", queue is not None and queue not in review.tenant_policy["queues"]
    found = (Violation(path, f"queue {queue} is foreign", "use your own", "QUE-002", state=state),) if wrong else ()
    return Decision(
        not found,
        violations=found if state is PolicyState.DENY else (),
        warnings=found if state is PolicyState.WARN else (),
    )


@pytest.fixture
def review(monkeypatch: pytest.MonkeyPatch) -> ReviewStack:
    """Review a platform's stack with more objects in it, by one rule and without a policy server."""
    monkeypatch.setattr(PolicyPack, "_decisions", foreign_queues)

    def reviewed(*bodies: dict[str, Any], platform: bool = True, **options: Any) -> list[PackReport]:
        around = [resource(PLATFORM), resource(TENANT)] if platform else []
        return PolicyPack(no_program, **options).evaluate([*around, *map(resource, bodies)])

    return reviewed


def test_protocol_values_become_plain_data() -> None:
    found = properties({"a": 2.0, "b": [UNKNOWN, {"c": SECRET}], "d": {**SECRET, "value": UNKNOWN}, "e": 0.5})
    assert found.body == {"a": 2, "b": [NOT_KNOWN, {"c": "hush"}], "d": NOT_KNOWN, "e": 0.5}
    assert found.secrets == {"hush"}
    assert masked("the word is hush", found.secrets) == "the word is [secret]"


def test_paths_are_those_of_the_rules() -> None:
    body = {"metadata": {"labels": {"a.b/c": "x"}}, "items": [{"n": 1}]}
    assert {"metadata.labels[a.b/c]", "items[0].n"} <= {path for path, _ in paths(body)}
    assert overlaps("spec.items[1].name", "spec.items[1]")
    assert overlaps("spec", "spec.items")
    assert not overlaps("spec.items[10]", "spec.items[1]")
    assert not overlaps("spec.queueName", "spec.queue")


def test_an_unknown_item_keeps_its_place_in_a_list() -> None:
    body = {"list": ["a", NOT_KNOWN, "b"], "field": NOT_KNOWN}
    assert [substituted(body, each)["list"][2] for each in SUBSTITUTES] == ["b"] * len(SUBSTITUTES)
    assert "field" not in substituted(body, SUBSTITUTES[1])


def test_a_violation_fails_the_preview(review: ReviewStack) -> None:
    (report,) = review(pod_group("language"))
    assert (report.policy, report.mandatory, report.undecided) == ("QUE-002", True, False)
    assert report.urn.endswith("PodGroup::group")
    assert report.message == "spec.queue: queue language is foreign. Fix: use your own"


def test_a_rule_that_warns_advises(review: ReviewStack) -> None:
    (report,) = review(pod_group("language"), states={"QUE-002": PolicyState.WARN})
    assert (report.mandatory, report.undecided) == (False, False)


def test_an_unknown_value_is_undecided(review: ReviewStack) -> None:
    (report,) = review(pod_group(UNKNOWN))
    assert (report.mandatory, report.undecided) == (False, True)
    assert report.message.startswith("undecided until the stack is up: spec.queue: ")


def test_a_violation_beside_an_unknown_value_is_still_one(review: ReviewStack) -> None:
    (report,) = review(pod_group("language", minMember=UNKNOWN, list=["a", UNKNOWN]))
    assert (report.mandatory, report.undecided) == (True, False)


def test_an_unknown_namespace_decides_nothing(review: ReviewStack) -> None:
    (report,) = review(pod_group("language", namespace=UNKNOWN))
    assert (report.mandatory, report.undecided) == (False, True)


def test_unknown_limits_of_a_tenant_decide_nothing(review: ReviewStack) -> None:
    (report,) = review({**TENANT, "spec": {"queues": [UNKNOWN]}}, pod_group("language"))
    assert (report.policy, report.mandatory, report.undecided) == ("QUE-002", False, True)


def test_a_namespace_without_limits_is_refused_where_the_platform_is_declared(
    review: ReviewStack,
) -> None:
    (report,) = review(pod_group("vision", namespace="elsewhere"))
    assert report.mandatory
    (report,) = review(pod_group("vision", namespace="elsewhere"), platform=False)
    assert (report.mandatory, report.undecided) == (False, True)


def test_exempt_namespaces_come_from_platform_settings_and_pack(review: ReviewStack) -> None:
    assert review(pod_group("language", namespace="kube-system")) == []
    settings = parse_stack({"cluster": {"provider": "embedded"}, "policies": {"exemptNamespaces": ["ops"]}}, source="x")
    assert review(pod_group("language", namespace="ops"), settings=settings) == []
    assert review(pod_group("language", namespace="volcano-system"), settings=settings) == []


def test_a_patch_is_reviewed_by_what_it_says(review: ReviewStack) -> None:
    pack = PolicyPack(no_program)
    around = [resource(PLATFORM), resource(TENANT)]
    (report,) = pack.evaluate([*around, resource(pod_group("language"), "Patch")])
    assert report.mandatory
    assert pack.evaluate([*around, resource({**pod_group("x"), "spec": {}}, "Patch")]) == []


def test_objects_in_lists_are_reviewed(review: ReviewStack) -> None:
    body = {**pod_group("x"), "kind": "PodGroupList", "items": [pod_group("vision"), pod_group("language")]}
    (report,) = review(body)
    assert report.message.startswith("items[1].spec.queue: ")


def test_secrets_are_reviewed_and_not_printed(review: ReviewStack) -> None:
    (report,) = review(pod_group(SECRET))
    assert report.mandatory
    assert "[secret]" in report.message
    assert "hush" not in report.message


def test_resources_without_a_review_are_listed(review: ReviewStack) -> None:
    release = StackResource("urn::release", "kubernetes:helm.sh/v3:Release", Properties({"chart": "x"}))
    nameless = StackResource("urn::object", "kubernetes:x:Y", Properties({"apiVersion": NOT_KNOWN, "kind": "Y"}))
    reports = PolicyPack(no_program).evaluate(
        [release, nameless, StackResource("urn::bucket", "aws:s3:Bucket", Properties({}))]
    )
    assert [(report.policy, report.urn, report.mandatory, report.undecided) for report in reports] == [
        (WHOLE, "urn::release", False, True),
        (WHOLE, "urn::object", False, True),
    ]


def test_without_a_policy_server_everything_is_refused() -> None:
    (report,) = PolicyPack(no_program).evaluate([resource(pod_group("vision"))])
    assert (report.policy, report.urn, report.mandatory) == (WHOLE, "", True)
    assert "run trainyard cluster toolchain" in report.message


def analyzed(analyzer: Analyzer, *bodies: dict[str, Any]) -> Any:
    request = analyzer_pb2.AnalyzeStackRequest()
    for body in (PLATFORM, TENANT, *bodies):
        each = resource(body)
        added = request.resources.add(urn=each.urn, type=each.type)
        json_format.ParseDict(body, added.properties)
    return analyzer.AnalyzeStack(request, None).diagnostics


def test_the_engine_is_answered_in_its_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PolicyPack, "_decisions", foreign_queues)
    analyzer = Analyzer(no_program)
    info = analyzer.GetAnalyzerInfo(None, None)
    levels = {policy.name: policy.enforcementLevel for policy in info.policies}
    assert (levels["QUE-002"], levels[WHOLE]) == (analyzer_pb2.MANDATORY, analyzer_pb2.MANDATORY)
    (diagnostic,) = analyzed(analyzer, pod_group("language"))
    assert (diagnostic.policyName, diagnostic.enforcementLevel) == ("QUE-002", analyzer_pb2.MANDATORY)
    request = analyzer_pb2.ConfigureAnalyzerRequest()
    for name, level in levels.items():
        request.policyConfig[name].enforcementLevel = analyzer_pb2.ADVISORY if name == "QUE-002" else level
    analyzer.Configure(request, None)
    (diagnostic,) = analyzed(analyzer, pod_group("language"))
    assert diagnostic.enforcementLevel == analyzer_pb2.ADVISORY


def test_settings_that_are_wrong_refuse_everything() -> None:
    analyzer = Analyzer(no_program)
    request = analyzer_pb2.AnalyzerStackConfigureRequest(
        stack="x", config={"trainyard:cluster": '{"provider": "moon"}'}
    )
    analyzer.ConfigureStack(request, None)
    (diagnostic,) = analyzed(analyzer)
    assert (diagnostic.policyName, diagnostic.enforcementLevel) == (WHOLE, analyzer_pb2.MANDATORY)
    assert "moon" in diagnostic.message


def test_the_command_line_tells_refusals_from_advice() -> None:
    def event(level: str, message: str, rule: str = "QUE-002") -> Any:
        policy = SimpleNamespace(
            message=f"Title\n{message}", policy_name=rule, policy_pack_name=WHOLE, enforcement_level=level,
            resource_urn="urn:pulumi:dev::team::kubernetes:x:PodGroup::PodGroup/group",
        )  # fmt: skip
        names = ("resource_pre_event", "res_outputs_event", "res_op_failed_event", "diagnostic_event", "summary_event")
        return SimpleNamespace(policy_event=policy, **dict.fromkeys(names))

    log = EventLog()
    log(event("mandatory", "spec.queue: is foreign. Fix: use your own"))
    log(event("advisory", "undecided until the stack is up: x. Fix: y"))
    assert [str(finding) for finding in log.findings] == [
        "PodGroup/group: QUE-002 spec.queue: is foreign (use your own)"
    ]
    assert [finding.rule for finding in log.advice] == ["QUE-002"]


PROGRAM = """
    import pulumi, pulumi_kubernetes as kubernetes
    from pulumi_kubernetes.apiextensions import CustomResource

    provider = kubernetes.Provider("render", render_yaml_to_directory="rendered")
    options = pulumi.ResourceOptions(provider=provider)

    def make(version, kind, name, spec, namespace=None):
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        CustomResource(name, api_version=version, kind=kind, metadata=metadata, spec=spec, opts=options)

    OURS, VOLCANO = "trainyard.dev/v1alpha1", "scheduling.volcano.sh/v1beta1"
    features = {"leafQueues": ["vision", "language"], "acceleratorResources": [], "tiers": [], "schedulerFeatures": []}
    make(OURS, "Platform", "platform", {**features, "exemptNamespaces": ["kube-system"]})
    kubernetes.core.v1.Namespace("vision", metadata={"name": "vision"}, opts=options)
    make(OURS, "TenantPolicy", "tenant", {"queues": ["vision"], "defaultQueue": "vision"}, "vision")
    ports = {"ports": [{"port": 80}]}
    service = kubernetes.core.v1.Service("s", metadata={"name": "s", "namespace": "vision"}, spec=ports, opts=options)
    make(VOLCANO, "PodGroup", "own", {"queue": "vision", "minMember": 1}, "vision")
    if pulumi.Config().get_bool("foreign"):
        make(VOLCANO, "PodGroup", "foreign", {"queue": "language", "minMember": 1}, "vision")
        later = service.status.load_balancer.ingress[0].hostname
        make(VOLCANO, "PodGroup", "later", {"queue": later, "minMember": 1}, "vision")
"""


@pytest.mark.cluster
def test_a_preview_is_refused_and_says_why(tmp_path: Path) -> None:
    from trainyard.local.cluster.environment import tool_path
    from trainyard.local.cluster.pulumi_home import home_without_logs
    from trainyard.local.cluster.toolchain import Toolchain

    toolchain = Toolchain()
    toolchain.ensure()
    runtime = {"name": "python", "options": {"virtualenv": str(ROOT / ".venv")}}
    (tmp_path / "Pulumi.yaml").write_text(yaml.safe_dump({"name": "team", "runtime": runtime}))
    (tmp_path / "__main__.py").write_text(textwrap.dedent(PROGRAM))
    (tmp_path / "state").mkdir()
    env = environment(tmp_path) | tool_path(toolchain.folders())
    env |= {
        "PULUMI_HOME": str(home_without_logs(tmp_path / "home")), "PULUMI_BACKEND_URL": f"file://{tmp_path}/state",
        "PULUMI_CONFIG_PASSPHRASE": "test", "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    }  # fmt: skip

    def pulumi(*arguments: str) -> Any:
        return run("pulumi", "-C", tmp_path, "--non-interactive", "--color", "never", *arguments, env=env, timeout=300)

    def preview() -> Any:
        return pulumi("preview", "--stack", "dev", "--policy-pack", str(ROOT / "policies" / "pack"))

    require(pulumi("stack", "init", "dev"))
    clean = require(preview())
    assert "✅ trainyard@v" in clean
    assert "undecided" not in clean
    require(pulumi("config", "set", "--stack", "dev", "foreign", "true"))
    refused = preview()
    said = refused.stdout + refused.stderr
    assert refused.returncode != 0, said
    lines = [line.strip() for line in said.splitlines()]
    at = next(n for n, line in enumerate(lines) if line.startswith("- [mandatory]") and "QUE-002" in line)
    assert lines[at].endswith("(kubernetes:scheduling.volcano.sh/v1beta1:PodGroup: foreign)")
    assert lines[at + 2].startswith(
        'spec.queue: queue "language" is not one of this namespace\'s queues (vision). Fix: '
    )
    undecided = [line for line in lines if line.startswith("undecided until the stack is up: spec.queue: ")]
    assert undecided
    assert [line for line in lines if line.startswith("- [mandatory]")] == [lines[at]]


@pytest.mark.cluster
@pytest.mark.parametrize("stack", ["local", "kind", "production"])
def test_shipped_stacks_violate_nothing(stack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    from tests.components.recording import embedded_access, record, service_access, stack_config
    from trainyard.local.cluster.toolchain import program_path

    asyncio.set_event_loop(asyncio.new_event_loop())
    config = stack_config(stack)
    access = embedded_access() if stack == "local" else service_access()
    recording = record(config, monkeypatch, access=access, stack=stack, policies=True)
    resources = [StackResource(each.urn, each.type, Properties(each.inputs)) for each in recording.objects]
    pack = PolicyPack(lambda: program_path("opa"), parse_stack(config, source=stack))
    try:
        assert pack.evaluate(resources) == []
        foreign = [*resources, resource(pod_group("no-such-queue", namespace=next(iter(config["tenants"]))))]
        assert {report.policy for report in pack.evaluate(foreign) if report.mandatory} >= {"QUE-001", "QUE-002"}
    finally:
        pack.stop()
