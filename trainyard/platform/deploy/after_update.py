"""Steps of `up` after the engine: domains that choose their nodes by label, and the first count of quotas."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from trainyard.cluster_state.quotas import COUNTING_PATIENCE, list_uncounted, wait_until_counted
from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.client import Client
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.platform.hyper_nodes import refresh_hyper_nodes
from trainyard.progress import Progress
from trainyard.scheduling.topology.fabric_compiler import compile_fabric
from trainyard.settings.stack import StackSettings


def selecting_domains(settings: StackSettings) -> list[str]:
    """Return the names of the domains that choose their nodes by label."""
    return [domain.name for domain in compile_fabric(settings.fabric).domains if domain.selector]


def refresh_notes(names: Sequence[str], verb: str) -> list[str]:
    """Return the note that HyperNodes `are` or `were` written after the update; none without names."""
    written = f"HyperNodes {', '.join(names)} {verb} written after the update, so that Volcano reads their nodes again"
    return [written] if names else []


def refresh_selected(access: ClusterAccess, settings: StackSettings) -> list[str]:
    """Refresh the domains that choose their nodes by label: nodes may have been relabeled since the last `up`.

    Returns
    -------
    list of str
        Names of the HyperNodes that were written.
    """
    names = selecting_domains(settings)

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


async def await_quotas(access: ClusterAccess, stack: str, progress: Progress) -> None:
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
