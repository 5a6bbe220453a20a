"""Built programs: whatever changed one, its record or its key is found before the program runs."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster_provider.test_toolchain import GROUP, ONE, TWO, fake_go
from trainyard.errors import TrainyardError
from trainyard.local.cluster import toolchain as toolchain_module
from trainyard.local.cluster.build import Build
from trainyard.local.cluster.build_records import KEY_VARIABLE, is_recorded, record, require_recorded, seal
from trainyard.local.cluster.process import ProcessSpec, start
from trainyard.local.cluster.toolchain import ResolvedProgram, Toolchain, own_program
from trainyard.progress import LineProgress, SilentProgress


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    """Two programs, built in the cache of a user."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("TRAINYARD_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("TRAINYARD_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    monkeypatch.setattr(toolchain_module, "_on_path", lambda *_: None)
    monkeypatch.setattr(toolchain_module, "PROGRAM_GROUPS", (GROUP,))
    monkeypatch.setattr(toolchain_module, "pinned", lambda: (ONE, TWO))
    go = fake_go(tmp_path)
    monkeypatch.setattr(toolchain_module, "find_go", lambda: go)
    sources = tmp_path / "toolchain" / "tools"
    sources.mkdir(parents=True)
    (sources / "go.mod").write_text("module tools\n")
    built = Build(GROUP, sources, tmp_path / "cache" / "toolchain", go)
    built.run([ONE, TWO], SilentProgress())
    return built


def toolchain(build: Build) -> Toolchain:
    return Toolchain(build.sources.parent, build.cache)


def _other_content(one: Path) -> None:
    one.write_text("malicious")


def _same_size_and_time(one: Path) -> None:
    before = one.stat()
    with one.open("r+b") as file:
        file.write(b"B")
    os.utime(one, ns=(before.st_atime_ns, before.st_mtime_ns))


def _other_program(one: Path) -> None:
    one.write_text("a program of the same group")
    for file in (one, one.parent.parent / "records" / "one"):
        file.unlink()
        (file.with_name("two")).replace(file)


def _record_of_another_key(one: Path) -> None:
    one.write_text("malicious")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEY_VARIABLE, "0123456789abcdef")
        record(one)


def _no_record(one: Path) -> None:
    (one.parent.parent / "records" / "one").unlink()


CHANGES = [_other_content, _same_size_and_time, _other_program, _record_of_another_key, _no_record]


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_program_is_not_used_and_is_built_again(build: Build, change: Callable[[Path], None]) -> None:
    one = build.folder / "one"
    toolchain(build).require("one")
    toolchain(build).refuse_changed()
    change(one)
    found = toolchain(build).resolve([ONE])
    assert [(each.path, each.origin) for each in found] == [(None, "missing")]
    with pytest.raises(TrainyardError, match=r"not what was built: one 1\.0\.0") as raised:
        toolchain(build).require("one")
    assert "trainyard cluster toolchain" in raised.value.fix
    with pytest.raises(TrainyardError, match="not the program that was built"):
        toolchain(build).refuse_changed("one")
    lines: list[str] = []
    (again,) = toolchain(build).ensure([ONE], LineProgress(lines.append))
    assert (again.path, one.read_text()) == (one, "built\n")
    assert "changed or without a record: one" in lines[-1]


def test_a_changed_program_is_not_started(build: Build, tmp_path: Path) -> None:
    one = build.folder / "one"
    spec = ProcessSpec("one", "1.0.0", (str(one),), tmp_path / "log")
    require_recorded(one)
    one.write_text("#!/bin/sh\ntouch started\n")
    with pytest.raises(TrainyardError, match="is not the program that was built") as raised:
        start(spec)
    assert str(one) in raised.value.message
    assert "trainyard cluster toolchain" in raised.value.fix


def test_the_scripts_of_a_group_are_verified_with_its_programs(build: Build, tmp_path: Path) -> None:
    module = tmp_path / "module"
    module.mkdir()
    (module / "helper").write_text("#!/bin/sh\n")
    go = Path(build.go.path)
    go.write_text(go.read_text().replace('echo "example.org/a";;', f'echo "{module}";;'))
    scripted = dataclasses.replace(build, group=dataclasses.replace(GROUP, companions=(("example.org/m", "helper"),)))
    folder = scripted.run([ONE], SilentProgress())
    assert not scripted.missing([ONE])
    (folder / "helper").write_text("#!/bin/sh\nmalicious\n")
    assert scripted.missing([ONE])


def test_a_key_of_the_environment_is_valid_on_another_machine(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = build.folder / "one"
    monkeypatch.setenv(KEY_VARIABLE, "a-secret-of-the-ci-system")
    assert not is_recorded(one)
    record(one)
    monkeypatch.setenv("TRAINYARD_CONFIG_HOME", str(tmp_path / "another"))
    assert is_recorded(one)
    monkeypatch.setenv(KEY_VARIABLE, "")
    assert not is_recorded(one)
    monkeypatch.setenv(KEY_VARIABLE, "short")
    with pytest.raises(TrainyardError, match="at least 16"):
        is_recorded(one)


def test_the_key_is_for_its_owner_only(build: Build, tmp_path: Path) -> None:
    assert (tmp_path / "config" / "cache-key").stat().st_mode & 0o777 == 0o600


def test_the_seal_of_a_record_depends_on_the_text_and_the_key(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = seal("digests")
    assert first == seal("digests") != seal("other digests")
    monkeypatch.setenv("TRAINYARD_CONFIG_HOME", str(tmp_path / "another"))
    assert seal("digests") != first
    assert (tmp_path / "another" / "cache-key").stat().st_mode & 0o777 == 0o600


def test_images_get_the_program_that_was_built_and_not_one_on_path(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = ResolvedProgram("one", "1.0.0", Path("/usr/bin/one"), "path")
    monkeypatch.setattr(toolchain_module, "_on_path", lambda *_: other)
    monkeypatch.setattr(toolchain_module, "PROGRAMS", (ONE, TWO))
    monkeypatch.setattr(toolchain_module, "_shipped", lambda: build.sources.parent)
    one = build.folder / "one"
    assert own_program("one", build=False) == one
    one.write_text("malicious")
    with pytest.raises(TrainyardError, match=r"one 1\.0\.0 is not built"):
        own_program("one", build=False)
    assert own_program("one").read_text() == "built\n"
