"""One run of the engine on a stack: environment, state, recovery after a killed run, events and log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainyard.data import PROJECT_VARIABLE, configured_folder
from trainyard.local.cluster import cluster_name, provider
from trainyard.local.cluster.environment import NO_CLUSTER_VARIABLE, offline_environment
from trainyard.local.cluster.folders import cache_home, state_home
from trainyard.local.cluster.toolchain import Toolchain
from trainyard.platform.deploy.deletion_watch import watch_deletions
from trainyard.platform.deploy.engine_errors import translate_errors
from trainyard.platform.deploy.engine_events import EventLog
from trainyard.platform.deploy.interrupted_run import follow_cluster
from trainyard.platform.deploy.operation_result import OperationResult
from trainyard.platform.deploy.pending_deletions import reject_reused_names
from trainyard.platform.deploy.recorded_cluster import reject_other_cluster, reject_other_kubeconfig
from trainyard.platform.deploy.recorded_state import RecordedState
from trainyard.platform.deploy.recovery import backend_folder, interruption, recover
from trainyard.platform.deploy.repeated_action import repeated
from trainyard.platform.deploy.workspace import PROJECT, Backend, StackProgram, open_workspace
from trainyard.platform.pulumi_sdk.recorded_objects import recorded_objects
from trainyard.policy.pack.review_pack import REVIEW_VARIABLE
from trainyard.progress import Progress
from trainyard.settings.stack import StackSettings

if TYPE_CHECKING:
    from pulumi.automation import Stack


_PARALLEL = 32
_PROGRAMS = ("pulumi", "pulumi-language-python", "pulumi-resource-kubernetes")
_REPORT_SECONDS = 1.0
"""Interval of progress reports, also while the engine sends no events."""


@dataclass(frozen=True)
class EngineRun:
    """An opened stack, with the events and the output of the engine.

    Parameters
    ----------
    stack
        The stack.
    events
        Receives the events.
    output
        Receives each line of the output.
    """

    stack: Stack
    events: EventLog
    output: Callable[[str], None]

    @property
    def options(self) -> dict[str, Any]:
        """Options of each operation."""
        return {
            "on_output": self.output,
            "on_error": self.output,
            "on_event": self.events,
            "parallel": _PARALLEL,
            "color": "never",
            "suppress_progress": True,
        }


@contextmanager
def engine_run(
    operation: str,
    title: str,
    settings: StackSettings,
    stack: str,
    config_file: Path,
    progress: Progress,
    *,
    no_cluster: bool = False,
) -> Iterator[EngineRun]:
    """Open a stack for an operation, after what a killed run has left is followed; report its progress.

    Parameters
    ----------
    operation
        Name of the operation.
    title
        Title of the progress step.
    settings, stack, config_file, progress
        As for `up`.
    no_cluster
        Whether neither cluster nor state is read.

    Raises
    ------
    TrainyardError
        The operation is rejected or fails; names each failed resource.
    """
    toolchain, reads = Toolchain(), operation == "preview"
    toolchain.refuse_changed(*_PROGRAMS)
    if no_cluster:
        environment = offline_environment(toolchain.folders())
    else:
        cluster = provider(settings.cluster, cluster_name(settings, stack))
        if not reads:
            cluster.keep_access()
        environment = {**cluster.environment(), NO_CLUSTER_VARIABLE: ""}
    environment[PROJECT_VARIABLE] = str(configured_folder(""))
    environment[REVIEW_VARIABLE] = "true" if operation == "up" and settings.policies.preview else ""
    backend = Backend.TEMPORARY if no_cluster else Backend.READ if reads else Backend.CREATED
    if reads:
        environment["PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"] = "true"
    program = StackProgram()
    log = (cache_home() if reads else state_home()) / "pulumi" / f"{stack}-{operation}.log"
    log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with progress.step(title) as step, log.open("w") as file:
        folder = backend_folder(environment.get("PULUMI_BACKEND_URL", ""))
        if folder is not None and not reads:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if recover(folder, PROJECT, stack, private=folder.is_relative_to(state_home())):
                step.update("continuing after a killed run")
        events = EventLog(step)
        with open_workspace(stack, config_file, environment, program, backend=backend) as opened:
            state = RecordedState(opened, folder)
            mark = interruption(folder, PROJECT, stack) if folder is not None else None
            interrupted = not reads and mark is not None and mark.exists()
            killed = not reads and (interrupted or state.pending)
            if not no_cluster:
                access = cluster.access()
                reject_other_kubeconfig(state, access, operation, killed=killed)
                # A killed `destroy` may have deleted every namespace of the state, which is then read again.
                reject_other_cluster(state, access, "refresh" if interrupted else operation)
            if operation in ("up", "preview"):
                reject_reused_names(state, settings)
            run = EngineRun(opened, events, lambda line: _append(file, line))
            began = time.monotonic()
            if killed and operation != "refresh":
                reading = replace(run, events=EventLog(step))
                with translate_errors("refresh", stack, reading.events, program, log):
                    # Without a folder, only the backend knows who holds the stack.
                    unlocked = folder is not None
                    follow_cluster(opened, state.kinds, access, reading.options, step.update, unlocked=unlocked)
                state = RecordedState(opened, folder)
                if mark is not None:
                    mark.unlink(missing_ok=True)
            runs_program = operation in ("up", "preview") and not no_cluster
            with (
                recorded_objects(state.names if runs_program else None),
                _watched_deletions(operation, settings, stack, events),
                repeated(events.report, _REPORT_SECONDS),
                translate_errors(operation, stack, events, program, log),
            ):
                yield run
            step.done(result_of(operation, stack, run, time.monotonic() - began).summary)


def result_of(operation: str, stack: str, run: EngineRun, seconds: float = 0.0) -> OperationResult:
    """Return the result of an operation."""
    events = run.events
    changes, advice, notes = tuple(events.changes), tuple(events.advice), tuple(events.notes)
    return OperationResult(operation, stack, dict(events.counts), changes, seconds, advice, notes=notes)


def _watched_deletions(
    operation: str, settings: StackSettings, stack: str, events: EventLog
) -> AbstractContextManager[None]:
    if operation not in ("up", "destroy"):
        return nullcontext()
    return watch_deletions(provider(settings.cluster, cluster_name(settings, stack)).access(), events)


def _append(file: Any, line: str) -> None:
    file.write(line + "\n")
    file.flush()
