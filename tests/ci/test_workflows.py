"""The shape of the CI files: what runners know, actions of fixed versions, no more rights than needed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ci.pipelines import resolved
from tests.support import ROOT
from trainyard.settings.versions import PROGRAMS

CI = ROOT / "ci"
GITHUB = yaml.safe_load((CI / "github-workflow.yaml").read_text())
GITLAB = yaml.safe_load((CI / "gitlab-ci.yaml").read_text())
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
ON = True
"""`on` is a boolean in YAML 1.1, which this reader follows."""

WORKFLOW_KEYS = {"name", ON, "permissions", "concurrency", "env", "jobs"}
JOB_KEYS = {"runs-on", "timeout-minutes", "permissions", "strategy", "env", "steps"}
STEP_KEYS = {"name", "uses", "with", "run", "if", "env"}
INPUTS = {
    "actions/checkout": {"fetch-depth", "persist-credentials"},
    "actions/setup-python": {"python-version"},
    "actions/setup-go": {"go-version", "cache"},
    "actions/cache": {"path", "key"},
    "pulumi/actions": {"pulumi-version"},
    "github/codeql-action/upload-sarif": {"sarif_file"},
}
GITLAB_KEYS = {
    "image", "stage", "timeout", "interruptible", "variables", "cache", "rules", "before_script", "script", "extends",
    "artifacts", "parallel",
}  # fmt: skip
HOOK_KEYS = {
    "id", "name", "description", "entry", "language", "additional_dependencies", "types_or", "require_serial", "files",
    "exclude", "pass_filenames", "minimum_pre_commit_version", "args", "types", "stages",
}  # fmt: skip
CONTEXTS = {"github.base_ref", "github.ref", "runner.os", "matrix.stack"}

JOBS = GITHUB["jobs"]
STEPS = [(name, step) for name, job in JOBS.items() for step in job["steps"]]


def names(content: Any) -> set[str]:
    return set(re.findall(r"\$\{\{\s*(.*?)\s*\}\}", yaml.safe_dump(content, width=10_000)))


def test_the_workflow_has_only_keys_that_a_runner_knows() -> None:
    assert set(GITHUB) <= WORKFLOW_KEYS
    for job in JOBS.values():
        assert set(job) <= JOB_KEYS
        for step in job["steps"]:
            assert set(step) <= STEP_KEYS
            assert ("uses" in step) != ("run" in step)


def test_an_untrusted_change_gets_no_secret_and_no_right_to_write_code() -> None:
    """`pull_request_target` would run a stranger's change with the rights of the repository."""
    assert GITHUB[ON] == {"pull_request": None}
    assert GITHUB["permissions"] == {"contents": "read"}
    rights = {(name, right, level) for name, job in JOBS.items() for right, level in job.get("permissions", {}).items()}
    assert rights == {("check", "contents", "read"), ("check", "security-events", "write")}
    assert "secrets." not in (CI / "github-workflow.yaml").read_text()
    checkouts = [step for _, step in STEPS if step.get("uses", "").startswith("actions/checkout@")]
    assert len(checkouts) == len(JOBS)
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_actions_are_known_and_have_a_version() -> None:
    for _, step in STEPS:
        if "uses" in step:
            action, _, version = step["uses"].partition("@")
            assert re.fullmatch(r"v\d+(\.\d+)*|[0-9a-f]{40}", version), step["uses"]
            assert set(step.get("with", {})) <= INPUTS[action]


def test_no_expression_becomes_shell_text() -> None:
    assert all(not names(step["run"]) for _, step in STEPS if "run" in step)
    assert {each for each in names(GITHUB) if not each.startswith("hashFiles(")} <= CONTEXTS


def test_contexts_are_used_where_the_runner_offers_them() -> None:
    """`env` of a job cannot read `runner` or `env`; the job of a matrix can read `matrix`."""
    for job in JOBS.values():
        assert {each.partition(".")[0] for each in names(job.get("env", {}))} <= {"github", "matrix"}


def test_every_job_ends() -> None:
    assert all(job["timeout-minutes"] <= 30 for job in JOBS.values())
    assert GITLAB[".trainyard"]["timeout"] == "20 minutes"


@pytest.mark.parametrize("file", [CI / "github-workflow.yaml", CI / "gitlab-ci.yaml"], ids=lambda path: path.stem)
def test_pulumi_is_the_pinned_one(file: Path) -> None:
    (pinned,) = {program.version for program in PROGRAMS if program.name == "pulumi" and not program.peer}
    (said,) = set(re.findall(r"(?i)pulumi[-_]version: (\S+)", file.read_text()))
    assert said == pinned


def test_every_stack_that_runs_elsewhere_is_previewed() -> None:
    stacks = {path.name.split(".")[1] for path in (ROOT / "stacks").glob("Pulumi.*.yaml")}
    assert set(JOBS["preview"]["strategy"]["matrix"]["stack"]) == stacks - {"local"}
    assert GITLAB["trainyard-preview"]["parallel"]["matrix"] == [
        {"STACK": JOBS["preview"]["strategy"]["matrix"]["stack"]}
    ]


def test_the_pipeline_has_only_keys_that_a_runner_knows() -> None:
    for name, job in GITLAB.items():
        assert set(job) <= GITLAB_KEYS
        if not name.startswith("."):
            whole = resolved(GITLAB, name)
            assert whole["rules"] == [{"if": '$CI_PIPELINE_SOURCE == "merge_request_event"'}]
            assert all(isinstance(line, str) for line in [*whole["before_script"], *whole["script"]])


def test_both_kits_install_what_is_locked() -> None:
    texts = [step["run"] for _, step in STEPS if "pip install" in step.get("run", "")]
    texts += ["\n".join(GITLAB[".trainyard"]["before_script"])]
    for text in texts:
        for line in text.splitlines():
            if "pip install" in line:
                assert "--require-hashes -r requirements.lock" in line or "--no-deps --no-build-isolation -e ." in line


def test_only_content_that_is_verified_by_hash_is_kept_between_runs() -> None:
    """A restored cache is untrusted, and Go does not verify compiled packages."""
    assert not any(step.get("uses", "").startswith("actions/cache@") for _, step in STEPS)
    assert all(
        step["with"]["cache"] is False for _, step in STEPS if step.get("uses", "").startswith("actions/setup-go@")
    )
    assert GITLAB[".trainyard"]["variables"]["XDG_CACHE_HOME"] == "$CI_PROJECT_DIR/.cache"
    assert GITLAB[".trainyard"]["cache"]["paths"] == [".cache/pip", ".cache/trainyard"]


def test_the_hooks_have_only_keys_that_pre_commit_knows() -> None:
    for hook in HOOKS:
        assert set(hook) <= HOOK_KEYS
        assert {"id", "name", "entry", "language"} <= set(hook)
        assert hook["language"] == "python"
        assert hook["entry"].split()[0] == "trainyard"
