"""Folders of the project: those that settings name are relative to the Pulumi project that runs."""

from __future__ import annotations

from pathlib import Path

import pytest

import trainyard.data
from tests.support import in_process
from trainyard.data import PROJECT_VARIABLE, configured_folder, project_root

CLONE = Path(__file__).resolve().parents[1]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the package in an environment without a clone."""
    package = tmp_path / "environment" / "site-packages" / "trainyard"
    package.mkdir(parents=True)
    monkeypatch.setattr(trainyard.data, "_PACKAGE", package)
    return package


@pytest.mark.parametrize("name", ["Pulumi.yaml", "Pulumi.yml", "Pulumi.json"])
@pytest.mark.parametrize("inside", ["", "infra/gpu"])
@pytest.mark.usefixtures("package")
def test_a_library_user_has_folders_in_the_own_pulumi_project(
    name: str, inside: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "team"
    folder = project / inside
    folder.mkdir(parents=True)
    (project / name).write_text("name: team\nmain: infra/gpu\n")
    monkeypatch.chdir(folder)
    assert configured_folder("rules") == project / "rules"


@pytest.mark.usefixtures("package")
def test_without_a_project_they_are_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert configured_folder("rules") == tmp_path / "rules"


@pytest.mark.usefixtures("package")
def test_a_new_rule_is_written_into_the_own_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "Pulumi.yaml").write_text("name: team\n")
    monkeypatch.chdir(tmp_path / "team")
    done = in_process("policy", "new", "ABC-101", "short-names", "--family", "naming")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "team" / "policies" / "naming" / "ABC-101-short-names" / "rule.yaml").is_file()


def test_in_a_clone_they_are_those_of_its_stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (CLONE / "stacks", CLONE / "examples" / "existing_cluster", tmp_path):
        monkeypatch.chdir(folder)
        assert configured_folder("rules") == CLONE / "rules" == project_root() / "rules"


def test_an_absolute_folder_stays(tmp_path: Path) -> None:
    assert configured_folder(str(tmp_path)) == tmp_path


@pytest.mark.usefixtures("package")
def test_a_program_started_in_its_own_folder_gets_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(PROJECT_VARIABLE, str(tmp_path / "team"))
    assert configured_folder("rules") == tmp_path / "team" / "rules"
