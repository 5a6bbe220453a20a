"""Where Pulumi runs: a folder of its own with the project and the settings, so that the checkout stays as it is."""

from __future__ import annotations

import datetime
import os
import runpy
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from trainyard.cluster.pulumi_home import quiet_home
from trainyard.data import checkout
from trainyard.problem import TrainyardError

if TYPE_CHECKING:
    from pulumi.automation import Stack, Workspace

__all__ = ["PROJECT", "Program", "open_workspace"]

PROJECT = "trainyard"


@dataclass
class Program:
    """The program of stacks/, run inside this process; it keeps the user's error if there is one."""

    path: Path = field(default_factory=lambda: checkout() / "stacks" / "__main__.py")
    error: TrainyardError | None = None

    def __call__(self) -> None:
        """Run it."""
        try:
            runpy.run_path(str(self.path), run_name="__main__")
        except Exception as error:
            cause = error if isinstance(error, TrainyardError) else error.__cause__
            self.error = cause if isinstance(cause, TrainyardError) else None
            raise


@contextmanager
def open_workspace(stack: str, config_file: Path, environment: Mapping[str, str], program: Program) -> Iterator[Stack]:
    """Open a stack, made if it is new.

    Parameters
    ----------
    stack
        Name of the stack.
    config_file
        Its settings; copied, never written.
    environment
        Variables of the cluster: backend, passphrase, PATH.
    program
        What to run.

    Raises
    ------
    TrainyardError
        Pulumi is not installed or the stack cannot be opened.
    """
    variables = {
        **environment,
        # A stack file without a salt takes it from the state instead of getting a new one.
        "PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER": "true",
        # The last state is in the history; a second copy of each checkpoint is not needed.
        "PULUMI_DIY_BACKEND_DISABLE_CHECKPOINT_BACKUPS": "true",
    }
    with tempfile.TemporaryDirectory(prefix="trainyard-") as name:
        variables.setdefault("PULUMI_HOME", str(quiet_home(Path(name) / ".pulumi")))
        with _environment(variables), _workspace(Path(name), stack, config_file, program) as opened:
            yield opened


@contextmanager
def _workspace(folder: Path, stack: str, config_file: Path, program: Program) -> Iterator[Stack]:
    from pulumi import automation

    if shutil.which("pulumi") is None:
        raise TrainyardError("pulumi is not on this machine", fix="run `trainyard cluster toolchain`, or install it")
    _write_project(folder)
    shutil.copyfile(config_file, folder / f"Pulumi.{stack}.yaml")
    try:
        workspace = automation.LocalWorkspace(work_dir=str(folder), program=program)
        yield _quick_stack(stack, workspace)
    except (automation.errors.CommandError, automation.errors.InvalidVersionError) as error:
        raise _failure(error) from error


def _quick_stack(name: str, workspace: Workspace) -> Stack:
    """Open a stack that does not ask the CLI for outputs and history after each operation: nobody reads them."""
    from pulumi import automation

    class QuickStack(automation.Stack):
        def outputs(self) -> dict[str, Any]:
            return {}

        def info(self, show_secrets: bool | None = None) -> automation.UpdateSummary:
            now = datetime.datetime.now(datetime.UTC)
            return automation.UpdateSummary("update", now, "", {}, {}, "succeeded")

    return QuickStack.create_or_select(name, workspace)


def _failure(error: Exception) -> TrainyardError:
    lines = [line.strip() for line in str(error).splitlines() if "error:" in line]
    said = lines[-1].rpartition("error:")[2].strip() if lines else str(error)
    if "PULUMI_ACCESS_TOKEN" in said:
        return TrainyardError(
            "Pulumi does not know where this stack's state is kept",
            fix="run `pulumi login`, or set PULUMI_BACKEND_URL (s3://…, azblob://…, gs://… or file://…)",
        )
    return TrainyardError(f"Pulumi failed: {said}", fix="read the message; then run it again")


def _write_project(folder: Path) -> None:
    project = yaml.safe_load((checkout() / "Pulumi.yaml").read_text())
    project = {key: value for key, value in project.items() if key not in ("main", "stackConfigDir", "template")}
    (folder / "Pulumi.yaml").write_text(yaml.safe_dump(project, sort_keys=False))


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {key: os.environ.get(key) for key in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value
