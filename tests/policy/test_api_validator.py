"""Pods of TrainJobs and runtimes are validated as the API server validates a Job, by its own code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.policy.decisions import RULES, Decisions, admission_context, local_stack
from tests.policy.test_check_command import run
from tests.support import in_process
from trainyard.checks.report.report import Report
from trainyard.cli import check
from trainyard.errors import TrainyardError
from trainyard.policy.check.checker import Checker
from trainyard.policy.check.sources import read_sources
from trainyard.policy.check.world import CheckContext
from trainyard.policy.engines.api_validator import NOT_BUILT, ApiValidator

RUNTIME = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: own, namespace: vision, labels: {trainer.kubeflow.org/framework: plain}}
spec:
  mlPolicy: {numNodes: 1}
  template:
    spec:
      replicatedJobs:
        - name: node
          template:
            metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
            spec: {template: {spec: POD}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: llm, namespace: vision}
spec:
  runtimeRef: {kind: TrainingRuntime, name: own}
"""
IMAGE = "registry.example.com/a@sha256:" + "0" * 64
MISTAKES: dict[str, dict[str, Any]] = {
    "unknown volume": {"volumeMounts": [{"name": "data", "mountPath": "/data"}]},
    "device without a limit": {"resources": {"requests": {"nvidia.com/gpu": "1"}}},
    "device unlike its limit": {"resources": {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}}},
    "request above the limit": {"resources": {"requests": {"cpu": "4"}, "limits": {"cpu": "2"}}},
    "name of a variable": {"env": [{"name": "A=B", "value": "x"}]},
    "name of a port": {"ports": [{"name": "Not_A_Port", "containerPort": 80}]},
    "number of a port": {"ports": [{"containerPort": 70000}]},
    "empty probe": {"readinessProbe": {"periodSeconds": 5}},
    "fieldRef": {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.unknown"}}}]},
    "name of two ports": {"ports": [{"name": "a", "containerPort": 1}, {"name": "a", "containerPort": 2}]},
    "pull policy": {"imagePullPolicy": "Sometimes"},
}
POD_MISTAKES: dict[str, dict[str, Any]] = {
    "volume with two sources": {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]},
    "toleration operator": {"tolerations": [{"key": "a", "operator": "Is", "value": "b"}]},
    "restart policy": {"restartPolicy": "Always"},
    "DNS policy": {"dnsPolicy": "Mine"},
}


def manifest(container: dict[str, Any], pod: dict[str, Any]) -> str:
    body = {"containers": [{"name": "node", "image": IMAGE, **container}], **pod}
    return RUNTIME.replace("POD", json.dumps(body))


async def report(folder: Path, text: str, validator: ApiValidator, changed: frozenset[Path] | None = None) -> Report:
    (folder / "a.yaml").write_text(text)
    sources = read_sources([str(folder / "a.yaml")], stdin=str)
    world = CheckContext(local_stack(), sources.manifests)
    checker = Checker(RULES, world, admission_context(local_stack()), validator=validator)
    return await checker.check(sources, Decisions(), changed=changed)


async def test_a_program_that_is_not_built_is_said_once_and_is_no_error(tmp_path: Path) -> None:
    with ApiValidator(lambda: None) as validator:
        found = await report(tmp_path, manifest(MISTAKES["unknown volume"], {}), validator)
    assert (found.findings, [note for note in found.notes if note == NOT_BUILT]) == ((), [NOT_BUILT])


async def test_without_jobs_that_changed_the_program_is_not_looked_for(tmp_path: Path) -> None:
    def missing() -> Path:
        raise AssertionError

    with ApiValidator(missing) as validator:
        found = await report(tmp_path, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", validator)
        unchanged = await report(tmp_path, manifest({}, {}), validator, frozenset())
    assert (found.notes, unchanged.notes, unchanged.checked) == ((), (), ())


async def test_a_program_that_does_not_answer_is_no_verdict(tmp_path: Path) -> None:
    program = tmp_path / "api-validator"
    program.write_text("#!/bin/sh\nread line; echo nothing\n")
    program.chmod(0o700)
    with ApiValidator(lambda: program) as validator, pytest.raises(TrainyardError, match="does not answer"):
        await report(tmp_path, manifest({}, {}), validator)


async def test_an_object_that_is_too_large_is_one_error(tmp_path: Path) -> None:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"nodeName": "x" * 3 * 1024**2}}
    with ApiValidator(lambda: tmp_path) as validator:
        found = await report(tmp_path, json.dumps(body), validator)
    assert [(each.object, each.path) for each in found.errors] == [("Pod a", "")]


