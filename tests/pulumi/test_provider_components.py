"""The built Kubernetes provider keeps its own component resources: charts, YAML and Kustomize folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.support import ROOT, LiveCluster, require, run

pytestmark = pytest.mark.cluster

PROGRAM = """
import pulumi


class Remote(pulumi.ComponentResource):
    def __init__(self, kind, name, **inputs):
        super().__init__(f"kubernetes:{kind}", name, inputs, remote=True)


Remote("yaml/v2:ConfigGroup", "group", yaml=open("objects.yaml").read())
Remote("kustomize/v2:Directory", "folder", directory=".")
Remote(
    "helm.sh/v4:Chart",
    "chart",
    chart="./chart",
    namespace="default",
    values={"word": "from-values"},
    repositoryOpts={"username": "nobody"},
    postRenderer={"command": "sed", "args": ["s/from-values/from-renderer/"]},
)
"""
"""The classes of the Python SDK 4.25 name a wrong type of `resources`, so the components are made without them."""
OBJECTS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: from-yaml, namespace: default}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: from-yaml, namespace: default, annotations: {pulumi.com/skipAwait: "true"}}
spec:
  replicas: 0
  selector: {matchLabels: {app: from-yaml}}
  template:
    metadata: {labels: {app: from-yaml}}
    spec: {containers: [{name: main, image: example.com/main}]}
"""
TEMPLATE = """
apiVersion: v1
kind: ConfigMap
metadata: {name: from-chart}
data: {word: "{{ .Values.word }}"}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    runtime = {"name": "python", "options": {"virtualenv": str(ROOT / ".venv")}}
    files = {
        "Pulumi.yaml": yaml.safe_dump({"name": "components", "runtime": runtime}),
        "__main__.py": PROGRAM,
        "objects.yaml": OBJECTS,
        "kustomization.yaml": yaml.safe_dump(
            {"configMapGenerator": [{"name": "from-folder", "namespace": "default", "literals": ["a=b"]}]}
        ),
        "chart/Chart.yaml": yaml.safe_dump({"apiVersion": "v2", "name": "chart", "version": "1.0.0"}),
        "chart/templates/map.yaml": TEMPLATE,
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_charts_manifests_and_folders_are_installed_and_removed(cluster: LiveCluster, project: Path) -> None:
    def pulumi(*arguments: str) -> str:
        return require(run("pulumi", "-C", project, "--non-interactive", *arguments, env=cluster.env))

    pulumi("stack", "init", "components")
    try:
        pulumi("up", "--yes", "--skip-preview", "--stack", "components")
        maps = {
            each["metadata"]["name"]: each.get("data") for each in cluster.get("configmap", "-n", "default")["items"]
        }
        assert maps["from-chart"] == {"word": "from-renderer"}
        assert "from-yaml" in maps
        assert any(name.startswith("from-folder-") for name in maps)
        state = json.loads(pulumi("stack", "export", "--stack", "components"))
        types = {resource["type"] for resource in state["deployment"]["resources"]}
        assert {"kubernetes:core/v1:ConfigMap", "kubernetes:apps/v1:Deployment"} <= types
    finally:
        pulumi("destroy", "--yes", "--skip-preview", "--stack", "components", "--remove")
    left = {each["metadata"]["name"] for each in cluster.get("configmap", "-n", "default")["items"]}
    assert left == {"kube-root-ca.crt"}
