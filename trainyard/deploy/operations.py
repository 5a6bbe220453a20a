"""Operations on a stack: up, preview, destroy, refresh."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainyard.checks.finding import Finding
from trainyard.cluster import ClusterAccess, cluster_name, provider
from trainyard.cluster.environment import NO_CLUSTER_VARIABLE, offline_environment
from trainyard.cluster.folders import cache_home, state_home
from trainyard.cluster.providers import PROVIDERS
from trainyard.cluster.supervisor.host_programs import HOST_PROGRAMS
from trainyard.cluster.toolchain import Toolchain
from trainyard.data import data_folder
from trainyard.deploy.begun_deletions import reject_reopened
from trainyard.deploy.deletion_watch import watch_deletions
from trainyard.deploy.engine_events import EventLog
from trainyard.deploy.interrupted_run import follow_cluster, reject_remains
from trainyard.deploy.operation_result import Result
from trainyard.deploy.recorded_cluster import reject_other_cluster, reject_other_kubeconfig
from trainyard.deploy.recorded_state import RecordedState
from trainyard.deploy.recovery import backend_folder, drop_pending_operations, interruption, release_stale_lock
from trainyard.deploy.repeated_action import repeated
from trainyard.deploy.takeover_restoration import read_former, restore_former
from trainyard.deploy.workspace import PROJECT, Backend, Program, open_workspace
from trainyard.errors import TrainyardError
from trainyard.kube import ApiError, Client, TransportError
from trainyard.live.hyper_nodes import refresh_hyper_nodes
from trainyard.live.plan import plan_from
from trainyard.live.queues import LiveQueues, read_shares
from trainyard.live.quotas import COUNTING_PATIENCE, list_uncounted, wait_until_counted
from trainyard.policy.pack import REVIEW_VARIABLE
from trainyard.progress import Progress
from trainyard.pulumi_sdk.recorded_objects import recorded_objects
from trainyard.queues.plan import Plan
from trainyard.queues.snapshot import snapshot_of_settings
from trainyard.settings import StackSettings
from trainyard.stack_checks import stack_scheduling
from trainyard.topology import compile_fabric

if TYPE_CHECKING:
    from pulumi.automation import Stack

__all__ = ["destroy", "preview", "refresh", "up"]

_PARALLEL = 32
_PROGRAMS = ("pulumi", "pulumi-language-python", "pulumi-resource-kubernetes")
_STALE_CHILDREN = re.compile(r"can not be deleted because it has \d+ child queues")
_ATTEMPTS = 5
_RETRY_SECONDS = 2.0
_REPORT_SECONDS = 1.0
"""Interval of progress reports, also while the engine sends no events."""


@dataclass(frozen=True)
class _Run:
    stack: Stack
    events: EventLog
    output: Callable[[str], None]

    @property
    def options(self) -> dict[str, Any]:
        return {
            "on_output": self.output,
            "on_error": self.output,
            "on_event": self.events,
            "parallel": _PARALLEL,
            "color": "never",
            "suppress_progress": True,
        }


def up(settings: StackSettings, stack: str, config_file: Path, progress: Progress) -> Result:
    """Apply a stack.

    Simulated nodes are synchronized first. A killed run is continued. The admission rules review the declared objects
    before the first is written; the engine does so again when all are known, and reports advice.

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
        Names each failed resource with its message and the fix.
    """
    cluster = provider(settings.cluster, cluster_name(settings, stack))
    access = cluster.access()
    cluster.sync_nodes(settings.fabric)
    Toolchain().require(*(["opa"] if settings.policies.preview else []))
    with _operation("up", "Platform", settings, stack, config_file, progress) as run:
        _retry_stale_queues(run, lambda: run.stack.up(**run.options, policy_packs=_policy_packs(settings)))
    written = _refresh_selected(access, settings)
    # Users without permission to list quotas in all namespaces skip the wait.
    with suppress(ApiError, TransportError):
        asyncio.run(_await_quotas(access, stack, progress))
    return _with_notes(_result("up", stack, run), _refresh_notes(written, "were"))


def preview(
    settings: StackSettings, stack: str, config_file: Path, progress: Progress, *, no_cluster: bool = False
) -> Result:
    """Return what `up` would change, and the findings of admission rules; other parameters and errors as for `up`.

    It only reads: it builds and downloads nothing, and writes to the cache folder and to a temporary folder only.

    Parameters
    ----------
    no_cluster
        Plan every resource as a creation, with neither cluster nor state.
    """
    if not no_cluster:
        _require_cluster(settings, stack)
    Toolchain().require("pulumi-resource-kubernetes", *(["opa"] if settings.policies.preview else []))
    with _operation("preview", "Preview", settings, stack, config_file, progress, no_cluster=no_cluster) as run:
        run.stack.preview(**run.options, policy_packs=_policy_packs(settings))
    result = _result("preview", stack, run)
    if not no_cluster:
        result = _with_notes(result, _refresh_notes(_selecting(settings), "are"))
    if no_cluster or not any(change.resource.startswith(("Queue/", "QueuePatch/")) for change in result.changes):
        return result
    deleted = [each.resource for each in result.changes if (each.operation, each.component) == ("delete", "Queues")]
    return replace(result, queues=_queue_plan(settings, stack, deleted))


def refresh(settings: StackSettings, stack: str, config_file: Path, progress: Progress) -> Result:
    """Update the stack's state from the live objects; parameters and errors as for `up`."""
    provider(settings.cluster, cluster_name(settings, stack)).access()
    with _operation("refresh", "Refresh", settings, stack, config_file, progress) as run:
        run.stack.refresh(**run.options, clear_pending_creates=True)
    return _result("refresh", stack, run)


