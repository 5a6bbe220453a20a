"""Files of a cluster: private, complete or absent, never of another user."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from trainyard.errors import TrainyardError
from trainyard.local.cluster import folders


def test_homes_follow_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TRAINYARD_STATE_HOME", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert folders.state_home() == tmp_path / "xdg" / "trainyard"
    monkeypatch.setenv("TRAINYARD_STATE_HOME", str(tmp_path / "own"))
    assert folders.cluster_folder("local").root == tmp_path / "own" / "clusters" / "local"


@pytest.mark.parametrize("name", ["", "Local", "../x", "a/b", "-a", "a" * 64])
def test_a_name_that_is_no_label_is_refused(name: str) -> None:
    with pytest.raises(TrainyardError, match="is not a valid cluster name"):
        folders.cluster_folder(name)


def test_written_files_are_private_and_leave_nothing_beside(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b" / "secret"
    folders.write_private(target, "one")
    folders.write_private(target, "two")
    assert target.read_text() == "two"
    assert target.stat().st_mode & 0o777 == 0o600
    assert target.parent.stat().st_mode & 0o777 == 0o700
    assert list(target.parent.iterdir()) == [target]


def test_a_full_disk_is_one_clear_message_and_keeps_the_old_content(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    target = tmp_path / "file"
    folders.write_private(target, "old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TrainyardError, match="The disk is full") as raised:
        folders.write_private(target, "new")
    assert "free space" in raised.value.fix
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_files_of_another_user_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(TrainyardError, match="belongs to another user"):
        folders.require_ownership(tmp_path)
    folders.require_ownership(tmp_path / "absent")


def test_a_lock_says_that_it_waits_and_is_released(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    waited: list[bool] = []
    with folders.exclusive(lock):
        descriptor = os.open(lock, os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with folders.exclusive(lock, on_wait=lambda: waited.append(True)):
        os.close(descriptor)
    assert waited == []
