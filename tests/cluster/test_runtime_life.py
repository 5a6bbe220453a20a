"""The life of a team's own runtime on a live platform: released, moved, mirrored, deprecated, retired."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.jobs import lasting, train_job
from tests.support import LiveCluster, awaited, require

pytestmark = pytest.mark.cluster

NAME = "vision-torch"
FIRST, SECOND = "ghcr.io/acme/vision:1.4.2", "ghcr.io/acme/vision:1.5.0"
DIGEST = "sha256:" + "ab" * 32


class Team:
    """A team with a catalog folder of its own, beside a platform whose stack installs it."""

    def __init__(self, platform: LiveCluster, folder: Path) -> None:
        self.platform = platform
        self.folder = folder

    def runtimes(self, step: str, *arguments: str) -> str:
        """Run a command on the folder; it must succeed."""
        return require(self.platform.trainyard("runtimes", step, *arguments, "--folder", str(self.folder)))

    def refused(self, step: str, *arguments: str) -> str:
        """Return the message of a command that must be refused."""
        result = self.platform.trainyard("runtimes", step, *arguments, "--folder", str(self.folder))
        assert result.returncode == 2, result.stdout
        return result.stderr

    def up(self, **settings: Any) -> None:
        """Install the folder's runtimes, after a change of the stack's settings for runtimes."""
        document = yaml.safe_load(self.platform.config_file.read_text())
        document["config"]["trainyard:runtimes"].update(settings)
        self.platform.config_file.write_text(yaml.safe_dump(document, sort_keys=False))
        require(self.platform.trainyard("up", "--yes", "--config-file", str(self.platform.config_file)))

    def runtime(self, name: str) -> Any:
        return self.platform.get("clustertrainingruntime", name)

    def image(self, runtime: str) -> str:
        """Return the image of the nodes of a runtime in the cluster."""
        (job,) = self.runtime(runtime)["spec"]["template"]["spec"]["replicatedJobs"]
        return str(job["template"]["spec"]["template"]["spec"]["containers"][0]["image"])

    def reached(self) -> dict[str, str]:
        """Return what a change of the plain name means for each live job."""
        found = json.loads(self.runtimes("impact", NAME, "--kubeconfig", str(self.platform.kubeconfig), "-o", "json"))
        return {each["job"]: each["effect"] for each in found["jobs"]}

    def submit(self, job: str, **spec: Any) -> None:
        require(self.platform.apply(train_job(job, "vision", NAME, **spec)))

    def image_of_pods(self, job: str) -> set[str]:
        return {pod["spec"]["containers"][0]["image"] for pod in self.platform.pods(job, "vision")}

    def let_years_pass(self) -> None:
        """Move every day in the index into the past."""
        index = self.folder / "index.yaml"
        index.write_text(re.sub(r"\b20(\d\d-\d\d-\d\d)\b", r"19\1", index.read_text()))


def test_a_runtime_lives_from_its_first_release_to_its_retirement(
    changing_platform: LiveCluster, tmp_path: Path
) -> None:
    team = Team(changing_platform, tmp_path / "catalog")
    include = yaml.safe_load(changing_platform.config_file.read_text())["config"]["trainyard:runtimes"]["include"]
    kubeconfig = ("--kubeconfig", str(changing_platform.kubeconfig))

    owned = ("--owner", "vision", "--summary", "PyTorch with our libraries")
    team.runtimes("new", NAME, "--framework", "torch", "--image", FIRST, *owned)
    team.runtimes("release", NAME, "1.0", "--alias")
    team.up(folders=[str(team.folder)], include=[*include, NAME])
    team.submit("first")
    changing_platform.condition("first", "vision", "Complete")
    assert team.image_of_pods("first") == {FIRST}

    changed = team.runtime(f"{NAME}-1.0")
    changed["spec"]["mlPolicy"]["numNodes"] = 7
    refused = changing_platform.kubectl("replace", "-f", "-", stdin=yaml.safe_dump(changed))
    assert "RUN-001" in refused.stderr

    # A job that runs keeps what it began with.
    team.submit("running", runtimePatches=[lasting("1h")])
    awaited("pods of the running job", lambda: team.image_of_pods("running"))
    assert team.reached() == {"vision/running": "keeps its snapshot", "vision/first": "over"}
    team.runtimes("new", NAME, "--image", SECOND, "--changes", "Vision 1.5")
    team.runtimes("release", NAME, "1.1", "--alias")
    team.up()
    assert (team.image(NAME), team.image(f"{NAME}-1.0")) == (SECOND, FIRST)
    team.submit("second")
    changing_platform.condition("second", "vision", "Complete")
    assert (team.image_of_pods("second"), team.image_of_pods("running")) == ({SECOND}, {FIRST})

    # The images of released versions may come from elsewhere, or get their digest: the objects are made again.
    before = team.runtime(f"{NAME}-1.1")["metadata"]["uid"]
    lock = {"images": {FIRST: DIGEST}}
    (team.folder / "images.lock").write_text(yaml.safe_dump(lock))
    team.runtimes("deprecate", NAME, "1.0", "--remove-after", "2099-12-31")
    team.up(mirrors={"ghcr.io/acme": "registry.example.com/acme"})
    assert team.runtime(f"{NAME}-1.1")["metadata"]["uid"] != before
    assert team.image(f"{NAME}-1.1") == "registry.example.com/acme/vision:1.5.0"
    assert team.image(f"{NAME}-1.0") == f"registry.example.com/acme/vision:1.4.2@{DIGEST}"
    assert team.runtime(f"{NAME}-1.0")["metadata"]["labels"]["trainer.kubeflow.org/support"] == "deprecated"
    applied = changing_platform.apply(train_job("warned", "vision", f"{NAME}-1.0", suspend=True))
    assert "deprecated" in applied.stderr, applied
    require(applied)
    assert "guaranteed until 2099-12-31" in team.refused("retire", NAME, "1.0", *kubeconfig)

    team.let_years_pass()
    assert "vision/warned" in team.refused("retire", NAME, "1.0", *kubeconfig)
    require(changing_platform.kubectl("delete", "trainjob", "warned", "-n", "vision"))
    team.runtimes("retire", NAME, "1.0", *kubeconfig)
    team.up()
    assert team.runtime(f"{NAME}-1.0") is None
    assert team.runtime(f"{NAME}-1.1") is not None
    assert team.image_of_pods("running") == {FIRST}
    require(changing_platform.kubectl("delete", "trainjob", "running", "-n", "vision"))
