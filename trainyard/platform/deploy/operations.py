"""Operations on a stack: up, preview, destroy, refresh."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainyard.checks.finding import Finding
from trainyard.cluster_state.plan import plan_from
from trainyard.cluster_state.queues import read_shares
from trainyard.cluster_state.shares import Shares
from trainyard.data import data_folder
from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.client import Client
from trainyard.local.cluster import cluster_name, provider
from trainyard.local.cluster.providers import PROVIDERS
from trainyard.local.cluster.toolchain import Toolchain
from trainyard.platform.deploy.after_update import await_quotas, refresh_notes, refresh_selected, selecting_domains
from trainyard.platform.deploy.engine_run import engine_run, result_of
from trainyard.platform.deploy.interrupted_run import reject_remains
from trainyard.platform.deploy.operation_result import OperationResult
from trainyard.platform.deploy.stale_queues import retry_stale_queues
from trainyard.platform.deploy.takeover_restoration import read_former, restore_former
from trainyard.progress import Progress
from trainyard.scheduling.queues.plan import Plan
from trainyard.scheduling.queues.snapshot import snapshot_of_settings
from trainyard.settings.stack import StackSettings
from trainyard.stack_checks import stack_scheduling

if TYPE_CHECKING:
    from pulumi.automation import Stack


def up(settings: StackSettings, stack: str, config_file: Path, progress: Progress) -> OperationResult:
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
    with engine_run("up", "Platform", settings, stack, config_file, progress) as run:
        retry_stale_queues(run, lambda: run.stack.up(**run.options, policy_packs=_policy_packs(settings)))
    written = refresh_selected(access, settings)
    # Users without permission to list quotas in all namespaces skip the wait.
    with suppress(ApiError, TransportError):
        asyncio.run(await_quotas(access, stack, progress))
    return _with_notes(result_of("up", stack, run), refresh_notes(written, "were"))


def preview(
    settings: StackSettings, stack: str, config_file: Path, progress: Progress, *, no_cluster: bool = False
) -> OperationResult:
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
    with engine_run("preview", "Preview", settings, stack, config_file, progress, no_cluster=no_cluster) as run:
        run.stack.preview(**run.options, policy_packs=_policy_packs(settings))
    result = result_of("preview", stack, run)
    if not no_cluster:
        result = _with_notes(result, refresh_notes(selecting_domains(settings), "are"))
    if no_cluster or not any(change.resource.startswith(("Queue/", "QueuePatch/")) for change in result.changes):
        return result
    deleted = [each.resource for each in result.changes if (each.operation, each.component) == ("delete", "Queues")]
    return replace(result, queues=_queue_plan(settings, stack, deleted))


def refresh(settings: StackSettings, stack: str, config_file: Path, progress: Progress) -> OperationResult:
    """Update the stack's state from the live objects; parameters and errors as for `up`."""
    provider(settings.cluster, cluster_name(settings, stack)).access()
    with engine_run("refresh", "Refresh", settings, stack, config_file, progress) as run:
        run.stack.refresh(**run.options, clear_pending_creates=True)
    return result_of("refresh", stack, run)


def destroy(settings: StackSettings, stack: str, config_file: Path, progress: Progress) -> OperationResult:
    """Delete everything that `up` created, and restore what it took over or replaced; parameters as for `up`.

    Raises
    ------
    TrainyardError
        Resources are protected (each is listed), a deletion failed, or objects remain that the state lacked.
    """
    access = provider(settings.cluster, cluster_name(settings, stack)).access()
    with engine_run("destroy", "Removal", settings, stack, config_file, progress) as run:
        _require_unprotected(run.stack, stack)
        former = read_former(access, stack)
        retry_stale_queues(run, lambda: run.stack.destroy(**run.options))
    # Objects that the state lacked are not deleted: a restoration would overwrite a running platform.
    reject_remains(access, stack, required=bool(former))
    found = restore_former(access, stack, former, progress)
    return replace(result_of("destroy", stack, run), restored=tuple(found.messages), unrestored=tuple(found.failures))


def _require_cluster(settings: StackSettings, stack: str) -> None:
    try:
        provider(settings.cluster, cluster_name(settings, stack)).access()
    except TrainyardError as error:
        if PROVIDERS[settings.cluster.provider].needed_by_previews:
            raise
        without = "or preview with --no-cluster, which plans every resource as a creation"
        raise TrainyardError(error.message, findings=error.findings, fix=f"{error.fix}; {without}") from error


def _queue_plan(settings: StackSettings, stack: str, deleted: Iterable[str]) -> Plan | None:
    """Return the effect of queue changes on live jobs; None if the cluster has no queues yet.

    Retired queues are part of the tree in the settings until they are `deleted`.
    """
    access = provider(settings.cluster, cluster_name(settings, stack)).access()

    async def read() -> Shares:
        async with Client.from_kubeconfig(access.kubeconfig, access.context) as client:
            return await read_shares(client)

    shares = asyncio.run(read())
    after = snapshot_of_settings(settings, f"stack {stack}", stack_scheduling)
    for name in deleted:
        after = replace(after, tree=after.tree.with_queue(name.removeprefix("Queue/"), None))
    return plan_from(shares, after) if shares.snapshot.tree.queues else None


def _policy_packs(settings: StackSettings) -> list[str]:
    return [str(data_folder("policies") / "pack")] if settings.policies.preview else []


def _require_unprotected(stack: Stack, name: str) -> None:
    body = stack.export_stack().deployment or {}
    protected = [resource["urn"] for resource in body.get("resources", []) if resource.get("protect")]
    if protected:
        raise TrainyardError(
            f"Stack {name} is protected: {len(protected)} resources cannot be deleted",
            findings=[Finding(urn.rpartition("::")[2], "protected") for urn in protected],
            fix="set trainyard:protect to false, run `trainyard up`, then destroy",
        )


def _with_notes(result: OperationResult, notes: Sequence[str]) -> OperationResult:
    return replace(result, notes=(*result.notes, *notes))
