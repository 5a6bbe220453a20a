"""What a killed run leaves behind: locks and operations that never ended."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support import awaited
from trainyard.errors import TrainyardError
from trainyard.platform.deploy import recovery


def lock(folder: Path, pid: int, *, host: str | None = None, stack: str = "local") -> Path:
    path = folder / ".pulumi" / "locks" / "organization" / "trainyard" / stack / f"{pid}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"pid": pid, "hostname": host or socket.gethostname(), "timestamp": "now"}))
    return path


def release(folder: Path, *, private: bool = True) -> int:
    return recovery.release_stale_lock(folder, "trainyard", "local", private=private)


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_the_lock_of_a_dead_process_is_released(tmp_path: Path) -> None:
    path = lock(tmp_path, dead_pid())
    other = lock(tmp_path, dead_pid(), stack="other")
    assert not recovery.interruption(tmp_path, "trainyard", "local").exists()
    assert release(tmp_path) == 1
    assert not path.exists()
    assert other.exists()
    assert recovery.interruption(tmp_path, "trainyard", "local").exists()
    assert not recovery.interruption(tmp_path, "trainyard", "other").exists()


def test_a_process_id_that_now_belongs_to_another_program_is_a_dead_one(tmp_path: Path) -> None:
    lock(tmp_path, os.getpid())
    assert release(tmp_path) == 1


@pytest.fixture
def fake_pulumi(tmp_path: Path) -> Path:
    """A program of that name which lasts as long as it is let."""
    return Path(shutil.copy(shutil.which("sleep") or "/bin/sleep", tmp_path / "pulumi"))


def test_a_living_run_is_named(tmp_path: Path, fake_pulumi: Path) -> None:
    with subprocess.Popen([fake_pulumi, "60"]) as run:
        path = lock(tmp_path, run.pid)
        with pytest.raises(TrainyardError, match=f"process {run.pid}"):
            release(tmp_path)
        assert path.exists()
        assert run.poll() is None
        run.kill()


def test_the_lock_of_a_process_that_is_not_found_stays_in_a_backend_that_others_may_use(tmp_path: Path) -> None:
    """A container with the name of this host has other process ids."""
    path = lock(tmp_path, dead_pid())
    with pytest.raises(TrainyardError, match=r"holds the stack local, and no such process is found here") as failure:
        release(tmp_path, private=False)
    assert "pulumi cancel" in (failure.value.fix or "")
    assert path.exists()
    assert not recovery.interruption(tmp_path, "trainyard", "local").exists()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"hostname": "HERE"}'])
def test_a_lock_that_cannot_be_read_stays(tmp_path: Path, content: str) -> None:
    path = lock(tmp_path, 1)
    path.write_text(content.replace("HERE", socket.gethostname()))
    with pytest.raises(TrainyardError, match="cannot be read") as failure:
        release(tmp_path)
    assert str(path) in str(failure.value)
    assert "pulumi cancel" in (failure.value.fix or "")
    assert path.exists()


def test_a_lock_of_an_edit_is_written_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another run that lists the locks meanwhile must not read half of one."""
    locks, written = tmp_path / ".pulumi" / "locks", []
    write_text = Path.write_text

    def write(path: Path, content: str) -> int:
        written.append(path)
        return write_text(path, content)

    monkeypatch.setattr(Path, "write_text", write)
    with recovery._locked(tmp_path, "trainyard", "local"):
        assert [path.is_relative_to(locks) for path in written] == [False]
        assert len(list(locks.rglob("*.json"))) == 1
    assert [each for each in (tmp_path / ".pulumi").rglob("*") if each.is_file()] == []


def test_a_user_without_a_name_edits_the_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr("getpass.getuser", nameless)
    with recovery._locked(tmp_path, "trainyard", "local"):
        (own,) = tmp_path.rglob("*.json")
        assert json.loads(own.read_text())["username"] == str(os.getuid())


def ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.slow
def test_a_run_whose_command_was_killed_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "_GRACE", 1.0)
    shell = shutil.copy(shutil.which("sh") or "/bin/sh", tmp_path / "pulumi")
    orphan = f"{shell} -c 'sleep 60; :' auto.inline >/dev/null 2>&1 & echo $!"
    pid = int(subprocess.run(["sh", "-c", orphan], capture_output=True, text=True, check=True).stdout)
    path = lock(tmp_path, pid)
    assert release(tmp_path) == 1
    assert not path.exists()
    awaited("the end of the run", lambda: ended(pid))


def orphan_of(program: str, *arguments: str) -> int:
    """Start a program in the background of a shell that ends, and return its process id."""
    command = f"{shlex.join([program, *arguments])} >/dev/null 2>&1 & echo $!"
    return int(subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout)


INLINE = ("-c", "sleep 60; :", "auto.inline")


def test_a_run_of_another_program_that_runs_its_own_is_not_stopped(tmp_path: Path) -> None:
    """Any program with the Automation API runs so; its command line need not contain trainyard."""
    shell = shutil.copy(shutil.which("sh") or "/bin/sh", tmp_path / "pulumi")
    with subprocess.Popen([shell, *INLINE], stdout=subprocess.DEVNULL) as run:
        path = lock(tmp_path, run.pid)
        with pytest.raises(TrainyardError, match=f"process {run.pid}"):
            release(tmp_path)
        assert path.exists()
        assert run.poll() is None
        for child in psutil.Process(run.pid).children():
            child.kill()
        run.kill()


@pytest.mark.slow
@pytest.mark.parametrize("serving", [True, False])
def test_a_run_is_stopped_if_the_program_that_it_calls_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serving: bool
) -> None:
    monkeypatch.setattr(recovery, "_GRACE", 1.0)
    shell = shutil.copy(shutil.which("sh") or "/bin/sh", tmp_path / "pulumi")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"--client=127.0.0.1:{server.getsockname()[1]}"
        pid = orphan_of(str(shell), *INLINE, address)
        path = lock(tmp_path, pid)
        if serving:
            with pytest.raises(TrainyardError, match=f"process {pid}"):
                release(tmp_path)
            assert not ended(pid)
        server.close()
    assert release(tmp_path) == 1
    assert not path.exists()
    awaited("the end of the run", lambda: ended(pid))


def test_plugins_of_a_killed_run_are_ended_and_those_of_other_backends_are_not(tmp_path: Path) -> None:
    plugin = shutil.copy(shutil.which("sleep") or "/bin/sleep", tmp_path / "pulumi-resource-example")
    started = {}
    for backend in (tmp_path, tmp_path / "other"):
        script = f"PULUMI_BACKEND_URL=file://{backend} {plugin} 60 >/dev/null 2>&1 & echo $!"
        started[backend] = int(subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout)
    lock(tmp_path, dead_pid())
    release(tmp_path)
    awaited("the end of the plugin", lambda: ended(started[tmp_path]))
    assert not ended(started[tmp_path / "other"])
    psutil.Process(started[tmp_path / "other"]).kill()


def test_the_lock_of_another_machine_stays(tmp_path: Path) -> None:
    path = lock(tmp_path, 1, host="elsewhere")
    with pytest.raises(TrainyardError, match="elsewhere"):
        release(tmp_path)
    assert path.exists()


def state_file(folder: Path, latest: dict[str, Any]) -> Path:
    state = folder / ".pulumi" / "stacks" / "trainyard" / "local.json"
    state.parent.mkdir(parents=True)
    state.write_text(json.dumps({"version": 3, "checkpoint": {"stack": "local", "latest": latest}}))
    return state


PENDING = [{"resource": {"urn": "urn:a"}, "type": "creating"}]


