"""Plan of the takeover of an existing installation, from a run of the program that ends before its first resource."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from trainyard.errors import TrainyardError
from trainyard.local.cluster import cluster_name, provider
from trainyard.local.cluster.environment import NO_CLUSTER_VARIABLE
from trainyard.local.cluster.folders import cache_home
from trainyard.local.cluster.toolchain import Toolchain
from trainyard.platform.deploy.workspace import Backend, StackProgram, open_workspace
from trainyard.platform.takeover.takeover_plan import PLAN_VARIABLE, PlannedTakeoverError, TakeoverPlan
from trainyard.progress import Progress
from trainyard.settings.stack import StackSettings

_PLANNING: Final = {
    NO_CLUSTER_VARIABLE: "",
    PLAN_VARIABLE: "true",
    "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
}
"""Environment of a program that plans, and needs no plug-in."""


def plan_takeover(settings: StackSettings, stack: str, config_file: Path, progress: Progress) -> TakeoverPlan:
    """Return what `up` would do with the objects of other owners; it only reads, also where `adopt` is false.

    Parameters
    ----------
    settings
        The settings in the file.
    stack
        Name of the stack.
    config_file
        Its settings file.
    progress
        Receives progress.

    Raises
    ------
    TrainyardError
        The settings are invalid, or the cluster cannot be read.
    """
    from pulumi.automation.errors import CommandError

    cluster = provider(settings.cluster, cluster_name(settings, stack))
    cluster.access()
    toolchain = Toolchain()
    toolchain.require("pulumi-resource-kubernetes")
    environment = {**cluster.environment(), **_PLANNING}
    program = StackProgram()
    log = cache_home() / "pulumi" / f"{stack}-adopt.log"
    log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (
        progress.step("Takeover plan") as step,
        log.open("w") as file,
        open_workspace(stack, config_file, environment, program, backend=Backend.READ) as opened,
    ):
        try:
            opened.preview(on_output=lambda line: file.write(line + "\n"), color="never", suppress_progress=True)
        except CommandError as error:
            if isinstance(program.error, PlannedTakeoverError):
                step.done(program.error.plan.summary)
                return program.error.plan
            if program.error is not None:
                raise program.error from error
            raise TrainyardError(
                f"The takeover of stack {stack} cannot be planned: {str(error).strip().splitlines()[-1]}",
                fix=f"see Pulumi's output: {log}",
            ) from error
    raise TrainyardError(f"The program of stack {stack} ended without a plan", fix="use the program of stacks/")
