"""Variables of a cluster that tools of this machine use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trainyard.cluster.environment import local_environment


def test_the_state_is_written_once_unless_the_user_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PULUMI_SKIP_CHECKPOINTS", raising=False)
    assert local_environment(tmp_path, tmp_path, ())["PULUMI_SKIP_CHECKPOINTS"] == "true"
    monkeypatch.setenv("PULUMI_SKIP_CHECKPOINTS", "false")
    assert local_environment(tmp_path, tmp_path, ())["PULUMI_SKIP_CHECKPOINTS"] == "false"


def test_pulumi_knows_a_user_without_a_name_by_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr("getpass.getuser", nameless)
    monkeypatch.delenv("USER", raising=False)
    assert local_environment(tmp_path, tmp_path, ())["USER"] == str(os.getuid())
    monkeypatch.setenv("USER", "ada")
    assert "USER" not in local_environment(tmp_path, tmp_path, ())