def destroy(settings: StackSettings, stack: str, config_file: Path, progress: Progress) -> Result:
    """Delete everything that `up` created, and restore what it took over or replaced; parameters as for `up`.

    Raises
    ------
    TrainyardError
        Resources are protected (each is listed), a deletion failed, or objects remain that the state lacked.
    """
    access = provider(settings.cluster, cluster_name(settings, stack)).access()
    with _operation("destroy", "Removal", settings, stack, config_file, progress) as run:
        _require_unprotected(run.stack, stack)
        former = read_former(access, stack)
        _retry_stale_queues(run, lambda: run.stack.destroy(**run.options))
    # Objects that the state lacked are not deleted: a restoration would overwrite a running platform.
    reject_remains(access, stack, required=bool(former))
    found = restore_former(access, stack, former, progress)
    return replace(_result("destroy", stack, run), restored=tuple(found.messages), unrestored=tuple(found.failures))


def _retry_stale_queues(run: _Run, attempt: Callable[[], object]) -> None:
    """Run an operation; retry where Volcano's webhook still has a deleted child queue in its cache."""
    from pulumi.automation.errors import CommandError

    for _ in range(_ATTEMPTS - 1):
        try:
            attempt()
        except CommandError:
            findings = run.events.findings
            if not findings or not all(_STALE_CHILDREN.search(finding.message) for finding in findings):
                raise
            run.events.retry()
            time.sleep(_RETRY_SECONDS)
        else:
            return
    attempt()


def _require_cluster(settings: StackSettings, stack: str) -> None:
    try:
        provider(settings.cluster, cluster_name(settings, stack)).access()
    except TrainyardError as error:
        if PROVIDERS[settings.cluster.provider].needed_by_previews:
            raise
        without = "or preview with --no-cluster, which plans every resource as a creation"
        raise TrainyardError(error.message, findings=error.findings, fix=f"{error.fix}; {without}") from error