def test_render_says_that_pods_are_not_validated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "validator_program", lambda: None)
    (tmp_path / "a.yaml").write_text(manifest(MISTAKES["unknown volume"], {}))
    done = in_process("render", str(tmp_path / "a.yaml"))
    assert (done.returncode, NOT_BUILT in done.stderr, "kind: JobSet" in done.stdout) == (0, True, True)


@pytest.mark.cluster
@pytest.mark.parametrize("mistake", [*MISTAKES, *POD_MISTAKES])
async def test_what_the_api_server_rejects_is_an_error(tmp_path: Path, mistake: str) -> None:
    text = manifest(MISTAKES.get(mistake, {}), POD_MISTAKES.get(mistake, {}))
    with ApiValidator(check.validator_program) as validator:
        assert validator.available
        found = await report(tmp_path, text, validator)
    (error, *_) = found.errors
    assert (error.object, error.path) == ("TrainJob vision/llm", "spec.runtimeRef")
    assert 'TrainingRuntime "own" spec.template.spec.replicatedJobs[0].template.spec.template.spec.' in error.message
    assert {each.object for each in found.warnings} == {"TrainingRuntime vision/own"}
    rendered = in_process("render", "-o", "json", str(tmp_path / "a.yaml"))
    (result,) = json.loads(rendered.stdout)["results"]
    assert (result["objects"], result["errors"][0]["message"]) == ([], error.message)


@pytest.mark.cluster
def test_the_command_validates_a_train_job_on_a_runtime_of_the_catalog(tmp_path: Path) -> None:
    text = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: gpus, namespace: vision}
spec:
  runtimeRef: {name: torch-distributed}
  trainer:
    numNodes: 1
    command: [torchrun, train.py]
    resourcesPerNode: {requests: {nvidia.com/gpu: "1", cpu: "4"}, limits: {cpu: "2"}}
"""
    (tmp_path / "a.yaml").write_text(text)
    code, output = run("-o", "json", tmp_path / "a.yaml")
    found = {each["path"] for each in json.loads(output)["results"] if each["severity"] == "error"}
    assert (code, found) == (1, {f"spec.trainer.resourcesPerNode.{field}" for field in ("limits", "requests")})


@pytest.mark.cluster
def test_cel_that_the_api_server_refuses_is_named_without_a_cluster(tmp_path: Path) -> None:
    in_process("policy", "new", "QUA-901", "own", "--family", "own", "--folder", str(tmp_path / "rules"))
    (file,) = (tmp_path / "rules").glob("*/*/rule.yaml")
    good = in_process("policy", "test", "--folder", str(tmp_path / "rules"), "--rule", "QUA-901")
    assert good.returncode == 0, good.stdout
    document = yaml.safe_load(file.read_text())
    document["cel"]["variables"] = [
        *document["cel"].get("variables", ()),
        {"name": "broken", "expression": "object.metadata.name.lenght() > undeclared"},
    ]
    document["cel"]["validations"][0]["expression"] = "variables.broken"
    file.write_text(yaml.safe_dump(document))
    (tmp_path / "a.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    for command in (["policy", "test", "--rule", "QUA-901"], ["check", str(tmp_path / "a.yaml")]):
        done = in_process(*command, "--folder", str(tmp_path / "rules"))
        assert done.returncode == 2, done.stdout
        assert "QUA-901" in done.stderr
        assert "cel.variables[broken]" in done.stderr
        assert "undeclared reference to 'lenght'" in done.stderr


@pytest.mark.cluster
async def test_a_job_with_a_prefix_is_checked_as_the_api_server_names_it(tmp_path: Path) -> None:
    text = manifest({}, {}).replace("{name: llm, namespace", "{generateName: sweep-, namespace")
    with ApiValidator(check.validator_program) as validator:
        assert validator.available
        found = await report(tmp_path, text, validator)
    assert (found.errors, [name for _, name in found.checked]) == (
        (),
        ["TrainJob vision/sweep-*", "TrainingRuntime vision/own"],
    )


async def test_whole_numbers_are_amounts_and_others_are_refused_as_by_the_schema(tmp_path: Path) -> None:
    amounts = "\n  trainer: {resourcesPerNode: {limits: {cpu: %s, memory: 1}}}\n"
    for cpu, errors in (("2", []), ("0.5", ['quote it: "0.5"'])):
        with ApiValidator(lambda: None) as validator:
            found = await report(tmp_path, manifest({}, {}).rstrip() + amounts % cpu, validator)
        assert [each.fix for each in found.errors] == errors


LEGACY = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: legacy, namespace: vision}
spec:
  pytorchReplicaSpecs:
    Worker:
      template:
        spec:
          containers:
            - {name: pytorch, image: registry.example/train:1.0, command: [python, t.py], volumeMounts: [MOUNT]}
"""


