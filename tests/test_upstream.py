"""Upstream files: verified against the lock, from wherever they come."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from trainyard import upstream
from trainyard.errors import TrainyardError
from trainyard.settings.versions import supported_versions

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


def test_a_download_is_kept_and_a_changed_copy_is_downloaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINYARD_CACHE_HOME", str(tmp_path))
    asked, content = [], b"kind: X\n"
    expected = hashlib.sha256(content).hexdigest()

    def opener(url: str) -> bytes:
        asked.append(url)
        return content

    for _ in range(2):
        assert upstream._download("https://mirror.example/a", expected, opener) == content
    assert asked == ["https://mirror.example/a"]
    (kept,) = (tmp_path / "upstream").iterdir()
    kept.write_text("kind: Y\n")
    assert upstream._download("https://mirror.example/a", expected, opener) == content
    assert (len(asked), kept.read_bytes()) == (2, content)


def test_a_download_without_the_expected_content_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_CACHE_HOME", str(tmp_path))
    for expected in ("0" * 64, None):
        assert upstream._download("https://mirror.example/a", expected, lambda _: b"other") == b"other"
    assert not (tmp_path / "upstream").exists()


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
    from trainyard.settings.versions import component_release

    lock = json.loads(upstream.lock_file().read_text())
    manifests = {name: each.manifests for name, each in declarations().items() if each.manifests}
    assert set(manifests) == {"volcano", "jobset", "kueue"}
    for name, files in manifests.items():
        for version in supported_versions(name):
            release = component_release(name, version)
            assert set(lock[f"{release.module}@v{version}"]) == set(files)


@pytest.fixture
def cached(mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the parsed objects of the mirror."""
    monkeypatch.setenv("TRAINYARD_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(upstream, "lock_file", lambda: mirror / "lock")
    assert parsed() == [{"kind": "ClusterRole", "rules": []}]
    (file,) = (tmp_path / "cache" / "upstream").iterdir()
    return file


def parsed() -> list[dict[str, object]]:
    upstream._documents.cache_clear()
    return upstream.documents("jobset", "0.12.0", PATH, kinds=["ClusterRole"])


def test_what_was_parsed_is_kept_for_exactly_that_text(
    cached: Path, mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream, "_parse", lambda *_: pytest.fail("parsed again"))
    assert parsed() == [{"kind": "ClusterRole", "rules": []}]
    (mirror / "mirror" / KEY / PATH).write_text("kind: ClusterRole\nrules: [{verbs: ['*']}]\n")
    with pytest.raises(TrainyardError, match="does not match the lock file"):
        parsed()


@pytest.mark.parametrize(
    "content", ['[["ClusterRole", "{\\"kind\\": \\"ClusterRole\\", \\"rules\\": [{}]}"]]', "[", ""]
)
def test_a_changed_copy_of_parsed_objects_is_parsed_again(cached: Path, content: str) -> None:
    kept = cached.read_bytes()
    cached.write_text(content)
    assert parsed() == [{"kind": "ClusterRole", "rules": []}]
    assert cached.read_bytes() == kept


def test_the_projects_lock_has_the_objects_that_are_parsed() -> None:
    for name in ("volcano", "jobset"):
        for path in upstream.locked_files(name, supported_versions(name)[0]):
            text, expected = upstream._verified(name, supported_versions(name)[0], path, upstream.lock_file())
            assert upstream._sha256(upstream._parse(text)) == expected, path


@pytest.mark.parametrize("content", ["[]", '{"sigs.k8s.io/jobset@v0.12.0": {"a": "b"}}', "{"])
def test_an_invalid_lock_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "lock").write_text(content)
    with pytest.raises(TrainyardError, match="is not") as caught:
        upstream.read("jobset", "0.12.0", PATH, lock=tmp_path / "lock")
    assert caught.value.fix == "restore it from the repository"


def test_a_preview_downloads_no_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(upstream.SOURCE_VARIABLE, raising=False)
    monkeypatch.setenv("GOMODCACHE", str(tmp_path))
    monkeypatch.setattr(upstream.subprocess, "run", lambda *_, **__: pytest.fail("something was downloaded"))
    with upstream.without_downloads(), pytest.raises(TrainyardError, match="a preview downloads nothing") as raised:
        upstream.read("jobset", "0.12.0", PATH)
    assert "trainyard cluster toolchain --manifests" in raised.value.fix
    assert upstream.SOURCE_VARIABLE in raised.value.fix


def test_the_modules_of_missing_manifests_are_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(upstream.SOURCE_VARIABLE, raising=False)
    monkeypatch.setenv("GOMODCACHE", str(tmp_path))
    asked: list[str] = []
    monkeypatch.setattr(upstream, "_go_mod_download", lambda release: asked.append(release.version))
    upstream.require_modules(["jobset"])
    upstream.require_modules(["jobset"], older=True)
    assert asked == ["0.12.0", "0.12.0", "0.11.1"]
    asked.clear()
    (tmp_path / "sigs.k8s.io" / "jobset@v0.12.0").mkdir(parents=True)
    upstream.require_modules(["jobset"])
    monkeypatch.setenv(upstream.SOURCE_VARIABLE, str(tmp_path))
    upstream.require_modules(["jobset"], older=True)
    assert not asked
