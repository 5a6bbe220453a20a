"""Check of manifests: what surrounds an object, what a TrainJob becomes, and what is said once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.policy.decisions import (
    QUEUE,
    RULES,
    Decisions,
    WithoutParameters,
    admission_context,
    checked,
    local_stack,
)
from trainyard.checks.report.report import Report
from trainyard.policy.check.checker import Checker
from trainyard.policy.check.sources import read_sources
from trainyard.policy.check.world import CheckContext
from trainyard.policy.review import DecisionUnavailableError

RUNTIME = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: {kind}
metadata: {{name: own, namespace: vision, labels: {{trainer.kubeflow.org/framework: plain}}}}
spec:
  {spec}
  template:
    metadata: {{annotations: {{{annotation}: {queue}}}}}
    spec:
      replicatedJobs:
        - name: node
          template:
            metadata: {{labels: {{trainer.kubeflow.org/trainjob-ancestor-step: trainer}}}}
            spec: {{template: {{spec: {{containers: [{{name: node, image: example.com/a:1}}]}}}}}}
"""


def runtime(queue: str = "vision", *, kind: str = "TrainingRuntime", spec: str = "mlPolicy: {numNodes: 1}") -> str:
    return RUNTIME.format(kind=kind, annotation=QUEUE, queue=queue, spec=spec)


def train_job(name: str = "llm", *, runtime: str = "{name: plain}", extra: str = "", namespace: str = "vision") -> str:
    return f"""
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  runtimeRef: {runtime}
{extra}"""


def patch(queue: str) -> str:
    return f"""  runtimePatches:
    - manager: example.com/me
      trainingRuntimeSpec: {{template: {{metadata: {{annotations: {{{QUEUE}: {queue}}}}}}}}}
"""


def pod(queue: str = "language", namespace: str | None = "vision", name: str = "p") -> str:
    place = f", namespace: {namespace}" if namespace else ""
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}{place}, annotations: {{{QUEUE}: {queue}}}}}
spec: {{containers: []}}
"""


async def check(folder: Path, *texts: str, decisions: Decisions | None = None, **options: Any) -> Report:
    (folder / "a.yaml").write_text("---".join(texts))
    return await checked(folder, decisions=decisions, **options)


def found(report: Report) -> list[tuple[str | None, str, str]]:
    return [(result.rule, result.object, result.path) for result in report.findings]


PLATFORM = """
apiVersion: trainyard.dev/v1alpha1
kind: Platform
metadata: {name: platform}
spec: {jobSetFeatureGates: [InPlaceRestart]}
"""
IN_PLACE = "\n    spec:\n      failurePolicy: {restartStrategy: InPlaceRestart}\n      replicatedJobs:"


async def test_the_gates_of_jobset_come_from_the_platform_wherever_it_is(tmp_path: Path) -> None:
    restarting = runtime().replace("\n    spec:\n      replicatedJobs:", IN_PLACE)
    job = "spec.template.spec.replicatedJobs[0].template.spec"
    strategy = "spec.template.spec.failurePolicy.restartStrategy"
    assert strategy in [path for _, _, path in found(await check(tmp_path, restarting))]
    for texts in ((restarting, PLATFORM), (PLATFORM, restarting)):
        paths = [path for _, _, path in found(await check(tmp_path, *texts))]
        assert {f"{job}.backoffLimit", f"{job}.podReplacementPolicy"} <= {*paths}
        assert strategy not in paths


async def test_tenants_come_from_the_stack(tmp_path: Path) -> None:
    report = await check(tmp_path, pod("language"), pod("language", "language", "q"))
    assert found(report) == [("QUE-002", "Pod vision/p", f"metadata.annotations[{QUEUE}]")]
    assert report.checked == (
        ((tmp_path / "a.yaml").as_posix(), "Pod language/q"),
        (report.checked[0][0], "Pod vision/p"),
    )


async def test_tenants_and_labels_of_the_inputs_win(tmp_path: Path) -> None:
    policy = """
