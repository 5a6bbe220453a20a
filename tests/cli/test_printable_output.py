"""What tenants and manifests name reaches no terminal, log or CI runner as anything but text."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from tests.support import in_process, python
from trainyard.logs import write_logs
from trainyard.manifests.loader import load_all

HOSTILE = (
    r"a\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\n"
    r"::add-mask::x\n##[group]\r\e[2J\e]8;;http://example.com\a\u009b31m\u202e\u2028FORGED\x7f"
)
TRAIN_JOB = f"""
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {{name: "{HOSTILE}", namespace: "{HOSTILE}"}}
spec:
  runtimeRef: {{name: "{HOSTILE}"}}
  labels: {{"{HOSTILE}": "{HOSTILE}"}}
"""
VALID = f"""
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {{name: a, namespace: vision}}
spec:
  runtimeRef: {{name: torch-distributed}}
  trainer: {{command: [sh, -c, "{HOSTILE}"], env: [{{name: A, value: "{HOSTILE}"}}]}}
"""
LEGACY = f"""
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: "{HOSTILE}", namespace: "{HOSTILE}", annotations: {{"{HOSTILE}": b}}}}
spec:
  "{HOSTILE}": 1
  pytorchReplicaSpecs:
    Worker: {{replicas: 2, template: {{spec: {{containers: [{{name: pytorch, image: "{HOSTILE}"}}]}}}}}}
"""
QUEUE = f"""
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {{name: "{HOSTILE}"}}
spec: {{parent: "{HOSTILE}", capability: {{"{HOSTILE}": 1}}}}
"""
SCENARIO = f"""
title: "{HOSTILE}"
"{HOSTILE}": 1
"""


def assert_inert(text: str) -> None:
    """Fail if a text has control characters, forged lines, or commands of CI runners."""
    for line in text.split("\n"):
        assert line.replace("\t", "").isprintable(), ascii(line)
        assert not line.lstrip().startswith(("::", "FORGED", "kind: ClusterRoleBinding")), line
        assert "##[" not in line, line


@pytest.mark.parametrize("file_name", ["job.yaml", "\x1b[31m\n::error::x.yaml"])
@pytest.mark.parametrize(
    ("command", "text"),
    [
        (("render",), TRAIN_JOB),
        (("render", "-o", "json"), TRAIN_JOB),
        (("render",), VALID),
        (("render", "-o", "json"), VALID),
        (("convert",), LEGACY),
        (("convert", "-o", "json"), LEGACY),
        (("convert", "--all"), LEGACY),
        (("queues", "show"), QUEUE),
        (("queues", "check"), QUEUE),
        (("queues", "check", "-o", "github"), QUEUE),
        (("queues", "check", "-o", "json"), QUEUE),
        (("topology", "check"), QUEUE),
        (("simulate", "run"), SCENARIO),
        (("scheduler", "check"), SCENARIO),
        (("explain", "a", "--from"), QUEUE),
    ],
)
def test_no_command_prints_more_than_text(tmp_path: Path, command: tuple[str, ...], text: str, file_name: str) -> None:
    file = tmp_path / file_name
    file.write_text(text)
    done = in_process(*command, str(file))
    assert done.stdout + done.stderr
    lines = done.stdout.split("\n")
    if "github" in command:
        lines = [line for line in lines if not line.startswith(("::error file=", "::warning file="))]
    assert_inert("\n".join(lines))
    assert_inert(done.stderr)


def test_a_name_adds_no_document(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(TRAIN_JOB)
    assert list(load_all(in_process("render", str(tmp_path / "job.yaml")).stdout)) in ([], [None])


def test_what_is_printable_is_printed_as_it_is(tmp_path: Path) -> None:
    letters = "Größe 模型 → می‌خواهم"
    (tmp_path / "job.yaml").write_text(VALID.replace(HOSTILE, letters))
    done = in_process("render", str(tmp_path / "job.yaml"))
    assert letters in done.stdout
    value = json.loads(in_process("render", "-o", "json", str(tmp_path / "job.yaml")).stdout)
    assert letters in json.dumps(value, ensure_ascii=False)


def test_the_traceback_of_a_defect_is_printable() -> None:
    program = (
        "import sys; sys.argv = ['trainyard', 'crds']; import trainyard.cli.app as app\n"
        "def fail(*_): raise ValueError('\\x1b[2J\\n::error::x')\n"
        "app.build = fail; app.main()"
    )
    done = python(program)
    assert "ValueError" in done.stderr
    assert_inert(done.stderr)


def test_a_log_record_cannot_forge_another(capsys: pytest.CaptureFixture[str]) -> None:
    root, level = logging.getLogger(), logging.getLogger().level
    others, root.handlers = root.handlers, []
    try:
        write_logs("INFO")
        logging.getLogger("x").warning("reconcile %s", "a\n2026-01-01 INFO all is well\x1b[2J\n::error::y")
    finally:
        root.handlers = others
        root.setLevel(level)
    first, *further = capsys.readouterr().err.split("\n")
    assert first.endswith("reconcile a")
    assert further == ["    2026-01-01 INFO all is well [2J", "    : :error::y", ""]
