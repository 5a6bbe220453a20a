"""Upstream files: verified against the lock, from wherever they come."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainyard import upstream
from trainyard.errors import TrainyardError

PATH = "config/components/rbac/role.yaml"
KEY = "sigs.k8s.io/jobset@v0.12.0"


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one file, and its lock."""
    file = tmp_path / "mirror" / KEY / PATH
    file.parent.mkdir(parents=True)
    file.write_text("kind: ClusterRole\nrules: []\n---\nkind: Other\n")
    monkeypatch.setenv(upstream.SOURCE_VARIABLE, str(tmp_path / "mirror"))
    upstream._documents.cache_clear()
    upstream.record({("jobset", "0.12.0"): [PATH]}, lock=tmp_path / "lock")
    yield tmp_path
    upstream._documents.cache_clear()


def test_a_locked_file_is_read_from_a_folder(mirror: Path) -> None:
    assert upstream.read("jobset", "0.12.0", PATH, lock=mirror / "lock").startswith("kind: ClusterRole")


def test_a_file_that_was_tampered_with_is_refused(mirror: Path) -> None:
    (mirror / "mirror" / KEY / PATH).write_text("kind: ClusterRole\nrules: [{verbs: ['*']}]\n")
    with pytest.raises(TrainyardError, match="does not match the lock file") as caught:
        upstream.read("jobset", "0.12.0", PATH, lock=mirror / "lock")
    assert "do not install it" in str(caught.value)


def test_a_file_without_a_lock_is_refused(mirror: Path) -> None:
    with pytest.raises(TrainyardError, match="has no SHA-256"):
        upstream.read("jobset", "0.12.0", "other.yaml", lock=mirror / "lock")


def test_a_missing_file_says_where_it_was_looked_for(mirror: Path) -> None:
    (mirror / "mirror" / KEY / PATH).unlink()
    with pytest.raises(TrainyardError, match="cannot be read") as caught:
        upstream.read("jobset", "0.12.0", PATH, lock=mirror / "lock")
    assert upstream.SOURCE_VARIABLE in caught.value.fix


def test_a_download_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_CACHE_HOME", str(tmp_path))
    asked = []

    def opener(url: str) -> bytes:
        asked.append(url)
        return b"kind: X\n"

    for _ in range(2):
        assert upstream._download("https://mirror.example/a", opener) == b"kind: X\n"
    assert asked == ["https://mirror.example/a"]


def test_descriptions_go_and_properties_of_that_name_stay() -> None:
    schema = {
        "type": "object",
        "description": "text",
        "properties": {
            "description": {"type": "string", "description": "text"},
            "list": {"type": "array", "items": {"description": "text", "anyOf": [{"description": "text"}]}},
        },
    }
    definition = {"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}}
    stripped = upstream.without_descriptions(definition)
    assert "text" not in json.dumps(stripped)
    properties = stripped["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    assert set(properties) == {"description", "list"}


def test_the_projects_lock_covers_every_file_the_components_read() -> None:
    from components.registry import declarations
    from trainyard.settings.versions import component_release, supported_versions

    lock = json.loads(upstream.lock_file().read_text())
    manifests = {name: each.manifests for name, each in declarations().items() if each.manifests}
    assert set(manifests) == {"volcano", "jobset", "kueue"}
    for name, files in manifests.items():
        for version in supported_versions(name):
            release = component_release(name, version)
            assert set(lock[f"{release.module}@v{version}"]) == set(files)


def test_what_was_parsed_is_kept_for_exactly_that_text(
    mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINYARD_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(upstream, "lock_file", lambda: mirror / "lock")
    first = upstream.documents("jobset", "0.12.0", PATH, kinds=["ClusterRole"])
    monkeypatch.setattr(upstream, "_parse", lambda *_: pytest.fail("parsed again"))
    upstream._documents.cache_clear()
    assert (
        upstream.documents("jobset", "0.12.0", PATH, kinds=["ClusterRole"])
        == first
        == [{"kind": "ClusterRole", "rules": []}]
    )

    (mirror / "mirror" / KEY / PATH).write_text("kind: ClusterRole\nrules: [{verbs: ['*']}]\n")
    upstream._documents.cache_clear()
    with pytest.raises(TrainyardError, match="does not match the lock file"):
        upstream.documents("jobset", "0.12.0", PATH, kinds=["ClusterRole"])
