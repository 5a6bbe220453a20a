"""Settings of ESC environments: the command line decides from the values that the program will see."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support import in_process
from trainyard.cli.common import settings_of
from trainyard.cluster.toolchain import Toolchain
from trainyard.deploy import environment_settings
from trainyard.errors import TrainyardError

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
