"""The CI kit at work: the jobs' own shell text refuses a bad change and lets a good one pass."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import yaml

from tests.ci.pipelines import JobResult, run_github_job, run_gitlab_job
from tests.ci.repository import EXAMPLE, Repository, runner
from tests.support import ROOT

pytestmark = pytest.mark.cluster

GITHUB = yaml.safe_load((ROOT / "ci" / "github-workflow.yaml").read_text())
GITLAB = yaml.safe_load((ROOT / "ci" / "gitlab-ci.yaml").read_text())
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
CHECK, SCAN = "Check what the pull request changes", "Check everything for code scanning"


@pytest.fixture(scope="module")
def built() -> None:
    from trainyard.local.cluster.toolchain import program_path

    program_path("opa")


@pytest.fixture(scope="module")
def repository(built: None, tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return Repository(tmp_path_factory.mktemp("repository"))


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return runner(tmp_path_factory.mktemp("runner"))


def github(repository: Repository, machine: dict[str, str]) -> JobResult:
    contexts = {"github.base_ref": "main"}
    return run_github_job(GITHUB, "check", repository.checkout, machine, contexts)


def gitlab(repository: Repository, machine: dict[str, str]) -> JobResult:
    predefined = {
        "CI_PROJECT_DIR": str(repository.checkout),
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
        "CI_PIPELINE_SOURCE": "merge_request_event",
    }
    return run_gitlab_job(GITLAB, "trainyard-check", repository.checkout, machine, predefined)


def test_a_bad_pull_request_is_refused_with_annotations(repository: Repository, machine: dict[str, str]) -> None:
    repository.propose("fine-tune", "evaluate", "good")
    result = github(repository, machine)
    check = result.step(CHECK)
    assert (result.failed, check.ran, check.code) == (True, True, 1), result.output
    errors = [line for line in check.output.splitlines() if line.startswith("::error ")]
    assert [line.split("::")[1] for line in errors] == [
        "error file=manifests/evaluate.yaml,line=11,title=manifest TrainJob vision/evaluate",
        "error file=manifests/fine-tune.yaml,line=18,title=QUE-002 TrainJob vision/fine-tune",
    ]
    assert result.step(SCAN).code == 0, result.step(SCAN).output
    log = yaml.safe_load((repository.checkout / "trainyard.sarif").read_text())
    found = {
        (each["ruleId"], each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])
        for each in log["runs"][0]["results"]
    }
    assert ("QUE-002", "manifests/known.yaml") in found
    assert ("QUE-002", "manifests/fine-tune.yaml") in found


def test_a_good_pull_request_passes_beside_an_old_violation(repository: Repository, machine: dict[str, str]) -> None:
    repository.propose("good")
    result = github(repository, machine)
    assert not result.failed, result.output
    assert "::error" not in result.step(CHECK).output


def test_a_changed_program_of_a_restored_cache_does_not_run(
    repository: Repository, machine: dict[str, str], tmp_path: Path
) -> None:
    from trainyard.local.cluster.toolchain import program_path

    opa = program_path("opa")
    cache, ran = tmp_path / "cache", tmp_path / "ran"
    shutil.copytree(opa.parent.parent, cache / "toolchain" / opa.parent.parent.name)
    changed = cache / "toolchain" / opa.relative_to(opa.parents[2])
    changed.write_text(f"#!/bin/sh\ntouch {ran}\n")
    without_go = os.pathsep.join(each for each in machine["PATH"].split(os.pathsep) if not Path(each, "go").exists())
    repository.propose("good")
    result = github(repository, {**machine, "PATH": without_go, "TRAINYARD_CACHE_HOME": str(cache)})
    assert result.step(CHECK).code == 2, result.output
    assert "Building the programs of the control plane requires Go" in result.step(CHECK).output
    assert not ran.exists()


def test_a_job_that_cannot_tell_fails(repository: Repository, machine: dict[str, str]) -> None:
    """Exit 2 of the scan is no success: only that something is refused, exit 1, is left to the other step."""
    repository.propose("good")
    workflow = {**GITHUB, "jobs": {"check": {**GITHUB["jobs"]["check"]}}}
    workflow["jobs"]["check"]["env"] = {**GITHUB["jobs"]["check"]["env"], "MANIFESTS": "no-such-folder"}
    result = run_github_job(workflow, "check", repository.checkout, machine, {"github.base_ref": "main"})
    assert (result.step(CHECK).code, result.step(SCAN).code) == (2, 1)


def test_a_bad_merge_request_is_refused_with_a_report(repository: Repository, machine: dict[str, str]) -> None:
    repository.propose("fine-tune", "good")
    result = gitlab(repository, machine)
    assert result.failed, result.output
    (report,) = GITLAB["trainyard-check"]["artifacts"]["reports"].values()
    suites = ElementTree.parse(repository.checkout / report).getroot()
    failures = [failure.get("message", "") for failure in suites.iter("failure")]
    assert len(failures) == 1
    assert "QUE-002" in failures[0]


def test_a_good_merge_request_passes(repository: Repository, machine: dict[str, str]) -> None:
    repository.propose("good")
    result = gitlab(repository, machine)
    assert not result.failed, result.output


@pytest.fixture(scope="module")
def hooked(built: None, machine: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The machine with the hook's environment: this project as a wheel, and nothing of the checkout."""
    folder = tmp_path_factory.mktemp("hook")
    return with_wheel(folder, machine)


def with_wheel(folder: Path, machine: dict[str, str]) -> dict[str, str]:
    def run(*command: str | Path) -> None:
        subprocess.run([str(part) for part in command], env=machine, cwd=folder, check=True, capture_output=True)

    run("python3", "-m", "venv", folder / "environment")
    pip = folder / "environment" / "bin" / "pip"
    run(pip, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT)
    (wheel,) = folder.glob("*.whl")
    run(pip, "install", "--quiet", "--no-deps", wheel)
    run(pip, "install", "--quiet", *HOOK["additional_dependencies"])
    return {**machine, "PATH": f"{folder / 'environment' / 'bin'}:{machine['PATH']}"}


def hook(environment: dict[str, str], folder: Path, *files: str) -> subprocess.CompletedProcess[str]:
    """Run the hook as pre-commit does: its words, the `args` of the documentation, the files that are of its types."""
    command = [*shlex.split(HOOK["entry"]), "--config-file", SETTINGS.name, *files]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


SETTINGS = ROOT / "stacks" / "Pulumi.local.yaml"


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    """A repository of manifests and of the stack they are for."""
    for path in (*EXAMPLE.glob("*.yaml"), SETTINGS):
        (tmp_path / path.name).write_text(path.read_text())
    (tmp_path / "values.yaml").write_text("replicas: 3\n")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    return tmp_path


def test_the_hook_has_the_sources_of_the_policy_server(hooked: dict[str, str], tmp_path: Path) -> None:
    program = "from trainyard.local.cluster.toolchain import Toolchain; print(Toolchain().sources)"
    said = subprocess.check_output(["python", "-c", program], cwd=tmp_path, env=hooked, text=True)
    found = Path(said.strip()) / "opa"
    assert not found.is_relative_to(ROOT)
    assert {path.name: path.read_bytes() for path in found.iterdir()} == {
        path.name: path.read_bytes() for path in (ROOT / "toolchain" / "opa").iterdir()
    }


def test_the_hook_refuses_a_bad_commit(hooked: dict[str, str], manifests: Path) -> None:
    result = hook(hooked, manifests, "evaluate.yaml", "values.yaml")
    assert result.returncode == 1, result.stdout + result.stderr
    assert "evaluate.yaml:11: TrainJob vision/evaluate" in result.stdout
