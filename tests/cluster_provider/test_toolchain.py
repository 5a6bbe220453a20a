"""Where programs come from: PATH in the pinned version, else a build that is made once."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from trainyard.errors import TrainyardError
from trainyard.local.cluster import build as build_module
from trainyard.local.cluster import go as go_module
from trainyard.local.cluster.build import Build, required_space
from trainyard.local.cluster.go import PROFILE, Go, build_command, find_go, link_flags, output_name
from trainyard.local.cluster.toolchain import Toolchain, pinned, program_path
from trainyard.progress import SilentProgress
from trainyard.settings.versions import PROGRAM_GROUPS, PROGRAMS, Edit, Program, ProgramGroup

GROUP = ProgramGroup("tools", {"example.org/version.Version": "v1.0.0"})
ONE = Program("one", "1.0.0", "tools", "example.org/cmd/one")
TWO = Program("two", "1.0.0", "tools", "example.org/two/v3")


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def fake_go(folder: Path, build: str = "") -> Go:
    """A compiler that writes a file for every package it is asked for."""
    body = f"""
case "$1" in
  version) echo "go version go1.26.8 linux/amd64";;
  list) echo "example.org/a";;
  env) printf '%s\\n%s\\n' "$TMPDIR" "$TMPDIR";;
  build)
    {build}
    echo "example.org/a" >&2
    for package in "$@"; do case "$package" in
      *cmd/one) echo built > "$4/one";;
      *two/v3) echo built > "$4/two";;
    esac; done;;
