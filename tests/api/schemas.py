"""Schemas to compare: ours as they are installed, and those of the upstream releases."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainyard.api.crds import build
from trainyard.manifests.documents import objects
from trainyard.settings.versions import supported_versions
from trainyard.upstream import read

RELEASES = {"v2.0": "v2.0.1", "v2.1": "v2.1.0", "v2.2": "v2.2.1", "v2.3": "v2.3.0"}
"""The upstream releases that are compared with, and the version of the Go module of each."""

PLURALS = ("trainjobs", "trainingruntimes", "clustertrainingruntimes")
_JOB_SET = "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"
_MODULE = "github.com/kubeflow/trainer/v2"
_CHILDREN = ("properties", "items", "additionalProperties")

Schema = dict[str, Any]


def schema_of(definition: Mapping[str, Any]) -> Any:
    return definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def nodes(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Schema]]:
    """Yield every schema node, without its children, with its field path."""
    yield path, {key: value for key, value in schema.items() if key not in _CHILDREN}
    for name, inner in schema.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{name}" if path else name)
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key], path + mark)


@cache
def definitions() -> list[dict[str, Any]]:
    """Our CRDs as they are installed, with the pinned JobSet's template."""
    return build(next(iter(objects(read("jobset", supported_versions("jobset")[0], _JOB_SET)))))


@cache
def ours(plural: str) -> dict[str, Schema]:
    """Every node of one of our schemas by path, without texts."""
    return _nodes(next(each for each in definitions() if each["spec"]["names"]["plural"] == plural))


@cache
def upstream(release: str, plural: str) -> dict[str, Schema]:
    """Every node of an upstream schema by path, without texts."""
    file = _folder(RELEASES[release]) / "manifests/base/crds" / f"trainer.kubeflow.org_{plural}.yaml"
    return _nodes(yaml.load(file.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def _nodes(definition: Mapping[str, Any]) -> dict[str, Schema]:
    return {
        path: {key: value for key, value in node.items() if key != "description"}
        for path, node in nodes(schema_of(definition))
    }


@cache
def _folder(version: str) -> Path:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "go.mod").write_text("module compare\n")
        command = ["go", "mod", "download", "-json", f"{_MODULE}@{version}"]
        try:
            result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
        except FileNotFoundError:
            pytest.skip("go is not installed")
    if result.returncode != 0:
        pytest.skip(f"{_MODULE}@{version} cannot be downloaded")
    return Path(json.loads(result.stdout)["Dir"])
