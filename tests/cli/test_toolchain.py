"""``trainyard cluster toolchain`` where sources of programs are missing, as in an installation from the wheel."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import in_process
from trainyard import upstream
from trainyard.local.cluster import toolchain as module
from trainyard.local.cluster.toolchain import ResolvedProgram, Toolchain
from trainyard.progress import Progress
from trainyard.settings.versions import Program


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An empty machine with the sources that the wheel ships; returns the modules that are downloaded."""
    (tmp_path / "toolchain" / "opa").mkdir(parents=True)
    monkeypatch.setattr(module, "_shipped", lambda: tmp_path / "toolchain")
    monkeypatch.setenv("TRAINYARD_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "pulumi"))
    monkeypatch.setenv("GOMODCACHE", str(tmp_path / "modules"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv(upstream.SOURCE_VARIABLE, raising=False)
    downloaded: list[str] = []
    monkeypatch.setattr(upstream, "_go_mod_download", lambda release: downloaded.append(release.module))
    return downloaded


def test_manifests_alone_are_downloaded_without_a_build(modules: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Toolchain, "ensure", lambda *_, **__: pytest.fail("a program is built"))
    done = in_process("cluster", "toolchain", "--manifests")
    assert done.returncode == 0, done.stderr
    assert modules == ["volcano.sh/volcano", "sigs.k8s.io/jobset"]
    assert "modules" in done.stdout


def test_manifests_are_downloaded_before_anything_that_may_fail(modules: list[str]) -> None:
    done = in_process("cluster", "toolchain", "--only", "etcd")
    assert done.returncode == 2
    assert "run the command in a checkout" in done.stderr
    assert modules


def test_programs_without_sources_are_named_and_the_others_built(
    modules: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[str] = []

    def build(self: Toolchain, programs: Sequence[Program], progress: Progress) -> list[ResolvedProgram]:
        built.extend(each.name for each in programs)
        return self.resolve(programs)

    monkeypatch.setattr(Toolchain, "ensure", build)
    done = in_process("cluster", "toolchain", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert built == ["opa"]
    assert modules
    assert "no sources of" in done.stderr
    assert "etcd" in done.stderr
    assert "kueue" not in done.stderr
    states = {each["name"]: each["from"] for each in json.loads(done.stdout)["programs"]}
    assert states["etcd"] == "missing"
    assert "opa" in states


def test_manifests_excludes_programs() -> None:
    done = in_process("cluster", "toolchain", "--manifests", "--only", "opa")
    assert done.returncode == 2
    assert "--only" in done.stderr


def test_a_program_that_is_asked_for_is_not_left_out(modules: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []
    monkeypatch.setattr(Toolchain, "ensure", lambda _self, programs, **_: built.extend(x.name for x in programs) or [])
    assert in_process("cluster", "toolchain", "--with", "kueue").returncode == 0
    assert built == ["opa", "kueue"], "ensure names the missing sources"
    assert modules == ["volcano.sh/volcano", "sigs.k8s.io/jobset", "sigs.k8s.io/kueue"]
