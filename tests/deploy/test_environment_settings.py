"""Settings of ESC environments: the command line decides from the values that the program will see."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support import in_process
from trainyard.cli.check import stack_of
from trainyard.cli.common import settings_of
from trainyard.errors import TrainyardError
from trainyard.local.cluster.toolchain import Toolchain
from trainyard.platform.deploy import environment_settings
from trainyard.settings.stack_loader import load_stack

ROOT = Path(__file__).resolve().parents[2]

PULUMI = """#!/bin/sh
echo "$@" >> "$CALLS/arguments"
cp Pulumi.yaml Pulumi.*.yaml "$CALLS"
echo "encryptionsalt: written-by-pulumi" >> Pulumi.production.yaml
cat "$CALLS/answer"
cat "$CALLS/errors" >&2
exit "$(cat "$CALLS/code")"
"""
FILE = """
environment: [acme/production]
config:
  trainyard:protect: true
"""
PLAIN = """
config:
  trainyard:cluster: {provider: embedded}
"""


class FakePulumi:
    """A program ``pulumi`` on PATH with one answer."""

    def __init__(self, folder: Path) -> None:
        self.calls = folder / "calls"
        self.calls.mkdir()
        (folder / "pulumi").write_text(PULUMI)
        (folder / "pulumi").chmod(0o755)
        self.answer()

    def answer(self, values: dict[str, Any] | None = None, *, errors: str = "", code: int = 0) -> None:
        """Set what it prints."""
        (self.calls / "answer").write_text(json.dumps(values or {}))
        (self.calls / "errors").write_text(errors)
        (self.calls / "code").write_text(str(code))

    @property
    def arguments(self) -> list[str]:
        """The arguments of each call."""
        file = self.calls / "arguments"
        return file.read_text().splitlines() if file.exists() else []


def entry(value: Any, *, secret: bool = False) -> dict[str, Any]:
    """Return a value as ``pulumi config --json`` prints it."""
    text = value if isinstance(value, str) else json.dumps(value)
    return {"value": text, "secret": secret, **({"objectValue": value} if isinstance(value, dict) else {})}


@pytest.fixture
def pulumi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePulumi:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setattr(Toolchain, "folders", lambda _: [])
    monkeypatch.setenv("PATH", os.pathsep.join([str(folder), os.environ["PATH"]]))
    fake = FakePulumi(folder)
    monkeypatch.setenv("CALLS", str(fake.calls))
    return fake


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "Pulumi.production.yaml"
    path.write_text(FILE)
    return path


def test_a_file_without_environment_starts_no_process(pulumi: FakePulumi, file: Path) -> None:
    file.write_text(PLAIN)
    assert settings_of("production", file).cluster.provider == "embedded"
    file.write_text(PLAIN + "  gcp:credentials: {secure: v1:abc}\n")
    assert settings_of("production", file).cluster.provider == "embedded"
    assert pulumi.arguments == []


PROJECT = """
name: trainyard
runtime: python
config:
  trainyard:cluster: {type: object, value: {provider: existing, context: of-project}}
  trainyard:fabric: {type: object, default: {maxMissingNodes: 7}}
  policies: {default: {preview: false}}
  trainyard:protect: true
  trainyard:queues: {type: object, default: {research: {}}, value: {other: {}}}
  trainyard:kueue: {type: object}
  gcp:region: {value: europe-west4}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose file has values for the stacks that lack them."""
    (tmp_path / "stacks").mkdir()
    (tmp_path / "Pulumi.yaml").write_text(PROJECT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("text", ["config:\n  trainyard:trainer: {workers: 3}\n", "config: {}\n", "{}\n"])
def test_values_of_the_project_are_settings_of_stacks_that_lack_them(
    text: str, project: Path, pulumi: FakePulumi
) -> None:
    (project / "stacks" / "Pulumi.production.yaml").write_text(text)
    settings = settings_of("production")
    assert (settings.cluster.context, settings.fabric.max_missing_nodes) == ("of-project", "7")
    assert (settings.policies.preview, settings.protect) == (False, True)
    assert list(settings.queues) == ["research"], "a default precedes a value, as in pulumi"
    assert pulumi.arguments == []


def test_a_setting_of_the_stack_replaces_that_of_the_project(project: Path, pulumi: FakePulumi) -> None:
    (project / "stacks" / "Pulumi.production.yaml").write_text(PLAIN + "  trainyard:fabric: {}\n")
    settings = settings_of("production")
    assert (settings.cluster.provider, settings.cluster.context) == ("embedded", None)
    assert settings.fabric.max_missing_nodes != "7"
    assert settings.protect


def test_checks_of_a_stack_read_the_project_too(project: Path) -> None:
    (project / "stacks" / "Pulumi.production.yaml").write_text("config: {}\n")
    settings, file = stack_of("production", None)
    assert settings is not None
    assert file == project / "stacks" / "Pulumi.production.yaml"
    assert settings.cluster.context == "of-project"


def test_an_error_in_a_value_of_the_project_names_its_file(project: Path) -> None:
    (project / "Pulumi.yaml").write_text(PROJECT.replace("maxMissingNodes: 7", "maxMissing: 7"))
    (project / "stacks" / "Pulumi.production.yaml").write_text("config: {}\n")
    with pytest.raises(TrainyardError, match="maxMissing") as caught:
        settings_of("production")
    assert str(project / "Pulumi.yaml") in str(caught.value)
    (project / "Pulumi.yaml").write_text(PROJECT.replace("maxMissingNodes: 7", "secure: hidden-value"))
    with pytest.raises(TrainyardError, match=r"trainyard:fabric") as caught:
        settings_of("production")
    assert "hidden-value" not in str(caught.value)


@pytest.mark.parametrize("stack", ["local", "production"])
def test_the_defaults_of_this_project_change_no_setting(stack: str) -> None:
    assert settings_of(stack) == load_stack(ROOT / "stacks" / f"Pulumi.{stack}.yaml")


def test_values_of_an_environment_are_settings(pulumi: FakePulumi, file: Path) -> None:
    pulumi.answer(
        {
            "trainyard:cluster": entry({"provider": "existing", "context": "esc"}),
            "trainyard:protect": entry("true"),
            "trainyard:policies": entry({"preview": False}),
            "gcp:credentials": {"secret": True},
        }
    )
    settings = settings_of("production", file)
    assert (settings.cluster.context, settings.protect, settings.policies.preview) == ("esc", True, False)
    assert pulumi.arguments == ["config --json --open --stack production --non-interactive"]
    assert (pulumi.calls / "Pulumi.production.yaml").read_text() == FILE
    assert "name: trainyard" in (pulumi.calls / "Pulumi.yaml").read_text()
    assert file.read_text() == FILE, "pulumi adds a salt to the file that it reads"


def test_commands_act_on_the_cluster_of_the_environment(pulumi: FakePulumi, file: Path, tmp_path: Path) -> None:
    pulumi.answer({"trainyard:cluster": entry({"provider": "existing", "context": "esc", "kubeconfig": "/missing"})})
    for command in (("up", "--yes"), ("preview",), ("destroy", "--yes"), ("refresh",), ("adopt", "--plan")):
        result = in_process(*command, "--stack", "production", "--config-file", str(file))
        assert result.returncode == 2
        assert "/missing does not exist" in result.stderr, result.stderr


def test_a_refusal_is_one_message(pulumi: FakePulumi, file: Path) -> None:
    pulumi.answer(errors="warning: x\nerror: no stack named 'production' found\n", code=255)
    result = in_process("preview", "--stack", "production", "--config-file", str(file))
    assert result.returncode == 2
    assert f"The environment of {file} cannot be read: no stack named 'production' found" in result.stderr
    assert "pulumi stack init" in result.stderr
    assert "Traceback" not in result.stderr


def test_secret_settings_are_rejected_without_their_value(pulumi: FakePulumi, file: Path) -> None:
    pulumi.answer(
        {
            "trainyard:cluster": entry({"provider": "existing", "context": "esc"}),
            "trainyard:images": entry({"jobset": {"repository": "hidden-value"}}, secret=True),
        }
    )
    result = in_process("preview", "--stack", "production", "--config-file", str(file))
    assert result.returncode == 2
    assert "trainyard:images: is a secret" in result.stderr
    assert "hidden-value" not in result.stdout + result.stderr


def test_a_kubeconfig_in_the_settings_is_a_path_and_no_secret(pulumi: FakePulumi, file: Path) -> None:
    file.write_text("config:\n  trainyard:cluster: {provider: existing, kubeconfig: {secure: v1:abc}}\n")
    with pytest.raises(TrainyardError, match=r"trainyard:cluster\.kubeconfig: is a secret.*set the path without"):
        settings_of("production", file)


def test_pulumi_does_not_hang_the_command(
    pulumi: FakePulumi, file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bin" / "pulumi").write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(environment_settings, "PATIENCE_SECONDS", 0.2)
    with pytest.raises(TrainyardError, match=r"pulumi did not answer within 0\.2 seconds"):
        settings_of("production", file)


def test_an_answer_that_is_none_is_an_error(pulumi: FakePulumi, file: Path) -> None:
    (pulumi.calls / "answer").write_text("Please choose a stack")
    with pytest.raises(TrainyardError, match="is not JSON"):
        settings_of("production", file)
