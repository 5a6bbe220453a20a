"""Reading rule folders: every mistake is named with its file and field."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.policy.shipped import POLICIES
from trainyard.errors import TrainyardError
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.policy.testing.case_files import load_cases
from trainyard.policy.testing.rule_scaffold import new_rule, next_steps


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    new_rule(tmp_path, "ABC-001", "some-thing", "naming")
    return tmp_path


def changed(catalog: Path, **fields: object) -> None:
    path = next(catalog.glob("*/*/rule.yaml"))
    document = yaml.safe_load(path.read_text())
    document.update(fields)
    path.write_text(yaml.safe_dump(document))


def test_a_new_rule_is_complete(catalog: Path) -> None:
    (rule,) = load_rules(catalog)
    assert (rule.id, rule.family, rule.slug) == ("ABC-001", "naming", "some-thing")
    assert [case.id for case in load_cases(catalog, [rule])] == ["ABC-001/absent", "ABC-001/present"]


def test_an_id_is_never_given_twice(catalog: Path) -> None:
    with pytest.raises(TrainyardError, match="ABC-001 is taken by naming/ABC-001-some-thing"):
        new_rule(catalog, "ABC-001", "another", "naming")
    with pytest.raises(TrainyardError, match="TEN-014 was the id of a withdrawn rule"):
        new_rule(catalog, "TEN-014", "another", "naming")


def test_a_new_rule_names_its_tests_and_the_fragments() -> None:
    text = "\n".join(next_steps("ABC-001", POLICIES))
    assert "trainyard policy test --rule ABC-001" in text
    assert ", pod-specs," in text
    assert ", pod_templates," in text


@pytest.mark.parametrize(
    ("rule_id", "slug", "family"), [("abc-1", "x", "y"), ("ABC-002", "A B", "y"), ("ABC-002", "x", "../y")]
)
def test_a_new_rule_needs_proper_names(tmp_path: Path, rule_id: str, slug: str, family: str) -> None:
    with pytest.raises(TrainyardError, match="is invalid"):
        new_rule(tmp_path, rule_id, slug, family)
    assert not list(tmp_path.rglob("*.yaml"))


@pytest.mark.parametrize("exists", [True, False])
def test_a_folder_without_rules_is_named(catalog: Path, tmp_path_factory: pytest.TempPathFactory, exists: bool) -> None:
    other = tmp_path_factory.mktemp("team") / "polices"
    if exists:
        other.mkdir()
    with pytest.raises(TrainyardError) as caught:
        load_rules(catalog, other)
    expected = "this folder has no rules" if exists else "this folder does not exist"
    assert [(finding.path, finding.message) for finding in caught.value.findings] == [(str(other), expected)]


def test_a_new_catalog_may_be_an_empty_folder(tmp_path: Path) -> None:
    assert new_rule(tmp_path, "ABC-001", "some-thing", "naming")


def test_an_unknown_field_is_named(catalog: Path) -> None:
    changed(catalog, sevrity="error")
    with pytest.raises(TrainyardError) as caught:
        load_rules(catalog)
    assert "rule.yaml is invalid" in caught.value.message
    assert [finding.path for finding in caught.value.findings] == ["sevrity"]


def test_the_folder_name_must_fit_the_id(catalog: Path) -> None:
    changed(catalog, id="ABC-002")
    with pytest.raises(TrainyardError, match="does not match the folder name"):
        load_rules(catalog)


def test_two_catalogs_may_not_share_an_id(catalog: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("team")
    new_rule(other, "ABC-001", "something-else", "team")
    with pytest.raises(TrainyardError, match="exists twice"):
        load_rules(catalog, other)


def test_a_rule_that_reads_a_tenant_policy_cannot_review_cluster_scoped_kinds(catalog: Path) -> None:
    match = {"group": "a.b", "version": "v1", "kind": "C", "resource": "cs", "scope": "Cluster"}
    changed(catalog, source="TenantPolicy", matches=[match])
    with pytest.raises(TrainyardError) as caught:
        load_rules(catalog)
    assert "a TenantPolicy is namespaced" in str(caught.value)


def test_a_rule_that_reads_parameters_cannot_review_deletions(catalog: Path) -> None:
    match = {"group": "a.b", "version": "v1", "kind": "C", "resource": "cs", "operations": ["DELETE"]}
    changed(catalog, source="Platform", matches=[match])
    with pytest.raises(TrainyardError) as caught:
        load_rules(catalog)
    assert "would block namespace deletion" in str(caught.value)


def test_a_message_may_only_name_values_it_has(catalog: Path) -> None:
    validation = {"expression": "true", "path": "spec", "message": "{what} is wrong"}
    changed(catalog, cel={"validations": [validation]})
    with pytest.raises(TrainyardError) as caught:
        load_rules(catalog)
    assert "the message names ['what'] but values has []" in str(caught.value)


def test_a_broken_file_is_named(catalog: Path) -> None:
    next(catalog.glob("*/*/rule.yaml")).write_text("id: [")
    with pytest.raises(TrainyardError, match="is not valid YAML"):
        load_rules(catalog)


def test_a_rule_of_gang_schedulers_has_a_parameter_for_each() -> None:
    (rule,) = (rule for rule in load_rules() if rule.id == "GNG-001")
    assert rule.parameter_values({}) == {
        "volcano": ["volcano"],
        "coscheduling": ["scheduler-plugins-scheduler"],
        "kai": ["kai-scheduler"],
    }