@pytest.mark.cluster
def test_a_converted_job_whose_pods_are_rejected_exits_1(tmp_path: Path) -> None:
    for mount, code in (("", 0), ("{name: gone, mountPath: /x}", 1)):
        (tmp_path / "legacy.yaml").write_text(LEGACY.replace("[MOUNT]", f"[{mount}]"))
        done = in_process("convert", str(tmp_path / "legacy.yaml"))
        assert (done.returncode, "# error: TrainJob vision/legacy: spec.runtimePatches[0]." in done.stderr) == (
            code,
            bool(code),
        )


def test_convert_says_that_pods_are_not_validated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "validator_program", lambda: None)
    (tmp_path / "legacy.yaml").write_text(LEGACY.replace("[MOUNT]", "[{name: gone, mountPath: /x}]"))
    done = in_process("convert", str(tmp_path / "legacy.yaml"))
    assert (done.returncode, done.stderr.count(NOT_BUILT)) == (0, 1)


POD = {"containers": [{"name": "a", "image": IMAGE, "volumeMounts": [{"name": "gone", "mountPath": "/x"}]}]}
LABELED = {"metadata": {"labels": {"a": "b"}}, "spec": POD}
TEMPLATE = {"template": {"spec": {**POD, "restartPolicy": "Never"}}}
SELECTED = {"selector": {"matchLabels": {"a": "b"}}, "template": LABELED}
MOUNT = "containers[0].volumeMounts[0].name"
OTHERS: dict[str, tuple[str, Any, str]] = {
    "Pod": ("v1", POD, f"spec.{MOUNT}"),
    "Job": ("batch/v1", TEMPLATE, f"spec.template.spec.{MOUNT}"),
    "CronJob": (
        "batch/v1",
        {"schedule": "0 * * * *", "jobTemplate": {"spec": TEMPLATE}},
        f"spec.jobTemplate.spec.template.spec.{MOUNT}",
    ),
    "Deployment": ("apps/v1", SELECTED, f"spec.template.spec.{MOUNT}"),
    "StatefulSet": ("apps/v1", {**SELECTED, "serviceName": "a"}, f"spec.template.spec.{MOUNT}"),
    "JobSet": (
        "jobset.x-k8s.io/v1alpha2",
        {"replicatedJobs": [{"name": "w", "template": {"spec": TEMPLATE}}]},
        f"spec.replicatedJobs[0].template.spec.template.spec.{MOUNT}",
    ),
}


@pytest.mark.cluster
@pytest.mark.parametrize("kind", OTHERS)
async def test_other_objects_with_pods_are_validated_too(tmp_path: Path, kind: str) -> None:
    version, spec, path = OTHERS[kind]
    for metadata, paths in (({"name": "a"}, [path]), ({"name": "a", "uid": "of-a-cluster"}, [])):
        body = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
        with ApiValidator(check.validator_program) as validator:
            found = await report(tmp_path, json.dumps(body), validator)
        assert [each.path for each in found.errors] == paths


@pytest.mark.cluster
@pytest.mark.parametrize("field", ["replicatedJobs", "network", "volumeClaimPolicies"])
async def test_a_malformed_job_set_is_not_taken_apart(tmp_path: Path, field: str) -> None:
    version, spec, _ = OTHERS["JobSet"]
    odd = (None, 1, "x", [], [None], [{}], [{"name": "w", "template": {"spec": 1}}], {"a": []}, [{"templates": [1]}])
    bodies = [
        {"apiVersion": version, "kind": "JobSet", "metadata": {"name": "a"}, "spec": {**spec, field: value}}
        for value in odd
    ]
    with ApiValidator(check.validator_program) as validator:
        assert validator.available
        found = await report(tmp_path, "---\n".join(f"{json.dumps(body)}\n" for body in bodies), validator)
    assert [name for _, name in found.checked] == ["JobSet default/a"] * len(odd)
