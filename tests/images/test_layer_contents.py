"""Contents of layers: Debian packages by pin, wheels without pip's files, links, and the program of `pause`."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import signal
import struct
import subprocess
import tarfile
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.support import ROOT
from trainyard.errors import TrainyardError
from trainyard.local.images.debian_packages import DebianPackage, debian_files, fetch
from trainyard.local.images.elf_libraries import missing_libraries, read_elf
from trainyard.local.images.file_tree import FileTree
from trainyard.local.images.python_packages import SITE, locked_wheels, unpacked


def package(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write a Debian package."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:xz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size, member.mode, member.mtime, member.uname = len(content), 0o755, 1_700_000_000, "builder"
            archive.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("./lib64/loader.so.2")
        link.type, link.linkname = tarfile.SYMTYPE, "/lib/loader.so.2"
        archive.addfile(link)
    file = folder / "small_1_all.deb"
    with file.open("wb") as output:
        output.write(b"!<arch>\n")
        for name, content in (
            ("debian-binary", b"2.0\n"),
            ("control.tar.xz", b"odd"),
            ("data.tar.xz", data.getvalue()),
        ):
            output.write(f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode())
            output.write(content + b"\n" * (len(content) % 2))
    return file


def test_the_files_of_a_debian_package_are_read(tmp_path: Path) -> None:
    tree = debian_files(package(tmp_path, {"lib/loader.so.2": b"loader"}))
    assert tree["lib/loader.so.2"].read() == b"loader"
    assert tree.resolve("lib64/loader.so.2") == "lib/loader.so.2"
    with pytest.raises(ValueError, match="is not a Debian package"):
        debian_files(Path(__file__))


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put an apt-get on PATH that copies one package, and record its arguments."""
    folder = tmp_path / "bin"
    folder.mkdir()
    file = package(tmp_path, {"etc/small": b"content"})
    program = folder / "apt-get"
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\ncp {file} .\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return file


def test_a_package_is_downloaded_once_in_its_pinned_version(tmp_path: Path, apt: Path) -> None:
    pinned = DebianPackage("small", "1:2", "all", hashlib.sha256(apt.read_bytes()).hexdigest())
    for _ in range(2):
        assert fetch([pinned], tmp_path / "cache")["small"].read_bytes() == apt.read_bytes()
    assert (tmp_path / "asked").read_text() == "download -q small=1:2\n"


def test_a_package_with_another_hash_is_rejected(tmp_path: Path, apt: Path) -> None:
    with pytest.raises(TrainyardError, match=r"small 1 does not have the SHA-256 in debian\.lock"):
        fetch([DebianPackage("small", "1", "all", "0" * 64)], tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*.deb"))


def test_a_changed_package_in_the_cache_is_downloaded_again(tmp_path: Path, apt: Path) -> None:
    pinned = DebianPackage("small", "1", "all", hashlib.sha256(apt.read_bytes()).hexdigest())
    fetch([pinned], tmp_path / "cache")["small"].write_bytes(b"changed")
    assert fetch([pinned], tmp_path / "cache")["small"].read_bytes() == apt.read_bytes()


def test_without_apt_the_error_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TrainyardError, match="apt-get is not on PATH"):
        fetch([DebianPackage("small", "1", "all", "0" * 64)], tmp_path / "cache")


def wheel(folder: Path) -> Path:
    file = folder / "small_tool-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("small/__init__.py", "")
        archive.writestr("small_tool-1.0.data/purelib/extra.py", "")
        archive.writestr("small_tool-1.0.data/scripts/run.sh", "#!/bin/sh\n")
        archive.writestr("small_tool-1.0.dist-info/entry_points.txt", "[console_scripts]\nTool = small:main\n")
        archive.writestr("small_tool-1.0.dist-info/RECORD", "")
    return file


def test_a_wheel_is_unpacked_without_scripts_of_a_shell(tmp_path: Path) -> None:
    tree, components = unpacked([wheel(tmp_path)], ["Tool"])
    names = {path.removeprefix(f"{SITE}/") for path, _ in tree if path.startswith(SITE)}
    information = {f"small_tool-1.0.dist-info/{name}" for name in ("entry_points.txt", "RECORD")}
    assert names == {"small/__init__.py", "extra.py"} | information
    assert b"from small import main" in tree["usr/local/bin/Tool"].read()
    assert tree["usr/local/bin/Tool"].mode == 0o755
    assert [component.purl for component in components] == ["pkg:pypi/small-tool@1.0"]
    with pytest.raises(TrainyardError, match="No wheel has the console script other"):
        unpacked([wheel(tmp_path)], ["other"])


