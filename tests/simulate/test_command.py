"""`trainyard simulate` answers usage errors before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.simulate.fake_world import SMALL
from tests.support import in_process


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (None, (), "cannot be read"),
        ({"title": "x", "fabric": SMALL, "jobs": {"a": {"pods": 0}}}, (), "jobs.a.pods"),
        ({"title": "x", "fabric": SMALL, "jobs": {"a": {}}}, ("--out", "timeline.pdf"), "neither .svg nor .html"),
    ],
)
def test_a_usage_error_exits_2_without_a_traceback(
    tmp_path: Path, content: object, options: tuple[str, ...], message: str
) -> None:
    path = tmp_path / "scenario.yaml"
    if content is not None:
        path.write_text(yaml.safe_dump(content))
    result = in_process("simulate", str(path), *options, env={"TRAINYARD_STATE_HOME": str(tmp_path / "state")})
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "state").exists()


def test_a_cluster_that_no_replay_made_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump({"title": "x", "fabric": SMALL, "jobs": {"a": {}}}))
    folder = tmp_path / "state" / "clusters" / "local"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "cluster.json").write_text("{}")
    env = {"TRAINYARD_STATE_HOME": str(tmp_path / "state")}
    result = in_process("simulate", str(path), "--name", "local", env=env)
    assert result.returncode == 2
    assert "was not created by a replay" in result.stderr
    assert (folder / "cluster.json").read_text() == "{}"
