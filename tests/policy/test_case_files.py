"""Reading cases.yaml: bases and patches become objects, and every mistake is named with its place and fix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from trainyard.errors import TrainyardError
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.policy.testing.case_files import load_cases, shared_bases
from trainyard.policy.testing.cases import Case, CaseDecision, subresource_of
from trainyard.policy.testing.rule_scaffold import new_rule

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"nodeName": "a"}}


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    new_rule(tmp_path, "ABC-001", "some-thing", "naming")
    return tmp_path


def case(**fields: Any) -> dict[str, Any]:
    """A case without faults."""
    given = {"name": "a", "verdict": "allow", "about": "A case.", "base": "own", **fields}
    return {key: value for key, value in given.items() if value is not None}


def read(catalog: Path, *cases: dict[str, Any], bases: dict[str, Any] | None = None) -> list[Case]:
    document = {"bases": {"own": {"object": POD}} if bases is None else bases, "cases": list(cases)}
    next(catalog.glob("*/*/cases.yaml")).write_text(yaml.safe_dump(document, sort_keys=False))
    return load_cases(catalog, load_rules(catalog))


def findings(catalog: Path, *cases: dict[str, Any], bases: dict[str, Any] | None = None) -> list[str]:
    with pytest.raises(TrainyardError, match=r"cases\.yaml is invalid") as caught:
        read(catalog, *cases, bases=bases)
    return [str(finding) for finding in caught.value.findings]


def test_a_case_creates_its_base_with_the_changes(catalog: Path) -> None:
    paths = ["spec.nodeName"]
    (found,) = read(catalog, case(set={"spec.nodeName": "b"}, verdict="deny", paths=paths, namespace="foreign"))
    assert (found.id, found.verdict, found.operation) == ("ABC-001/a", CaseDecision.DENY, "CREATE")
    assert found.content.object == {**POD, "spec": {"nodeName": "b"}}
    assert (found.content.old_object, found.content.runtime) == (None, None)
    assert (found.content.paths, found.content.namespace) == (("spec.nodeName",), "foreign")


def test_an_update_changes_what_the_case_begins_with(catalog: Path) -> None:
    update = {"set": {"spec.nodeName": "c"}, "add": {"spec.tolerations": []}}
    (found,) = read(catalog, case(set={"spec.nodeName": "b"}, update=update))
    assert found.operation == "UPDATE"
    assert found.content.old_object == {**POD, "spec": {"nodeName": "b"}}
    assert found.content.object == {**POD, "spec": {"nodeName": "c", "tolerations": []}}


def test_a_deletion_has_only_the_object_that_goes(catalog: Path) -> None:
    (found,) = read(catalog, case(delete=True))
    assert (found.operation, found.content.object, found.content.old_object) == ("DELETE", None, POD)


def test_an_object_may_be_written_out(catalog: Path) -> None:
    (found,) = read(catalog, case(base=None, object=POD), bases={})
    assert found.content.object == POD


def test_bases_build_on_earlier_and_on_shared_ones(catalog: Path) -> None:
    bases = {
        "own": {"base": "trainjob", "add": {"spec.suspend": True}},
        "other": {"base": "own", "set": {"spec.suspend": False}},
    }
    (found,) = read(catalog, case(base="other", runtime={"base": "torch-distributed"}), bases=bases)
    shared = shared_bases()
    assert found.content.object == {
        **shared["trainjob"],
        "spec": {**shared["trainjob"]["spec"], "suspend": False},
    }
    assert found.content.runtime == shared["torch-distributed"]


def test_cases_do_not_share_objects(catalog: Path) -> None:
    first, second = read(catalog, case(), case(name="b"))
    assert first.content.object == second.content.object
    assert first.content.object is not second.content.object


def test_cases_keep_the_order_of_the_file(catalog: Path) -> None:
    names = ["b", "a", "c"]
    assert [found.name for found in read(catalog, *(case(name=name) for name in names))] == names


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"set": {"spec.nodNam": "b"}},
            "cases[a].set[spec.nodNam]: spec has no field 'nodNam'; it has nodeName "
            "(correct the path, or move it to add)",
        ),
        (
            {"set": {"spec.nodeName": "a"}},
            "cases[a].set[spec.nodeName]: the value is already 'a' (remove the change, or correct the path)",
        ),
        (
            {"update": {"remove": ["spec.hostNetwork"]}},
            "cases[a].update.remove[spec.hostNetwork]: spec has no field 'hostNetwork'; it has nodeName "
            "(correct the path)",
        ),
        (
            {"runtime": {"base": "torch-distributed", "remove": ["spec.podGroupPolicy"]}},
            "cases[a].runtime.remove[spec.podGroupPolicy]: spec has no field 'podGroupPolicy'; it has mlPolicy "
            "(correct the path)",
        ),
        (
            {"verdict": "deny"},
            "cases[a]: a violation requires paths, and an allowed object must not have any; correct paths or verdict",
        ),
        (
            {"paths": ["x"]},
            "cases[a]: a violation requires paths, and an allowed object must not have any; correct paths or verdict",
        ),
        ({"verdict": None}, "cases[a].verdict: Field required"),
        ({"update": {}}, "cases[a]: the update is empty; add a change under update"),
        (
            {"delete": True, "update": {"remove": ["spec"]}},
            "cases[a]: update, delete and evict are mutually exclusive; keep one of them",
        ),
        ({"oldObject": POD}, "cases[a].oldObject: Extra inputs are not permitted"),
        ({"object": POD}, "cases[a]: set either base or object"),
    ],
)
def test_a_mistake_in_a_case_is_named(catalog: Path, wrong: dict[str, Any], message: str) -> None:
    assert findings(catalog, case(**wrong), case(name="b")) == [message]


def test_an_unknown_base_is_named_with_those_that_exist(catalog: Path) -> None:
    (found,) = findings(catalog, case(base="own"), case(name="b", base="podd"))
    assert found.startswith("cases[b].base: base 'podd' does not exist (use one of ")
    assert " own, " in found
    assert " trainjob, " in found


def test_an_object_that_is_written_out_takes_no_changes(catalog: Path) -> None:
    found = findings(catalog, case(base=None, object=POD, remove=["spec"]), bases={})
    assert found == ["cases[a]: set, remove and add change a base; edit the object itself"]


def test_two_cases_of_one_name_are_named(catalog: Path) -> None:
    found = findings(catalog, case(), case(set={"spec.nodeName": "b"}))
    assert found == ["cases[a].name: 2 cases have this name (rename all but one)"]


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ({"object": POD}, "bases[other]: is not used by any case (delete it, or correct the base of a case)"),
        ({"base": "own"}, "bases[other]: is equal to base 'own' (use that base, or add a change)"),
        (
            {"base": "own", "set": {"kind": "Pod"}},
            "bases[other].set[kind]: the value is already 'Pod' (remove the change, or correct the path)",
        ),
    ],
)
def test_a_mistake_in_a_base_is_named(catalog: Path, base: dict[str, Any], message: str) -> None:
    assert findings(catalog, case(), bases={"own": {"object": POD}, "other": base}) == [message]


def test_a_base_may_not_take_the_name_of_a_shared_one(catalog: Path) -> None:
    found = findings(catalog, case(base="pod"), bases={"pod": {"object": POD}})
    assert found == ["bases[pod]: lib/bases.yaml has a base of this name (use another name)"]


def test_a_base_builds_on_earlier_ones_only(catalog: Path) -> None:
    bases = {"own": {"base": "later", "remove": ["spec"]}, "later": {"object": POD}}
    (found,) = findings(catalog, case(), bases=bases)
    assert found.startswith("bases[own].base: base 'later' does not exist (")


def test_a_key_that_is_given_twice_is_an_error(catalog: Path) -> None:
    path = next(catalog.glob("*/*/cases.yaml"))
    path.write_text(path.read_text() + "    add: {}\n")
    with pytest.raises(TrainyardError, match="duplicate key 'add'"):
        load_cases(catalog, load_rules(catalog))


def test_a_folder_of_cases_is_an_error_with_its_fix(catalog: Path) -> None:
    rule_folder = next(catalog.glob("*/*/rule.yaml")).parent
    (rule_folder / "cases").mkdir()
    with pytest.raises(TrainyardError, match="cases: cases are not read from a folder") as caught:
        load_cases(catalog, load_rules(catalog))
    assert caught.value.fix == f"move them into {rule_folder / 'cases.yaml'} and delete the folder"


def test_the_subresource_of_an_update_is_found_also_in_malformed_pods() -> None:
    def pod(containers: object) -> dict[str, object]:
        return {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": containers}}

    small, large = ([{"name": "a", "resources": {"limits": {"cpu": cpu}}}] for cpu in ("1", "2"))
    assert subresource_of(pod(large), pod(small)) == "resize"
    assert [subresource_of(pod(each), pod(small)) for each in (True, None, {"a": 1}, [1])] == [""] * 4
