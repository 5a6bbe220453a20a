"""cluster.json: kept whole, and one clear message when it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainyard.errors import TrainyardError
from trainyard.local.cluster.folders import ClusterFolder
from trainyard.local.cluster.state import ClusterState, ProgramFile, load_state, save_state


@pytest.fixture
def folder(tmp_path: Path) -> ClusterFolder:
    return ClusterFolder(tmp_path / "local")


def test_a_state_is_read_as_it_was_written(folder: ClusterFolder) -> None:
    state = ClusterState({"etcd/client": 20001}, {"etcd": ProgramFile("3.6.8", "/bin/etcd")})
    save_state(folder, state)
    assert load_state(folder) == state
    assert folder.state.stat().st_mode & 0o777 == 0o600


def test_a_cluster_that_was_never_created_has_no_state(folder: ClusterFolder) -> None:
    assert load_state(folder) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', '{"format": 1, "ports": {"a": "x"}, "programs": {}}'])
def test_a_half_written_state_names_the_file_and_the_way_out(folder: ClusterFolder, text: str) -> None:
    folder.root.mkdir()
    folder.state.write_text(text)
    with pytest.raises(TrainyardError, match="damaged") as raised:
        load_state(folder)
    assert str(folder.state) in raised.value.message
    assert "trainyard cluster down --delete --name local" in raised.value.fix


def test_objects_without_a_state_are_not_taken_for_a_new_cluster(folder: ClusterFolder) -> None:
    folder.etcd.mkdir(parents=True)
    with pytest.raises(TrainyardError, match="etcd has data"):
        load_state(folder)


def test_a_newer_format_is_refused(folder: ClusterFolder) -> None:
    folder.root.mkdir()
    folder.state.write_text('{"format": 99, "ports": {}, "programs": {}}')
    with pytest.raises(TrainyardError, match="newer Trainyard"):
        load_state(folder)
