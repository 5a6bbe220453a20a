"""Variables of a cluster that tools of this machine use."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainyard.local.cluster.environment import local_environment


def test_the_state_is_written_once_unless_the_user_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PULUMI_SKIP_CHECKPOINTS", raising=False)
    assert local_environment(tmp_path, tmp_path, ())["PULUMI_SKIP_CHECKPOINTS"] == "true"
    monkeypatch.setenv("PULUMI_SKIP_CHECKPOINTS", "false")
    assert local_environment(tmp_path, tmp_path, ())["PULUMI_SKIP_CHECKPOINTS"] == "false"