esac"""
    return Go(str(executable(folder / "go", body)), "go1.26.8")


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("TRAINYARD_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "toolchain" / "tools"
    folder.mkdir(parents=True)
    (folder / "go.mod").write_text("module tools\n")
    return folder


def test_the_build_command_stamps_versions_and_lists_packages(tmp_path: Path) -> None:
    output = tmp_path / "bin"
    command = build_command(Go("/go", "go1.26"), GROUP, {"one": ONE, "two": TWO}, tmp_path, output)
    assert command == [
        "/go",
        "build",
        "-v",
        "-o",
        f"{output}/",
        "-ldflags",
        "-s -w -X example.org/version.Version=v1.0.0",
        "example.org/cmd/one",
        "example.org/two/v3",
    ]
    profile = tmp_path / PROFILE
    profile.touch()
    optimized = build_command(Go("/go", "go1.26"), GROUP, {"one": ONE, "two": TWO}, tmp_path, output)
    assert optimized == [*command[:5], "-pgo", str(profile), *command[5:]]


def test_the_compiler_runs_without_the_users_flags_and_toolchains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOFLAGS", "-mod=vendor")
    found = Go("/go", "go1.26").environment
    assert (found["GOFLAGS"], found["GOTOOLCHAIN"]) == ("-mod=readonly -trimpath -buildvcs=false", "local")


@pytest.mark.parametrize(
    ("package", "name"),
    [
        ("go.etcd.io/etcd/server/v3", "server"),
        ("sigs.k8s.io/jobset", "jobset"),
        ("volcano.sh/volcano/cmd/scheduler", "scheduler"),
        (".", "pulumi-kubernetes"),
    ],
)
def test_the_name_that_go_gives_a_program_is_known(package: str, name: str) -> None:
    assert output_name(package, "pulumi-kubernetes") == name


def test_kubernetes_programs_know_their_version() -> None:
    group = next(group for group in PROGRAM_GROUPS if group.name == "control-plane")
    assert "-X k8s.io/component-base/version.gitVersion=v1.36.3" in link_flags(group)
    assert "-X k8s.io/client-go/pkg/version.gitMinor=36" in link_flags(group)


def test_programs_of_the_tests_are_no_part_of_the_platform() -> None:
    assert {program.name for program in PROGRAMS if program.peer} == {
        "trainer-controller-manager",
        "gatekeeper",
        "gator",
    }
    assert {program.name for program in PROGRAMS if program.measured} == {"gatekeeper", "gator"}
    assert not any(program.peer for program in pinned())


def test_an_optional_program_is_built_only_when_it_is_needed() -> None:
    assert {program.name for program in PROGRAMS if program.optional} == {
        *("kueue", "kubelet", "kube-proxy", "coredns", "local-path-provisioner"),
        *("kind", "kubeadm"),
    }
    assert not any(program.optional for program in pinned())


def test_every_program_belongs_to_a_folder_with_its_modules() -> None:
    folders = Toolchain().sources
    groups = {group.name: group for group in PROGRAM_GROUPS}
    for program in PROGRAMS:
        assert (folders / (groups[program.group].modules or program.group) / "go.sum").is_file(), program


def test_a_build_is_made_once_and_only_for_what_is_missing(sources: Path, tmp_path: Path) -> None:
    build = Build(GROUP, sources, tmp_path / "cache", fake_go(tmp_path))
    folder = build.run([ONE, TWO], SilentProgress())
    assert sorted(path.name for path in folder.iterdir()) == ["one", "two"]
    before = (folder / "one").stat().st_ino
    (folder / "two").unlink()
    assert set(build.missing([ONE, TWO])) == {"two"}
    build.run([ONE, TWO], SilentProgress())
    assert (folder / "one").stat().st_ino == before
    assert not (folder.parent / "work").exists()


def test_a_change_of_the_modules_is_another_build(sources: Path, tmp_path: Path) -> None:
    build = Build(GROUP, sources, tmp_path / "cache", fake_go(tmp_path))
    before = build.folder
    (sources / "go.sum").write_text("changed")
    assert build.folder != before


def test_a_group_that_shares_modules_is_built_with_them_and_builds_no_other_again(
    sources: Path, tmp_path: Path
) -> None:
    own = tmp_path / "toolchain" / "own"
    own.mkdir()
    (sources / "go.sum").touch()
    (own / "main.go").write_text("package main")
    group = dataclasses.replace(GROUP, name="own", modules="tools")
    program = Program("own", "1.0.0", "own", ".")
    go = fake_go(tmp_path, 'cat go.mod main.go >&2; echo built > "$4/tools"')
    build, other = Build(group, own, tmp_path / "cache", go), Build(GROUP, sources, tmp_path / "cache", go)
    before = build.folder, other.folder
    assert [path.name for path in build.run([program], SilentProgress()).iterdir()] == ["own"]
    assert "module tools\npackage main" in build.log.read_text()
    (own / "main.go").write_text("package main // changed")
    assert (build.folder != before[0], other.folder) == (True, before[1])
    changed = build.folder
    (sources / "go.mod").write_text("module tools // changed\n")
    assert build.folder != changed


def test_a_copied_source_is_edited_and_a_changed_one_is_refused(sources: Path, tmp_path: Path) -> None:
    module = tmp_path / "module"
    module.mkdir()
    (module / "main.go").write_text("path := OLD\n")
    go = fake_go(tmp_path, "cat main.go >&2")
    executable(Path(go.path), Path(go.path).read_text().replace('echo "example.org/a";;', f'echo "{module}";;'))
    group = dataclasses.replace(GROUP, sources=(("example.org/m", "main.go"),), edits=(Edit("main.go", "OLD", "NEW"),))
    build = Build(group, sources, tmp_path / "cache", go)
    build.run([ONE], SilentProgress())
    assert "path := NEW" in build.log.read_text()
    assert build.folder != Build(dataclasses.replace(group, edits=()), sources, tmp_path / "cache", go).folder
    (module / "main.go").write_text("path := OTHER\n")
    with pytest.raises(TrainyardError, match=r"OLD does not occur once in main\.go"):
        build.run([TWO], SilentProgress())


def test_a_failed_build_names_the_folder_and_the_log_and_leaves_no_program(sources: Path, tmp_path: Path) -> None:
    build = Build(GROUP, sources, tmp_path / "cache", fake_go(tmp_path, 'echo "a.go:1: broken" >&2; exit 1'))
    with pytest.raises(TrainyardError, match=r"toolchain/tools cannot be built.*broken") as raised:
        build.run([ONE], SilentProgress())
    assert str(build.log) in raised.value.fix
    assert "broken" in build.log.read_text()
    assert build.missing([ONE])
    Build(GROUP, sources, tmp_path / "cache", fake_go(tmp_path)).run([ONE], SilentProgress())
    assert not build.missing([ONE])


def test_a_full_disk_during_a_build_says_so(sources: Path, tmp_path: Path) -> None:
    build = Build(GROUP, sources, tmp_path / "cache", fake_go(tmp_path, 'echo "no space left on device" >&2; exit 1'))
    with pytest.raises(TrainyardError, match="The disk is full"):
        build.run([ONE], SilentProgress())


def test_too_small_a_disk_is_refused_before_compiling(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = Build(GROUP, sources, tmp_path / "cache", fake_go(tmp_path))
    monkeypatch.setattr(build_module.shutil, "disk_usage", lambda _: build_module.shutil._ntuple_diskusage(1, 1, 1))
    with pytest.raises(TrainyardError, match=r"needs about .* GiB"):
        build.run([ONE], SilentProgress())
    assert 10e9 < required_space(8134, 12) < 16e9


def test_without_go_the_error_names_the_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(go_module.sys, "prefix", str(tmp_path))
    with pytest.raises(TrainyardError, match="requires Go") as raised:
        find_go()
    assert "toolchain/go.lock" in raised.value.fix
    executable(tmp_path / "go", 'echo "go version go1.21.0 linux/amd64"')
    with pytest.raises(TrainyardError, match=r"go1\.21\.0"):
        find_go()


def test_go_beside_this_python_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(go_module.sys, "prefix", str(tmp_path))
    beside = executable(tmp_path / "bin" / "go", 'echo "go version go1.27.0 linux/amd64"')
    assert find_go() == Go(str(beside), "go1.27.0")


@pytest.fixture
def only_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "pulumi"))
    return folder


def origins(tmp_path: Path) -> dict[str, str]:
    return {program.name: program.origin for program in Toolchain(cache=tmp_path / "cache").resolve()}


def test_a_program_on_path_is_used_in_the_pinned_version_only(only_path: Path, tmp_path: Path) -> None:
    executable(only_path / "etcd", 'echo "etcd Version: 3.6.8"; echo "Go Version: go1.26.1"')
    executable(only_path / "kubectl", '[ "$1 $2" = "version --client" ] && echo "Client Version: v1.36.3"')
    executable(only_path / "kwok", 'echo "kwok version v0.7.0 go1.26.8 (linux/amd64)"')
    executable(only_path / "vc-scheduler", 'echo "2026/11/21 09:32:11 maxprocs"; echo "Version: v1.14.1"')
    executable(only_path / "jobset", "exit 0")
    found = origins(tmp_path)
    assert {name for name, origin in found.items() if origin == "path"} == {"etcd", "kubectl", "vc-scheduler"}


@pytest.mark.parametrize(
    ("version", "origin"), [("v3.259.0", "path"), ("v3.300.1", "path"), ("v3.258.9", "missing"), ("v4.0.0", "missing")]
)
def test_the_official_pulumi_wins_with_its_language_host(
    only_path: Path, tmp_path: Path, version: str, origin: str
) -> None:
    executable(only_path / "pulumi", f"echo {version}")
    executable(only_path / "pulumi-language-python", "exit 0")
    found = origins(tmp_path)
    assert found["pulumi"] == found["pulumi-language-python"] == origin


def test_an_installed_pulumi_plugin_is_used(only_path: Path, tmp_path: Path) -> None:
    version = next(program.version for program in pinned() if program.name == "pulumi-resource-kubernetes")
    executable(tmp_path / "pulumi" / "plugins" / f"resource-kubernetes-v{version}" / "pulumi-resource-kubernetes", "")
    assert origins(tmp_path)["pulumi-resource-kubernetes"] == "plugin"


def test_our_own_builds_on_path_are_not_taken_for_installed_ones(only_path: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    executable(cache / "control-plane-x" / "bin" / "etcd", 'echo "etcd Version: 3.6.8"')
    os.environ["PATH"] = str(cache / "control-plane-x" / "bin")
    assert origins(tmp_path)["etcd"] != "path"


def test_an_unknown_version_is_refused_with_the_known_ones() -> None:
    with pytest.raises(TrainyardError, match=r"jobset 0\.1\.0 is not in the toolchain") as raised:
        program_path("jobset", "0.1.0")
    assert "0.12.0, 0.11.1" in raised.value.fix
