"""Fields that the old API does not have: named as lost wherever they are and whatever their name, never a traceback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.convert.conversions import bodies_of, conversion_of
from trainyard.errors import TrainyardError
from trainyard.jobs.convert.source import dotted

ODD = ("", "a.b", "x[0]", "a[b]", "[", "]", "a b", 'q"', "\n\x1b[31m", "..")
TEMPLATE = ("spec", "pytorchReplicaSpecs", "Worker", "template")
PLACES: tuple[tuple[str | int, ...], ...] = (
    ("spec",),
    ("spec", "runPolicy"),
    ("spec", "runPolicy", "schedulingPolicy"),
    ("spec", "elasticPolicy"),
    ("spec", "pytorchReplicaSpecs"),
    ("spec", "pytorchReplicaSpecs", "Worker"),
    TEMPLATE,
    (*TEMPLATE, "spec"),
    (*TEMPLATE, "spec", "containers", 0),
    (*TEMPLATE, "spec", "containers", 0, "resources"),
    (*TEMPLATE, "spec", "containers", 0, "env", 0),
    (*TEMPLATE, "spec", "containers", 0, "env", 0, "valueFrom", "fieldRef"),
    (*TEMPLATE, "spec", "volumes", 0, "emptyDir"),
)


def job() -> Any:
    variable = {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    main = {"name": "pytorch", "image": "registry.example/a:1", "env": [variable], "resources": {"limits": {"cpu": 1}}}
    pod = {"containers": [main], "volumes": [{"name": "scratch", "emptyDir": {}}]}
    spec = {
        "runPolicy": {"schedulingPolicy": {"queue": "vision"}},
        "elasticPolicy": {"rdzvBackend": "c10d"},
        "pytorchReplicaSpecs": {"Worker": {"replicas": 1, "template": {"spec": pod}}},
    }
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "odd"}, "spec": spec}


def at(value: Any, path: tuple[str | int, ...]) -> Any:
    for part in path:
        value = value[part]
    return value


@pytest.mark.parametrize("place", PLACES, ids=dotted)
def test_an_unknown_field_is_named_and_left_out(place: tuple[str | int, ...]) -> None:
    for name in ODD:
        body = job()
        at(body, place)[name] = {"replicas": 1} if place[-1] == "pytorchReplicaSpecs" else "odd-value"
        conversion = conversion_of(body)
        assert dotted((*place, name)) in {note.path for note in conversion.lost}, name
        assert "odd-value" not in str(conversion.objects)


def test_a_template_may_say_that_it_is_a_pod() -> None:
    body = job()
    at(body, TEMPLATE).update({"apiVersion": "v1", "kind": "Pod"})
    conversion = conversion_of(body)
    assert not conversion.lost
    assert "'Pod'" not in str(conversion.objects)


def test_paths_of_odd_names_can_be_read() -> None:
    assert dotted(("spec", "", "a.b", "x[0]", "a b", 3, "plain")) == 'spec[""][a.b]["x[0]"]["a b"][3].plain'


def places(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from places(inner)


@pytest.mark.parametrize(
    "name", ["mpi-v1", "paddle-elastic", "tensorflow-chief", "xgboost-roles", "jax-variables", "volcano-partitions"]
)
@pytest.mark.parametrize("odd", ["", "a[b]", "x.y"])
def test_no_name_is_a_traceback(name: str, odd: str) -> None:
    (body,) = bodies_of(name)
    text = json.dumps(body)
    for number in range(len(list(places(body)))):
        copy = json.loads(text)
        list(places(copy))[number][odd] = [1]
        with suppress(TrainyardError):
            conversion_of(copy)
