"""Where Pulumi runs: nothing of the checkout or the user's home is written."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from trainyard.data import checkout
from trainyard.deploy.workspace import Program, _write_project
from trainyard.problem import TrainyardError
from trainyard.settings import StackSettings


def test_the_project_is_the_same_one_without_its_folders(tmp_path: Path) -> None:
    _write_project(tmp_path)
    project = yaml.safe_load((tmp_path / "Pulumi.yaml").read_text())
    assert project["name"] == "trainyard"
    assert "main" not in project
    assert "stackConfigDir" not in project


def test_the_program_keeps_the_error_that_is_meant_for_the_user(tmp_path: Path) -> None:
    path = tmp_path / "__main__.py"
    path.write_text(
        "from trainyard.problem import TrainyardError\n"
        "try:\n    raise TrainyardError('wrong', fix='right')\n"
        "except TrainyardError as error:\n    raise RuntimeError(str(error)) from error\n"
    )
    program = Program(path)
    with pytest.raises(RuntimeError):
        program()
    assert isinstance(program.error, TrainyardError)
    assert program.error.fix == "right"


def test_pulumi_yaml_describes_every_setting() -> None:
    project = yaml.safe_load((checkout() / "Pulumi.yaml").read_text())
    described = {key.removeprefix("trainyard:"): entry for key, entry in project["config"].items()}
    fields = {field.alias or name for name, field in StackSettings.model_fields.items()}
    assert set(described) == fields
    assert all(entry["description"] for entry in described.values())