@contextmanager
def _operation(
    operation: str,
    title: str,
    settings: StackSettings,
    stack: str,
    config_file: Path,
    progress: Progress,
    *,
    no_cluster: bool = False,
) -> Iterator[_Run]:
    toolchain, reads = Toolchain(), operation == "preview"
    toolchain.refuse_changed(*_PROGRAMS)
    if no_cluster:
        environment = offline_environment(toolchain.folders())
    else:
        cluster = provider(settings.cluster, cluster_name(settings, stack))
        if not reads:
            cluster.keep_access()
        environment = {**cluster.environment(), NO_CLUSTER_VARIABLE: ""}
    environment[REVIEW_VARIABLE] = "true" if operation == "up" and settings.policies.preview else ""
    backend = Backend.TEMPORARY if no_cluster else Backend.READ if reads else Backend.CREATED
    if reads:
        environment["PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"] = "true"
    program = Program()
    log = (cache_home() if reads else state_home()) / "pulumi" / f"{stack}-{operation}.log"
    log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with progress.step(title) as step, log.open("w") as file:
        folder = backend_folder(environment.get("PULUMI_BACKEND_URL", ""))
        if folder is not None and not reads:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if release_stale_lock(folder, PROJECT, stack):
                step.update("continuing after a killed run")
            drop_pending_operations(folder, PROJECT, stack)
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
                reject_reopened(state, settings)
            run = _Run(opened, events, lambda line: _append(file, line))
            began = time.monotonic()
            if killed and operation != "refresh":
                reading = replace(run, events=EventLog(step))
                with _translate_errors("refresh", stack, reading.events, program, log):
                    follow_cluster(opened, state.kinds, access, reading.options, step.update)
                state = RecordedState(opened, folder)
                if mark is not None:
                    mark.unlink(missing_ok=True)
            runs_program = operation in ("up", "preview") and not no_cluster
            with (
                recorded_objects(state.names if runs_program else None),
                _watched_deletions(operation, settings, stack, events),
                repeated(events.report, _REPORT_SECONDS),
                _translate_errors(operation, stack, events, program, log),
            ):
                yield run
            step.done(_result(operation, stack, run, time.monotonic() - began).summary)


def _selecting(settings: StackSettings) -> list[str]:
    """Return the names of the domains that choose their nodes by label."""
    return [domain.name for domain in compile_fabric(settings.fabric).domains if domain.selector]


def _refresh_notes(names: Sequence[str], verb: str) -> list[str]:
    written = f"HyperNodes {', '.join(names)} {verb} written after the update, so that Volcano reads their nodes again"
    return [written] if names else []


def _refresh_selected(access: ClusterAccess, settings: StackSettings) -> list[str]:
    """Refresh the domains that choose their nodes by label: nodes may have been relabeled since the last `up`.

    Returns
    -------
    list of str
        Names of the HyperNodes that were written.
    """
    names = _selecting(settings)

    async def refresh() -> list[str]:
        async with Client.from_kubeconfig(access.kubeconfig, access.context) as client:
            return await refresh_hyper_nodes(client, names)

    if not names:
        return []
    try:
        return asyncio.run(refresh())
    except (ApiError, TransportError) as error:
        raise TrainyardError(
            f"HyperNodes could not be refreshed: {error}",
            fix="run the command again; relabeled nodes may be in two domains",
        ) from error


async def _await_quotas(access: ClusterAccess, stack: str, progress: Progress) -> None:
    """Wait until quotas are counted: until then the API server rejects the objects that they limit."""
    async with Client.from_kubeconfig(access.kubeconfig, access.context) as client:
        pending = await list_uncounted(client, stack=stack)
        if not pending:
            return
        with progress.step("Tenant quotas") as step:
            step.update(f"waiting for the first count of {len(pending)}")
            try:
                async with asyncio.timeout(COUNTING_PATIENCE):
                    await wait_until_counted(client, stack=stack)
            except TimeoutError:
                step.done("not counted yet; until then jobs are rejected with `status unknown for quota`")
            else:
                step.done("counted")


