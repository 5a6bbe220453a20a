"""The stacks' preview as the CI kit runs it: no cluster, no state, the admission rules reviewed."""

from __future__ import annotations

import pytest
import yaml

from tests.ci.pipelines import JobResult, run_github_job
from tests.ci.repository import Repository, runner
from tests.support import ROOT

pytestmark = pytest.mark.cluster

GITHUB = yaml.safe_load((ROOT / "ci" / "github-workflow.yaml").read_text())
PREVIEW = "Preview the stack"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return Repository(tmp_path_factory.mktemp("repository"))


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A runner on which `pulumi/actions` has put the programs of Pulumi."""
    from trainyard.cluster.toolchain import Toolchain

    toolchain = Toolchain()
    toolchain.ensure()
    variables = runner(tmp_path_factory.mktemp("runner"))
    variables["PATH"] = ":".join([*map(str, toolchain.folders()), variables["PATH"]])
    variables |= {"PULUMI_SKIP_UPDATE_CHECK": "true", "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true"}
    return variables


def preview(repository: Repository, machine: dict[str, str], stack: str) -> JobResult:
    return run_github_job(GITHUB, "preview", repository.checkout, machine, {"matrix.stack": stack})


@pytest.mark.parametrize("stack", GITHUB["jobs"]["preview"]["strategy"]["matrix"]["stack"])
def test_a_stack_is_previewed_where_there_is_no_cluster(
    repository: Repository, machine: dict[str, str], stack: str
) -> None:
    repository.propose()
    result = preview(repository, machine, stack)
    said = result.step(PREVIEW).output
    assert not result.failed, result.output
    assert "No cluster to compare with; every resource is planned as a creation" in said
    assert "✅ trainyard@v" in said
    assert "to create" in said
    assert "Traceback" not in said


def test_settings_that_cannot_work_fail_the_preview(repository: Repository, machine: dict[str, str]) -> None:
    repository.propose()
    file = repository.checkout / "stacks" / "Pulumi.production.yaml"
    before = file.read_text()
    document = yaml.safe_load(before)
    document["config"]["trainyard:tenants"]["vision"]["queues"] = ["no-such-queue"]
    file.write_text(yaml.safe_dump(document))
    try:
        result = preview(repository, machine, "production")
    finally:
        file.write_text(before)
    assert result.failed
    assert "no-such-queue" in result.step(PREVIEW).output
    assert "Traceback" not in result.step(PREVIEW).output
