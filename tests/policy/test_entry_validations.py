"""Validations of entries: the expression, the paths and the values that they stand for."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from trainyard.policy.rules.admission_rule import Validation


def validation(**fields: Any) -> Validation:
    return Validation.model_validate({"message": "wrong", **fields})


def test_every_entry_is_a_violation_at_its_path() -> None:
    found = validation(each="named")
    assert found.expression == "variables.named.size() == 0"
    assert found.paths == 'variables.named.map(entry, entry.path).join(", ")'
    assert (found.path, found.values) == (None, {})


def test_a_condition_allows_the_entries() -> None:
    found = validation(each="named", unless="variables.trusted || variables.made")
    assert found.expression == "variables.named.size() == 0 || variables.trusted || variables.made"


def test_paths_and_values_are_those_of_one_entry() -> None:
    found = validation(
        each="named", paths='entry.path + ".name"', message="no {names}", values={"names": "string(entry.name)"}
    )
    assert found.paths == 'variables.named.map(entry, entry.path + ".name").join(", ")'
    assert found.values == {"names": 'variables.named.map(entry, string(entry.name)).join(", ")'}


def test_entries_may_be_the_paths_themselves() -> None:
    assert validation(each="selected", paths="entry").paths == 'variables.selected.join(", ")'


@pytest.mark.parametrize("value", ["string(variables.limit)", '"an entry"', '"\\"entry"', "variables.entryNames"])
def test_a_value_that_does_not_read_the_entry_is_the_same_for_all(value: str) -> None:
    assert validation(each="long", message="{limit}", values={"limit": value}).values == {"limit": value}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"each": "named", "expression": "true"}, "a validation with each cannot have expression"),
        ({"each": "named", "path": "spec"}, "a validation with each cannot have path"),
        ({"each": "variables.named"}, "each must be the name of a variable, such as named"),
        ({"each": 3}, "each must be the name of a variable, such as named"),
        ({"each": "named", "unless": True}, "unless must be a CEL expression"),
        ({"each": "named", "message": "{names}"}, "the message names"),
        ({"expression": "true", "path": "spec", "unless": "false"}, "unless"),
        ({"each": "named", "paths": 3}, "paths"),
    ],
)
def test_a_mistake_is_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        validation(**fields)
