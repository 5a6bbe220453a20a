"""Install a platform as a recorded release left it: the same state of Pulumi, and the same objects.

python -m tests.cluster.former_platform RESOURCES CONFIG_FILE
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pulumi
import pulumi_kubernetes
import pytest
import yaml

from tests.components.release_objects import read_objects
from tests.components.release_record import FOLDER, recorded_stack
from tests.support import ROOT, LiveCluster, require, run
from trainyard.local.cluster import cluster_name, provider
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.platform.deploy.workspace import StackProgram, open_workspace
from trainyard.settings.stack_loader import load_stack

STACK = "local"
CONTROLLER = "Deployment/kubeflow-system/kubeflow-trainer-controller-manager"
COMMITS = {"initial": "0931907c8278b8181cad07a3f9a15dc3fb9a1289"}
"""Commit of a release that has no tag."""


@dataclass
class Declarations(StackProgram):
    """A program that declares recorded resources."""

    resources: list[dict[str, Any]] = field(default_factory=list)
    access: ClusterAccess | None = None

    def prepare(self) -> None:
        """Do nothing: there is nothing to import."""

    def __call__(self) -> None:
        """Declare every resource after those that it needs."""
        declared: dict[str, pulumi.Resource] = {}
        kubernetes = self._provider()
        for each in self.resources:
            declared[each["urn"]] = self._declared(each, declared, kubernetes)

    def _declared(
        self, each: Mapping[str, Any], declared: Mapping[str, pulumi.Resource], kubernetes: pulumi.ProviderResource
    ) -> pulumi.Resource:
        if each["type"] == "pulumi:providers:kubernetes":
            return kubernetes
        opts = pulumi.ResourceOptions(
            parent=declared.get(each["parent"]),
            depends_on=[declared[urn] for urn in each["dependencies"] if urn in declared],
            deleted_with=declared.get(each["deleted_with"]),
            provider=kubernetes,
        )
        if each["type"].startswith("kubernetes:"):
            return pulumi.CustomResource(each["type"], each["name"], each["inputs"], opts)
        return pulumi.ComponentResource(each["type"], each["name"], {}, opts)

    def _provider(self) -> pulumi.ProviderResource:
        assert self.access is not None
        return pulumi_kubernetes.Provider(
            "kubernetes",
            kubeconfig=str(self.access.kubeconfig),
            context=self.access.context,
            cluster_identifier=self.access.name,
            enable_config_map_mutable=True,
            enable_server_side_apply=True,
            suppress_deprecation_warnings=True,
        )


def checkout(release: str, folder: Path) -> Path:
    """Return the code of a release; skip the test if the clone does not contain it."""
    commit = COMMITS.get(release, f"v{release}")
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True)
    if archive.returncode:
        pytest.skip(f"{commit} is not in this clone: git fetch --unshallow --tags")
    root = folder / "checkout"
    root.mkdir()
    subprocess.run(["tar", "-x"], cwd=root, input=archive.stdout, check=True)
    return root


def install(cluster: LiveCluster, release: str, folder: Path, code: Path) -> None:
    """Give a cluster the platform of a release, with the controller of that release.

    The present program is run with mocks here, and the recorded one in a process of its own: Pulumi keeps one of them.
    """
    config = yaml.safe_load(cluster.config_file.read_text())["config"]
    values = {key.removeprefix("trainyard:"): value for key, value in config.items()}
    with mock.patch.dict(os.environ, cluster.env):
        ports = _access(cluster.config_file).webhook_ports or {}
    resources = read_objects(release, FOLDER, recorded_stack(STACK, values, schemas=True), ports)
    (pod,) = (each["inputs"]["spec"]["template"]["spec"] for each in resources if each["name"] == CONTROLLER)
    # In place of another image. The second slash keeps the path from being one below the mount path /tmp.
    pod["containers"][0]["env"] = [{"name": "PYTHONPATH", "value": f"/{code}"}]
    file = folder / "resources.json"
    file.write_text(json.dumps(resources))
    require(run(sys.executable, "-m", "tests.cluster.former_platform", file, cluster.config_file, env=cluster.env))


def _access(config_file: Path) -> ClusterAccess:
    settings = load_stack(config_file)
    return provider(settings.cluster, cluster_name(settings, STACK)).access()


def _run(file: Path, config_file: Path) -> None:
    program = Declarations(resources=json.loads(file.read_text()), access=_access(config_file))
    with open_workspace(STACK, config_file, dict(os.environ), program) as stack:
        stack.up(on_error=sys.stderr.write, parallel=32, color="never", suppress_progress=True)


if __name__ == "__main__":
    _run(Path(sys.argv[1]), Path(sys.argv[2]))
