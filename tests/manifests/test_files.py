"""Files, folders, globs and standard input: each text once, under the name it was given."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from trainyard.errors import TrainyardError
from trainyard.manifests.files import read_sources, read_text


def written(folder: Path, name: str, text: str = "a: 1\n") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def names(*paths: Path | str) -> list[str]:
    return [Path(source.name).name for source in read_sources([str(path) for path in paths])]


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
    assert [source.explicit for source in read_sources([str(file)])] == [True]
    assert [source.explicit for source in read_sources([str(tmp_path)])] == [False]


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
