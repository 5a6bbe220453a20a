"""An upgrade from each recorded release deletes and replaces only what was reviewed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.components.recording import Recording, Registered
from tests.components.release_changes import (
    KEPT_KINDS,
    Change,
    changes_since,
    compare,
    releases,
    review_of,
    unused,
)
from tests.components.release_record import DECIDING_FIELDS, declared, record_release
from tests.components.upgrade_page import PAGE, updated

STACK = "urn:pulumi:local::trainyard::"


@pytest.fixture(scope="module", params=releases())
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def changes(release: str) -> dict[str, list[Change]]:
    return changes_since(release)


@pytest.mark.slow
def test_every_change_since_the_release_was_reviewed(release: str, changes: dict[str, list[Change]]) -> None:
    reviews = review_of(release)
    missing = {
        f"{stack}: {change}"
        for stack, found in changes.items()
        for change in found
        if not any(review.covers(change) for review in reviews)
    }
    assert not missing, (
        f"not in tests/components/releases/since-{release}.yaml; give the resource its former name or an alias, or "
        f"list it with a reason: {sorted(missing)}"
    )


@pytest.mark.slow
def test_every_reviewed_change_exists(release: str, changes: dict[str, list[Change]]) -> None:
    reviews = review_of(release)
    assert unused(reviews, [change for found in changes.values() for change in found]) == []
    assert all(each.reason for each in reviews)


def test_no_object_that_jobs_use_is_deleted_or_replaced(changes: dict[str, list[Change]]) -> None:
    lost = [
        f"{stack}: {change}"
        for stack, found in changes.items()
        for change in found
        if change.change != "added" and change.kind in KEPT_KINDS
    ]
    assert lost == []


@pytest.mark.slow
def test_fields_that_lead_to_replacements_are_recorded(local: Recording) -> None:
    kinds = {each.inputs["kind"] for each in local.objects if each.replaced_for}
    assert kinds
    assert kinds <= DECIDING_FIELDS.keys()


def test_the_page_shows_the_reviewed_changes() -> None:
    page = PAGE.read_text()
    assert updated(page) == page, "rewrite it with python -m tests.components.upgrade_page"


def test_a_record_is_never_changed(tmp_path: Path) -> None:
    (tmp_path / "1.0.0.yaml").touch()
    with pytest.raises(FileExistsError):
        record_release("1.0.0", tmp_path)


def queue(name: str = "Queue/vision", *, parent: str = "trainyard:queues:Queues", **changes: Any) -> Registered:
    kind = "kubernetes:scheduling.volcano.sh/v1beta1:Queue"
    own, _, rest = name.partition("/")
    inputs = {"kind": own, "metadata": {"name": rest}, **changes.pop("inputs", {})}
    return Registered(
        urn=f"{STACK}{parent}${kind}::{name}",
        type=changes.pop("type", kind),
        name=name,
        custom=True,
        inputs=inputs,
        parent=f"{STACK}{parent}::queues",
        dependencies=frozenset(),
        protect=False,
        retain=False,
        deleted_with="",
        provider="",
        hooks=frozenset(),
        **changes,
    )


def component(kind: str = "trainyard:queues:Queues", **changes: Any) -> Registered:
    body = replace(queue(), urn=f"{STACK}{kind}::queues", type=kind, name="queues", custom=False, inputs={})
    return replace(body, parent=f"{STACK}pulumi:pulumi:Stack::trainyard-local", **changes)


def program(*resources: Registered) -> Recording:
    return Recording({each.urn: each for each in resources})


@pytest.fixture
def former() -> Iterator[Any]:
    return declared(program(component(), queue()))


def test_the_same_program_changes_nothing(former: Any) -> None:
    assert compare(former, program(component(), queue())) == []


def test_another_name_deletes_and_creates(former: Any) -> None:
    found = compare(former, program(component(), queue("Queue/eyes")))
    assert found == [Change("added", "Queue/eyes"), Change("removed", "Queue/vision")]


def test_another_component_deletes_and_creates_its_children(former: Any) -> None:
    moved = program(component("trainyard:tree:Tree"), queue(parent="trainyard:tree:Tree"))
    assert Change("removed", "Queue/vision") in compare(former, moved)


def test_an_alias_of_the_component_keeps_its_children(former: Any) -> None:
    alias = (("trainyard:queues:Queues", ""),)
    tree = replace(queue(parent="trainyard:tree:Tree"), parent=f"{STACK}trainyard:tree:Tree::queues")
    assert compare(former, program(component("trainyard:tree:Tree", aliases=alias), tree)) == []


def test_an_object_with_another_name_under_an_alias_is_replaced(former: Any) -> None:
    alias = (("", "Queue/vision"),)
    found = compare(former, program(component(), queue("Queue/eyes", aliases=alias)))
    assert found == [Change("changed", "Queue/eyes", "identity")]


def test_a_served_version_that_ends_is_a_change_and_a_new_one_is_not() -> None:
    def definition(*versions: str) -> Recording:
        served = [{"name": version, "served": True} for version in versions]
        names = {"group": "g", "names": {"kind": "K", "plural": "ks"}, "scope": "Cluster", "versions": served}
        name = "CustomResourceDefinition/ks.g"
        return program(component(), queue(name, inputs={"kind": "CustomResourceDefinition", "spec": names}))

    former = declared(definition("v1"))
    assert compare(former, definition("v1", "v2")) == []
    assert compare(former, definition("v2")) == [Change("changed", "CustomResourceDefinition/ks.g", "served")]


def test_a_lost_protection_is_a_change() -> None:
    former = declared(program(component(), replace(queue(), protect=True)))
    assert compare(former, program(component(), queue())) == [Change("changed", "Queue/vision", "protect")]
