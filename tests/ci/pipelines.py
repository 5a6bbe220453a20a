"""Runs the jobs of workflow files on this machine: their own shell text, with stand-ins for what a runner provides."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_SECONDS = 600
_INSTALL = "Install"
"""Name of the step whose result stays in a working copy: a job after another one in it repeats nothing."""
_installed: dict[tuple[Path, str], tuple[StepResult, str]] = {}
"""Result of the step and what it has added to the path, by working copy and shell text."""


@dataclass(frozen=True)
class StepResult:
    """What a step printed and whether it succeeded; ``ran`` is false for one that was passed over."""

    name: str
    code: int
    output: str
    ran: bool = True


@dataclass
class JobResult:
    """The steps of a job."""

    steps: list[StepResult] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        return any(step.code for step in self.steps)

    @property
    def output(self) -> str:
        return "\n".join(step.output for step in self.steps)

    def step(self, name: str) -> StepResult:
        return next(step for step in self.steps if step.name == name)


def run_github_job(
    workflow: Mapping[str, Any],
    job: str,
    checkout: Path,
    environment: Mapping[str, str],
    contexts: Mapping[str, str],
) -> JobResult:
    """Run the shell steps of a job as a runner does: each by itself, those after a failure only where they say so.

    What an earlier job has installed in the working copy is not installed again.

    Parameters
    ----------
    workflow
        The file as read.
    job
        Name of the job.
    checkout
        The working copy; what ``actions/checkout`` makes.
    environment
        Variables of the runner.
    contexts
        Values of expressions, such as ``github.base_ref``. Any other expression is an error.
    """
    definition = workflow["jobs"][job]
    variables = {
        **environment,
        **_evaluated(workflow.get("env", {}), contexts),
        **_evaluated(definition.get("env", {}), contexts),
    }
    path_file, env_file = checkout.parent / "github-path", checkout.parent / "github-env"
    for file in (path_file, env_file):
        file.write_text("")
    result = JobResult()
    for step in definition["steps"]:
        name = step.get("name") or step.get("uses", "").partition("@")[0] or step["run"].strip()
        if result.failed and "always()" not in str(step.get("if", "")):
            result.steps.append(StepResult(name, 0, "", ran=False))
            continue
        if "uses" in step:
            result.steps.append(_stand_in(step, name, checkout))
            continue
        own = {
            **variables,
            **_evaluated(step.get("env", {}), contexts),
            "GITHUB_PATH": str(path_file),
            "GITHUB_ENV": str(env_file),
        }
        added = path_file.read_text().split()
        own["PATH"] = os.pathsep.join([*reversed(added), own["PATH"]])
        own |= dict(line.split("=", 1) for line in env_file.read_text().splitlines())
        assert not _EXPRESSION.search(step["run"]), f"an expression becomes shell text: {step['run']}"
        if name == _INSTALL and (checkout, step["run"]) in _installed:
            done, added_by_it = _installed[checkout, step["run"]]
            path_file.write_text(path_file.read_text() + added_by_it)
            result.steps.append(done)
            continue
        before = len(path_file.read_text())
        result.steps.append(_shell(name, ["bash", "-e", "-c", step["run"]], checkout, own))
        if name == _INSTALL and not result.failed:
            _installed[checkout, step["run"]] = result.steps[-1], path_file.read_text()[before:]
    return result


def run_gitlab_job(
    pipeline: Mapping[str, Any], job: str, checkout: Path, environment: Mapping[str, str], predefined: Mapping[str, str]
) -> JobResult:
    """Run a job as a runner does: everything in one shell that ends at the first failure.

    Parameters
    ----------
    pipeline
        The file as read.
    job
        Name of the job.
    checkout
        The working copy.
    environment
        Variables of the image.
    predefined
        Variables of the pipeline, such as ``CI_PROJECT_DIR``.
    """
    definition = resolved(pipeline, job)
    variables = {**environment, **predefined}
    for name, value in {**pipeline.get("variables", {}), **definition.get("variables", {})}.items():
        variables[name] = _VARIABLE.sub(lambda found: variables.get(found[1] or found[2], found[0]), str(value))
    lines = [*definition.get("before_script", []), *definition["script"]]
    return JobResult([_shell(job, ["bash", "-e", "-o", "pipefail", "-c", "\n".join(lines)], checkout, variables)])


def resolved(pipeline: Mapping[str, Any], job: str) -> dict[str, Any]:
    """Return a job with what it extends."""
    definition = dict(pipeline[job])
    base = definition.pop("extends", None)
    if base is None:
        return definition
    inherited = resolved(pipeline, base)
    variables = {**inherited.get("variables", {}), **definition.get("variables", {})}
    return {**inherited, **definition, "variables": variables}


def _evaluated(variables: Mapping[str, Any], contexts: Mapping[str, str]) -> dict[str, str]:
    return {name: _EXPRESSION.sub(lambda found: contexts[found[1]], str(value)) for name, value in variables.items()}


def _stand_in(step: Mapping[str, Any], name: str, checkout: Path) -> StepResult:
    """Do of an action what the other steps need: for all but one that is nothing, because it is here already."""
    if "upload-sarif" in name:
        log = yaml.safe_load((checkout / step["with"]["sarif_file"]).read_text()) or {}
        return StepResult(name, 0 if log.get("version") == "2.1.0" else 1, "")
    return StepResult(name, 0, "")


def _shell(name: str, command: list[str], folder: Path, environment: Mapping[str, str]) -> StepResult:
    done = subprocess.run(
        command,
        cwd=folder,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    return StepResult(name, done.returncode, done.stdout)