def _queue_plan(settings: StackSettings, stack: str, deleted: Iterable[str]) -> Plan | None:
    """Return the effect of queue changes on live jobs; None if the cluster has no queues yet.

    Retired queues are part of the tree in the settings until they are `deleted`.
    """
    access = provider(settings.cluster, cluster_name(settings, stack)).access()

    async def read() -> LiveQueues:
        async with Client.from_kubeconfig(access.kubeconfig, access.context) as client:
            return await read_shares(client)

    live = asyncio.run(read())
    after = snapshot_of_settings(settings, f"stack {stack}", stack_scheduling)
    for name in deleted:
        after = replace(after, tree=after.tree.with_queue(name.removeprefix("Queue/"), None))
    return plan_from(live, after) if live.queues else None


def _policy_packs(settings: StackSettings) -> list[str]:
    return [str(data_folder("policies") / "pack")] if settings.policies.preview else []


@contextmanager
def _translate_errors(operation: str, stack: str, events: EventLog, program: Program, log: Path) -> Iterator[None]:
    from pulumi.automation.errors import CommandError, ConcurrentUpdateError

    try:
        yield
    except ConcurrentUpdateError as error:
        raise TrainyardError(
            f"Another run holds the stack {stack}; this {operation} changed nothing",
            findings=_printed_errors(str(error)),
            fix="wait until it has finished, then run the command again; if it no longer runs, `pulumi cancel` first",
        ) from error
    except CommandError as error:
        if program.error is not None:
            raise program.error from error
        findings = [_with_fix(finding) for finding in events.findings or _printed_errors(str(error))]
        raise TrainyardError(
            f"{operation} of stack {stack} failed" + (f" at {len(findings)} resources" if len(findings) > 1 else ""),
            findings=findings,
            fix=f"correct this and run the command again, which continues from here (Pulumi's output: {log})",
        ) from error


def _printed_errors(output: str) -> list[Finding]:
    """Return the errors that the CLI printed, for failures before the first event."""
    found = [line.rpartition("error: ")[2].strip() for line in output.splitlines() if "error: " in line]
    return [Finding("", message) for message in dict.fromkeys(found)]


def _with_fix(finding: Finding) -> Finding:
    deployments = ((name, program.deployment) for name, program in HOST_PROGRAMS.items() if program.deployment)
    process = next((name for name, deployment in deployments if finding.path.endswith(f"/{deployment}")), None)
    if process is None or finding.fix:
        return finding
    return Finding(finding.path, finding.message, f"see `trainyard cluster logs {process}`")


def _require_unprotected(stack: Stack, name: str) -> None:
    body = stack.export_stack().deployment or {}
    protected = [resource["urn"] for resource in body.get("resources", []) if resource.get("protect")]
    if protected:
        raise TrainyardError(
            f"Stack {name} is protected: {len(protected)} resources cannot be deleted",
            findings=[Finding(urn.rpartition("::")[2], "protected") for urn in protected],
            fix="set trainyard:protect to false, run `trainyard up`, then destroy",
        )


def _watched_deletions(
    operation: str, settings: StackSettings, stack: str, events: EventLog
) -> AbstractContextManager[None]:
    if operation not in ("up", "destroy"):
        return nullcontext()
    return watch_deletions(provider(settings.cluster, cluster_name(settings, stack)).access(), events)


def _append(file: Any, line: str) -> None:
    file.write(line + "\n")
    file.flush()


def _with_notes(result: Result, notes: Sequence[str]) -> Result:
    return replace(result, notes=(*result.notes, *notes))


def _result(operation: str, stack: str, run: _Run, seconds: float = 0.0) -> Result:
    events = run.events
    changes, advice, notes = tuple(events.changes), tuple(events.advice), tuple(events.notes)
    return Result(operation, stack, dict(events.counts), changes, seconds, advice, notes=notes)
