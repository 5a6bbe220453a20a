"""Files, folders, globs and standard input: each text once, under the name it was given."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from trainyard.errors import TrainyardError
from trainyard.manifests.documents import Source
from trainyard.manifests.files import Unread, read_sources, read_text


def written(folder: Path, name: str, text: str = "a: 1\n") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def names(*paths: Path | str) -> list[str]:
    found = read_sources([str(path) for path in paths])
    return [Path(source.name).name for source in found if isinstance(source, Source)]


def unread(*paths: Path | str) -> list[tuple[str, str, bool]]:
    """Return the name, the reason and whether it is an error, of what was not read."""
    found = read_sources([str(path) for path in paths])
    return [(Path(each.name).name, each.reason, bool(each.fix)) for each in found if isinstance(each, Unread)]


def test_folders_are_searched_and_hidden_ones_left_out(tmp_path: Path) -> None:
    for name in ("b/x.yml", "a.yaml", "c.JSON", "d.txt", ".git/e.yaml", "node_modules/f.yaml"):
        written(tmp_path, name)
    assert names(tmp_path) == ["a.yaml", "c.JSON", "x.yml"]


def test_globs_match_and_a_file_is_read_once(tmp_path: Path) -> None:
    file = written(tmp_path, "x/a.yaml")
    (tmp_path / "x" / "link.yaml").symlink_to(file)
    assert names(f"{tmp_path}/**/*.yaml", tmp_path / "x", file) == ["a.yaml"]


def test_a_file_is_explicit_only_where_it_is_named_itself(tmp_path: Path) -> None:
    file = written(tmp_path, "a.yaml")
    for path, explicit in ((file, True), (tmp_path, False)):
        (source,) = read_sources([str(path)])
        assert isinstance(source, Source)
        assert source.explicit == explicit


def test_files_below_the_working_folder_have_relative_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, "x/a.yaml")
    monkeypatch.chdir(tmp_path)
    assert [source.name for source in read_sources([str(file)])] == ["x/a.yaml"]


@pytest.mark.parametrize("path", ["missing.yaml", "nothing-*.yaml", "empty"])
def test_a_path_that_names_nothing_is_an_error(tmp_path: Path, path: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(TrainyardError, match=r"does not exist|contains no"):
        names(tmp_path / path)


def test_standard_input_is_text_in_utf_8_with_or_without_byte_order_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    for content in (b"a: \xc3\xa9", b"\xef\xbb\xbfa: \xc3\xa9"):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content), encoding="ascii"))
        assert read_text("-") == "a: \u00e9"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff"), encoding="ascii"))
    with pytest.raises(TrainyardError, match="standard input is not UTF-8 text"):
        read_text("-")


def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path) -> None:
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path, message in ((binary, "is not UTF-8 text"), (tmp_path / "none", "cannot be read: No such file")):
        with pytest.raises(TrainyardError, match=message) as caught:
            read_text(path)
        assert str(path) in caught.value.message


def test_a_file_of_a_disk_is_not_a_manifest(tmp_path: Path) -> None:
    large = tmp_path / "large.yaml"
    with large.open("wb") as file:
        file.truncate(1024**3 + 1)
    with pytest.raises(TrainyardError, match="is larger than 1 GiB"):
        read_text(large)


@pytest.mark.parametrize(
    "target", ["/dev/zero", "/dev/random", "/proc/self/environ", "/etc/hostname", "../secret.yaml"]
)
def test_a_link_out_of_the_folder_is_reported_and_not_read(tmp_path: Path, target: str) -> None:
    written(tmp_path, "secret.yaml")
    written(tmp_path, "jobs/a.yaml")
    link = tmp_path / "jobs" / "x.yaml"
    link.symlink_to(target)
    for paths in ((tmp_path / "jobs",), (link,), (f"{tmp_path}/jobs/*.yaml",)):
        assert unread(*paths) == [("x.yaml", f"is a link out of {tmp_path}/jobs", True)]
    assert names(tmp_path / "jobs") == ["a.yaml"]


def test_a_link_inside_the_folder_or_the_checkout_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, "base/a.yaml")
    written(tmp_path, "jobs/b.yaml")
    (tmp_path / "jobs" / "c.yaml").symlink_to("b.yaml")
    (tmp_path / "jobs" / "d.yaml").symlink_to("../base/a.yaml")
    assert [each[0] for each in unread(tmp_path / "jobs")] == ["d.yaml"]
    monkeypatch.chdir(tmp_path)
    assert unread("jobs") == []
    assert names("jobs") == ["b.yaml", "d.yaml"]


def test_a_mounted_config_map_is_read(tmp_path: Path) -> None:
    written(tmp_path, "..2026/a.yaml")
    (tmp_path / "..data").symlink_to("..2026")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    assert (names(tmp_path), unread(tmp_path)) == (["a.yaml"], [])


def test_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.yaml")
    assert unread(tmp_path) == unread(tmp_path / "x.yaml") == [("x.yaml", "is not a regular file", True)]
    for special in (tmp_path / "x.yaml", Path("/dev/zero")):
        with pytest.raises(TrainyardError, match="is not a regular file"):
            read_text(special)


def test_a_process_substitution_is_read() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"a: 1\n")
    os.close(writer)
    try:
        (source,) = read_sources([f"/dev/fd/{reader}"])
        assert isinstance(source, Source)
        assert source.text == "a: 1\n"
    finally:
        os.close(reader)


def test_folders_that_are_not_searched_are_named(tmp_path: Path) -> None:
    for name in (".hidden/a.yaml", "node_modules/b.yaml", ".git/c.yaml", ".empty/d.txt", "jobs/e.yaml"):
        written(tmp_path, name)
    (tmp_path / "jobs" / "loop").symlink_to("..")
    (tmp_path / "jobs" / "root").symlink_to("/")
    assert unread(tmp_path) == [
        (".hidden", "is a hidden folder", False),
        ("node_modules", "contains packages", False),
        ("root", "is a link to another folder", False),
    ]


def test_a_linked_folder_is_not_searched(tmp_path: Path) -> None:
    written(tmp_path, "other/a.yaml")
    (tmp_path / "checkout").mkdir()
    (tmp_path / "checkout" / "jobs").symlink_to("../other")
    assert unread(tmp_path / "checkout" / "jobs") == [("jobs", "is a link to another folder", True)]


def test_loops_of_links_do_not_multiply_a_glob(tmp_path: Path) -> None:
    written(tmp_path, "a.yaml")
    for name in ("x", "y", "z"):
        (tmp_path / name).symlink_to(".")
    assert names(f"{tmp_path}/**/*.yaml") == names(f"{tmp_path}/**") == ["a.yaml"]


def test_a_large_file_of_yaml_is_not_parsed(tmp_path: Path) -> None:
    with written(tmp_path, "a.yaml").open("ab") as file:
        file.truncate(32 * 1024**2 + 1)
    assert unread(tmp_path) == [("a.yaml", "is larger than 32 MiB", True)]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every folder")
def test_a_folder_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    written(tmp_path, "a.yaml")
    written(tmp_path, "locked/b.yaml")
    (tmp_path / "locked").chmod(0)
    try:
        with pytest.raises(TrainyardError, match="cannot be read"):
            names(tmp_path)
    finally:
        (tmp_path / "locked").chmod(0o700)
