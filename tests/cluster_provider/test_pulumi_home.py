"""The Pulumi home that the local clusters use."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainyard.local.cluster.pulumi_home import home_without_logs


def test_it_is_the_users_without_the_log(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "plugins").mkdir(parents=True)
    (home / "logs").mkdir()
    (home / "credentials.json").write_text("{}")
    quiet = home_without_logs(tmp_path / "quiet", home)
    assert (quiet / "plugins").is_dir()
    assert (quiet / "credentials.json").read_text() == "{}"
    assert (quiet / "logs").is_file()


def test_making_it_again_adds_what_is_new_and_repairs_what_moved(tmp_path: Path) -> None:
    home, target = tmp_path / "home", tmp_path / "quiet"
    home.mkdir()
    home_without_logs(target, home)
    (target / "plugins").symlink_to(tmp_path / "gone")
    (home / "plugins").mkdir()
    assert (home_without_logs(target, home) / "plugins").resolve() == home / "plugins"


def test_a_user_without_a_home_gets_one(tmp_path: Path) -> None:
    assert (home_without_logs(tmp_path / "quiet", tmp_path / "none") / "logs").is_file()


def test_the_home_of_a_shell_that_uses_it_already_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_HOME", str(home_without_logs(tmp_path / "quiet", tmp_path / "none")))
    assert home_without_logs(tmp_path / "quiet") == tmp_path / "quiet"
