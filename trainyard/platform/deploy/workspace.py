"""Pulumi workspace: a temporary folder with copies of project and settings; the checkout is not changed."""

from __future__ import annotations

import ast
import contextlib
import importlib
import os
import runpy
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from trainyard.data import project_root
from trainyard.errors import TrainyardError
from trainyard.local.cluster.environment import LOCAL_PASSPHRASE
from trainyard.local.cluster.pulumi_home import home_without_logs
from trainyard.manifests.dump import dump
from trainyard.manifests.files import read_text
from trainyard.manifests.loader import load
from trainyard.platform.deploy.recovery import backend_folder, compressed_state, has_former_layout, state_file

if TYPE_CHECKING:
    from pulumi.automation import LocalWorkspace, Stack


PROJECT = "trainyard"

_ENCRYPTION = ("encryptionsalt", "encryptedkey", "secretsprovider")

_COLLECTION = {"GOGC": "800", "GOMEMLIMIT": "1GiB"}
"""Garbage collection of the CLI and the provider, which run for seconds: rare up to the memory limit."""


class Backend(StrEnum):
    """Where the state of a stack is."""

    CREATED = "created"
    """In the user's backend; a stack that does not exist is created."""
    READ = "read"
    """In the user's backend, which is not written: a stack that does not exist there has a temporary state."""
    TEMPORARY = "temporary"
    """In a folder of this run."""


@dataclass
class StackProgram:
    """The program of stacks/, run inside this process; records the user's error, if any."""

    path: Path = field(default_factory=lambda: project_root() / "stacks" / "__main__.py")
    error: TrainyardError | None = None
    _preparation: threading.Thread | None = None

    def prepare(self) -> None:
        """Import the program's modules in a thread, while the CLI reads the state."""
        self._preparation = threading.Thread(target=_import, args=(self.path,), daemon=True)
        self._preparation.start()

    def __call__(self) -> None:
        """Run the program."""
        if self._preparation is not None:
            self._preparation.join()
        try:
            runpy.run_path(str(self.path), run_name="__main__")
        except Exception as error:
            cause = error if isinstance(error, TrainyardError) else error.__cause__
            self.error = cause if isinstance(cause, TrainyardError) else None
            raise


def _import(program: Path) -> None:
    # Errors are raised when the program itself runs.
    with contextlib.suppress(Exception):
        for statement in ast.parse(program.read_text()).body:
            if isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
                importlib.import_module(statement.module)


@contextmanager
def open_workspace(
    stack: str,
    config_file: Path,
    environment: Mapping[str, str],
    program: StackProgram,
    *,
    backend: Backend = Backend.CREATED,
) -> Iterator[Stack]:
    """Open a stack.

    Parameters
    ----------
    stack
        Name of the stack.
    config_file
        Its settings file; copied, never written.
    environment
        Variables of the cluster: backend, passphrase, PATH.
    program
        The program.
    backend
        Where the state is.

    Raises
    ------
    TrainyardError
        Pulumi is not installed or the stack cannot be opened.
    """
    variables = {
        **environment,
        # A stack file without a salt uses that of the state instead of a new one.
        "PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER": "true",
        **_collection(),
    }
    with tempfile.TemporaryDirectory(prefix="trainyard-") as name:
        variables.setdefault("PULUMI_HOME", str(home_without_logs(Path(name) / ".pulumi")))
        with _environment(variables), _workspace(Path(name), stack, config_file, program, backend) as opened:
            yield opened


@contextmanager
def _workspace(folder: Path, stack: str, config_file: Path, program: StackProgram, backend: Backend) -> Iterator[Stack]:
    from pulumi import automation

    from trainyard.platform.pulumi_sdk.automation_stack import QuickStack, command

    if shutil.which("pulumi") is None:
        raise TrainyardError("The pulumi CLI is not on PATH", fix="run `trainyard cluster toolchain`, or install it")
    write_project(folder)
    shutil.copyfile(config_file, folder / f"Pulumi.{stack}.yaml")
    try:
        workspace = automation.LocalWorkspace(work_dir=str(folder), program=program, pulumi_command=command())
        exists = backend is not Backend.TEMPORARY and _exists(stack)
        if backend is Backend.READ and not exists:
            exists = _is_found(workspace, stack)
        with contextlib.ExitStack() as changes:
            if backend is not Backend.CREATED and not exists:
                changes.enter_context(_temporary_backend(folder, stack))
            opened = QuickStack(stack, workspace, exists=exists)
            program.prepare()
            yield opened
    except (automation.errors.CommandError, automation.errors.InvalidVersionError) as error:
        raise _failure(error) from error


def _is_found(workspace: LocalWorkspace, stack: str) -> bool:
    """Return whether a backend has a stack, without selecting or creating it."""
    from pulumi.automation.errors import CommandError

    folder = backend_folder(os.environ.get("PULUMI_BACKEND_URL", ""))
    if folder is not None and not has_former_layout(folder, stack):
        return False
    try:
        workspace._run_pulumi_cmd_sync(["stack", "--show-name", "--stack", stack])
    except CommandError as error:
        if "no stack named" in str(error):
            return False
        raise
    return True


@contextmanager
def _temporary_backend(folder: Path, stack: str) -> Iterator[None]:
    """Keep the state in a folder of this run; drop encryption settings that no secret of the stack uses."""
    state = folder / "state"
    state.mkdir()
    passphrase = ("PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE")
    given = any(os.environ.get(name) for name in passphrase)
    variables = {} if given else {passphrase[0]: LOCAL_PASSPHRASE}
    file = folder / f"Pulumi.{stack}.yaml"
    settings = load(read_text(file))
    if isinstance(settings, dict) and "secure:" not in file.read_text():
        kept = {key: value for key, value in settings.items() if key not in _ENCRYPTION}
        file.write_text(dump(kept))
    with _environment({**variables, "PULUMI_BACKEND_URL": f"file://{state}"}):
        yield


def _exists(stack: str) -> bool:
    folder = backend_folder(os.environ.get("PULUMI_BACKEND_URL", ""))
    if folder is None:
        return False
    return state_file(folder, PROJECT, stack).is_file() or compressed_state(folder, PROJECT, stack)


def _collection() -> dict[str, str]:
    """Return the variables of garbage collection that the user has not set."""
    return {name: value for name, value in _COLLECTION.items() if name not in os.environ}


def _failure(error: Exception) -> TrainyardError:
    lines = [line.strip() for line in str(error).splitlines() if "error:" in line]
    said = lines[-1].rpartition("error:")[2].strip() if lines else str(error)
    if "PULUMI_ACCESS_TOKEN" in said:
        return TrainyardError(
            "No Pulumi backend is configured for this stack's state",
            fix="run `pulumi login`, or set PULUMI_BACKEND_URL (s3://…, azblob://…, gs://… or file://…)",
        )
    if "unknown userid" in said:
        return TrainyardError(
            f"Pulumi needs the name of the user, and this machine knows none ({said})",
            fix="add the user to /etc/passwd; in containers, `nss_wrapper` does so without root",
        )
    return TrainyardError(f"Pulumi failed: {said}", fix="correct this, then run the command again")


def write_project(folder: Path) -> None:
    """Write the project's file into a folder, without the paths of the checkout."""
    project = load(read_text(project_root() / "Pulumi.yaml"))
    project = {key: value for key, value in project.items() if key not in ("main", "stackConfigDir", "template")}
    (folder / "Pulumi.yaml").write_text(dump(project))


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
