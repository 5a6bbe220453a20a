"""Settings of a stack with an ESC environment, as the program sees them.

``pulumi up`` merges the environment's values into the configuration. The command line decides from the same values:
which cluster, which nodes, which checks. Only ``pulumi config`` knows them. It is asked without ``--show-secrets``:
secret settings are rejected, and secrets of other namespaces are of no use here.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from trainyard.errors import TrainyardError
from trainyard.local.cluster.environment import tool_path
from trainyard.local.cluster.pulumi_home import home_without_logs
from trainyard.local.cluster.toolchain import Toolchain
from trainyard.platform.deploy.workspace import write_project
from trainyard.settings.stack import StackSettings
from trainyard.settings.stack_loader import stack_settings

PATIENCE_SECONDS = 60.0
"""Seconds within which ``pulumi config`` must answer; it opens the environment over the network."""

_COMMAND = ("config", "--json", "--open")


def read_settings(stack: str, config_file: Path) -> StackSettings:
    """Return the settings of a stack whose file imports environments.

    Parameters
    ----------
    stack
        Name of the stack, which must exist in the backend.
    config_file
        Its settings file; read from a copy, to which Pulumi may add a salt.

    Raises
    ------
    TrainyardError
        Pulumi cannot read the environment, or the settings are invalid or secret.
    """
    source = f"{config_file} with its environment"
    values = _values(stack, config_file)
    config = {key: {"secure": ""} if each.get("secret") else _value(each) for key, each in values.items()}
    return stack_settings({"config": config}, source=source)


def _values(stack: str, config_file: Path) -> dict[str, dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="trainyard-") as name:
        folder = Path(name)
        write_project(folder)
        shutil.copyfile(config_file, folder / f"Pulumi.{stack}.yaml")
        text = _run(stack, config_file, folder)
    try:
        values = json.loads(text)
    except ValueError as error:
        raise _unreadable(config_file, "the answer of pulumi is not JSON") from error
    return values if isinstance(values, dict) else {}


def _run(stack: str, config_file: Path, folder: Path) -> str:
    variables = {
        **os.environ,
        **tool_path(Toolchain().folders()),
        "PULUMI_HOME": str(home_without_logs(folder / ".pulumi")),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER": "true",
    }
    program = shutil.which("pulumi", path=variables["PATH"])
    if program is None:
        raise TrainyardError("The pulumi CLI is not on PATH", fix="run `trainyard cluster toolchain`, or install it")
    try:
        result = subprocess.run(  # noqa: S603
            [program, *_COMMAND, "--stack", stack, "--non-interactive"],
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _unreadable(config_file, f"pulumi did not answer within {PATIENCE_SECONDS:g} seconds") from error
    if result.returncode:
        said = [line.rpartition("error:")[2].strip() for line in result.stderr.splitlines() if "error:" in line]
        raise _unreadable(config_file, said[-1] if said else f"pulumi exited with {result.returncode}")
    return result.stdout


def _value(entry: dict[str, Any]) -> Any:
    """Return a value as the program reads it: parsed, or the text if it is not JSON."""
    if "objectValue" in entry:
        return entry["objectValue"]
    try:
        return json.loads(entry["value"])
    except ValueError:
        return entry["value"]


def _unreadable(config_file: Path, reason: str) -> TrainyardError:
    return TrainyardError(
        f"The environment of {config_file} cannot be read: {reason}",
        fix="run `pulumi login`, once `pulumi stack init` for a new stack, and check the names with `pulumi env ls`; "
        "or move the settings into the file",
    )
