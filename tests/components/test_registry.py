"""Order of installation: each component after those that it declares to need."""

from __future__ import annotations

import re
from typing import Any

import pytest

from components import stack
from components.common.declaration import Declaration, Group, WebhookServer
from components.registry import declarations, installation_order, needed_by


def declared(*components: Declaration) -> dict[str, Declaration]:
    return {each.name: each for each in components}


def component(name: str, **fields: Any) -> Declaration:
    return Declaration(name=name, order=0, install=lambda _context, _needed: None, **fields)


def server(name: str) -> Declaration:
    return component(name, webhooks=WebhookServer(secret="secret", service="service", configurations=lambda *_: ()))


def test_components_without_needs_keep_the_order_of_their_declarations() -> None:
    assert installation_order(declared(component("b"), component("a"))) == ["b", "a"]


def test_a_component_follows_those_that_it_names() -> None:
    found = declared(component("a", needs=("c",)), component("b"), component("c", needs=("b",)))
    assert installation_order(found) == ["b", "c", "a"]


def test_a_component_follows_those_that_it_needs_for_what_they_are() -> None:
    found = declared(component("issuer", needs_all=Group.WEBHOOK_SERVERS), component("plain"), server("served"))
    assert needed_by(found["issuer"], found) == ["served"]
    assert installation_order(found) == ["served", "issuer", "plain"]
    last = declared(component("last", needs_all=Group.OTHERS), *found.values())
    assert installation_order(last)[-1] == "last"


def test_a_component_that_needs_itself_through_others_is_an_error() -> None:
    found = declared(component("a", needs=("b",)), component("b", needs=("a",)))
    with pytest.raises(TypeError, match=r"components.a needs itself: a -> b -> a"):
        installation_order(found)


def test_a_component_that_does_not_exist_cannot_be_needed() -> None:
    with pytest.raises(TypeError, match=r"components.a needs b, which is not a component"):
        installation_order(declared(component("a", needs=("b",))))


def test_the_platform_is_installed_from_the_controllers_to_the_tenants() -> None:
    found = declarations()
    assert installation_order(found) == list(found)
    assert needed_by(found["trainer"], found) == ["volcano", "jobset", "kueue", "console"]
    controllers = ["volcano", "jobset", "kueue", "console", "trainer", "platform"]
    assert needed_by(found["policies"], found) == controllers
    assert needed_by(found["tenants"], found) == [name for name in found if name != "tenants"]


def test_the_module_of_the_stack_lists_the_order_and_what_each_component_needs() -> None:
    found, listed = declarations(), {}
    for line in re.findall(r"^- (.*)$", stack.__doc__ or "", re.MULTILINE):
        names, _, needed = line.partition(": ")
        others = ", ".join(name for name in found if name != names)
        listed.update(dict.fromkeys(names.split(", "), needed.replace("all others", others)))
    needs = {name: ", ".join(needed_by(found[name], found)) for name in installation_order(found)}
    assert list(listed.items()) == list(needs.items())
