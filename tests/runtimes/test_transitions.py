"""Between two states of a catalog only additions, moved aliases and steps of a life may lie."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.runtimes.conftest import TODAY
from tests.support import git, new_repository
from trainyard.errors import TrainyardError
from trainyard.jobs.runtimes.catalog import spec_hash
from trainyard.jobs.runtimes.catalog_loader import runtimes_of
from trainyard.jobs.runtimes.folder import CatalogFolder, read_folder
from trainyard.jobs.runtimes.release.revision import folder_at
from trainyard.jobs.runtimes.release.transitions import Transitions, transitions
from trainyard.jobs.runtimes.release.version_lifecycle import deprecate, move_alias, release, retire, withdraw

OVER = date(2027, 7, 1)
Edit = Callable[[dict[str, Any]], object]


def compared(before: CatalogFolder, after: CatalogFolder, today: date = TODAY) -> Transitions:
    return transitions(after, runtimes_of(before, []), runtimes_of(after, []), today=today)


def index(folder: CatalogFolder, edit: Edit) -> CatalogFolder:
    document = yaml.safe_load(folder.texts["index.yaml"])
    edit(document["runtimes"])
    return folder.with_texts({"index.yaml": yaml.safe_dump(document)})


def body(folder: CatalogFolder, version: str, edit: Edit) -> CatalogFolder:
    file = f"mine/{version}.yaml"
    document = yaml.safe_load(folder.texts[file])
    edit(document)
    return folder.with_texts({file: yaml.safe_dump(document)})


def relocked(document: dict[str, Any]) -> None:
    """Change a spec, and the hash with it."""
    document["spec"]["mlPolicy"]["numNodes"] = 7
    document["metadata"]["annotations"]["trainyard.dev/released"] = spec_hash(document["spec"])


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (lambda each: each, []),
        (lambda each: release(each, "mine", "1.2", today=TODAY).after, ["mine 1.2 is released"]),
        (
            lambda each: release(each, "mine", "1.2", today=TODAY, alias=True).after,
            ["mine 1.2 is released", "mine refers to 1.2 instead of 1.1"],
        ),
        (
            lambda each: deprecate(each, "mine", "1.1", remove_after=OVER, today=TODAY).after,
            ["mine 1.1 is deprecated and may be removed after 2027-07-01"],
        ),
        (
            lambda each: deprecate(each, "mine", "1.0", remove_after=OVER, today=TODAY).after,
            ["mine 1.0 is guaranteed until 2027-07-01"],
        ),
        (lambda each: withdraw(each, "mine", "1.0").after, ["mine 1.0 is no longer deprecated"]),
        (
            lambda each: body(each, "1.2", lambda doc: doc["spec"].pop("podGroupPolicy")),
            ["mine 1.2 is a draft and has changed"],
        ),
        (
            lambda each: index(each, lambda all_: all_["mine"]["versions"].pop("1.2")).with_texts(
                {"mine/1.2.yaml": None}
            ),
            ["mine 1.2 was removed before its release"],
        ),
        (
            lambda each: index(each, lambda all_: all_["mine"].update(alsoNamed=["ours"])),
            ["ours is a synonym of mine"],
        ),
        (lambda each: index(each, lambda all_: all_["mine"].update(owner="others", summary="Words")), []),
        (lambda each: each.with_texts({"mine/1.0.yaml": "# A remark.\n" + each.texts["mine/1.0.yaml"]}), []),
    ],
)
def test_what_may_happen_passes_and_is_said(
    catalog: CatalogFolder, step: Callable[[CatalogFolder], CatalogFolder], said: list[str]
) -> None:
    found = compared(catalog, step(catalog))
    assert (list(found.said), found.findings) == (said, ())


def test_a_new_runtime_is_an_addition(catalog: CatalogFolder) -> None:
    found = compared(CatalogFolder(catalog.root, {}), catalog)
    assert found.findings == ()
    assert found.said[:2] == ("mine is new", "mine 1.0 is new (deprecated)")


def test_a_retirement_passes_after_its_day(catalog: CatalogFolder) -> None:
    after = retire(catalog, "mine", "1.0", today=OVER, users=()).after
    assert compared(catalog, after, OVER).said == ("mine 1.0 is retired",)
    (early,) = compared(catalog, after, TODAY).findings
    assert "is guaranteed until 2027-06-30" in early.message


@pytest.mark.parametrize(
    ("change", "path", "message"),
    [
        (lambda each: body(each, "1.1", relocked), "mine/1.1.yaml: spec", "a released version was changed"),
        (
            lambda each: body(each, "1.1", lambda doc: doc["metadata"]["labels"].update(x="y")),
            "mine/1.1.yaml: metadata",
            "labels or annotations of a released version",
        ),
        (
            lambda each: index(each, lambda all_: all_["mine"]["versions"]["1.1"].update(released=TODAY)),
            "versions.1.1.released",
            "was 2027-01-01, is 2027-02-01",
        ),
        (
            lambda each: index(each, lambda all_: all_["mine"]["versions"]["1.1"].pop("released")),
            "versions.1.1.released",
            "a release date is immutable",
        ),
        (
            lambda each: index(
                each, lambda all_: all_["mine"]["versions"]["1.0"]["deprecated"].update(removeAfter=date(2027, 3, 1))
            ),
            "removeAfter",
            "is guaranteed until 2027-06-30",
        ),
        (
            lambda each: index(
                each, lambda all_: all_["mine"]["versions"]["1.0"]["deprecated"].update(since=date(2027, 1, 2))
            ),
            "deprecated.since",
            "was 2027-02-01",
        ),
        (
            lambda each: index(
                each, lambda all_: (all_["mine"].pop("alias"), all_["mine"]["versions"].pop("1.1"))
            ).with_texts({"mine/1.1.yaml": None}),
            "versions.1.1",
            "without having been deprecated",
        ),
        (
            lambda each: index(each, lambda all_: all_["mine"].pop("alias")),
            "alias",
            "'mine' no longer refers to a version",
        ),
        (lambda each: index(each, lambda all_: all_["mine"].update(alias="1.2")), "alias", "refers to the draft 1.2"),
        (lambda each: index(each, lambda all_: all_["mine"].update(alias="1.0")), "alias", "1.0, which is deprecated"),
        (lambda each: index(each, lambda all_: all_.pop("mine")), "runtimes.mine", "was removed"),
        (
            lambda each: index(
                each,
                lambda all_: all_["mine"]["versions"]["1.2"].update(deprecated={"since": TODAY, "removeAfter": OVER}),
            ),
            "versions.1.2.deprecated",
            "a draft cannot be deprecated",
        ),
    ],
)
def test_what_breaks_a_promise_is_found(
    catalog: CatalogFolder, change: Callable[[CatalogFolder], CatalogFolder], path: str, message: str
) -> None:
    findings = compared(catalog, change(catalog)).findings
    assert any(path in finding.path and message in finding.message for finding in findings), findings


def test_a_retired_number_stays_recorded(catalog: CatalogFolder) -> None:
    retired = retire(catalog, "mine", "1.0", today=OVER, users=()).after
    forgotten = index(retired, lambda all_: all_["mine"].pop("retired"))
    assert "is no longer recorded" in compared(retired, forgotten, OVER).findings[0].message
    untold = index(catalog, lambda all_: all_["mine"]["versions"].pop("1.0")).with_texts({"mine/1.0.yaml": None})
    assert "its number is not recorded" in compared(catalog, untold, OVER).findings[0].message


def test_a_folder_is_read_as_it_was_where_the_branch_began(catalog: CatalogFolder, tmp_path: Path) -> None:
    new_repository(tmp_path)
    git(tmp_path, "checkout", "-qb", "change")
    (catalog.root / "mine" / "1.2.yaml").unlink()
    git(tmp_path, "commit", "-qam", "two")
    git(tmp_path, "checkout", "-q", "main")
    (catalog.root / "mine" / "1.1.yaml").write_text("later: true\n")
    git(tmp_path, "commit", "-qam", "three")
    git(tmp_path, "checkout", "-q", "change")
    assert folder_at(catalog.root, "main").texts == catalog.texts
    assert "mine/1.2.yaml" not in folder_at(catalog.root, "HEAD").texts
    new = tmp_path / "new"
    new.mkdir()
    assert folder_at(new, "main").texts == {}
    assert read_folder(catalog.root).texts != catalog.texts


@pytest.mark.parametrize(("revision", "message"), [("nowhere", "cannot be compared"), ("--all", "is not a revision")])
def test_a_revision_that_is_not_there_is_one_clear_error(
    catalog: CatalogFolder, tmp_path: Path, revision: str, message: str
) -> None:
    git(tmp_path, "init", "-q")
    with pytest.raises(TrainyardError, match=message):
        folder_at(catalog.root, revision)


def test_an_alias_that_moves_is_reported(catalog: CatalogFolder) -> None:
    released = release(catalog, "mine", "1.2", today=TODAY).after
    assert compared(released, move_alias(released, "mine", "1.2").after).said == ("mine refers to 1.2 instead of 1.1",)
