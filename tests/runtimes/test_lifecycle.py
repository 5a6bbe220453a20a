"""The life of a version: every step does what it says, and refuses what users would suffer from."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
import yaml

from tests.runtimes.conftest import RELEASED, TODAY
from trainyard.errors import TrainyardError
from trainyard.jobs.runtimes.catalog import Runtime, spec_hash
from trainyard.jobs.runtimes.catalog_loader import runtimes_of
from trainyard.jobs.runtimes.folder import CatalogFolder, read_folder, write_folder
from trainyard.jobs.runtimes.release.version_lifecycle import (
    LifecycleStep,
    deprecate,
    find_runtime,
    move_alias,
    release,
    retire,
    withdraw,
)

OVER = date(2027, 7, 1)


def mine(folder: CatalogFolder) -> Runtime:
    """Return the runtime, of a folder without a fault."""
    findings: list[object] = []
    (runtime,) = runtimes_of(folder, findings)  # type: ignore[arg-type]
    assert findings == []
    return runtime


def test_a_release_is_locked_by_its_hash_and_is_in_the_changelog(catalog: CatalogFolder) -> None:
    step = release(catalog, "mine", "1.2", today=TODAY, changes="Faster", alias=True)
    runtime = mine(step.after)
    version = runtime.version("1.2")
    assert (version.released, version.changes, runtime.alias) == (TODAY, "Faster", "1.2")
    assert version.body["metadata"]["annotations"] == {"trainyard.dev/released": spec_hash(version.body["spec"])}
    assert [line.split(",")[0] for line in step.said] == ["mine 1.2 is released", "mine refers to 1.2 instead of 1.1"]


def test_a_release_keeps_the_index_text_where_it_says_nothing_new(catalog: CatalogFolder) -> None:
    assert mine(release(catalog, "mine", "1.2", today=TODAY).after).version("1.2").changes.startswith("Copied")


def test_the_alias_moves_back_and_forth(catalog: CatalogFolder) -> None:
    folder = release(catalog, "mine", "1.2", today=TODAY, alias=True).after
    assert mine(move_alias(folder, "mine", "1.1").after).alias == "1.1"
    assert move_alias(folder, "mine", "1.2").said == ("mine already refers to 1.2",)


def test_a_deprecation_can_last_longer_and_be_taken_back(catalog: CatalogFolder) -> None:
    longer = deprecate(catalog, "mine", "1.0", remove_after=date(2028, 1, 1), today=OVER).after
    found = mine(longer).version("1.0").deprecated
    assert found is not None
    assert (found.since, found.remove_after) == (TODAY, date(2028, 1, 1))
    assert mine(withdraw(longer, "mine", "1.0").after).version("1.0").deprecated is None


def test_deprecating_what_the_alias_stands_for_says_so(catalog: CatalogFolder) -> None:
    assert "still refers to it" in deprecate(catalog, "mine", "1.1", remove_after=OVER, today=TODAY).said[1]


def test_a_retired_version_is_gone_and_its_number_taken(catalog: CatalogFolder) -> None:
    folder = retire(catalog, "mine", "1.0", today=OVER, users=()).after
    runtime = mine(folder)
    assert [version.version for version in runtime.versions] == ["1.1", "1.2"]
    assert runtime.retired == {"1.0": OVER}
    assert "mine/1.0.yaml" not in folder.texts
    with pytest.raises(TrainyardError, match="was retired on 2027-07-01"):
        move_alias(folder, "mine", "1.0")


def test_the_last_version_takes_the_names_along(catalog: CatalogFolder) -> None:
    folder = retire(catalog, "mine", "1.0", today=OVER, users=()).after
    folder = folder.with_texts({"mine/1.2.yaml": None, "index.yaml": without(folder, "1.2")})
    folder = deprecate(folder, "mine", "1.1", remove_after=OVER, today=TODAY).after
    runtime = mine(retire(folder, "mine", "1.1", today=date(2027, 8, 1), users=()).after)
    assert (runtime.alias, runtime.versions, list(runtime.retired)) == (None, (), ["1.0", "1.1"])
    assert runtime.objects() == []


def without(folder: CatalogFolder, version: str) -> str:
    index = yaml.safe_load(folder.texts["index.yaml"])
    del index["runtimes"]["mine"]["versions"][version]
    return str(yaml.safe_dump(index))


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda folder: release(folder, "mine", "1.1", today=TODAY), "was released on 2027-01-01"),
        (lambda folder: release(folder, "mine", "2.0", today=TODAY), "has no version '2.0'.*\n.*use one of: 1.0, 1.1"),
        (lambda folder: release(folder, "yours", "1.0", today=TODAY), "Runtime 'yours' does not exist"),
        (lambda folder: move_alias(folder, "mine", "1.2"), "is not released"),
        (lambda folder: move_alias(folder, "mine", "1.0"), "is deprecated and may be removed after 2027-06-30"),
        (lambda folder: deprecate(folder, "mine", "1.2", remove_after=OVER, today=TODAY), "is a draft"),
        (lambda folder: deprecate(folder, "mine", "1.1", remove_after=TODAY, today=TODAY), "not after today"),
        (
            lambda folder: deprecate(folder, "mine", "1.0", remove_after=date(2027, 3, 1), today=TODAY),
            "is guaranteed until 2027-06-30",
        ),
        (lambda folder: withdraw(folder, "mine", "1.1"), "is not deprecated"),
        (lambda folder: retire(folder, "mine", "1.1", today=OVER, users=()), "its users were not warned"),
        (
            lambda folder: retire(folder, "mine", "1.0", today=date(2027, 6, 30), users=()),
            "wait until that date has passed",
        ),
        (
            lambda folder: retire(folder, "mine", "1.0", today=OVER, users=["a/b"]),
            "used by 1 TrainJob\n  a/b: references mine",
        ),
    ],
)
def test_a_step_that_breaks_a_promise_is_refused(catalog: CatalogFolder, step: object, message: str) -> None:
    with pytest.raises(TrainyardError, match=message):
        step(catalog)  # type: ignore[operator]


def test_the_version_of_the_alias_is_not_retired_while_others_remain(catalog: CatalogFolder) -> None:
    folder = deprecate(catalog, "mine", "1.1", remove_after=date(2027, 2, 2), today=TODAY).after
    with pytest.raises(TrainyardError, match="its users would have no version"):
        retire(folder, "mine", "1.1", today=OVER, users=())


def test_a_file_with_faults_is_not_released(catalog: CatalogFolder) -> None:
    broken = catalog.with_texts({"mine/1.2.yaml": "kind: Pod\n"})
    with pytest.raises(TrainyardError, match=r"mine/1.2.yaml: kind: is 'Pod'"):
        release(broken, "mine", "1.2", today=TODAY)


def test_a_fault_of_another_runtime_is_no_obstacle(catalog: CatalogFolder) -> None:
    index = catalog.texts["index.yaml"].replace(
        "runtimes:\n",
        'runtimes:\n  broken:\n    owner: x\n    summary: y\n    versions:\n      "1.0":\n        changes: z\n',
    )
    assert find_runtime(catalog.with_texts({"index.yaml": index}), "mine").name == "mine"


def test_comments_of_the_index_survive_a_whole_life(catalog: CatalogFolder) -> None:
    text = "# Heading.\n" + catalog.texts["index.yaml"].replace("    owner: team", "    # Who.\n    owner: team  # we")
    folder = catalog.with_texts({"index.yaml": text})
    for step in (
        lambda each: release(each, "mine", "1.2", today=TODAY, alias=True),
        lambda each: retire(each, "mine", "1.0", today=OVER, users=()),
    ):
        folder = step(folder).after
    for comment in ("# Heading.\n", "    # Who.\n", "team  # we\n"):
        assert comment in folder.texts["index.yaml"]


def test_files_are_written_together(catalog: CatalogFolder) -> None:
    step = retire(catalog, "mine", "1.0", today=OVER, users=())
    files = write_folder(step.before, step.after)
    assert [file.name for file in files] == ["index.yaml", "1.0.yaml"]
    assert read_folder(catalog.root).texts == step.after.texts
    assert sorted(path.name for path in catalog.root.rglob("*")) == ["1.1.yaml", "1.2.yaml", "index.yaml", "mine"]


def test_a_write_that_fails_changes_nothing(catalog: CatalogFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    step = release(catalog, "mine", "1.2", today=TODAY)
    replace, failed = Path.replace, []

    def full_disk(self: Path, target: Path) -> Path:
        if target.name == "1.2.yaml" and not failed:
            failed.append(target)
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", full_disk)
    with pytest.raises(TrainyardError, match="nothing was changed"):
        write_folder(step.before, step.after)
    assert failed
    assert read_folder(catalog.root).texts == catalog.texts
    assert not list(catalog.root.rglob(".*"))


def test_a_concurrent_change_is_not_overwritten(catalog: CatalogFolder) -> None:
    step: LifecycleStep = release(catalog, "mine", "1.2", today=RELEASED)
    (catalog.root / "index.yaml").write_text("runtimes: {}\n")
    with pytest.raises(TrainyardError, match="was changed by another process"):
        write_folder(step.before, step.after)
    assert (catalog.root / "mine" / "1.2.yaml").read_text() == catalog.texts["mine/1.2.yaml"]


def test_a_new_runtime_that_cannot_be_written_leaves_no_folder(
    catalog: CatalogFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    after = catalog.with_texts({"new/1.0.yaml": "a: b\n", "index.yaml": "runtimes: {}\n"})

    def full_disk(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full_disk)
    with pytest.raises(TrainyardError, match="No space left on device"):
        write_folder(catalog, after)
    assert not (catalog.root / "new").exists()
    assert [path.name for path in catalog.root.iterdir() if path.name.startswith(".")] == []