def test_open_operations_are_forgotten_and_resources_kept(tmp_path: Path) -> None:
    state = state_file(tmp_path, {"resources": [{"urn": "urn:b", "note": "é"}], "pending_operations": PENDING})
    before = state.read_text()
    assert recovery.drop_pending_operations(tmp_path, "trainyard", "local") == ["urn:a"]
    assert recovery.interruption(tmp_path, "trainyard", "local").exists()
    assert json.loads(state.read_text()) == {
        "version": 3,
        "checkpoint": {"stack": "local", "latest": {"resources": [{"urn": "urn:b", "note": "é"}]}},
    }
    assert state.with_suffix(".json.bak").read_text() == before
    assert not [each for each in (tmp_path / ".pulumi" / "locks").rglob("*") if each.is_file()]
    assert sorted(each.name for each in state.parent.iterdir()) == ["local.json", "local.json.bak"]


@pytest.mark.parametrize("latest", [{"resources": []}, {"pending_operations": []}])
def test_a_clean_state_is_not_written(tmp_path: Path, latest: dict[str, Any]) -> None:
    state = state_file(tmp_path, latest)
    before = state.stat()
    assert recovery.drop_pending_operations(tmp_path, "trainyard", "local") == []
    assert not recovery.interruption(tmp_path, "trainyard", "local").exists()
    assert state.stat().st_mtime_ns == before.st_mtime_ns
    assert recovery.drop_pending_operations(tmp_path, "trainyard", "missing") == []


@pytest.mark.parametrize("private", [True, False])
def test_only_the_state_of_a_cluster_of_this_machine_is_edited(tmp_path: Path, private: bool) -> None:
    """Colleagues share the file of another backend: Pulumi drops its open operations, under its own lock."""
    state = state_file(tmp_path, {"pending_operations": PENDING})
    before = state.read_text()
    assert recovery.recover(tmp_path, "trainyard", "local", private=private) is False
    assert (state.read_text() == before) is not private
    assert recovery.interruption(tmp_path, "trainyard", "local").exists() is private


@pytest.mark.parametrize("private", [True, False])
def test_attributes_that_a_killed_run_has_written_in_part_are_removed(tmp_path: Path, private: bool) -> None:
    """With one of them Pulumi reads neither state nor locks, so that `pulumi cancel` fails too."""
    state = state_file(tmp_path, {"resources": []})
    names = ("local.json.attrs", "local.json.bak.attrs", "other.json.attrs", "local.json.gz.attrs")
    for name, content in zip(names, ("", '{"user.content_t', "", '{"md5": null}'), strict=True):
        (state.parent / name).write_text(content)
    held = lock(tmp_path, os.getpid(), host="elsewhere")
    held.with_name(held.name + ".attrs").touch()
    with pytest.raises(TrainyardError, match="Another run on elsewhere"):
        recovery.recover(tmp_path, "trainyard", "local", private=private)
    assert list(held.parent.iterdir()) == [held]
    left = sorted(each.name for each in state.parent.iterdir())
    assert left == ["local.json", "local.json.gz.attrs", "other.json.attrs"]


def test_the_state_is_not_edited_while_another_run_holds_it(tmp_path: Path) -> None:
    state = state_file(tmp_path, {"pending_operations": PENDING})
    before, other = state.read_text(), lock(tmp_path, os.getpid(), host="elsewhere")
    with pytest.raises(TrainyardError, match="Another run holds the stack local"):
        recovery.drop_pending_operations(tmp_path, "trainyard", "local")
    assert state.read_text() == before
    assert list(other.parent.iterdir()) == [other]


def test_an_edit_of_the_state_holds_the_stack(tmp_path: Path) -> None:
    with recovery._locked(tmp_path, "trainyard", "local"):
        with pytest.raises(TrainyardError, match=f"process {os.getpid()}"):
            release(tmp_path)
        (held,) = (tmp_path / ".pulumi" / "locks").rglob("*.json")
        held.write_text(json.dumps({**json.loads(held.read_text()), "processStarted": 1.0}))
        assert release(tmp_path) == 1


@pytest.mark.parametrize(
    ("url", "folder"), [("file:///a/b", Path("/a/b")), ("s3://bucket", None), ("", None), ("https://x.example", None)]
)
def test_only_a_file_backend_has_a_folder(url: str, folder: Path | None) -> None:
    assert recovery.backend_folder(url) == folder
