"""Lists of kubeconfigs, as in ``KUBECONFIG=a:b``: the first file wins for each entry."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainyard.errors import TrainyardError
from trainyard.kube import credentials
from trainyard.kube.kubeconfig_files import files_of, merged
from trainyard.local.cluster.existing import ExistingProvider


def written(
    path: Path, context: str = "", server: str = "", user: dict[str, Any] | None = None, name: str = ""
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    name = name or context
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "Config"}
    if context:
        body |= {"current-context": context}
        body |= {"contexts": [{"name": context, "context": {"cluster": name, "user": name}}]}
    if server:
        body |= {"clusters": [{"name": name, "cluster": {"server": server}}]}
    if user is not None:
        body |= {"users": [{"name": name, "user": user}]}
    path.write_text(yaml.safe_dump(body))
    return path


def joined(*paths: Path) -> str:
    return os.pathsep.join(map(str, paths))


def test_the_first_file_wins_for_each_entry(tmp_path: Path) -> None:
    one = written(tmp_path / "a", "x", "http://127.0.0.1:1", {"token": "a"})
    other = written(tmp_path / "b", "x", "http://127.0.0.1:2", {"token": "b"})
    more = written(tmp_path / "c", "y", "http://127.0.0.1:3", {"token": "c"})
    assert credentials.kubeconfig(joined(one, other, more)).server == "http://127.0.0.1:1"
    assert credentials.kubeconfig(joined(other, one, more)).server == "http://127.0.0.1:2"
    assert credentials.kubeconfig(joined(one, other, more), "y").server == "http://127.0.0.1:3"


def test_entries_of_one_context_may_be_in_several_files(tmp_path: Path) -> None:
    context = written(tmp_path / "a", "x", name="n")
    cluster = written(tmp_path / "b", server="http://127.0.0.1:2", name="n")
    user = written(tmp_path / "c", user={"token": "t"}, name="n")
    assert credentials.kubeconfig(joined(context, cluster, user)).server == "http://127.0.0.1:2"


def test_missing_and_empty_files_of_a_list_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    one = written(tmp_path / "a", "x", "http://127.0.0.1:1", {})
    listed = joined(tmp_path / "none", tmp_path / "empty", one)
    assert credentials.kubeconfig(listed).server == "http://127.0.0.1:1"
    assert files_of(str(tmp_path / "none")) == [tmp_path / "none"]


def test_relative_paths_are_those_of_their_own_file(tmp_path: Path) -> None:
    one = written(tmp_path / "one" / "a", "x", "http://127.0.0.1:1", {"tokenFile": "token"})
    other = written(tmp_path / "two" / "b", "y", "http://127.0.0.1:2", {"exec": {"command": "./login"}})
    users = {entry["name"]: entry["user"] for entry in merged([one, other])["users"]}
    assert users["x"]["tokenFile"] == str(tmp_path / "one" / "token")
    assert users["y"]["exec"]["command"] == str(tmp_path / "two" / "login")


@pytest.mark.parametrize("text", ["[", "- a", "text", "contexts: [1]", "users: [{user: {}}]", "clusters: 3"])
def test_a_file_of_a_list_that_is_no_kubeconfig_is_named(text: str, tmp_path: Path) -> None:
    one, bad = written(tmp_path / "a", "x", "http://127.0.0.1:1", {}), tmp_path / "bad"
    bad.write_text(text)
    with pytest.raises(TrainyardError, match=f"{bad} is not a kubeconfig"):
        credentials.kubeconfig(joined(one, bad))


def existing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *files: Path, context: str = "x") -> Path:
    monkeypatch.setenv("TRAINYARD_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TRAINYARD_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("KUBECONFIG", joined(*files))
    return ExistingProvider("prod", context=context, kubeconfig=None).access().kubeconfig


def test_the_file_with_the_whole_context_is_used_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    one = written(tmp_path / "a", "y", "http://127.0.0.1:1", {"token": "a"})
    other = written(tmp_path / "b", "x", "http://127.0.0.1:2", {"token": "b"})
    assert existing(monkeypatch, tmp_path, one, other) == other
    assert existing(monkeypatch, tmp_path, one, other, context="y") == one


def test_a_context_in_several_files_is_a_private_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    context = written(tmp_path / "a", "x", name="n")
    rest = written(tmp_path / "b", "other", "http://127.0.0.1:2", {"token": "t"}, name="n")
    copy = existing(monkeypatch, tmp_path, context, rest)
    assert copy.stat().st_mode & 0o777 == 0o600
    assert copy.is_relative_to(tmp_path / "cache")
    assert not (tmp_path / "state").exists()
    assert credentials.kubeconfig(copy).server == "http://127.0.0.1:2"
    assert [entry["name"] for entry in yaml.safe_load(copy.read_text())["contexts"]] == ["x"]
    assert existing(monkeypatch, tmp_path, context, rest) == copy


def test_a_kept_copy_is_used_until_the_files_change(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    context = written(tmp_path / "a", "x", name="n")
    rest = written(tmp_path / "b", "other", "http://127.0.0.1:2", {"token": "t"}, name="n")
    temporary = existing(monkeypatch, tmp_path, context, rest)
    ExistingProvider("prod", context="x", kubeconfig=None).keep_access()
    kept = existing(monkeypatch, tmp_path, context, rest)
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.is_relative_to(tmp_path / "state")
    written(tmp_path / "b", "other", "http://127.0.0.1:2", {"token": "renewed"}, name="n")
    assert existing(monkeypatch, tmp_path, context, rest) == temporary
    assert "renewed" in temporary.read_text()
    assert "renewed" not in kept.read_text()


def test_a_copy_that_is_not_kept_ends_with_its_process(tmp_path: Path) -> None:
    files = written(tmp_path / "a", "x", name="n"), written(tmp_path / "b", "y", "http://127.0.0.1:2", {}, name="n")
    environment = {**os.environ, "KUBECONFIG": joined(*files)}
    environment |= {f"TRAINYARD_{each}_HOME": str(tmp_path / each) for each in ("STATE", "CACHE")}
    program = """
from trainyard.local.cluster.existing import ExistingProvider
file = ExistingProvider("prod", context="x", kubeconfig=None).access().kubeconfig
assert file.is_file()
print(file)
"""
    command = [sys.executable, "-c", program]
    copy = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()
    assert copy.startswith(str(tmp_path / "CACHE"))
    assert sorted(each for each in tmp_path.rglob("*") if each.is_file()) == [*files]


def test_a_context_that_no_file_has_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    one = written(tmp_path / "a", "y", "http://127.0.0.1:1", {})
    other = written(tmp_path / "b", "z", "http://127.0.0.1:2", {})
    with pytest.raises(TrainyardError, match="no context 'x'"):
        existing(monkeypatch, tmp_path, one, other)
    status = ExistingProvider("prod", context="x", kubeconfig=None).status()
    assert not status.healthy
    assert "no context 'x'" in status.processes[0].detail
