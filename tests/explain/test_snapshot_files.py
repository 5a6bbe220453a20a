"""Snapshot files: no secrets, the same answers, and the commands that read them."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from tests.explain.recorded_clusters import GPU, NOW, Cluster, body
from tests.support import ROOT, in_process, require
from tools.reference.causes import EVENTS, LIVE, PATCHED, cause_tables
from trainyard.cluster_state import cluster_snapshot, recorded_file
from trainyard.cluster_state.cluster_snapshot import write_snapshot
from trainyard.cluster_state.observed import Kind, Observed
from trainyard.cluster_state.recorded_file import observed_of_text, recorded
from trainyard.errors import TrainyardError
from trainyard.insight.explain.causes import CAUSES
from trainyard.insight.explain.explanation import explain


@pytest.fixture
def cluster() -> Cluster:
    found = Cluster()
    found.fill("vision", found.names)
    found.job("train", "language", pods=1)
    return found


@pytest.fixture
def file(cluster: Cluster, tmp_path: Path) -> Path:
    found = tmp_path / "cluster.json"
    write_snapshot(cluster.observed, found)
    return found


def test_page_equals_the_declared_causes() -> None:
    page = (ROOT / "docs" / "explain.md").read_text()
    assert page.endswith(cause_tables()), "write it again: python -m tools.reference.causes"


def test_the_page_says_which_causes_the_tests_on_clusters_show() -> None:
    folder = ROOT / "tests" / "cluster"
    texts = "".join(file.read_text() for file in folder.glob("*explain*.py"))
    assert len(LIVE | PATCHED | EVENTS) == len(LIVE) + len(PATCHED) + len(EVENTS)
    assert {name for name in CAUSES if f'"{name}"' in texts} == LIVE | PATCHED | EVENTS == set(CAUSES)


def test_file_gives_the_same_answer(cluster: Cluster, file: Path) -> None:
    observed = observed_of_text(file.read_text(), str(file), NOW.replace(year=2030))
    assert observed.now == NOW
    assert explain(observed, "train", "language") == cluster.explain("train", "language")


def test_only_its_owner_can_read_the_file(file: Path) -> None:
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o644)
    write_snapshot(Observed(NOW, ()), file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_file_has_no_secrets() -> None:
    container = {
        **{"name": "c", "command": ["X-1"], "args": ["X-2"], "envFrom": [{"secretRef": {"name": "X-3"}}]},
        "env": [{"name": "KEY", "value": "X-4"}, {"name": "OTHER", "valueFrom": {"secretKeyRef": {"key": "X-5"}}}],
    }
    metadata = {
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "X-6",
            **{"example.com/api-token": "X-7", "vault/password": "X-8", "scheduling.k8s.io/group-name": "kept"},
        },
        "managedFields": [{"manager": "X-9"}],
    }
    pod = body(
        "v1", "Pod", "p", "vision", metadata=metadata, spec={"containers": [container], "initContainers": [container]}
    )
    probe = {"httpGet": {"httpHeaders": [{"name": "Authorization", "value": "X-14"}]}}
    path = {"httpGet": {"path": "/health?token=X-16", "port": 8080}}
    container |= {"livenessProbe": probe, "readinessProbe": path, "image": "kept.example.com/train:1"}
    status = {"containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 3, "message": "X-17 log"}}}]}
    pod["status"] = status
    flex = {"flexVolume": {"driver": "example.com/kept-driver", "options": {"password": "X-18"}}}
    pod["spec"]["volumes"] = [{"name": "v", **flex}]
    pod["metadata"]["annotations"] |= {"example.com/description": "X-19", "prometheus.io/path": "X-20"}
    pod["metadata"]["annotations"] |= {"volcano.sh/preemptable": "false"}
    message = 'Readiness probe failed: Get "http://10.0.0.1:80/health?key=X-21&b=1": refused; see s3://b/o?X-22'
    event = body("v1", "Event", "e", "vision", message=message, reason="Unhealthy")
    dataset = {"storageUri": "s3://user:X-15@host/data"}
    trainer = {"env": [{"name": "KEY", "value": "X-12"}], "args": ["X-13"]}
    secret = body("v1", "Secret", "s", "vision", data={"key": "X-10"})
    config_map = body("v1", "ConfigMap", "m", "vision", data={"key": "X-11"})
    job = body(
        "trainer.kubeflow.org/v1alpha1", "TrainJob", "t", "vision", spec={"trainer": trainer, "initializer": dataset}
    )
    text = orjson.dumps(recorded(Observed(NOW, (pod, secret, config_map, job, event)))).decode()
    assert "X-" not in text
    assert [each["kind"] for each in json.loads(text)["items"]] == ["Pod", "TrainJob", "Event"]
    kept = (
        "KEY",
        "OTHER",
        "kept",
        "s3://host/data",
        "/health",
        "kept-driver",
        '"exitCode":3',
        "volcano.sh/preemptable",
    )
    assert all(name in text for name in (*kept, ": refused; see s3://b/o", "kept.example.com/train:1"))


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        (
            'denied the request: spec.replicatedJobs: Invalid value: [{"env":[{"name":"A","value":"X-1: x"}]}]: '
            "field is immutable",
            "denied the request: spec.replicatedJobs: Invalid value: …: field is immutable",
        ),
        ('spec: Invalid value: core.PodSpec{Env:"X-1", Args:["X-2", ', "spec: Invalid value: …"),
        ('spec: Invalid value: {"value":"X-1: field"}: too long', "spec: Invalid value: …"),
        ('containers[0].env[1].value: Invalid value: "X-1": no', "containers[0].env[1].value: Invalid value: …"),
        ('containers[0].env[1].name: Duplicate value: "X-1"', "containers[0].env[1].name: Duplicate value: …"),
        ('args[0]: Unsupported value: "X-1": supported values: "a"', "args[0]: Unsupported value: …"),
        ('args[0]: Too long: may not be more than 9 bytes: "X-1"', "args[0]: Too long: …"),
        ('env[0].valueFrom: Not found: {"key":"X-1"}', "env[0].valueFrom: Not found: …"),
        (
            'runc create failed: exec: "curl -u a:X-1": stat curl -u a:X-1: no such file or directory: unknown',
            "runc create failed: exec: …: no such file or directory",
        ),
        ('exec: "run X-1": executable file not found in $PATH: unknown', "exec: …: executable file not found"),
        ("executable file `run X-1` not found in $PATH", "executable file … not found"),
        *(
            (kept, kept)
            for kept in (
                'exec: "torchrun": executable file not found in $PATH: unknown',
                'runc create failed: exec: "/opt/run.sh": stat /opt/run.sh: no such file or directory: unknown',
                "executable file `torchrun` not found in $PATH: No such file or directory",
            )
        ),
        (
            "Mounting arguments: -t cifs -o user=u,pass=X-1 //a /b\nOutput: mount error(13): Permission denied",
            "Mounting arguments: …\nOutput: mount error(13): Permission denied",
        ),
        (
            "Startup probe errored and resulted in unknown state: rpc error: X-1",
            "Startup probe errored and resulted in unknown state: …",
        ),
        ('spec.queue: Invalid value: "red": no such queue', 'spec.queue: Invalid value: "red": no such queue'),
        ("Exec lifecycle hook ([/bin/sh -c x (X-1)]) for Container failed: X-2", "Exec lifecycle hook …"),
        ("PostStartHook failed: X-1 (log)", "PostStartHook failed …"),
        ("Startup probe failed: X-1\nX-2", "Startup probe failed: …"),
        ("Liveness probe errored: rpc error: exec X-1", "Liveness probe errored: …"),
        (
            "Readiness probe failed: HTTP probe failed with statuscode: 500",
            "Readiness probe failed: HTTP probe failed with statuscode: 500",
        ),
    ],
)
def test_messages_show_no_values_commands_and_output(message: str, kept: str) -> None:
    event = body("v1", "Event", "e", "vision", message=message)
    assert recorded(Observed(NOW, (event,)))["items"][0]["message"] == kept


def test_a_file_for_one_namespace_has_little_of_the_pods_of_others(cluster: Cluster, tmp_path: Path) -> None:
    for pod in (each for each in cluster.bodies if each["kind"] == "Pod"):
        pod["metadata"]["labels"] = {"team": "X-1", "volcano.sh/preemptable": "true"}
        pod["spec"] |= {"serviceAccountName": "X-2", "volumes": [{"name": "X-3"}], "preemptionPolicy": "Never"}
        pod["spec"]["containers"] = [{**pod["spec"]["containers"][0], "image": "X-4", "name": "X-5"}]
        pod["status"]["containerStatuses"] = [{"image": "X-6"}]
    file = tmp_path / "f.json"
    write_snapshot(cluster.observed, file, "language")
    pods = [each for each in json.loads(file.read_text())["items"] if each["kind"] == "Pod"]
    others = [each for each in pods if each["metadata"]["namespace"] == "vision"]
    assert "X-" not in json.dumps(others)
    assert "X-4" in json.dumps([each for each in pods if each["metadata"]["namespace"] == "language"])
    first, whole = others[0], next(each for each in cluster.bodies if each["kind"] == "Pod")
    assert set(first) == {"apiVersion", "kind", "metadata", "spec", "status"}
    kept = {"name", "namespace", "creationTimestamp", "ownerReferences", "annotations", "labels"}
    assert set(first["metadata"]) == kept
    assert first["metadata"]["ownerReferences"] == whole["metadata"]["ownerReferences"]
    assert (first["status"], first["spec"]["nodeName"]) == ({"phase": "Running"}, "rack-0-node-0")
    assert first["spec"]["preemptionPolicy"] == "Never"
    assert first["spec"]["containers"] == [{"resources": whole["spec"]["containers"][0]["resources"]}]
    observed = observed_of_text(file.read_text(), "f", NOW)
    assert explain(observed, "train", "language") == cluster.explain("train", "language")


def test_kinds_of_too_many_objects_are_unread(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_snapshot, "MAX_OBJECTS", 8)
    monkeypatch.setattr(cluster_snapshot, "MAX_EVENTS", 2)
    for number in range(3):
        cluster.event(cluster.find("TrainJob", "train"), f"R{number}", "m")
        cluster.bodies[-1]["lastTimestamp"] = f"2026-11-24T0{number}:00:00Z"
    file = tmp_path / "f.json"
    write_snapshot(cluster.observed, file)
    observed = observed_of_text(file.read_text(), "f", NOW)
    assert observed.unread == {Kind.POD}
    assert sorted(each["reason"] for each in observed.objects if each["kind"] == "Event") == ["R1", "R2"]


def test_kinds_without_an_object_are_unread_in_other_files(cluster: Cluster) -> None:
    documents = [each for each in cluster.bodies if each["kind"] in ("TrainJob", "Queue")]
    for text in (yaml.safe_dump_all(documents), json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})):
        observed = observed_of_text(text, "f", NOW)
        assert frozenset(Kind.ALL) - observed.unread == {Kind.TRAIN_JOB, Kind.QUEUE}
        assert explain(observed, "train", "language").cause == "unknown"


@pytest.mark.parametrize("text", ["", "[1]", "a: [", "x"])
def test_files_of_something_else_are_errors(text: str) -> None:
    with pytest.raises(TrainyardError, match="f"):
        observed_of_text(text, "f", NOW)


def test_objects_whose_name_the_api_server_would_reject_are_left_out() -> None:
    names = ["good", "a.b-c.9", "Bad", "x\ny", "-x", "x/y", "a" * 254, "system:node"]
    bodies = [body("v1", "Node", name) for name in names]
    bodies += [body("v1", "Pod", "p", namespace) for namespace in ("vision", "vi\x1bsion")]
    observed = observed_of_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": bodies}), "f", NOW)
    assert [each["metadata"]["name"] for each in observed.objects] == ["good", "a.b-c.9", "p"]


def test_an_error_about_a_file_controls_no_terminal(tmp_path: Path) -> None:
    odd = tmp_path / "f\x07.json"
    odd.write_text("[1]")
    found = in_process("explain", "train", "--from", str(odd))
    assert (found.returncode, "\x07" in found.stderr) == (2, False)


@pytest.mark.parametrize("cut", [0.3, 0.9, 1 - 1e-9])
def test_a_truncated_snapshot_is_named_and_not_read_as_yaml(
    file: Path, cut: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = file.read_text().rstrip()
    monkeypatch.delattr(recorded_file, "load_all")  # large YAML takes minutes
    with pytest.raises(TrainyardError, match="f is incomplete: its JSON ends early"):
        observed_of_text(text[: int(len(text) * cut)], "f", NOW)
    with pytest.raises(TrainyardError, match=r"f is not valid JSON: .* line 1 column"):
        observed_of_text(text.replace('"kind":"Pod"', '"kind":Pod', 1) + " " * 1_000_000, "f", NOW)
    monkeypatch.undo()
    assert observed_of_text("{apiVersion: v1, kind: Node, metadata: {name: n}}", "f", NOW).objects


def test_explain_reads_a_file(file: Path) -> None:
    found = json.loads(require(in_process("explain", "train", "-n", "language", "--from", str(file), "-o", "json")))
    assert (found["job"], found["cause"]) == ("language/train", "share-lent-out")
    assert "TrainJob language/train waits: " in require(
        in_process("explain", "train", "-n", "language", "--from", str(file))
    )


def test_exit_code_is_one_for_an_unknown_cause_and_two_for_no_job(tmp_path: Path) -> None:
    cluster, file = Cluster(), tmp_path / "f.json"
    cluster.job("train")
    write_snapshot(cluster.observed, file)
    unknown = in_process("explain", "train", "-n", "vision", "--from", str(file))
    assert (unknown.returncode, "none of the known causes applies" in unknown.stdout) == (1, True)
    missing = in_process("explain", "train", "--from", str(file))
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "train does not exist in namespace default" in missing.stderr
    assert "use -n vision" in missing.stderr
    absent = in_process("explain", "train", "--from", str(tmp_path / "absent.json"))
    assert (absent.returncode, "Traceback" in absent.stderr) == (2, False)


def test_queues_show_reads_a_file(file: Path) -> None:
    found: dict[str, Any] = json.loads(require(in_process("queues", "show", "--from", str(file), "-o", "json")))
    vision = next(each for each in found["queues"] if each["queue"] == "vision")
    assert (vision["used"][GPU], vision["reclaimable"][GPU], vision["usedFrom"]) == ("64", "32", "pods")


def test_queues_plan_reads_a_file(file: Path, tmp_path: Path) -> None:
    after = tmp_path / "queues.yaml"
    queues = Cluster().queue("vision", "research", deserved=64, capability=64).queue("language", "research").bodies
    kept = [each for each in queues if each["kind"] == "Queue" and each["metadata"]["name"] not in ("root", "default")]
    after.write_text(yaml.safe_dump_all(kept))
    plan = in_process("queues", "plan", "live", str(after), "--from", str(file), "-o", "json")
    assert "vision/busy-vision" in require(plan)
    refused = in_process("queues", "plan", str(after), str(after), "--from", str(file))
    assert (refused.returncode, "write `live` for OLD" in refused.stderr) == (2, True)


def test_topology_commands_read_a_file(file: Path) -> None:
    assert in_process("topology", "check", str(file)).returncode == 0
    named = in_process("topology", "import", "--from", "nodes", str(file), "--tier", "rack", "--label", "rack=gpu")
    assert "rack-0-node-0" in require(named)


def test_topology_show_and_check_take_a_snapshot(file: Path, tmp_path: Path) -> None:
    shown = require(in_process("topology", "show", "--from", str(file)))
    assert shown.splitlines() == [
        "8 nodes, tiers 1 rack, 2 spine",
        "└─ spine spine-0: 8 nodes",
        "   └─ rack rack-0 … rack-1: 2 × 4 nodes",
    ]
    picture = tmp_path / "fabric.svg"
    require(in_process("topology", "show", "--from", str(file), "--svg", str(picture)))
    assert "rack-1" in picture.read_text()
    assert in_process("topology", "check", "--from", str(file)).returncode == 0
    state = json.loads(file.read_text())
    spine = next(each for each in state["items"] if each["metadata"]["name"] == "spine-0")
    spine["spec"]["members"][0]["selector"]["exactMatch"]["name"] = "gone"
    file.write_text(json.dumps(state))
    checked = in_process("topology", "check", "--from", str(file))
    assert (checked.returncode, "gone" in checked.stdout) == (1, True)


def test_topology_commands_say_what_from_takes(file: Path, tmp_path: Path) -> None:
    for arguments, said in (
        (("show",), "set FILE, or --from with a file of `trainyard snapshot save`"),
        (("show", "--from", "absent"), "use one of: settings"),
        (("show", "--from", str(file), str(file)), "leave out FILE"),
        (("check",), "set FILE, or --from with a file of `trainyard snapshot save`"),
    ):
        refused = in_process("topology", *arguments)
        assert (refused.returncode, said in refused.stderr) == (2, True), refused.stderr
    state = json.loads(file.read_text())
    state["items"] = [each for each in state["items"] if each["kind"] != "HyperNode"]
    file.write_text(json.dumps(state))
    for command in ("show", "check"):
        refused = in_process("topology", command, "--from", str(file))
        assert (refused.returncode, "HyperNode" in refused.stderr) == (2, True)


def test_a_reader_without_the_stack_uses_the_kubeconfig_of_the_environment(tmp_path: Path) -> None:
    env = {"KUBECONFIG": str(tmp_path / "of-a-person"), "TRAINYARD_STATE_HOME": str(tmp_path)}
    for command in (["explain", "train"], ["snapshot", "save", str(tmp_path / "f.json")]):
        assert "of-a-person" in in_process(*command, env=env).stderr
        assert "of-a-person" not in in_process(*command, "--stack", "local", env=env).stderr
        assert "other" in in_process(*command, "--kubeconfig", str(tmp_path / "other"), env=env).stderr
