"""Git revisions: what changed since one, and what a folder held."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import git, new_repository
from trainyard.errors import TrainyardError
from trainyard.manifests.revisions import changed_files, texts_at


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name in ("kept", "edited", "renamed", "removed", "committed"):
        (tmp_path / f"{name}.yaml").write_text(f"name: {name}\n" * 9)
    new_repository(tmp_path)
    git(tmp_path, "checkout", "-qb", "work")
    return tmp_path


def changed(repository: Path, revision: str = "main") -> list[str]:
    return sorted(path.name for path in changed_files(revision, repository))


def test_committed_edited_renamed_and_new_files_count(repository: Path) -> None:
    (repository / "committed.yaml").write_text("x")
    git(repository, "commit", "-qam", "second")
    (repository / "edited.yaml").write_text("x")
    git(repository, "mv", "renamed.yaml", "new name.yaml")
    git(repository, "rm", "-q", "removed.yaml")
    (repository / "sub").mkdir()
    (repository / "sub" / "untracked.yaml").write_text("x")
    expected = ["committed.yaml", "edited.yaml", "new name.yaml", "untracked.yaml"]
    assert changed(repository) == expected
    assert sorted(path.name for path in changed_files("main", repository / "sub")) == expected


def test_what_the_other_branch_changed_meanwhile_does_not_count(repository: Path) -> None:
    git(repository, "checkout", "-q", "main")
    (repository / "kept.yaml").write_text("x")
    git(repository, "commit", "-qam", "meanwhile")
    git(repository, "checkout", "-q", "work")
    assert changed(repository) == []


@pytest.mark.parametrize("revision", ["nowhere", "--output=x", "-"])
def test_an_unknown_revision_is_an_error(repository: Path, revision: str) -> None:
    with pytest.raises(TrainyardError):
        changed_files(revision, repository)


def test_a_folder_outside_of_a_repository_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TrainyardError, match="cannot be compared"):
        changed_files("main", tmp_path)


def test_a_folder_is_read_as_it_was_where_the_branch_left(repository: Path) -> None:
    (repository / "edited.yaml").write_text("x")
    git(repository, "commit", "-qam", "second")
    (repository / "committed.yaml").write_text("x")
    texts = texts_at("main", repository, lambda file: file.startswith(("edited", "committed")))
    assert texts == {"edited.yaml": "name: edited\n" * 9, "committed.yaml": "name: committed\n" * 9}


def test_a_folder_that_was_not_there_has_no_texts(repository: Path) -> None:
    (repository / "new").mkdir()
    (repository / "new" / "a.yaml").write_text("x")
    assert texts_at("main", repository / "new", lambda _: True) == {}


def test_errors_name_the_option_that_asks_for_git(tmp_path: Path) -> None:
    with pytest.raises(TrainyardError, match="omit --against"):
        texts_at("main", tmp_path, lambda _: True)


@pytest.mark.parametrize("ignored", ["none", "all"])
def test_the_files_of_a_changed_submodule_count(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, ignored: str
) -> None:
    other = tmp_path_factory.mktemp("other")
    git(other, "init", "-q", "-b", "main")
    (other / "job.yaml").write_text("a: 1")
    git(other, "add", ".")
    git(other, "commit", "-qm", "first")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), "sub")
    git(repository, "config", "-f", ".gitmodules", "submodule.sub.ignore", ignored)
    git(repository, "add", ".gitmodules")
    git(repository, "commit", "-qm", "second")
    assert {"sub/job.yaml", ".gitmodules"} <= {
        path.relative_to(repository.resolve()).as_posix() for path in changed_files("main", repository)
    }
    git(repository, "branch", "-f", "main")
    (repository / "sub" / "job.yaml").write_text("a: 2")
    assert "job.yaml" in changed(repository)


def test_the_files_of_an_untracked_repository_count(repository: Path) -> None:
    inner = repository / "inner"
    inner.mkdir()
    git(inner, "init", "-q", "-b", "main")
    (inner / "job.yaml").write_text("a: 1")
    git(inner, "add", ".")
    git(inner, "commit", "-qm", "first")
    assert "job.yaml" in changed(repository)


@pytest.mark.parametrize("worktree", [".", ".."])
def test_a_folder_that_looks_like_a_repository_runs_nothing(repository: Path, worktree: str) -> None:
    folder = repository / "catalog"
    (folder / "objects").mkdir(parents=True)
    (folder / "refs" / "heads").mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "refs" / "heads" / "main").write_text("1" * 40)
    (folder / "config").write_text(
        f"[core]\nrepositoryformatversion = 1\nbare = false\nworktree = {worktree}\n"
        "[extensions]\npartialClone = origin\n"
        f'[remote "origin"]\nurl = .\npromisor = true\nuploadpack = touch {repository}/ran; false\n'
    )
    (folder / "a.yaml").write_text("x")
    assert texts_at("main", folder, lambda _: True) == {}
    assert "a.yaml" in {path.name for path in changed_files("main", folder)}
    assert not (repository / "ran").exists()