apiVersion: trainyard.dev/v1alpha1
kind: TenantPolicy
metadata: {name: tenant, namespace: vision}
spec: {queues: [language], defaultQueue: language}
---
apiVersion: v1
kind: Namespace
metadata: {name: vision, labels: {a: b}}
"""
    decisions = Decisions()
    assert found(await check(tmp_path, policy, pod("language"), decisions=decisions)) == []
    request = next(each for each in decisions.asked if each["request"]["object"]["kind"] == "Pod")
    assert request["request"]["namespaceLabels"] == {"a": "b"}


async def test_a_missing_namespace_is_default(tmp_path: Path) -> None:
    decisions = Decisions()
    report = await check(tmp_path, pod(namespace=None), decisions=decisions)
    assert found(report)[0][1] == "Pod default/p"
    assert decisions.asked[0]["request"]["namespace"] == "default"
    assert decisions.asked[0]["params"]["tenantPolicy"] is None


async def test_kinds_that_no_rule_reviews_are_counted_and_not_asked_about(tmp_path: Path) -> None:
    decisions = Decisions()
    report = await check(tmp_path, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: s}\n", decisions=decisions)
    assert (len(report.checked), decisions.asked) == (1, [])


@pytest.mark.parametrize(
    ("api_version", "kind", "fix"),
    [
        ("trainer.kubeflow.org/v1alpha1", "trainjob", "write TrainJob"),
        ("trainer.kubeflow.org/v1", "TrainJob", "write trainer.kubeflow.org/v1alpha1"),
        ("trainer.kubeflow.org/v1alpha1", "TrainJobs", "TrainJob"),
        ("trainyard.dev/v1alpha1", "tenantpolicy", "TenantPolicy"),
        ("v1", "pod", "write Pod"),
        ("batch.volcano.sh/v1alpha1", "JOB", "write Job"),
    ],
)
async def test_a_kind_that_is_not_served_is_no_object_without_findings(
    tmp_path: Path, api_version: str, kind: str, fix: str
) -> None:
    text = f"apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: a, namespace: vision}}\n"
    (finding,) = (await check(tmp_path, text)).findings
    assert finding.path == ("apiVersion" if kind == "TrainJob" else "kind")
    assert fix in finding.fix


async def test_lists_and_kinds_of_others_are_served(tmp_path: Path) -> None:
    others = [("trainer.kubeflow.org/v1alpha1", "TrainJobList"), ("v1", "Service"), ("example.com/v1", "job")]
    texts = [f"\napiVersion: {one}\nkind: {kind}\nmetadata: {{name: a}}\nitems: []\n" for one, kind in others]
    assert (await check(tmp_path, *texts)).findings == ()


async def test_what_a_train_job_becomes_is_reviewed_too(tmp_path: Path) -> None:
    decisions = Decisions()
    job = train_job(runtime="{name: own, kind: TrainingRuntime}")
    report = await check(tmp_path, runtime("language"), job, decisions=decisions)
    objects = [result.object for result in report.findings]
    assert objects == ["JobSet vision/llm (from TrainJob vision/llm)", "TrainingRuntime vision/own"]
    rendered = next(each for each in decisions.asked if each["request"]["object"]["kind"] == "JobSet")
    assert "system:serviceaccounts:kubeflow-system" in rendered["request"]["user"]["groups"]


async def test_what_only_repeats_the_train_jobs_own_finding_is_said_once(tmp_path: Path) -> None:
    report = await check(tmp_path, train_job(extra=patch("language")))
    assert [result.object for result in report.findings] == ["TrainJob vision/llm"]


async def test_runtimes_of_the_catalog_are_found(tmp_path: Path) -> None:
    decisions = Decisions()
    assert found(await check(tmp_path, train_job(runtime="{name: torch-distributed-gang}"), decisions=decisions)) == []
    assert "PodGroup llm" in decisions.names()
    job = next(each for each in decisions.asked if each["request"]["object"]["kind"] == "TrainJob")
    assert job["request"]["runtime"]["metadata"]["name"] == "torch-distributed-gang"


@pytest.mark.parametrize("kind", ["TrainJob", "TrainingRuntime"])
async def test_an_object_is_reviewed_as_the_webhooks_store_it(tmp_path: Path, kind: str) -> None:
    decisions = Decisions()
    own = runtime().replace("image: example.com/a:1", "image: example.com/a:1, resources: {limits: {a/gpu: 1000}}")
    job = train_job(extra="  trainer: {resourcesPerNode: {limits: {a/gpu: 1000}}}\n")
    await check(tmp_path, own, job, decisions=decisions)
    asked = next(each["request"]["object"] for each in decisions.asked if each["request"]["object"]["kind"] == kind)
    assert '{"a/gpu": "1k"}' in json.dumps(asked)


KEY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NULL = f"metadata: {{name: a, namespace: vision, annotations: {{{KEY}: null}}}}"
TEMPLATE = f"metadata: {{annotations: {{{KEY}: null}}, labels: {{a: null}}}}"


@pytest.mark.parametrize(
    ("manifest", "annotations", "nested"),
    [
        (f"apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\n{NULL}\nspec: {{a: {{{TEMPLATE}}}}}", {KEY: ""}, None),
        (f"apiVersion: batch/v1\nkind: Job\n{NULL}\nspec: {{a: [{{{TEMPLATE}}}]}}", {KEY: ""}, ""),
        (f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: a}}\nspec: {{a: {{{TEMPLATE}}}}}", None, ""),
    ],
    ids=["custom resource", "Job", "Deployment"],
)
async def test_null_annotations_are_reviewed_as_kubernetes_decodes_them(
    tmp_path: Path, manifest: str, annotations: dict[str, str] | None, nested: str | None
) -> None:
    """As empty texts; below the metadata of a custom resource its schema drops them, and the rules ignore nulls."""
    decisions = Decisions()
    await check(tmp_path, manifest, decisions=decisions)
    (asked,) = [each["request"]["object"] for each in decisions.asked]
    assert asked["metadata"].get("annotations") == annotations
    part = asked["spec"]["a"]
    metadata = (part[0] if isinstance(part, list) else part)["metadata"]
    assert metadata == {"annotations": {KEY: nested}, "labels": {"a": nested}}


async def test_admission_findings_need_no_cluster(tmp_path: Path) -> None:
    two = runtime("vision", kind="ClusterTrainingRuntime", spec="mlPolicy: {torch: {}, mpi: {}}")
    report = await check(
        tmp_path,
        train_job("none", runtime="{name: nowhere}"),
        train_job("typed", extra="  trainer: {numNodes: many}\n"),
        train_job("broken", runtime="{name: own}"),
        train_job("typo", extra="  trainr: {}\n"),
        two,
    )
    errors = {(result.object, result.path) for result in report.errors}
    assert ("TrainJob vision/none", "spec.runtimeRef") in errors
    assert ("TrainJob vision/typed", "spec.trainer.numNodes") in errors
    assert ("TrainJob vision/broken", "spec.runtimeRef") in errors
    assert ("MLP-001", "ClusterTrainingRuntime own", "spec.mlPolicy") in found(report)
    assert [(result.object, result.path) for result in report.warnings] == [("TrainJob vision/typo", "spec.trainr")]


async def test_the_nearest_of_several_runtimes_counts(tmp_path: Path) -> None:
    for name, queue in (("staging", "vision"), ("production", "language")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "runtime.yaml").write_text(runtime(queue))
        (tmp_path / name / "job.yaml").write_text(train_job(runtime="{name: own, kind: TrainingRuntime}"))
    report = await checked(tmp_path)
    assert [result.file for result in report.findings] == [
        (tmp_path / "production" / name).as_posix() for name in ("job.yaml", "runtime.yaml")
    ]


async def test_only_changed_files_are_checked_and_what_depends_on_them(tmp_path: Path) -> None:
    (tmp_path / "runtime.yaml").write_text(runtime("language"))
    (tmp_path / "job.yaml").write_text(train_job(runtime="{name: own, kind: TrainingRuntime}"))
    (tmp_path / "pod.yaml").write_text(pod())

    async def objects(*names: str) -> list[str]:
        changed = frozenset((tmp_path / name).resolve() for name in names)
        return [name for _, name in (await checked(tmp_path, changed=changed)).checked]

    assert await objects() == []
    assert await objects("pod.yaml") == ["Pod vision/p"]
    assert await objects("job.yaml") == ["TrainJob vision/llm"]
    assert await objects("runtime.yaml") == ["TrainJob vision/llm", "TrainingRuntime vision/own"]


@pytest.mark.parametrize(("state", "severity"), [("deny", "error"), ("warn", "warning")])
async def test_the_state_of_a_rule_decides_how_bad_it_is(tmp_path: Path, state: str, severity: str) -> None:
    report = await check(tmp_path, pod(), decisions=Decisions(state))
    assert [result.severity for result in report.findings] == [severity]


async def test_a_rule_in_audit_is_only_counted(tmp_path: Path) -> None:
    report = await check(tmp_path, pod(), decisions=Decisions("audit"))
    assert (report.findings, report.summary()["audited"]) == ((), 1)


async def test_without_a_decision_there_is_no_report(tmp_path: Path) -> None:
    class Away(Decisions):
        async def decide_all(self, documents: Any) -> Any:
            raise DecisionUnavailableError("it is away")

    with pytest.raises(DecisionUnavailableError):
        await check(tmp_path, *(pod(name=f"p{number}") for number in range(300)), decisions=Away())


async def test_the_order_of_results_does_not_depend_on_the_order_of_objects(tmp_path: Path) -> None:
    texts = [pod(name=f"p{number}") for number in range(150)]
    first = await check(tmp_path, *texts)
    second = await check(tmp_path, *reversed(texts))
    assert [each.as_json() for each in first.findings] == [each.as_json() for each in second.findings]


async def test_lines_are_those_of_the_field(tmp_path: Path) -> None:
    (result,) = (await check(tmp_path, train_job(extra=patch("language")))).findings
    assert result.line == 9


@pytest.mark.parametrize(
    "body",
    [
        "apiVersion: v1\nkind: Pod\nmetadata: 3\nspec: [1]\n",
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: []\nspec: {runtimeRef: 3}\n",
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainingRuntime\nspec: 3\n",
        "apiVersion: trainyard.dev/v1alpha1\nkind: TenantPolicy\nmetadata: {name: tenant, namespace: 7}\nspec: null\n",
        "apiVersion: trainyard.dev/v1alpha1\nkind: Platform\nmetadata: {name: platform}\nspec: {tiers: x}\n",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: [], labels: 3}\n",
    ],
)
async def test_malformed_objects_never_bring_the_check_down(tmp_path: Path, body: str) -> None:
    await check(tmp_path, body, pod(), train_job(extra=patch("language")))


async def test_a_stack_without_tenants_leaves_namespaces_without_policy(tmp_path: Path) -> None:
    decisions = Decisions()
    settings = local_stack().model_copy(update={"tenants": {}})
    await check(tmp_path, pod(), decisions=decisions, settings=settings)
    assert decisions.asked[0]["params"]["tenantPolicy"] is None
    assert decisions.asked[0]["params"]["platform"]["leafQueues"]


@pytest.mark.parametrize("optional", [True, False])
async def test_without_a_stack_rules_without_parameters_are_one_note(tmp_path: Path, optional: bool) -> None:
    (tmp_path / "a.yaml").write_text(pod() + "---" + pod(name="q"))
    sources = read_sources([str(tmp_path)], stdin=str)
    world = CheckContext(None, sources.manifests)
    checker = Checker(RULES, world, admission_context(), optional_parameters=optional)
    report = await checker.check(sources, WithoutParameters())
    rules = [result.rule for result in report.findings]
    note = (
        "not evaluated: QUE-001 (Platform is missing); QUE-002, TEN-001 (TenantPolicy is missing); "
        "name a stack with --stack, or add a Platform and a TenantPolicy"
    )
    if optional:
        assert (rules, report.notes) == (["TEN-008"] * 2, (note,))
    else:
        assert (sorted(set(rules), key=str), report.notes) == (["QUE-001", "QUE-002", "TEN-001", "TEN-008"], ())
