"""A table of forbidden fields: the CEL and the Rego that are generated from it, and wrong tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from trainyard.errors import TrainyardError
from trainyard.policy.rules.forbidden_fields import ForbiddenFields, cel_of, rego_of
from trainyard.policy.rules.rule_catalog import load_rules, rego_source
from trainyard.policy.testing.rule_scaffold import new_rule

REGO = """package trainyard.rules.abc_001

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

violation contains {"path": path, "message": "no"} if {
	some each in pod_templates.containers
	some name0 in ["ports", "others"]
	some i0, item0 in request.list(each.container, name0)
	value := item0.hostPort
	value != null
	not value in [0]
	path := sprintf("%s.%s[%d].hostPort", [each.path, name0, i0])
}
"""


def entry(*fields: str, **values: Any) -> ForbiddenFields:
    return ForbiddenFields.model_validate({"fields": fields, "message": "no", **values})


def cel(*fields: str, **values: Any) -> str:
    (variable,) = cel_of([entry(*fields, **values)])["variables"]
    return str(variable["expression"])


def test_a_path_becomes_rego() -> None:
    field = entry("{container}.(ports|others)[].hostPort", **{"except": [0]})
    assert rego_of("trainyard.rules.abc_001", [field]) == REGO


def test_a_path_becomes_cel() -> None:
    assert cel("{pod}.volumes[].hostPath") == (
        "variables.everyPod.map(each, each.spec.?volumes.orValue([]).transformList(i0, item0, "
        "[item0.?hostPath.orValue(dyn(null))].filter(value, value != null)"
        '.map(value, each.path + ".volumes[" + string(i0) + "].hostPath")).flatten()).flatten()'
    )
    assert cel("spec.(a|b)", values=["x"]) == (
        '["a", "b"].map(name0, [dyn(object).?spec[?name0].orValue(dyn(null))].filter(value, value in ["x"])'
        '.map(value, dyn("spec") + "." + name0)).flatten()'
    )
    assert cel("metadata.labels[example.com/team]") == (
        '[dyn(object).?metadata.?labels[?"example.com/team"].orValue(dyn(null))].filter(value, value != null)'
        '.map(value, dyn("metadata") + ".labels[example.com/team]")'
    )


def test_a_message_shows_the_value_in_both_languages() -> None:
    shown = entry("spec.a", message='"{values}" is not allowed')
    content = cel_of([shown])
    assert content["variables"][0]["expression"] == (
        "[dyn(object).?spec.?a.orValue(dyn(null))].filter(value, value != null)"
        """.map(value, {"path": dyn(dyn("spec") + ".a"), "value": dyn(['"', string(value), '"'].join())})"""
    )
    assert content["validations"] == [
        {"each": "forbiddenA", "message": "{values} is not allowed", "values": {"values": "entry.value"}}
    ]
    assert r'message := sprintf("\"%v\" is not allowed", [value])' in rego_of("a", [shown])


def test_a_message_shows_a_field_of_the_value() -> None:
    shown = entry("spec.a", message="{values} is not allowed", shown="path")
    assert """"value": dyn(string(value.?path.orValue(dyn(""))))""" in cel_of([shown])["variables"][0]["expression"]
    assert 'message := sprintf("%v is not allowed", [request.text(value, "path")])' in rego_of("a", [shown])


def test_the_fragments_of_the_paths_are_used() -> None:
    content = cel_of([entry("{metadata}.labels[a]", "{pod}.hostPID"), entry("spec.a")])
    assert content["use"] == ["pod-specs", "metadata"]
    assert [each["name"] for each in content["variables"]] == ["forbiddenA", "forbiddenB"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"fields": ["{node}.spec"], "message": "no"}, "{node} does not exist; use one of pod, container, metadata"),
        ({"fields": ["spec..a"], "message": "no"}, "String should match pattern"),
        ({"fields": [], "message": "no"}, "at least 1 item"),
        ({"fields": ["spec.a"], "values": [1], "except": [2], "message": "no"}, "use either values or except"),
        ({"fields": ["spec.a"], "value": [1], "message": "no"}, "Extra inputs are not permitted"),
    ],
)
def test_a_wrong_table_is_named(table: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(TrainyardError) as caught:
        load_rules(rewritten(tmp_path, [table]))
    assert message in str(caught.value)


def rewritten(folder: Path, table: list[dict[str, Any]], **kept: Any) -> Path:
    """Return a folder of one rule with a table in place of its CEL."""
    new_rule(folder, "ABC-001", "some-thing", "naming")
    path = next(folder.glob("*/*/rule.yaml"))
    content = yaml.safe_load(path.read_text())
    cel = content.pop("cel")
    path.write_text(yaml.safe_dump({**content, "forbidden": table, **({"cel": cel} if kept else {})}))
    return folder


def test_a_rule_has_one_source_of_each_language(tmp_path: Path) -> None:
    table = [{"fields": ["spec.a"], "message": "no"}]
    with pytest.raises(TrainyardError, match="invalid") as caught:
        load_rules(rewritten(tmp_path / "cel", table, cel=True))
    assert "a rule has either forbidden or cel" in str(caught.value)
    folder = rewritten(tmp_path / "rego", table)
    (rule,) = load_rules(folder)
    with pytest.raises(TrainyardError, match=r"has two sources of Rego: .*rule\.rego and forbidden in rule\.yaml"):
        rego_source(rule, folder / "naming" / "ABC-001-some-thing")