@pytest.mark.slow
def test_wheels_that_cannot_be_downloaded_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    lock = tmp_path / "small.lock"
    lock.write_text(f"no-such-package==1.0 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(TrainyardError, match=r"The wheels of small\.lock cannot be downloaded"):
        locked_wheels(lock, tmp_path / "cache")


def test_links_lead_to_files_of_the_image_only() -> None:
    tree = FileTree()
    tree.add("usr/lib/one.so", b"one")
    tree.add_link("lib", "usr/lib")
    tree.add_link("usr/lib/two.so", "one.so")
    tree.add_link("usr/lib/loop.so", "loop.so")
    assert tree.resolve("lib/two.so") == "usr/lib/one.so"
    assert tree.resolve("usr/lib/loop.so") is None
    for path in ("../etc/passwd", "a//b", ""):
        with pytest.raises(ValueError, match="is not a path in an image"):
            tree.add(path, b"")


def elf(*needed: str) -> bytes:
    """Return a 64-bit ELF file that needs libraries, and nothing else."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name in needed)
    dynamic = [(1, names.index(name.encode() + b"\0")) for name in needed] + [(5, 0x1000), (0, 0)]
    entries = b"".join(struct.pack("<QQ", *entry) for entry in dynamic)
    start = 64 + 2 * 56
    headers = b"".join(
        struct.pack("<IIQQQQQQ", kind, 4, at, base, base, length, length, 8)
        for kind, at, base, length in (
            (1, start + len(entries), 0x1000, len(names)),
            (2, start, 0x2000, len(entries)),
        )
    )
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    return head + headers + entries + names


@pytest.mark.parametrize("folder", ["lib", "usr/lib", "lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu"])
def test_a_library_is_where_the_loader_searches(folder: str) -> None:
    tree = FileTree()
    tree.add("tool", elf("libone.so.1", "libtwo.so.2"))
    tree.add(f"{folder}/libone.so.1.0", elf())
    tree.add_link(f"{folder}/libone.so.1", "libone.so.1.0")
    tree.add_link(f"{folder}/libtwo.so.2", "libtwo.so.2.0")
    assert missing_libraries(tree) == {"tool": ["libtwo.so.2"]}
    tree.add(f"{folder}/libtwo.so.2.0", elf())
    assert missing_libraries(tree) == {}


def test_a_library_behind_a_linked_folder_is_found() -> None:
    tree = FileTree()
    tree.add("tool", elf("libone.so.1"))
    tree.add_link("lib", "opt/libraries")
    tree.add("opt/libraries/libone.so.1", elf())
    assert missing_libraries(tree) == {}


@pytest.mark.parametrize("folder", ["lib64", "usr/lib64", "usr/local/lib", "usr/local/lib/x86_64-linux-gnu", "opt"])
def test_a_library_where_the_loader_does_not_search_is_missing(folder: str) -> None:
    tree = FileTree()
    tree.add("tool", elf("libone.so.1"))
    tree.add(f"{folder}/libone.so.1", elf())
    assert missing_libraries(tree) == {"tool": ["libone.so.1"]}


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_pause_is_static_reaps_processes_and_ends_on_sigterm(tmp_path: Path) -> None:
    program = tmp_path / "pause"
    subprocess.run(["cc", "-static", "-Os", "-Wall", "-Werror", "-o", program, ROOT / "images" / "pause.c"], check=True)
    read = read_elf(program.read_bytes())
    assert read is not None
    assert (read.interpreter, read.needed) == (None, ())
    process = subprocess.Popen(
        ["sh", "-c", f'sleep 0.2 >/dev/null & echo $!; exec "{program}"'], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    child = Path("/proc") / process.stdout.readline().strip()
    deadline = time.monotonic() + 20
    while child.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not child.exists()
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


def volume_folders(folder: Path) -> Callable[..., int]:
    """Build the program, and return what calls it for the folder of a volume."""
    program = folder.parent.parent / "program"
    source = ROOT / "images" / "volume_folders.c"
    subprocess.run(["cc", "-static", "-Os", "-Wall", "-Wextra", "-Werror", "-o", program, source], check=True)
    folder.parent.mkdir()

    def call(action: str, path: Path = folder) -> int:
        arguments = ["-p", path, "-s", "1", "-m", "Filesystem", "-a", action]
        return subprocess.run([program, *arguments], check=False, capture_output=True).returncode

    return call


@pytest.mark.slow
def test_folders_that_are_deeper_than_a_path_is_long_are_removed_with_few_descriptors(tmp_path: Path) -> None:
    folder = tmp_path / "volumes" / "pvc-deep"
    call = volume_folders(folder)
    assert call("create") == 0
    place = os.open(folder, os.O_RDONLY)
    for _ in range(3000):
        for name in (".0", "x"):
            os.mkdir(name, dir_fd=place)
        (below, _) = (os.open("x", os.O_RDONLY, dir_fd=place), os.close(place))
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=below))
        place = below
    os.close(place)
    assert call("delete") == 0
    assert not folder.exists()


def test_nothing_is_removed_that_is_not_the_folder_of_a_volume(tmp_path: Path) -> None:
    folder = tmp_path / "volumes" / "pvc-one"
    call = volume_folders(folder)
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    folder.symlink_to(kept)
    assert call("delete") == 1
    assert [call("delete", path) for path in (kept, folder / "..", folder.parent)] == [2, 2, 2]
    assert (kept / "file").exists()


def test_folders_of_volumes_are_made_for_every_user_and_removed_with_their_content(tmp_path: Path) -> None:
    folder = tmp_path / "volumes" / "pvc-one"
    call = volume_folders(folder)
    assert [call("create"), call("create")] == [0, 0]
    assert folder.stat().st_mode & 0o777 == 0o777
    (tmp_path / "kept").write_text("of another")
    (folder / "below").mkdir()
    (folder / "below" / "file").touch()
    (folder / "link").symlink_to(tmp_path / "kept")
    assert [call("delete"), call("delete"), call("empty")] == [0, 0, 2]
    assert not folder.exists()
    assert (tmp_path / "kept").is_file()
