"""Our schemas beside those of the upstream releases: v2.3 plus what former releases had, except where we say so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.api.schemas import PLURALS, Schema, ours, upstream
from tools.reference.api import fields, limits
from tools.reference.upstream_versions import DIFFERENCES, RELEASES, TRAIN_JOB, added, releases_of, runtime
from trainyard.api import TrainingRuntime, TrainJob

pytestmark = pytest.mark.slow

RULES = "x-kubernetes-validations"
KINDS = {"trainjobs": "TrainJob", "trainingruntimes": "runtimes", "clustertrainingruntimes": "runtimes"}


def listed(plural: str) -> dict[str, frozenset[str]]:
    return {difference.path: difference.keys for difference in DIFFERENCES[KINDS[plural]]}


@pytest.mark.parametrize("plural", PLURALS)
def test_schemas_equal_those_of_v2_3_except_where_we_say_so(plural: str) -> None:
    mine, theirs = ours(plural), upstream("v2.3", plural)
    assert theirs.keys() <= mine.keys()
    different = {path: keys for path in theirs if (keys := differing(mine[path], theirs[path]))}
    assert different == {path: keys for path, keys in listed(plural).items() if path in theirs}


@pytest.mark.parametrize("plural", PLURALS)
def test_fields_that_v2_3_lacks_are_listed(plural: str) -> None:
    more = ours(plural).keys() - upstream("v2.3", plural).keys()
    roots = {path for path in more if not any(inside(path, other) for other in more)}
    assert roots == set(added()[KINDS[plural]])


@pytest.mark.parametrize("plural", PLURALS)
@pytest.mark.parametrize("release", RELEASES)
def test_what_a_release_accepted_is_accepted(release: str, plural: str) -> None:
    """Bounds of v2.3 itself count as wanted; a field of v2.3 follows v2.3."""
    mine, theirs, latest = ours(plural), upstream(release, plural), upstream("v2.3", plural)
    kept = [path for path, node in mine.items() if node.get("x-kubernetes-preserve-unknown-fields")]
    assert {path for path in theirs.keys() - mine.keys() if not any(inside(path, other) for other in kept)} == set()
    allowed = listed(plural)
    for path in theirs.keys() & mine.keys():
        stricter = {
            key for key in narrower(mine[path], theirs[path]) if mine[path].get(key) != latest.get(path, {}).get(key)
        }
        assert stricter <= allowed.get(path, frozenset()), path


@pytest.mark.parametrize("plural", PLURALS)
def test_fields_of_former_releases_differ_only_where_we_say_so(plural: str) -> None:
    mine, latest = ours(plural), upstream("v2.3", plural)
    found: dict[str, set[str]] = {}
    for release in RELEASES[:-1]:
        for path, node in upstream(release, plural).items():
            if path in mine and path not in latest and (keys := differing(mine[path], node)):
                found[path] = keys
    assert found == {path: keys for path, keys in listed(plural).items() if path not in latest}


@pytest.mark.parametrize(
    ("plural", "model", "table"),
    [("trainjobs", TrainJob, TRAIN_JOB), ("trainingruntimes", TrainingRuntime, runtime())],
)
def test_the_table_of_releases_is_true(plural: str, model: type[TrainJob | TrainingRuntime], table: object) -> None:
    assert isinstance(table, dict)
    for field in fields(model):
        mine = limits(ours(plural)[field.path])
        for release, said in zip(RELEASES, releases_of(table, field.path), strict=True):
            node = upstream(release, plural).get(field.path)
            assert said == ("" if node is None else "=" if limits(node) == mine else limits(node) or "no limits"), (
                release,
                field.path,
            )


def differing(mine: Schema, theirs: Schema) -> set[str]:
    left, right = ordered(mine), ordered(theirs)
    return {key for key in left.keys() | right.keys() if left.get(key) != right.get(key)}


def ordered(node: Schema) -> Schema:
    return {**node, "required": sorted(node["required"])} if "required" in node else node


def inside(path: str, other: str) -> bool:
    return path.startswith((f"{other}.", f"{other}[", f"{other}{{"))


def narrower(mine: Schema, theirs: Schema) -> Iterator[str]:
    """Yield the keys of a node by which we refuse what upstream accepts."""
    if mine.get("type") != theirs.get("type") and not mine.get("x-kubernetes-int-or-string"):
        yield "type"
    for key in ("maximum", "maxItems", "maxLength", "maxProperties"):
        if mine.get(key, float("inf")) < theirs.get(key, float("inf")):
            yield key
    for key in ("minimum", "minItems", "minLength", "minProperties"):
        if mine.get(key, float("-inf")) > theirs.get(key, float("-inf")):
            yield key
    if "enum" in mine and not set(theirs.get("enum", ["?"])) <= set(mine["enum"]):
        yield "enum"
    if not set(mine.get("required", ())) <= set(theirs.get("required", ())):
        yield "required"
    for key in ("format", "pattern", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"):
        if key in mine and mine[key] != theirs.get(key):
            yield key
    known = {rule["rule"] for rule in theirs.get(RULES, ())}
    if any(rule["rule"] not in known for rule in mine.get(RULES, ())):
        yield RULES
