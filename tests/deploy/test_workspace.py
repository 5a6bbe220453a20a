"""Where Pulumi runs: nothing of the checkout or the user's home is written."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml
from pulumi.automation.errors import CommandError

from trainyard.data import project_root
from trainyard.errors import TrainyardError
from trainyard.platform.deploy.workspace import (
    StackProgram,
    _collection,
    _exists,
    _failure,
    _is_found,
    _temporary_backend,
    write_project,
)
from trainyard.settings.stack import StackSettings


def test_the_project_is_the_same_one_without_its_folders(tmp_path: Path) -> None:
    write_project(tmp_path)
    project = yaml.safe_load((tmp_path / "Pulumi.yaml").read_text())
    assert project["name"] == "trainyard"
    assert "main" not in project
    assert "stackConfigDir" not in project


def test_the_program_keeps_the_error_that_is_meant_for_the_user(tmp_path: Path) -> None:
    path = tmp_path / "__main__.py"
    path.write_text(
        "from trainyard.errors import TrainyardError\n"
        "try:\n    raise TrainyardError('wrong', fix='right')\n"
        "except TrainyardError as error:\n    raise RuntimeError(str(error)) from error\n"
    )
    program = StackProgram(path)
    with pytest.raises(RuntimeError):
        program()
    assert isinstance(program.error, TrainyardError)
    assert program.error.fix == "right"


def test_a_user_without_a_name_reads_what_pulumi_needs() -> None:
    error = _failure(RuntimeError("stderr: error: could not create stack: user: unknown userid 12345"))
    assert "the name of the user" in error.message
    assert "/etc/passwd" in str(error.fix)


def test_pulumi_yaml_describes_every_setting() -> None:
    project = yaml.safe_load((project_root() / "Pulumi.yaml").read_text())
    described = {key.removeprefix("trainyard:"): entry for key, entry in project["config"].items()}
    fields = {field.alias or name for name, field in StackSettings.model_fields.items()}
    assert set(described) == fields
    assert all(entry["description"] for entry in described.values())


def test_what_the_program_imports_is_imported_before_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "early_example.py").write_text("NAME = 'early'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "__main__.py"
    path.write_text("import sys\nassert 'early_example' in sys.modules\nfrom early_example import NAME\n")
    program = StackProgram(path)
    program.prepare()
    program()
    assert program.error is None


def test_a_program_that_cannot_be_prepared_says_so_when_it_runs(tmp_path: Path) -> None:
    path = tmp_path / "__main__.py"
    path.write_text("from no_such_module import anything\n")
    program = StackProgram(path)
    program.prepare()
    with pytest.raises(ModuleNotFoundError):
        program()


def test_a_stack_is_known_by_its_file_in_a_file_backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path}")
    assert not _exists("local")
    file = tmp_path / ".pulumi" / "stacks" / "trainyard" / "local.json"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    assert _exists("local")
    monkeypatch.setenv("PULUMI_BACKEND_URL", "s3://bucket")
    assert not _exists("local")


@pytest.mark.parametrize("suffix", [".json.gz", ".json.zst"])
def test_a_compressed_state_is_that_of_the_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path}")
    file = tmp_path / ".pulumi" / "stacks" / "trainyard" / f"local{suffix}"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"")
    assert _exists("local")
    assert not _exists("other")


class FakeWorkspace:
    """A CLI that answers whether it has a stack."""

    def __init__(self, error: str = "") -> None:
        self.commands: list[list[str]] = []
        self._error = error

    def _run_pulumi_cmd_sync(self, arguments: list[str]) -> None:
        self.commands.append(arguments)
        if self._error:
            raise CommandError(SimpleNamespace(stdout="", stderr=self._error, code=255))  # type: ignore[arg-type]


@pytest.mark.parametrize(("error", "found"), [("", True), ("error: no stack named 'local' found", False)])
def test_a_file_backend_without_projects_is_read_by_the_cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str, found: bool
) -> None:
    """Its layout is ``.pulumi/stacks/<stack>.json``; a preview in an empty folder runs and writes nothing."""
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path}")
    workspace = FakeWorkspace(error)
    assert not _is_found(cast("Any", workspace), "local")
    assert workspace.commands == []
    file = tmp_path / ".pulumi" / "stacks" / "local.json.gz"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"")
    assert not _exists("local")
    assert _is_found(cast("Any", workspace), "local") is found
    assert workspace.commands == [["stack", "--show-name", "--stack", "local"]]


def test_a_temporary_state_leaves_the_backend_alone_and_needs_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", "s3://bucket")
    monkeypatch.delenv("PULUMI_CONFIG_PASSPHRASE", raising=False)
    monkeypatch.delenv("PULUMI_CONFIG_PASSPHRASE_FILE", raising=False)
    file = tmp_path / "Pulumi.production.yaml"
    file.write_text("secretsprovider: awskms://key\nencryptedkey: abc\nconfig:\n  trainyard:protect: true\n")
    with _temporary_backend(tmp_path, "production"):
        assert os.environ["PULUMI_BACKEND_URL"] == f"file://{tmp_path / 'state'}"
        assert os.environ["PULUMI_CONFIG_PASSPHRASE"]
        assert yaml.safe_load(file.read_text()) == {"config": {"trainyard:protect": True}}
    assert os.environ["PULUMI_BACKEND_URL"] == "s3://bucket"
    assert "PULUMI_CONFIG_PASSPHRASE" not in os.environ


def test_a_users_own_garbage_collection_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOMEMLIMIT", raising=False)
    monkeypatch.setenv("GOGC", "50")
    assert _collection() == {"GOMEMLIMIT": "1GiB"}
